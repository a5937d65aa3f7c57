"""The end of a recording: the journal goes only when a reader has opened the finished capture."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wattbell.capture import hashes, meta, open_capture
from wattbell.capture.writer import CaptureWriter
from wattbell.errors import CaptureError

from tests.faults.faultstream import make


def rows(path: Path) -> dict[str, int]:
    return open_capture(path).meta["counts"]  # type: ignore[no-any-return]


def test_a_capture_that_no_reader_opens_keeps_its_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that drops a part of a file just after it was written and hashed."""
    stream = make(np.random.default_rng(1))
    with CaptureWriter(tmp_path / "good") as writer:
        writer.feed(stream)
    sums = hashes.sums

    def then_cut(directory: Path, *args: Any, **more: Any) -> Any:
        made = sums(directory, *args, **more)
        os.truncate(directory / "commands.parquet", 100)
        return made

    bad = CaptureWriter(tmp_path / "bad")
    bad.feed(stream)
    with monkeypatch.context() as patch:
        patch.setattr(hashes, "sums", then_cut)
        with pytest.raises(CaptureError, match=r"cannot be opened again; its journal is kept.*has 100 bytes"):
            bad.close()
    assert (tmp_path / "bad/stream.wbs").read_bytes() == stream
    assert rows(tmp_path / "bad") == rows(tmp_path / "good")


def test_a_meta_that_no_reader_takes_is_not_written(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "c")
    before = (tmp_path / "c/meta.json").read_bytes()
    with pytest.raises(CaptureError, match="cannot say what was recorded"):
        meta.save(tmp_path / "c", writer.meta | {"clock": {"tick_ps": 0}})
    assert (tmp_path / "c/meta.json").read_bytes() == before
    writer.abandon()
