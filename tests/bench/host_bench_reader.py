"""Records a stream, or only reads and drops it; the process that ``host_bench.py``'s live figures are about."""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from wattbell.capture import CaptureWriter
from wattbell.capture.record import record
from wattbell.rig import Rig
from wattbell.rig.stream import DescriptorReader


class PipeRig:
    """A pipe in place of the serial port: the same reader, recorder and capture without Linux' tty layer."""

    def __init__(self, data: int, control: int) -> None:
        os.set_blocking(data, False)  # as PySerial opens a port
        self._source, self._control = DescriptorReader(data), control

    def start(self) -> None:
        """Start the feeder."""
        os.write(self._control, b"\n")

    def stop(self) -> None:
        """No-op: the feeder stops by itself."""

    def read_into(self, buffer: memoryview) -> int:
        """Like ``Rig.read_into``."""
        return self._source.read_into(buffer)

    def reopen(self) -> bool:
        """Never: a pipe does not come back."""
        return False


class Blind(CaptureWriter):
    """A writer without the live summary, to tell what that costs."""

    def begin_live(self) -> Any:
        """Nothing that keeps anything."""
        return SimpleNamespace()


def main() -> None:
    """``host_bench_reader.py record|blind|read CAPTURE SIZE [DATA CONTROL]``"""
    what, capture, size = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    rig = PipeRig(int(sys.argv[4]), int(sys.argv[5])) if len(sys.argv) > 4 else Rig.open("BENCH")
    writer = {"record": CaptureWriter, "blind": Blind}[what](capture) if what != "read" else None
    before = resource.getrusage(resource.RUSAGE_SELF)
    if writer is None:
        rig.start()
        buffer, got = memoryview(bytearray(1 << 20)), 0
        while got < size:
            got += rig.read_into(buffer)
    else:
        record(rig, writer)  # type: ignore[arg-type]
        writer.close()
        assert writer.stream.decoder.counters.lossless
        assert writer.stream.decoder.counters.bytes_in == size
    after = resource.getrusage(resource.RUSAGE_SELF)
    user_s, system_s = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    print(json.dumps({"user_s": user_s, "system_s": system_s}))


if __name__ == "__main__":
    main()
