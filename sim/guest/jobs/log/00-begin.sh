# The driver's tracepoints from here on, until 99-end.sh of this folder, in an instance of their own.
T=/sys/kernel/tracing
mount -t tracefs tracefs $T
mkdir $T/instances/log && cd $T/instances/log || exit 1
echo mono_raw > trace_clock
echo 32768 > buffer_size_kb
echo 1 > events/nvme/nvme_setup_cmd/enable
echo 1 > events/nvme/nvme_complete_rq/enable
