"""The remains of a dead recorder, and the effect of damage to a capture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wattbell.capture import CaptureWriter, open_capture
from wattbell.errors import CaptureError

from tests.e2e import stream_maker as maker

STREAM = b"".join(maker.stream(60))


def unfinished(path: Path, stream: bytes, piece: int = 4096) -> Path:
    writer = CaptureWriter(path, conditions={"virtual": True})
    for start in range(0, len(stream), piece):
        writer.feed(stream[start : start + piece])
    writer.abandon()
    return path


def test_recovered_equals_completed(tmp_path: Path) -> None:
    unfinished(tmp_path / "dead", STREAM)
    with CaptureWriter(tmp_path / "whole") as writer:
        writer.feed(STREAM)
    dead, whole = open_capture(tmp_path / "dead"), open_capture(tmp_path / "whole")
    assert (dead.state, whole.state) == ("recovered", "complete")
    for name in ("commands", "events", "rail_blocks", "gaps", "status"):
        assert dead.table(name).collect().equals(whole.table(name).collect()), name
    assert dead.rail is not None
    assert whole.rail is not None
    assert np.array_equal(dead.rail.read().power, whole.rail.read().power)
    assert dead.meta["conditions"]["virtual"] is True
    assert any("rebuilt" in note for note in dead.meta["conditions"]["notes"])
    assert open_capture(tmp_path / "dead").state == "recovered"
    assert (tmp_path / "dead" / "stream.wbs").exists()


def test_a_rig_that_served_as_a_meter_is_recovered_without_what_its_tap_saw(tmp_path: Path) -> None:
    dead, whole = CaptureWriter(tmp_path / "dead"), CaptureWriter(tmp_path / "whole")
    for writer in (dead, whole):
        writer.stream.rail_only(500)
        writer.feed(STREAM)
    dead.abandon()
    whole.close()
    found, expected = open_capture(tmp_path / "dead"), open_capture(tmp_path / "whole")
    assert found.state == "recovered" and found.commands.collect().is_empty()
    assert found.rail is not None and expected.rail is not None
    assert found.rail.tick_of(0) == expected.rail.tick_of(0)
    assert np.array_equal(found.rail.read().power, expected.rail.read().power)


@given(st.integers(0, len(STREAM)))
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_journal_cut_anywhere_is_recovered_up_to_there(tmp_path: Path, size: int) -> None:
    path = unfinished(tmp_path / f"cut{size}", STREAM, 1 << 20) if not (tmp_path / f"cut{size}").exists() else None
    if path is None:
        return
    with open(path / "stream.wbs", "r+b") as journal:
        journal.truncate(size)
    capture = open_capture(path)
    sizes = np.cumsum([len(block) for block in maker.stream(60)])
    whole = int(np.searchsorted(sizes, size, side="right"))
    rounds = min(max(0, whole - 2 + 1) // 2, 60)  # a COMMANDS block is the first of each round
    assert capture.commands.select(pl.len()).collect().item() == rounds * maker.COMMANDS_A_BLOCK


def test_progress_is_told(tmp_path: Path) -> None:
    path = unfinished(tmp_path / "dead", STREAM)
    told: list[tuple[int, int]] = []
    open_capture(path, lambda done, total: told.append((done, total)))
    assert told[-1] == (len(STREAM), len(STREAM))


def test_cuts_of_the_line_are_remembered(tmp_path: Path) -> None:
    first, second = b"".join(maker.stream(20, stop=False)), b"".join(maker.stream(10))
    path = tmp_path / "dead"
    writer = CaptureWriter(path)
    writer.feed(first)
    writer.reconnected()
    writer.feed(second)
    writer.save_meta()
    writer.abandon()
    ticks = open_capture(path).commands.collect()["cqe_tick"]
    assert len(ticks) == 30 * maker.COMMANDS_A_BLOCK
    assert ticks.is_sorted()
    assert json.loads((path / "meta.json").read_text())["loss"]["restarts"] == 1


def test_a_living_recorder_is_not_disturbed(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "c")
    writer.feed(STREAM[:5000])
    with pytest.raises(CaptureError, match="still being recorded"):
        open_capture(tmp_path / "c")
    writer.feed(STREAM[5000:])
    writer.close()
    assert open_capture(tmp_path / "c").meta["loss"]["lossless"] is True


def test_a_second_death_while_rebuilding_loses_nothing(tmp_path: Path) -> None:
    path = unfinished(tmp_path / "dead", STREAM)
    (path / ".rebuild").mkdir()
    (path / ".rebuild" / "rail.jls").write_bytes(b"half")
    assert open_capture(path).commands.select(pl.len()).collect().item() == 600
    assert not (path / ".rebuild").exists()


def read_all(path: Path) -> None:
    capture = open_capture(path)
    capture.commands.collect()
    assert capture.rail is not None


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: (path / "meta.json").unlink(), "not a capture"),
        (lambda path: (path / "meta.json").write_text("{"), "cannot be read"),
        (lambda path: (path / "meta.json").write_text("[]"), "not the meta.json"),
        (lambda path: (path / "meta.json").write_text('{"format": 99}'), "format 99"),
        (lambda path: (path / "commands.parquet").unlink(), "missing or damaged"),
        (lambda path: (path / "commands.parquet").write_bytes(b"PAR1"), "missing or damaged"),
        (lambda path: (path / "rail.jls").write_bytes(b"no"), "missing or damaged"),
    ],
)
def test_damage_is_named(tmp_path: Path, damage: Any, message: str) -> None:
    with CaptureWriter(tmp_path / "c") as writer:
        writer.feed(STREAM)
    damage(tmp_path / "c")
    with pytest.raises(CaptureError, match=message):
        read_all(tmp_path / "c")


def test_what_is_no_capture(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="not a directory"):
        open_capture(tmp_path / "nothing")
    with pytest.raises(CaptureError, match="not a capture"):
        open_capture(tmp_path)


def test_an_unfinished_capture_without_its_journal(tmp_path: Path) -> None:
    path = unfinished(tmp_path / "dead", STREAM)
    (path / "stream.wbs").unlink()
    with pytest.raises(CaptureError, match="journal"):
        open_capture(path)


def test_a_rebuild_writes_through_no_link_that_a_stranger_left(tmp_path: Path) -> None:
    folder, victim = unfinished(tmp_path / "dead", STREAM), tmp_path / "victim"
    victim.write_text("mine")
    made = ("meta.json.tmp", "rail.jls", "commands.parquet", "events.parquet", "gaps.parquet", "gaps.parquet.new", "tlps.parquet")
    for name in made:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(victim)
    assert open_capture(folder).state == "recovered"
    assert victim.read_text() == "mine"
    assert not [name for name in made if name != "gaps.parquet.new" and (folder / name).is_symlink()]
    (tmp_path / "other").mkdir()
    second = unfinished(tmp_path / "second", STREAM)
    (second / ".rebuild").symlink_to(tmp_path / "other")
    with pytest.raises(CaptureError, match="second cannot be written"):
        open_capture(second)
    assert not list((tmp_path / "other").iterdir())
