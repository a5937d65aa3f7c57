"""A capture is complete if it has the run's first and last block and everything the rig counted; otherwise gaps say where not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from wattbell.capture import Capture, CaptureWriter, open_capture

from tests.e2e import stream_maker as maker
from tests.host.capture.streams import recorded
from tests.host.wire import encoder as e

BLOCKS = maker.stream(100)
LAST = 1000 + 100 * maker.SAMPLES_A_BLOCK * 1000


def reasons(capture: Capture) -> list[tuple[str, str]]:
    rows = capture.gaps.collect()
    return list(zip(rows["kind"].to_list(), rows["reason"].to_list(), strict=True))


def gap(capture: Capture, reason: str) -> dict[str, Any]:
    return next(row for row in capture.gaps.collect().to_dicts() if row["reason"] == reason)


def test_a_whole_run_is_complete_in_one_piece_or_many(tmp_path: Path) -> None:
    for number, pieces in enumerate(([b"".join(BLOCKS)], BLOCKS)):
        capture = recorded(tmp_path / str(number), *pieces)
        assert (capture.state, capture.meta["loss"]["lossless"], reasons(capture)) == ("complete", True, [])


@pytest.mark.parametrize("cut", [1, 2, 20])
def test_a_beginning_that_did_not_come_is_a_gap(tmp_path: Path, cut: int) -> None:
    """Without STATUS nothing says that the first block received is the run's first: with the RUN event alone, others may have preceded
    it."""
    capture = recorded(tmp_path / "c", *BLOCKS[cut:])
    assert (capture.state, capture.meta["loss"]["lossless"]) == ("incomplete", False)
    assert reasons(capture) == [("ANY", "the beginning was not received")]
    found = gap(capture, "the beginning was not received")
    first = int(capture.rail_blocks.collect()["first_tick"].min())  # type: ignore[arg-type]
    assert found["count"] == -1
    assert found["first_tick"] <= first <= found["last_tick"]


@pytest.mark.parametrize("kept", [30, len(BLOCKS) - 2, len(BLOCKS) - 1])
def test_an_end_that_did_not_come_is_a_gap(tmp_path: Path, kept: int) -> None:
    capture = recorded(tmp_path / "c", *BLOCKS[:kept])
    assert (capture.state, capture.meta["loss"]["lossless"]) == ("incomplete", False)
    found = gap(capture, "the end was not received")
    last = int(capture.rail_blocks.collect()["first_tick"].max())  # type: ignore[arg-type]
    assert found["count"] == -1
    assert found["first_tick"] <= last <= found["last_tick"]


@pytest.mark.parametrize(("cut", "where"), [(slice(7, None), "beginning"), (slice(None, -7), "end")])
def test_a_part_of_a_block_at_either_end_is_a_gap(tmp_path: Path, cut: slice, where: str) -> None:
    capture = recorded(tmp_path / "c", b"".join(BLOCKS)[cut])
    assert capture.meta["loss"]["lossless"] is False
    assert ("ANY", f"bytes at the {where} are no whole block") in reasons(capture)


def test_commands_that_the_rig_counted_and_that_did_not_come_are_a_gap_over_the_run(tmp_path: Path) -> None:
    short = e.status(len(BLOCKS) - 1, LAST, run=0, commands=100 * maker.COMMANDS_A_BLOCK + 7)
    capture = recorded(tmp_path / "c", *BLOCKS[:-1], short)
    assert (capture.state, capture.meta["loss"]["lossless"]) == ("incomplete", False)
    found = gap(capture, "the rig counted more commands than came")
    assert (found["kind"], found["count"]) == ("COMMANDS", 7)
    assert found["first_tick"] <= 1000
    assert found["last_tick"] >= LAST


def test_more_commands_than_the_rig_counted_are_said(tmp_path: Path) -> None:
    few = e.status(len(BLOCKS) - 1, LAST, run=0, commands=5)
    capture = recorded(tmp_path / "c", *BLOCKS[:-1], few)
    assert capture.state == "incomplete"
    assert gap(capture, "more commands came than the rig counted")["count"] == -1


def test_a_block_known_to_be_lost_explains_what_the_rig_counted(tmp_path: Path) -> None:
    capture = recorded(tmp_path / "c", *BLOCKS[:40], *BLOCKS[41:])
    assert capture.state == "complete"
    assert ("ANY", "blocks lost on the way to the host") in reasons(capture)
    assert all("counted" not in reason for _, reason in reasons(capture))


def test_an_older_status_in_the_same_piece_does_not_undo_the_stop(tmp_path: Path) -> None:
    stop = [(LAST, 15, 0, 0, 0)]
    tail = [
        e.events(202, LAST, stop),
        e.status(203, LAST - 5000, run=1, commands=1000),
        e.status(204, LAST + 10, run=0, commands=1000),
    ]
    writer = CaptureWriter(tmp_path / "c")
    writer.feed(b"".join([*BLOCKS[:-2], *tail[:2]]))
    assert (writer.stream.account.run, writer.stream.account.ended) == (0, False)
    writer.feed(tail[2])
    assert (writer.stream.account.run, writer.stream.account.ended) == (0, True)
    writer.close()
    assert open_capture(tmp_path / "c").state == "complete"


def test_a_recorder_that_came_late_says_so(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path / "c") as writer:
        writer.stream.attached_late = True
        writer.feed(b"".join(BLOCKS[20:]))
    capture = open_capture(tmp_path / "c")
    assert reasons(capture) == [("ANY", "the rig was capturing before the recording began")]
    assert capture.meta["loss"]["lossless"] is False


def test_a_rebuilt_capture_has_the_same_gaps_at_its_ends(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "c")
    writer.stream.attached_late = True
    writer.feed(b"".join(BLOCKS[20:90]))
    writer.save_meta()
    writer.abandon()
    capture = open_capture(tmp_path / "c")
    assert capture.state == "recovered"
    assert [reason for _, reason in reasons(capture)] == ["the rig was capturing before the recording began", "the end was not received"]


def test_a_stream_of_which_nothing_came_is_not_complete(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path / "c") as writer:
        writer.stream.expected = True
    capture = open_capture(tmp_path / "c")
    assert (capture.state, capture.meta["loss"]["lossless"]) == ("incomplete", False)


def test_a_recorder_killed_before_the_first_byte_has_lost_the_run(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "c")
    writer.stream.expected = True
    writer.abandon()
    capture = open_capture(tmp_path / "c")
    assert (capture.state, capture.meta["loss"]["lossless"]) == ("recovered", False)
    assert ("ANY", "the end was not received") in reasons(capture)


def test_each_run_of_a_rig_that_restarts_must_begin(tmp_path: Path) -> None:
    first, second = maker.stream(20, stop=False), maker.stream(20)
    for name, begin, wanted in (("whole", 0, 0), ("cut", 12, 1)):
        with CaptureWriter(tmp_path / name) as writer:
            writer.feed(b"".join(first))
            writer.reconnected()
            writer.feed(b"".join(second[begin:]))
        found = [reason for _, reason in reasons(open_capture(tmp_path / name))]
        assert found.count("the rig restarted") == 1
        assert found.count("the beginning was not received") == wanted
