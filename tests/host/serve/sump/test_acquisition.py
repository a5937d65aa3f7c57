"""Leftovers of another capture in the rig and on the line: too rare on a running rig to be reproduced there."""

from __future__ import annotations

from typing import Any

from wattbell.serve.sump.acquisition import Acquisition, CaptureOptions
from wattbell.serve.sump.protocol import ArmSettings
from wattbell_spec.wire import EventType

from tests.host.wire.encoder import events, rail, status

BEGIN = 7_000_000_000
MS = 1_000_000


class Scripted:
    """A rig that is still sending at the first query; its line holds the end of that capture."""

    def __init__(self) -> None:
        self.control = self
        self.log: list[str] = []
        self._answers = [f"state=STOPPING,tick={BEGIN - 5}", f"state=READY,tick={BEGIN}"]
        left = [rail(3, BEGIN - MS, [(165_000, 0)]), b""]
        end = status(4, BEGIN - MS, run=0)
        run = events(5, BEGIN + 5, [(BEGIN + 5, int(EventType.RUN), 1, 0, 0)])
        far = [rail(6 + n, BEGIN + (60 + n) * MS, [(165_000, 0)]) for n in range(3)]
        self.sizes = [len(left[0]), len(end)]
        self._pieces = [*left, end, run, *far, status(9, BEGIN + 70 * MS, run=0)]

    def status(self) -> str:
        self.log.append("status")
        return self._answers.pop(0)

    def query(self, _text: str) -> str:
        return "0;0;1"

    def start(self) -> None:
        self.log.append("start")

    def stop(self) -> None:
        self.log.append("stop")

    def read_into(self, buffer: memoryview) -> int:
        piece = self._pieces.pop(0)
        self.log.append(f"read {len(piece)}")
        buffer[: len(piece)] = piece
        return len(piece)

    def __enter__(self) -> Scripted:
        return self

    def __exit__(self, *_: object) -> None:
        self.log.append("close")


def test_what_is_left_of_another_capture_is_neither_shown_nor_taken_for_the_end_of_this_one() -> None:
    rig: Any = Scripted()
    sent: list[bytes] = []
    said: list[str] = []
    Acquisition(lambda: rig, ArmSettings(99, 4, 4, 0x38), CaptureOptions(), sent.append, said.append, lambda: rig.log.append("over")).run()
    assert sent == [bytes([1 << 0 | 1 << 1 | 1 << 2]) * 4], said
    assert said == []
    assert rig.log[:5] == ["status", f"read {rig.sizes[0]}", "read 0", "status", "start"]
    assert "stop" in rig.log[5:]
    assert rig.log[-3:] == [f"read {rig.sizes[1]}", "close", "over"], "it waits for the end that it asked for"
