#!/bin/busybox sh
# SPDX-License-Identifier: MIT
# The first process of a guest: sets it up, runs /script, says how many of its steps failed, and switches it off.
/bin/busybox --install -s /bin
export PATH=/bin LD_LIBRARY_PATH=/lib HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm
mount -t tmpfs tmp /tmp
dmesg -n 1
for module in /modules/*.ko; do
    insmod "$module"
done
ip link set lo up
failed=0

# step NAME COMMAND...: how it ended is a line that the other side looks for.
step() {
    name=$1
    shift
    "$@"
    code=$?
    echo "step $name: $code"
    [ $code -eq 0 ] || failed=$((failed + 1))
}

# The addresses of the cards' functions, in the order of the bus.
cards() {
    for folder in /sys/bus/pci/devices/*; do
        [ "$(cat "$folder/vendor" 2>/dev/null)" != 0x5650 ] || echo "${folder##*/}"
    done
}

echo
echo "guest is up: $(uname -m) $(uname -r)"
. /script
echo "guest is done: $failed"
poweroff -f
