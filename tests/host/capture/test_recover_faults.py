"""A disk that fails from some call on while a capture is rebuilt: a CaptureError each time, and the journal is still there."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wattbell.capture import open_capture
from wattbell.capture.recover import recover
from wattbell.errors import CaptureError

from tests.host.capture.test_recover import STREAM, unfinished

CALLS = ("open", "replace", "unlink", "fsync", "fdatasync", "mkdir", "statvfs", "write", "rename", "stat", "rmdir")
MOST = 2000
STEP = 7
"""Every call up to the 40th, and then each seventh: a step that shares no factor with the calls for one file."""


class Failing:
    """From call ``first`` on, every one of some functions of ``os`` fails with EIO. ``calls``: how many there were."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, first: int) -> None:
        self.calls = 0
        for name in CALLS:
            monkeypatch.setattr(os, name, self._wrapped(getattr(os, name), str(folder), first))

    def _wrapped(self, truly: Callable[..., Any], folder: str, first: int) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            place = arguments[0]
            ours = isinstance(place, int) or str(place).startswith(folder)
            if ours:
                self.calls += 1
                if self.calls >= first:
                    raise OSError(errno.EIO, os.strerror(errno.EIO), None if isinstance(place, int) else str(place))
            return truly(*arguments, **more)

        return call


def test_a_disk_that_fails_from_any_call_on_gives_a_capture_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = unfinished(tmp_path / "dead", STREAM)
    failed = 0
    for first in [*range(1, 40), *range(40, MOST, STEP)]:
        folder = tmp_path / "folder"
        shutil.copytree(dead, folder)
        with monkeypatch.context() as patch:
            disk = Failing(patch, folder, first)
            try:
                recover(folder)
            except CaptureError as error:
                failed += 1
                assert str(folder) in str(error)
        if disk.calls < first:
            break
        assert (folder / "stream.wbs").exists()
        assert open_capture(folder).state == "recovered", "a disk that is well again loses nothing"
        shutil.rmtree(folder)
    else:
        pytest.fail(f"more than {MOST} calls")
    assert failed > 10
