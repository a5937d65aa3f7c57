"""``--force``: the old capture stays until the new one is there, and nobody takes a folder from a live recorder."""

from __future__ import annotations

from pathlib import Path

import pytest
from wattbell.capture import CaptureWriter, open_capture
from wattbell.errors import CaptureError

from tests.e2e import stream_maker as maker
from tests.host.capture.streams import recorded

STREAM = b"".join(maker.stream(20))


def commands(path: Path) -> int:
    return open_capture(path).commands.collect().height


@pytest.fixture
def old(tmp_path: Path) -> Path:
    recorded(tmp_path / "c", STREAM)
    return tmp_path / "c"


def test_the_old_one_stays_until_data_comes(old: Path) -> None:
    writer = CaptureWriter(old, overwrite=True)
    assert commands(old) == 200
    writer.feed(b"".join(maker.stream(5)))
    assert writer.path == old
    writer.close()
    assert commands(old) == 50
    assert [path.name for path in old.parent.iterdir()] == ["c"]


def test_the_old_one_stays_when_nothing_comes_of_the_new_one(old: Path) -> None:
    with pytest.raises(CaptureError, match="the rig"), CaptureWriter(old, overwrite=True):
        raise CaptureError("the rig does not start")
    assert commands(old) == 200
    assert [path.name for path in old.parent.iterdir()] == ["c"]


def test_one_made_by_hand_replaces_when_it_is_closed(old: Path) -> None:
    with CaptureWriter(old, overwrite=True) as writer:
        writer.add_rows("commands", {"cqe_tick": [1]})
        assert commands(old) == 200
    assert commands(old) == 1


@pytest.mark.parametrize("journal", [True, False])
def test_of_a_new_one_that_is_complete_no_journal_is_left(old: Path, journal: bool) -> None:
    with CaptureWriter(old, overwrite=True, journal=journal) as writer:
        writer.feed(b"".join(maker.stream(5)))
        assert (old / "stream.wbs").exists() is journal
    assert commands(old) == 50 and not (old / "stream.wbs").exists()


def test_a_capture_that_is_being_recorded_is_not_replaced(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "c")
    writer.feed(STREAM[:9000])
    with pytest.raises(CaptureError, match="being recorded"):
        CaptureWriter(tmp_path / "c", overwrite=True)
    with pytest.raises(CaptureError, match="exists"):
        CaptureWriter(tmp_path / "c")
    writer.feed(STREAM[9000:])
    writer.close()
    assert commands(tmp_path / "c") == 200


def test_nor_before_its_first_data(old: Path) -> None:
    """Both were asked to replace the same capture, and neither has data yet."""
    writer = CaptureWriter(old, overwrite=True)
    with pytest.raises(CaptureError, match="being recorded"):
        CaptureWriter(old, overwrite=True)
    writer.feed(STREAM)
    with pytest.raises(CaptureError, match="being recorded"):
        CaptureWriter(old, overwrite=True)
    writer.close()
    assert commands(old) == 200


def test_what_a_dead_recorder_left_is_in_nobodys_way(old: Path) -> None:
    left = old.parent / ".c.new"
    left.mkdir()
    (left / "stream.wbs").touch()
    with CaptureWriter(old, overwrite=True) as writer:
        writer.feed(b"".join(maker.stream(5)))
    assert commands(old) == 50
    assert not left.exists()


def test_an_unfinished_capture_of_a_dead_recorder_may_be_replaced(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "c")
    writer.feed(STREAM[:9000])
    writer.abandon()
    with CaptureWriter(tmp_path / "c", overwrite=True) as writer:
        writer.feed(b"".join(maker.stream(5)))
    assert commands(tmp_path / "c") == 50


def test_the_block_size_that_was_given_is_known_after_a_crash(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "c", lba_size_bytes=32768)
    writer.feed(STREAM[:9000])
    writer.abandon()
    capture = open_capture(tmp_path / "c")
    assert capture.state == "recovered"
    assert (capture.lba_size_bytes(1), capture.lba_size_known) == (32768, True)
