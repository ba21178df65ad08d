#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The Linux kernel's iWARP, siw, is the peer: Debian's kernel boots in QEMU (no KVM needed) from an initramfs made here,
# with siw built from Debian's kernel source. rping runs in the guest, vipl-rping here, in both roles each.
#
#   siw.sh FOLDER-OF-PROGRAMS CACHE      KEEP=1 shows the guest's console in any case
set -euo pipefail
shopt -s nullglob
bin=$1 cache=$2 here=$(dirname "$0") scale=${VIPL_TEST_TIMEOUT_SCALE:-1} # of every time limit

missing=()
for tool in qemu-system-x86_64 busybox cpio modprobe rping rdma xz; do
    PATH=$PATH:/usr/sbin:/sbin command -v "$tool" >/dev/null || missing+=("$tool")
done
kernels=(/boot/vmlinuz-*) sources=(/usr/src/linux-source-*.tar.xz)
[ ${#sources[@]} -gt 0 ] || missing+=("linux-source")
kernel=
for each in "${kernels[@]}"; do
    [ ! -e "/lib/modules/${each#/boot/vmlinuz-}/build" ] || kernel=$each
done
[ -n "$kernel" ] || missing+=("linux-image and its linux-headers")
if [ ${#missing[@]} -gt 0 ]; then
    echo "not here: ${missing[*]}; ./dev vm installs them"
    exit 77
fi
version=${kernel#/boot/vmlinuz-}
mkdir -p "$cache"
work=$(mktemp -d "${TMPDIR:-/tmp}/vipl-siw.XXXXXX")
pids=()
end() {
    local pid
    for pid in "${pids[@]}"; do
        kill "$pid" 2>/dev/null || true
    done
    wait
    rm -rf "$work"
}
trap end EXIT

# --- the guest: module, initramfs -----------------------------------------------------------------

siw=$cache/siw-$version.ko
if [ ! -f "$siw" ]; then
    name=$(basename "${sources[-1]}" .tar.xz)
    folder=$work/$name/drivers/infiniband/sw/siw
    tar -C "$work" -xf "${sources[-1]}" "$name/drivers/infiniband/sw/siw"
    make -s -C "/lib/modules/$version/build" M="$folder" CONFIG_RDMA_SIW=m modules >"$work/siw.log" 2>&1 ||
        { cat "$work/siw.log"; exit 1; }
    strip --strip-debug -o "$work/siw.ko" "$folder/siw.ko"
    mv "$work/siw.ko" "$siw"
fi

root=$work/root
providers=(/usr/lib/*/libibverbs/libsiw*)
mkdir -p "$root"/{bin,proc,sys,dev,tmp,etc/libibverbs.d,"${providers[0]%/*}"}
cp /bin/busybox "$root/bin/"
for module in crc32c_generic libcrc32c virtio_pci virtio_net ib_uverbs rdma_ucm; do
    /usr/sbin/modprobe -S "$version" --show-depends "$module"
done | awk '/^insmod/ && !seen[$2]++ {print $2}' >"$root/modules"
while read -r file; do
    install -D "$file" "$root$file"
done <"$root/modules"
cp "$siw" "$root/siw.ko"
for tool in "$(PATH=$PATH:/usr/sbin:/sbin command -v rdma)" "$(command -v rping)" "${providers[@]}"; do
    ldd "$tool" | grep -o '/[^ )]*' | while read -r library; do
        [ -e "$root$library" ] || install -D "$library" "$root$library"
    done
done
cp "$(PATH=$PATH:/usr/sbin:/sbin command -v rdma)" "$(command -v rping)" "$root/bin/"
cp "${providers[@]}" "$root${providers[0]%/*}/"
cp /etc/libibverbs.d/siw.driver "$root/etc/libibverbs.d/"
cp /lib/x86_64-linux-gnu/libgcc_s.so.1 "$root/lib/x86_64-linux-gnu/" # a thread's end asks for it
cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc p /proc
mount -t sysfs s /sys
mount -t devtmpfs d /dev
for module in $(cat /modules) /siw.ko; do
    insmod $module 2>/dev/null
done
ip link set lo up
ip link set eth0 up
ip addr add 10.0.2.15/24 dev eth0
ip route add default via 10.0.2.2
rdma link add siw0 type siw netdev eth0
rdma link
. /script
echo "guest is done"
poweroff -f
INIT
chmod +x "$root/init"

# --- ports of our own, below those that the system hands out -----------------------------------------

listens() { # PORT: somebody waits there
    grep -qi ":$(printf %04X "$1") 00000000:0000 0A" /proc/net/tcp
}
port=$((12000 + $$ % 1000 * 8))
free_port() { # into $port
    port=$((port + 1))
    while listens "$port"; do
        port=$((port + 1))
    done
}
until_true() { # SECONDS COMMAND...
    local end=$((SECONDS + $1 * scale))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || { echo "in vain: $*"; return 1; }
        read -rt 0.05 <> <(:) || true
    done
}

# --- the script of the guest, and what goes on here ----------------------------------------------------

# What rping here is to serve, one after the other: name, role, rounds, bytes, CRC.
serving="small server 20 100 off
large server 10 60000 off
checked server 10 60000 on
denied trespass 1 100 off"
# And what rping there serves.
asking="small 20 100 off
large 10 60000 off
checked 10 60000 on"

vipl_rping() { # PORT CRC ARGUMENTS...
    local port=$1 crc=$2
    shift 2
    VIPL_TEST_DEVICE=tcp:127.0.0.1 VIPL_TCP_PORTS=$port-$port VIPL_MPA_CRC=$crc "$bin/vipl-rping" "$@"
}

console=$work/console
script=$root/script
forwards=
servers=()
while read -r name role rounds bytes crc; do
    free_port
    vipl_rping "$port" "$crc" "$role" "$rounds" "$bytes" >"$work/server.$name" 2>&1 &
    pids+=($!) servers+=("$!:$name")
    until_true 20 listens "$port"
    echo "rping -c -a 10.0.2.2 -p $port -v -V -C $rounds -S $bytes >/tmp/out 2>&1; \
        echo \"guest client $name: \$? \$(grep -c '^ping data: rdma-ping-' /tmp/out)\"" >>"$script"
done <<<"$serving"
inside=7000
while read -r name rounds bytes crc; do
    free_port
    inside=$((inside + 1))
    forwards+=",hostfwd=tcp:127.0.0.1:$port-:$inside"
    clients+=("$name $rounds $bytes $crc $port")
    echo "rping -s -a 10.0.2.15 -p $inside -v -V -C $rounds -S $bytes >/tmp/out 2>&1 &
        until grep -q ':$(printf %04X $inside) 00000000:0000 0A' /proc/net/tcp; do usleep 20000; done
        echo \"guest serves $name\"; wait \$!
        echo \"guest server $name: \$(grep -c '^server ping data: rdma-ping-' /tmp/out)\"" >>"$script"
done <<<"$asking"

(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initrd"
: >"$console"
timeout $((240 * scale)) qemu-system-x86_64 -accel tcg -cpu max -smp 2 -m 512 -nographic -no-reboot \
    -netdev "user,id=n0$forwards" -device virtio-net-pci,netdev=n0,romfile= \
    -kernel "$kernel" -initrd "$work/initrd" -append "console=ttyS0 panic=-1 quiet" </dev/null >"$console" 2>&1 &
guest=$!
pids+=("$guest")

failed=0
expect() { # TEXT: is a line on the console
    tr -d '\r' <"$console" | grep -qx "$1" || { echo "the guest did not say: $1"; failed=1; }
}
said() {
    ! kill -0 "$guest" 2>/dev/null || tr -d '\r' <"$console" | grep -qx "$1"
}
for each in "${clients[@]}"; do
    read -r name rounds bytes crc port <<<"$each"
    until_true 200 said "guest serves $name" || { failed=1; break; }
    vipl_rping "$port" "$crc" client "$rounds" "$bytes" || failed=1
    until_true 60 said "guest server $name: .*" || { failed=1; break; }
done
[ $failed -ne 0 ] || wait "$guest" || failed=1
for each in "${servers[@]}"; do
    [ $failed -eq 0 ] || kill "${each%%:*}" 2>/dev/null || true
    wait "${each%%:*}" || { echo "server ${each#*:} failed"; failed=1; }
    cat "$work/server.${each#*:}"
done
while read -r name role rounds bytes crc; do
    [ "$role" = trespass ] || expect "guest client $name: 0 $rounds"
done <<<"$serving"
while read -r name rounds bytes crc; do
    expect "guest server $name: $rounds"
done <<<"$asking"
expect "guest is done"
[ $failed -eq 0 ] && [ -z "${KEEP:-}" ] || cat "$console"
exit $failed
