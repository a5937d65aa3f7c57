"""Plays a stream into a pty at a given rate; the process under ``host_bench.py``'s live figure."""

from __future__ import annotations

import json
import os
import select
import sys
import time
import tty
from pathlib import Path


def main() -> None:
    """``host_bench_feeder.py STREAM RATE``"""
    stream, rate = memoryview(Path(sys.argv[1]).read_bytes()), float(sys.argv[2])
    ports = [os.openpty() for _ in range(2)]
    for _, slave in ports:
        tty.setraw(slave)
    (data, data_slave), (control, control_slave) = ports
    os.set_blocking(data, False)
    rigs = Path(os.environ["WATTBELL_RUNTIME"]) / "rigs"
    rigs.mkdir(parents=True)
    entry = {"serial": "BENCH", "data": os.ttyname(data_slave), "control": os.ttyname(control_slave)}
    (rigs / "new").write_text(json.dumps({**entry, "pid": os.getpid()}))
    (rigs / "new").rename(rigs / "BENCH.json")
    running, position, started = False, 0, 0.0
    while True:
        ready, _, _ = select.select([control], [], [], 0 if running else 0.5)
        if ready:
            for line in os.read(control, 4096).split(b"\n"):
                if line == b"INIT":
                    running, started = True, time.monotonic()
                answer = {b"*IDN?": b"Wattbell,bench,BENCH,0\n", b"SYST:ERR?": b'0,"No error"\n'}.get(line)
                if answer:
                    os.write(control, answer)
        if running and position < len(stream):
            due = int((time.monotonic() - started) * rate)
            if due <= position:
                time.sleep(0.001)
                continue
            try:
                position += os.write(data, stream[position : min(due, position + 65536)])
            except BlockingIOError:
                time.sleep(0.0005)
        elif position >= len(stream):
            time.sleep(1)
            return


if __name__ == "__main__":
    main()
