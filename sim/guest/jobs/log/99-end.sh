# The kernel's text of what 00-begin.sh began, and the same as pages of its buffer with the layouts of its events: script-log-*.
T=/sys/kernel/tracing
cd $T/instances/log && echo 0 > tracing_on || exit 1
cat trace > /out/script-log.txt
cat $T/events/header_page > /out/script-log-header_page
for e in nvme_setup_cmd nvme_complete_rq; do cat $T/events/nvme/$e/format > /out/script-log-$e; done
for c in per_cpu/cpu*; do
    cat $c/stats > "/out/script-log-${c##*/}-stats"
    # it waits for more when it has read all
    dd if=$c/trace_pipe_raw of="/out/script-log-${c##*/}" bs=4096 2>/dev/null & reader=$!
    usleep 500000
    kill -9 $reader
done
exit 0
