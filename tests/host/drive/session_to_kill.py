"""`wattbell run` on the bench of :mod:`.lab` in a process of its own, with a meter and the kernel's tracepoints: a drive that works all
the time; a thread puts its events into a tracefs of pipes. Arguments: folder of the lab, folder of the capture, then the arguments of
`wattbell run`.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest
from wattbell.campaign import equipment
from wattbell.cli import app
from wattbell.clocks.host import host_ns
from wattbell.hostlog.target import Target
from wattbell.hostlog.tracefs import TraceLog

from tests.host.drive.lab import Lab
from tests.host.drive.meterlab import LabMeter
from tests.host.hostlog.fake_tracefs import FakeTracefs
from tests.host.hostlog.kernel_pages import complete, page, record, setup

A_PAGE = 15
"""Commands with both events in one page."""
LOST_CID = 4000
"""CID of a command that never completes."""


class Kernel(threading.Thread):
    """Markers that `nvme` was given, and reads of 4 KiB at addresses 0, 8, 16..., 15 every 5 ms."""

    def __init__(self, lab: Lab, tracefs: FakeTracefs) -> None:
        super().__init__(daemon=True)
        self._lab, self._tracefs = lab, tracefs
        self._markers = self._reads = 0

    def run(self) -> None:
        records = [record(setup(LOST_CID, qid=2), 0)]
        while not self._tracefs.instance().exists():
            time.sleep(0.01)
        while True:
            for line in self._lab.words("marked")[self._markers :]:
                opcode, selector, value, _ = (int(word, 0) for word in line.split())
                cid = self._markers % 1024
                records += [record(setup(cid, selector | value << 32, 0, opcode, 0), 0), record(complete(cid, qid=0), 20_000)]
                self._markers += 1
            for _ in range(A_PAGE - len(records) // 2):
                cid, slba = self._reads % 1024, 8 * self._reads
                records += [record(setup(cid, slba), 1_000), record(complete(cid), 50_000)]
                self._reads += 1
            try:
                self._tracefs.write(0, page(records, host_ns() - 2_000_000))
            except OSError:  # the session is over
                return
            records = []
            time.sleep(0.005)


def main(root: Path, *arguments: str) -> None:
    patch = pytest.MonkeyPatch()
    lab = Lab(root / "lab", patch)
    lab.on_the_bench(patch)
    tracefs = FakeTracefs(root / "tracing", patch)
    patch.setattr(equipment, "open_meter", lambda _: LabMeter(lab))
    target = Target("/dev/nvme9n2", 0, 1, ("nvme0n1",))
    patch.setattr(equipment, "open_log", lambda *_: TraceLog(target, tracefs=tracefs.root))
    patch.setattr(TraceLog, "start", starting(TraceLog.start, lambda: Kernel(lab, tracefs).start()))
    sys.argv = ["wattbell", "run", *arguments]
    app.answer()


def starting(start: object, also: object) -> object:
    """The trace's own start, and events to read from then on."""

    def both(log: TraceLog) -> None:
        start(log)  # type: ignore[operator]
        also()  # type: ignore[operator]

    return both


if __name__ == "__main__":
    (Path(sys.argv[1]) / "lab").mkdir()
    main(Path(sys.argv[1]), *sys.argv[2:])
