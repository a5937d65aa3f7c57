"""The account of loss: whatever is known to be missing is reported with every figure that covers its time, and never defaults to 0."""

from __future__ import annotations

import io

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from wattbell.analysis import analyze, figures_of
from wattbell.analysis.loss import lost_counts, lost_parts
from wattbell.capture import CaptureWriter, open_capture, schema
from wattbell.measure.encode import tree_json
from wattbell.measure.loss import LossBook
from wattbell.present.capture.terminal import render
from wattbell.wire.decode import Gap
from wattbell_spec.wire import BlockContent, EventType, LossSource

MS = 1_000_000


def book(gaps=(), losses=(), reach=0):
    rows = {name: [gap[k] for gap in gaps] for k, name in enumerate(("kind", "first_tick", "last_tick", "count"))}
    frame = pl.DataFrame(rows, schema={"kind": pl.String, "first_tick": pl.Int64, "last_tick": pl.Int64, "count": pl.Int64})
    events = {
        "tick": [tick for tick, _, _ in losses],
        "type": [int(EventType.LOSS)] * len(losses),
        "arg8": [int(source) for _, source, _ in losses],
        "arg32": [n for _, _, n in losses],
    }
    types = {"tick": pl.Int64, "type": pl.UInt8, "arg8": pl.UInt8, "arg32": pl.UInt32}
    return LossBook(frame, pl.DataFrame(events, schema=types), 100, 1000, lambda: reach)


@pytest.mark.parametrize(
    ("kind", "count", "commands", "rail"),
    [
        ("ANY", 1, 1, 1),
        ("ANY", 7, 7, 7),
        ("ANY", -1, 1, 1),
        ("COMMANDS", 20, 20, 0),
        ("COMMANDS", -1, 1, 0),
        ("RAIL", 9, 0, 9),
        ("RAIL", -1, 0, 1),
        ("EVENTS", 3, 3, 0),
        ("EVENTS", -1, 1, 0),
        ("TLP", 5, 0, 0),
        ("STATUS", 1, 0, 0),
    ],
)
def test_a_gap_counts_under_what_it_may_hide(kind, count, commands, rail):
    found = book([(kind, 300, 400, count)])
    for window in ((100, 1000), (350, 360), (400, 500), (200, 301)):
        loss = found.between(*window)
        assert (loss.under_commands, loss.under_rail) == (commands, rail), window
    for window in ((401, 500), (200, 300)):
        loss = found.between(*window)
        assert (loss.under_commands, loss.under_rail) == (0, 0), window


def test_a_command_that_began_in_a_window_may_be_in_a_gap_behind_it():
    found = book([("ANY", 500, 600, 3), ("COMMANDS", 500, 600, 4), ("RAIL", 500, 600, 5)], reach=100)
    loss = found.between(300, 401)
    assert (loss.under_commands, loss.under_rail, loss.any) == (7, 0, False)
    assert found.between(300, 400).under_commands == 0


@pytest.mark.parametrize("source", LossSource)
def test_what_the_rig_lost_counts_under_what_it_may_change(source):
    loss = book(losses=[(500, source, 4)]).between(400, 600)
    assert loss.by_source == {source.name.lower(): 4} and loss.any
    assert loss.under_commands == (0 if source in (LossSource.RAIL, LossSource.RAW) else 4)
    assert loss.under_rail == (4 if source in (LossSource.RAIL, LossSource.EVENTS) else 0)


def test_what_is_missing_beyond_the_ends_counts_in_the_windows_that_reach_them():
    found = book([("ANY", 10, 20, -1), ("ANY", 5000, 6000, -1)])
    assert found.between(100, 1000).unknown_gaps == 2
    assert found.between(100, 500).unknown_gaps == 1
    assert found.between(500, 1000).unknown_gaps == 1
    assert not found.between(101, 999).any


def test_what_is_lost_is_said_in_words_and_a_doubt_without_a_number_too():
    nothing = {"commands": 0, "rail_samples": 0, "missing_blocks": 0, "gaps_of_unknown_size": 0, "rig": {}}
    assert lost_parts({**nothing, "lossless": True}) == []
    for doubt in (False, None):
        assert lost_parts({**nothing, "lossless": doubt}) == ["the recorder does not say that nothing was, see `wattbell info`"]
    some = {**nothing, "commands": 17, "rig": {"slots": 2, "tlp_up": 3, "source_99": 1}, "lossless": False}
    assert lost_counts(some) == {"commands": 17, "TLPs from drive to host": 3, "source_99": 1}, "slots are among the commands"
    assert lost_parts(some) == ["17 commands", "3 TLPs from drive to host", "1 source_99"]


def test_a_loss_that_the_rig_tells_in_the_tick_of_an_edge_is_of_the_window_that_begins_there():
    found = book(losses=[(500, LossSource.TLP_UP, 4)])
    assert not found.between(400, 500).any
    assert found.between(500, 600).under_commands == 4


def test_commands_without_a_slot_are_commands():
    loss = book(losses=[(500, LossSource.SLOTS, 2), (510, LossSource.SLOTS, 3)]).between(400, 600)
    assert (loss.commands, loss.under_commands, loss.hidden_commands, loss.under_rail) == (5, 5, 0, 0)


def figures(node, path=""):
    """Every figure of a result with its path."""
    if isinstance(node, dict):
        if {"value", "unit", "lost"} <= set(node):
            yield path, node
        for name, item in node.items():
            yield from figures(item, f"{path}.{name}")
    elif isinstance(node, list):
        for k, item in enumerate(node):
            yield from figures(item, f"{path}[{k}]")


def two_phases(builder):
    builder.power(0, 0.66)
    for number, first in ((1, 10 * MS), (2, 110 * MS)):
        builder.phase(number, first, first + 80 * MS, f"phase{number}")
        for k in range(100):
            builder.command(first + 2 * MS + k * MS // 2, 80_000)


@pytest.mark.parametrize("count", [1, 4, -1])
def test_missing_blocks_stand_under_every_figure_of_their_phase_and_no_other(builder, count):
    two_phases(builder)
    builder.gaps.append(Gap(None, 130 * MS, 150 * MS, count, "blocks lost on the way to the host"))
    analysis = figures_of(builder.write(200 * MS))
    result = tree_json(analysis)
    for section, marked in ((result, True), (result["phases"][0], False), (result["phases"][1], True)):
        found = [(path, f) for path, f in figures({k: section[k] for k in ("rates", "power", "efficiency")}) if f["value"] is not None]
        assert len(found) > 10
        assert {path for path, f in found if bool(f["lost"]) != marked} == set()
        assert bool(section["commands"]["lost"]) == marked
    assert result["loss"]["missing_blocks"] == max(count, 0)
    assert any("missing" in text or "unknown size" in text for text in result["warnings"])
    out = io.StringIO()
    render(analysis, Console(file=out, width=160))
    assert "LOST: " in out.getvalue() and "nothing lost" not in out.getvalue()


def test_every_kind_of_gap_has_a_name_the_account_knows():
    assert {kind.name for kind in BlockContent} | {schema.ANY_KIND} == {"ANY", "COMMANDS", "RAIL", "EVENTS", "TLP", "STATUS", "LINK"}


def test_a_day_without_the_rig_is_a_gap_and_its_energy_the_accumulators(tmp_path):
    """86 400 000 000 samples at 1 us: nothing may look at them one by one. 300 W h in no sample, which do not fit 64 bits."""
    second, day = 10**9, 86_400 * 10**9
    unit_j = 1e-11 * 1e-6
    with CaptureWriter(tmp_path / "c", journal=False, conditions={"virtual": True}) as writer:
        index = energy = 0
        for first, watt in ((0, 0.5), (day, 0.05)):
            if first:
                index, energy = index + 86_400 * 10**6 - 2_000, energy + round(12.5 * 86_400 / unit_j)
            for block in range(200):
                index, energy = index + 300, energy + round(watt * 300e-6 / unit_j)
                amps = np.full(300, watt / 3.3, np.float32)
                writer.add_rail(first + block * 300_000, 1000, np.full(300, 3.3, np.float32), amps, energy_raw=energy, adc_index=index)
        writer.add_rows("events", {"tick": [0, day + second // 20], "type": [3, 3], "name": ["perst"] * 2, "arg8": [1, 1]})
    capture = open_capture(tmp_path / "c")
    result = analyze(capture)
    power = result["power"]
    assert power["energy_j"]["value"] == pytest.approx(12.5 * 86_400, rel=1e-4) and power["energy_j"]["lost"] > 86e9
    assert power["max_sample_w"]["value"] == pytest.approx(0.5, rel=1e-3)
    assert sum(path.stat().st_size for path in capture.path.iterdir()) < 10e6
