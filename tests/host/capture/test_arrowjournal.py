"""Journals that are Arrow streams: the bytes on the disk at each time, and the message when the disk refuses them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pyarrow as pa
import pytest
from wattbell import durable
from wattbell.capture.arrowjournal import ArrowJournal, about, held, records
from wattbell.errors import CaptureError

from tests.host.meters.measuring import wait_for

SCHEMA = pa.schema([("a", pa.int64())])


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA)


def found(path: Path) -> list[tuple[list[int], dict[str, object]]]:
    return [(rows["a"].to_pylist(), told) for rows, told in records(path, SCHEMA)]


def test_a_power_cut_leaves_all_that_was_forced_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that was not flushed may be gone: the file is as long as it was then."""
    synced: list[int] = []
    monkeypatch.setattr(durable, "SYNC_S", 0.01)
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    journal = ArrowJournal(tmp_path / "j", SCHEMA)
    journal.append(batch(1, 2), {"n": 1})
    journal.append(batch(3))
    wait_for(lambda: bool(synced) and synced[-1] == (tmp_path / "j").stat().st_size)
    journal.close(remove=False)
    os.truncate(tmp_path / "j", synced[-1])
    assert found(tmp_path / "j") == [([1, 2], {"n": 1}), ([3], {})]
    assert len(synced) <= 3, "only when something has come"


def test_a_disk_that_takes_a_piece_in_parts_gets_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:7]))
    journal = ArrowJournal(tmp_path / "j", SCHEMA, {"who": "test"}, compression="lz4")
    journal.append(batch(*range(1000)))
    journal.close(remove=False)
    assert found(tmp_path / "j") == [(list(range(1000)), {})] and about(tmp_path / "j") == {"who": "test"}


def test_a_disk_that_is_full_only_when_it_is_forced_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed: list[int] = []

    def full(descriptor: int) -> None:
        failed.append(descriptor)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(durable, "SYNC_S", 0.01)
    monkeypatch.setattr(os, "fdatasync", full)
    journal = ArrowJournal(tmp_path / "j", SCHEMA)
    journal.append(batch(1))
    wait_for(lambda: bool(failed))
    with pytest.raises(CaptureError, match=r"j cannot be written \(No space left on device\); free some space"):
        for _ in range(1000):
            journal.append(batch(2))
    journal.close(remove=True)
    assert not (tmp_path / "j").exists()


def test_one_that_is_written_can_be_read_but_is_not_to_be_rebuilt_from(tmp_path: Path) -> None:
    journal = ArrowJournal(tmp_path / "j", SCHEMA)
    journal.append(batch(5))
    assert found(tmp_path / "j") == [([5], {})]
    with pytest.raises(CaptureError, match="still being recorded"), held(tmp_path / "j"):
        pass
    journal.close(remove=False)
    journal.close(remove=True)
    with held(tmp_path / "j"), pytest.raises(CaptureError, match="still being recorded"), held(tmp_path / "j"):
        pass
    with pytest.raises(CaptureError, match="another version"):
        list(records(tmp_path / "j", pa.schema([("b", pa.int64())])))
    with pytest.raises(CaptureError, match="cannot be read"):
        about(tmp_path / "none")
