"""Plays a stream at a given rate into a pty or a pipe; the process under ``host_bench.py``'s live figures."""

from __future__ import annotations

import json
import os
import select
import sys
import time
import tty
from pathlib import Path


def open_ptys() -> tuple[int, int]:
    """(data, control) masters of a rig registered as BENCH."""
    ports = [os.openpty() for _ in range(2)]
    for _, slave in ports:
        tty.setraw(slave)
    (data, data_slave), (control, control_slave) = ports
    rigs = Path(os.environ["WATTBELL_RUNTIME"]) / "rigs"
    rigs.mkdir(parents=True)
    entry = {"serial": "BENCH", "data": os.ttyname(data_slave), "control": os.ttyname(control_slave)}
    (rigs / "new").write_text(json.dumps({**entry, "pid": os.getpid()}))
    (rigs / "new").rename(rigs / "BENCH.json")
    return data, control


def wait_for_init(control: int) -> None:
    """Answers SCPI until INIT, and the error query behind it."""
    running = False
    while True:
        for line in os.read(control, 4096).split(b"\n"):
            answer = {b"*IDN?": b"Wattbell,bench,BENCH,0\n", b"SYST:ERR?": b'0,"No error"\n'}.get(line)
            running |= line == b"INIT"
            if answer:
                os.write(control, answer)
                if running and line == b"SYST:ERR?":
                    return


def play(data: int, stream: memoryview, rate: float) -> float:
    """Write `stream` at `rate` bytes/s, or as fast as it is taken; returns the rate reached."""
    os.set_blocking(data, False)
    started, position = time.monotonic(), 0
    while position < len(stream):
        due = min(len(stream), int((time.monotonic() - started) * rate))
        if due - position < 4096 and due < len(stream):
            time.sleep(0.0002)
            continue
        try:
            position += os.write(data, stream[position : min(due, position + (1 << 18))])
        except BlockingIOError:
            select.select([], [data], [], 1.0)
    return position / (time.monotonic() - started)


def main() -> None:
    """``host_bench_feeder.py STREAM RATE TOLD [DATA CONTROL]``: the last two are descriptors of pipes."""
    stream, rate, told = memoryview(Path(sys.argv[1]).read_bytes()), float(sys.argv[2]), Path(sys.argv[3])
    if len(sys.argv) > 4:
        data, control = int(sys.argv[4]), int(sys.argv[5])
        os.read(control, 1)
    else:
        data, control = open_ptys()
        wait_for_init(control)
    reached = play(data, stream, rate)
    told.write_text(json.dumps({"rate": reached}))
    os.read(control, 1)  # until the reader is gone: closing a pty would discard unread data


if __name__ == "__main__":
    main()
