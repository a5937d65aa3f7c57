#!/bin/busybox sh
# PID 1 of the guest: unpacks the jobs from one disk, runs each between two in-band markers, packs the results onto
# another disk, powers off. What to do is in /jobs/plan, one phase a line: NUMBER KIND NAME ARGUMENT
#   fio  ARGUMENT = job file      idle  ARGUMENT = seconds      script  ARGUMENT = shell script
/bin/busybox mkdir -p /bin /proc /sys /dev /tmp
/bin/busybox --install -s /bin
export PATH=/bin LD_LIBRARY_PATH=/lib
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mount -t tmpfs tmpfs /tmp
mkdir -p /dev/shm && mount -t tmpfs tmpfs /dev/shm
exec >/dev/console 2>&1
say() { echo "GUEST: $*"; }
fail() { say "FAIL $*"; sync; poweroff -f; sleep 60; }

insmod /lib/virtio_blk.ko || fail "virtio_blk does not load"
disk() { # $1: serial of the virtio-blk disk
    for d in /sys/block/vd*; do
        [ "$(cat "$d/serial" 2>/dev/null)" = "$1" ] && echo "/dev/${d##*/}" && return
    done
}
n=0
while [ -z "$(disk wbjobs)" ] || [ -z "$(disk wbout)" ]; do
    n=$((n + 1)); [ $n -gt 200 ] && fail "job disks did not appear"; usleep 50000
done
mkdir -p /jobs /out
tar xf "$(disk wbjobs)" -C /jobs || fail "jobs disk is not a tar"
n=0
while [ ! -b /dev/nvme0n1 ]; do
    n=$((n + 1)); [ $n -gt 600 ] && { dmesg | grep -i nvme; fail "no NVMe drive: /dev/nvme0n1 did not appear"; }; usleep 50000
done

# One fio I/O must stay one command (up to MDTS): no merging in the block layer.
echo 2 > /sys/block/nvme0n1/queue/nomerges
TRACE=/sys/kernel/tracing
if grep -q '^trace=on' /jobs/options; then
    mount -t tracefs tracefs $TRACE
    echo mono > $TRACE/trace_clock
    echo 65536 > $TRACE/buffer_size_kb
    echo 1 > $TRACE/events/nvme/nvme_setup_cmd/enable
    echo 1 > $TRACE/events/nvme/nvme_complete_rq/enable
fi
marker() { # $1: value of CDW11; every drive refuses feature D0h, the command is what counts
    nvme get-feature /dev/nvme0 -f 0xd0 --cdw11="$1" </dev/null >/dev/null 2>>/out/marker.txt
}
uname -a > /out/uname.txt
fio --version > /out/fio-version.txt
nvme id-ctrl /dev/nvme0 -o json </dev/null > /out/id-ctrl.json 2>&1
nvme get-feature /dev/nvme0 -f 0xc -H </dev/null > /out/apst.txt 2>&1

say "START"
while read -r number kind name argument; do
    say "PHASE $number $kind $name"
    marker $((number << 8 | 1))
    case $kind in
    fio)
        printf '[global]\nfilename=/dev/nvme0n1\n' > /tmp/job.fio
        # every I/O with its latency and offset, in /out/fio-N_lat.1.log and so on
        grep -q '^io-log=on' /jobs/options && printf 'write_lat_log=/out/fio-%s\nlog_offset=1\n' "$number" >> /tmp/job.fio
        cat "/jobs/$argument" >> /tmp/job.fio
        # fio's own clock check needs no calibration of the emulated TSC
        fio --output-format=json --output="/out/fio-$number.json" --clocksource=clock_gettime /tmp/job.fio </dev/null > /out/fio-$number.log 2>&1
        code=$?
        ;;
    script) sh "/jobs/$argument" > "/out/script-$number.log" 2>&1 </dev/null; code=$? ;;
    idle) sleep "$argument"; code=0 ;;
    *) code=99 ;;
    esac
    marker $((number << 8 | 2))
    echo "$number $code" >> /out/exit-codes
    say "DONE $number exit $code"
done < /jobs/plan
[ -e $TRACE/trace ] && { echo 0 > $TRACE/tracing_on; cat $TRACE/trace > /out/trace.txt; }
dmesg > /out/dmesg.txt
tar cf "$(disk wbout)" -C /out . || fail "results do not fit the output disk"
sync
say "END"
poweroff -f
sleep 60
