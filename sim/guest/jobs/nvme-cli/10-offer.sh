# What a drive offers beyond reading and writing, asked for by Linux' own tools. Every answer is kept in /out as
# script-NAME.txt (or .json), every exit code in script-codes.txt as NAME CODE. Destroys what is on the drive.
D=/dev/nvme0
N=/dev/nvme0n1
keep() { # $1: name, with the ending of its file; then the command
    name=$1; shift
    "$@" > "/out/script-$name" 2>&1 < /dev/null
    echo "${name%.*} $?" >> /out/script-codes.txt
}
block() { keep "$1.txt" nvme "$2" $N --start-block=8 --block-count=7 --data-size=4096 --data="$3"; }

keep id-ctrl.json nvme id-ctrl $D -o json
keep id-ns.json nvme id-ns $N -o json
keep effects.json nvme effects-log $D --csi=0 -o json
keep hmb.txt nvme get-feature $D -f 0x0d -H
keep timestamp.txt nvme get-feature $D -f 0x0e
date +%s > /out/script-now.txt

# data: compare, blocks marked as unreadable, zeroes
head -c 4096 /dev/urandom > /tmp/a
head -c 4096 /dev/urandom > /tmp/b
head -c 4096 /dev/zero > /tmp/zero
block write write /tmp/a
block compare-same compare /tmp/a
block compare-other compare /tmp/b
keep error-log.json nvme error-log $D -e 2 -o json
keep write-uncor.txt nvme write-uncor $N --start-block=9 --block-count=0
block read-uncor read /tmp/c
keep write-zeroes.txt nvme write-zeroes $N --start-block=8 --block-count=7
block read-zeroes read /tmp/c
keep zeroes.txt cmp /tmp/c /tmp/zero

# temperature: a threshold below what the drive has, thermal management
keep threshold.txt nvme set-feature $D -f 4 --value=290
keep smart.json nvme smart-log $D -o json
keep hctm-set.txt nvme set-feature $D -f 0x10 --value=0x01430148
keep hctm.txt nvme get-feature $D -f 0x10 -H
keep hctm-bad.txt nvme set-feature $D -f 0x10 --value=0x01480143

# a self-test, which runs behind what follows
keep selftest.txt nvme device-self-test $D -n 1 -s 1
keep selftest-twice.txt nvme device-self-test $D -n 1 -s 1
n=0
while nvme self-test-log $D | grep -q 'operation *: *0x1'; do
    n=$((n + 1)); [ $n -gt 100 ] && break; usleep 100000
done
keep selftest-log.json nvme self-test-log $D -o json

# a format with blocks of 4096 bytes, in which fio's verification holds
keep format.txt nvme format $N --lbaf=1 --ses=1 --force
keep id-ns-4096.json nvme id-ns $N -o json
cat /sys/block/nvme0n1/size /sys/block/nvme0n1/queue/logical_block_size > /out/script-4096.txt
keep fio.txt fio --name=v --filename=$N --rw=randwrite --bs=4k --size=256k --direct=1 --verify=crc32c --clocksource=clock_gettime

# sanitize: reads are refused until it is over
keep sanitize.txt nvme sanitize $D --sanact=2
keep sanitizing.json nvme sanitize-log $D -o json
keep read-sanitizing.txt nvme read $N --start-block=0 --block-count=0 --data-size=4096 --data=/tmp/c
n=0
while nvme sanitize-log $D | grep -q 'SSTAT.*0x2$'; do
    n=$((n + 1)); [ $n -gt 100 ] && break; usleep 100000
done
keep sanitized.json nvme sanitize-log $D -o json
keep read-sanitized.txt nvme read $N --start-block=0 --block-count=0 --data-size=4096 --data=/tmp/c
keep nothing.txt cmp /tmp/c /tmp/zero

# namespaces: two made of one
keep delete-ns.txt nvme delete-ns $D -n 1
keep create-1.txt nvme create-ns $D --nsze=0x100000 --ncap=0x100000 --flbas=0
keep create-2.txt nvme create-ns $D --nsze=0x10000 --ncap=0x10000 --flbas=1
keep attach-1.txt nvme attach-ns $D -n 1 -c 1
keep attach-2.txt nvme attach-ns $D -n 2 -c 1
n=0
while [ ! -b /dev/nvme0n2 ]; do
    n=$((n + 1)); [ $n -gt 100 ] && break; usleep 50000
done
keep list.json nvme list -o json
keep id-ctrl-2.json nvme id-ctrl $D -o json

# the Host Memory Buffer goes back to the host, and a reset lends it again
keep hmb-off.txt nvme set-feature $D -f 0x0d --value=0
keep hmb-none.txt nvme get-feature $D -f 0x0d
keep reset.txt nvme reset $D
keep hmb-again.txt nvme get-feature $D -f 0x0d
dmesg | grep -i nvme > /out/script-dmesg.txt
true
