#!/bin/busybox sh
# PID 1 of the bench in a box: this machine's own file system, read-only over virtiofs with a tmpfs on top, becomes the
# guest's root, so that the guest has the Python and the wattbell of this machine. /run/box is the folder with `script`
# (run as root) and the results.
/bin/busybox mkdir -p /bin /proc /sys /dev /lower /over /root /lib
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
exec >/dev/console 2>&1
say() { echo "GUEST: $*"; }
fail() { say "FAIL $*"; sync; poweroff -f; sleep 60; }
insmod /lib/overlay.ko || fail "overlay does not load"
mount -t virtiofs -o ro host /lower || fail "the machine's file system did not appear"
mount -t tmpfs tmpfs /over
mkdir -p /over/upper /over/work
mount -t overlay -o lowerdir=/lower,upperdir=/over/upper,workdir=/over/work overlay /root || fail "no overlay"
for d in proc sys dev run tmp; do mkdir -p /root/$d; done
mount -t proc proc /root/proc
mount -t sysfs sysfs /root/sys
mount -o bind /dev /root/dev
mkdir -p /root/dev/shm && mount -t tmpfs tmpfs /root/dev/shm
mount -t tmpfs tmpfs /root/run
mkdir -p /root/run/box /root/opt/guest/bin
mount -t virtiofs box /root/run/box || fail "the folder of the box did not appear"
# fio and nvme-cli of the initramfs: the machine need not have them
mkdir -p /root/opt/guest/lib
cp /lib/*.so* /root/opt/guest/lib/
for p in fio nvme; do
    cp /bin/$p /root/opt/guest/lib/$p
    printf '#!/bin/sh\nexec /opt/guest/lib/ld-linux-x86-64.so.2 --library-path /opt/guest/lib /opt/guest/lib/%s "$@"\n' $p \
        > /root/opt/guest/bin/$p
    chmod 755 /root/opt/guest/bin/$p
done
n=0
until [ -b /dev/nvme0n1 ] || grep -q 'box.drive=none' /proc/cmdline; do
    n=$((n + 1)); [ $n -gt 600 ] && { dmesg | grep -i nvme; fail "no NVMe drive: /dev/nvme0n1 did not appear"; }; usleep 50000
done
say "START"
chroot /root /usr/bin/env -i PATH=/opt/guest/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp \
    LANG=C.UTF-8 sh /run/box/script > /root/run/box/console.log 2>&1 </dev/null
echo $? > /root/run/box/exit-code
dmesg > /root/run/box/dmesg.txt
sync
say "END"
poweroff -f
sleep 60
