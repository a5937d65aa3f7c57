"""Commands as the host saw them (tracepoints, blktrace, logs of fio), in the shape of a tap's."""
