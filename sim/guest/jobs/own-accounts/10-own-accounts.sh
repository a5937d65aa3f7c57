# A drive's own power meter and latency monitor, and the features about them, asked for by unmodified nvme-cli. Every answer is kept in
# /out as script-NAME.txt (.json, .bin), its messages as script-NAME.err, every exit code in script-codes.txt as NAME CODE. Writes to
# the drive.
D=/dev/nvme0
N=/dev/nvme0n1
keep() { # $1: name, with the ending of its file; then the command
    name=$1; shift
    "$@" > "/out/script-$name" 2> "/out/script-${name%.*}.err" < /dev/null
    echo "${name%.*} $?" >> /out/script-codes.txt
}
get() { keep "$1.txt" nvme get-feature $D --feature-id="$2" --sel="$3"; }
set() { keep "$1.txt" nvme set-feature $D --feature-id="$2" --value="$3"; }
limit() { keep "$1.txt" nvme admin-passthru $D --opcode=0x09 --cdw10="$2" --cdw13="$3"; } # set-feature has no option for CDW13
log() { keep "$1.bin" nvme get-log $D --log-id="$2" --log-len="$3" --raw-binary; }
smart() { keep smart.json nvme smart-log $D --output-format=json; log smart-page 0x02 512; }

nvme version > /out/script-version.txt
keep identify.bin nvme id-ctrl $D --raw-binary
for feature in 23 24 25 c5; do
    for select in 0 3; do get "get-$feature-$select" "0x$feature" $select; done
    keep "get-$feature-4.txt" nvme admin-passthru $D --opcode=0x0a --cdw10="0x4$feature" # get-feature does not let it through
done

# feature 23h: a limit that leaves PS2 and the states asleep; one that leaves no operational state; none
limit limit 0x23 0x155f0
get limit-got 0x23 0
keep identify-limited.bin nvme id-ctrl $D --raw-binary
limit limit-too-low 0x23 0x12710
limit limit-bad-scale 0x23 0x355f0
get limit-kept 0x23 0
limit limit-saved 0x80000023 0x17530
get limit-saved-got 0x23 2
limit limit-off 0x80000023 0
get limit-off-got 0x23 0
keep identify-after.bin nvme id-ctrl $D --raw-binary

# feature 24h: 60 W, which no second reaches; an event at the first second above 5 mW; other types of power are refused
set threshold-bad-type 0x24 0x80110032
set threshold-high 0x24 0x80021770
get threshold-got 0x24 0
set threshold 0x24 0x80010032
sleep 2.2
get threshold-over 0x24 0

# feature 25h: what the drive refuses; then a measurement of reads and writes, while the latency monitor counts
set meter-bad-type 0x25 0x11
set meter-bad-action 0x25 2
set meter-too-long 0x25 0x05a10001
log page-before 0x25 64
keep monitor-set.txt nvme ocp set-latency-monitor-feature $D --active_bucket_timer_threshold=0 --active_threshold_a=0 \
    --active_threshold_b=1 --active_threshold_c=3 --active_threshold_d=7 --active_latency_config=0x249 \
    --active_latency_minimum_window=0 --debug_log_trigger_enable=0 --discard_debug_log=0 --latency_monitor_feature_enable=1
keep monitor-bad.txt nvme ocp set-latency-monitor-feature $D --active_threshold_a=9 --active_threshold_b=1
set meter-start 0x25 0x00020001
get meter-running 0x25 0
common="--filename=$N --direct=1 --ioengine=libaio --clocksource=clock_gettime --size=8m"
keep writes.txt fio --name=writes $common --rw=write --bs=128k --iodepth=16 --number_ios=64
keep reads.txt fio --name=reads $common --rw=randread --bs=4k --iodepth=8 --runtime=2 --time_based --rate_iops=400 --randseed=7
sleep 2.1
smart
set meter-stop 0x25 0
get meter-stopped 0x25 0
log log-25h 0x25 576
keep monitor.json nvme ocp latency-monitor-log $D --output-format=json
log log-c3h 0xc3 512
log no-such-log 0xc5 512
keep error-log.json nvme error-log $D --log-entries=16 --output-format=json
true
