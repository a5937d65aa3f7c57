"""A thread of the library of ``rail.jls`` that comes late to its work, as on a slow disk: the recording waits for it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyjls
import pytest
from wattbell.capture import rail
from wattbell.capture.notes import Annotation, Shape
from wattbell.capture.rail import RailWriter
from wattbell.errors import CaptureError

BUSY = "BUSY[10]: The requested resource is currently busy."
LATE = {"flush": "flush TIMED_OUT[11]: The operation timed out", **{name: f"{name} {BUSY}" for name in ("fsr_f32", "utc", "annotation")}}
"""The library's words, with the codes of its ec.h."""


class Late:
    """The library's writer, whose calls fail ``times`` times first, and log an error as it does."""

    def __init__(self, writer: Any, name: str, times: int, said: str) -> None:
        self._writer, self._name, self._left, self._said = writer, name, times, said

    def __getattr__(self, name: str) -> Any:
        if name != self._name:
            return getattr(self._writer, name)

        def call(*arguments: Any) -> None:
            if self._left:
                self._left -= 1
                logging.getLogger("pyjls.c").error("%s", self._said)
                raise RuntimeError(self._said)
            getattr(self._writer, name)(*arguments)

        return call


def written(folder: Path, name: str, times: int, said: str) -> None:
    writer = RailWriter(folder, 1000, 1000, "T")
    writer._jls = Late(writer._jls, name, times, said)
    ramp = np.arange(5000, dtype=np.float32)
    try:
        writer.append(ramp, ramp, ramp)
        writer.close([(0, 0), (4999, 5_000_000)], [(7, Annotation(7, Shape.TEXT, "note"))])
    except CaptureError:
        writer.abandon()
        raise


@pytest.mark.parametrize("name", [*LATE])
def test_a_late_thread_is_waited_for(tmp_path: Path, name: str) -> None:
    written(tmp_path, name, 3, LATE[name])
    with pyjls.Reader(str(tmp_path / "rail.jls")) as reader:
        assert np.array_equal(reader.fsr(rail.POWER, 0, 5000), np.arange(5000))


def test_a_thread_that_never_comes_ends_the_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rail, "SLOWEST_S", 0.0)
    with pytest.raises(CaptureError, match="cannot be written"):
        written(tmp_path, "flush", 1 << 30, LATE["flush"])


def test_any_other_error_ends_it_at_once(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="cannot be written"):
        written(tmp_path, "flush", 1, "flush IO[4]: Input/output error")
