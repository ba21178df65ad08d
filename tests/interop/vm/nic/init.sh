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

# refused TEXT COMMAND...: the command ends with 2, and says why.
refused() {
    text=$1
    shift
    "$@" 2>/tmp/said
    [ $? -eq 2 ] && grep -q "$text" /tmp/said || { cat /tmp/said; return 1; }
}

# The addresses of the cards' functions, in the order of the bus.
cards() {
    for folder in /sys/bus/pci/devices/*; do
        [ "$(cat "$folder/vendor" 2>/dev/null)" != 0x5650 ] || echo "${folder##*/}"
    done
}

# show_card ADDRESS: what Linux says of it.
show_card() {
    folder=/sys/bus/pci/devices/$1
    for name in vendor device class irq; do
        echo "$1 $name: $(cat "$folder/$name")"
    done
    number=0
    while read -r first last flags; do
        [ $((last)) -eq 0 ] || echo "$1 region $number: $((last - first + 1))"
        number=$((number + 1))
    done <"$folder/resource"
    echo "$1 config: $(hexdump -v -n 256 -e '1/1 "%02x"' "$folder/config")"
    group=$(readlink "$folder/iommu_group") && echo "$1 group: ${group##*/}"
}

# use_vfio ADDRESS: the kernel's driver that hands it to a process, in place of one that the kernel has for it.
use_vfio() {
    [ ! -e "/sys/bus/pci/devices/$1/driver" ] || echo "$1" >"/sys/bus/pci/devices/$1/driver/unbind"
    echo vfio-pci >"/sys/bus/pci/devices/$1/driver_override"
    echo "$1" >/sys/bus/pci/drivers_probe
    [ -e "/sys/bus/pci/drivers/vfio-pci/$1" ]
}

# settle FILE VALUE: where the kernel has that setting.
settle() {
    echo "$2" >"$1" 2>/dev/null || true
}

# Behind no IOMMU a card has the addresses that memory has now: nothing may move it. Rings are in large pages.
keep_memory_in_place() {
    settle /proc/sys/vm/compact_unevictable_allowed 0
    settle /proc/sys/kernel/numa_balancing 0
    echo 32 >/proc/sys/vm/nr_hugepages
    [ ! -e /sys/kernel/mm/transparent_hugepage/enabled ] || echo never >/sys/kernel/mm/transparent_hugepage/enabled
    [ ! -e /sys/kernel/mm/ksm/run ] || echo 2 >/sys/kernel/mm/ksm/run
}

# with_interrupts ADDRESS COMMAND...: and says how often each vector of the function had fired, whenever that was looked at: the
# counts begin again with each process that opens the function.
with_interrupts() {
    address=$1
    shift
    "$@" &
    child=$!
    : >/tmp/interrupts
    while kill -0 $child 2>/dev/null; do
        grep -F "($address)" /proc/interrupts | grep -v ': *0 ' >>/tmp/interrupts
        usleep 20000
    done
    sort -u /tmp/interrupts | sed "s/^/interrupts: /"
    wait $child
}

echo
echo "guest is up: $(uname -m) $(uname -r)"
. /script
echo "guest is done: $failed"
poweroff -f
