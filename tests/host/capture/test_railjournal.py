"""A meter's recorder that is killed: all that it received is on disk."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wattbell.capture import CaptureWriter, blocks, open_capture
from wattbell.capture.railjournal import NAME, journalled
from wattbell.errors import CaptureError
from wattbell.wire.decode import Gap
from wattbell_spec.wire import BlockContent

INTERVAL, BLOCK = 50_000, 200


def killed(folder: Path, count: int, rig: dict[str, object] | None = None) -> tuple[np.ndarray, np.ndarray]:
    """A capture as a killed recorder leaves it, of `count` blocks with a hole behind the third; voltage and current."""
    writer = CaptureWriter(folder, rig=rig or {"model": "M"}, conditions={"virtual": False}, journal=False, tick_ps=1000)
    writer.keep_rail()
    random = np.random.default_rng(1)
    volts, amperes = (random.random(count * BLOCK).astype(np.float32) for _ in range(2))
    for k in range(count):
        part = slice(k * BLOCK, (k + 1) * BLOCK)
        hole = 40 if k >= 3 else 0
        writer.add_rail_source(blocks((k * BLOCK + hole) * INTERVAL, INTERVAL, volts[part], amperes[part], flags=k % 2))
    writer.save_meta()
    assert writer.rail_journal is not None
    writer.rail_journal.close(remove=False)  # as the kernel does at its death
    return volts, amperes


def test_all_of_it_is_rebuilt_with_its_gaps_and_who_measured(tmp_path: Path) -> None:
    volts, amperes = killed(tmp_path / "c", 7, {"model": "Other 1", "error_model": {"gain": 0.02}})
    capture = open_capture(tmp_path / "c")
    assert capture.meta["state"] == "recovered" and capture.meta["rig"]["model"] == "Other 1"
    assert capture.meta["clock"]["tick_ps"] == 1000 and capture.meta["rail"]["interval_ticks"] == INTERVAL
    power = capture.rail.power()
    assert len(power) == 7 * BLOCK + 40 and np.isnan(power).sum() == 40
    assert power[~np.isnan(power)] == pytest.approx(volts * amperes, rel=1e-6)
    assert capture.gaps.collect()["reason"].to_list()[-1] == "the recorder ended without completing the capture"
    assert not capture.meta["loss"]["lossless"]
    assert any("rebuilt from its journal" in note for note in capture.meta["conditions"]["notes"])
    assert capture.rail_blocks.collect()["flags"].to_list() == [k % 2 for k in range(7)]
    open_capture(tmp_path / "c")  # once is enough


@settings(max_examples=40, deadline=None)
@given(cut=st.integers(0, 12_000), flipped=st.booleans())
def test_wherever_it_is_cut_or_damaged_what_stands_before_is_kept(
    tmp_path_factory: pytest.TempPathFactory, cut: int, flipped: bool
) -> None:
    folder = tmp_path_factory.mktemp("cut") / "c"
    volts, _ = killed(folder, 5)
    data = bytearray((folder / NAME).read_bytes())
    cut %= len(data)
    if flipped:
        data[cut] ^= 0xFF
    else:
        del data[cut:]
    (folder / NAME).write_bytes(data)
    try:
        found = list(journalled(folder))
    except CaptureError as error:
        assert flipped and "another version" in str(error)
        found = []
    if not flipped:
        whole = [source.voltage_v for source in found]
        assert np.array_equal(np.concatenate([np.empty(0, np.float32), *whole]), volts[: BLOCK * len(whole)])
        assert len(whole) >= (cut - 1000) // (8 * BLOCK + 600)
    shutil.rmtree(folder.parent)


def test_it_goes_with_a_clean_end_and_a_live_one_is_let_be(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path / "c", conditions={"virtual": False}, journal=False, tick_ps=1000) as writer:
        writer.keep_rail()
        writer.keep_rail()
        writer.add_rail_source(blocks(0, INTERVAL, np.ones(10, np.float32), np.ones(10, np.float32)))
        with pytest.raises(CaptureError, match="still being recorded"):
            open_capture(tmp_path / "c")
    assert not (tmp_path / "c" / NAME).exists() and NAME not in open_capture(tmp_path / "c").meta["files"]


def test_one_without_a_sample_is_an_empty_capture(tmp_path: Path) -> None:
    killed(tmp_path / "c", 0)
    capture = open_capture(tmp_path / "c")
    assert capture.meta["state"] == "recovered" and capture.meta["rail"]["samples"] == 0
    assert [Gap(BlockContent.RAIL, 0, 0, -1, "").count] == capture.gaps.collect()["count"].to_list()
