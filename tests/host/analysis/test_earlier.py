"""Work that earlier commands left, in the energy of a phase that did not order it: rails written by hand, with known joules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from wattbell.analysis import analyze
from wattbell.analysis.earlier import NOT_TOLD, STANDS_OUT, STILL_AT_WORK

MS, US = 1_000_000, 1_000
IDLE_W, READING_W = 0.5, 2.0
FIRST, LENGTH = 200 * MS, 96 * MS
WRITES = 100
LATENCY = 60 * US
EACH = 240 * US


def reads(
    builder: Any,
    owed: list[tuple[int, int, float]],
    *,
    writes: bool = True,
    count: int = LENGTH // EACH,
    first: int = FIRST,
    stream: bool = False,
) -> Any:
    """Reads that each draw 1.5 W above idle for 60 us, 90 uJ; ``owed``: (from, until, W on top), in ticks from the phase's first read."""
    builder.interval = 2_000
    levels: list[tuple[int, float]] = []
    if writes:
        builder.phase(1, 20 * MS, 40 * MS, "writes")
        for k in range(WRITES):
            builder.command(21 * MS + 100 * US * k, 50 * US, opcode=1, slba=1000 * k, blocks=8)
        levels += [(21 * MS, 3.0), (31 * MS, IDLE_W)]
    builder.phase(2, first - MS, first + count * EACH + 5 * MS, "reads")
    starts = first + EACH * np.arange(count)
    for k, start in enumerate(starts.tolist()):
        builder.command(start, LATENCY, slba=8 * k if stream else (7919 * k) % 100_000, blocks=8)
        levels += [(start, READING_W), (start + LATENCY, IDLE_W)]
    steps = sorted([(0, IDLE_W), *levels])
    extra = sorted({tick for a, b, _ in owed for tick in (first + a, first + b)} | {tick for tick, _ in steps})
    ticks, watts = np.array([tick for tick, _ in steps]), [watt for _, watt in steps]
    for tick in extra:
        base = watts[int(np.searchsorted(ticks, tick, side="right")) - 1]
        builder.power(tick, base + sum(w for a, b, w in owed if first + a <= tick < first + b))
    return builder.write(first + count * EACH + 100 * MS)


def figure(capture: Any) -> tuple[dict[str, Any], list[str]]:
    """Energy of a read, and the warnings."""
    capture.meta["rig"]["error_model"] = {"gain": 1e-5, "offset_a": 0.0}
    found = analyze(capture)
    phase = next(one for one in found["phases"] if one["name"] == "reads")
    return phase["energy_per_command"]["classes"]["read 4 KiB"], found["warnings"]


def test_without_work_of_others_the_interval_stays_narrow_and_nothing_is_said(builder: Any) -> None:
    one, warnings = figure(reads(builder, []))
    assert one["value"] == pytest.approx(90e-6, abs=one["u"]) and one["u"] < 0.003 * 90e-6
    assert "note" not in one["conditions"] and not any("earlier" in text for text in warnings)


@pytest.mark.parametrize("joules", [0.3e-3, 2.7e-3, 6e-3])
def test_what_writes_left_to_the_first_reads_is_within_the_interval_and_said(builder: Any, joules: float) -> None:
    """Drawn in the first sixth, less and less: 400 reads are 36 mJ."""
    parts = np.array([4, 2, 1, 1]) / 8
    owed = [(4 * MS * k, 4 * MS * (k + 1), float(joules * part / 4e-3)) for k, part in enumerate(parts)]
    one, warnings = figure(reads(builder, owed))
    assert one["value"] == pytest.approx(90e-6 + joules / 400, rel=1e-3), "the figure is that of the phase"
    assert joules / 400 <= one["u"] < 2.5 * joules / 400
    assert STANDS_OUT in one["conditions"]["note"]
    assert [text for text in warnings if STANDS_OUT in text] == [f"energy of a command in phase 2 (reads): {STANDS_OUT}"]


def test_work_that_lasts_as_long_as_the_phase_shows_where_nothing_is_in_flight(builder: Any) -> None:
    """20 mW all the time: no part stands out from another. Before the first read the drive is at rest."""
    one, _ = figure(reads(builder, [(0, LENGTH + 20 * MS, 0.020)]))
    assert one["value"] > 90e-6 * 1.04
    assert one["value"] - one["u"] <= 90e-6


def test_a_drive_at_work_when_the_phase_begins_is_not_taken_for_one_at_rest(builder: Any) -> None:
    """0.1 W from long before the first read until long after it."""
    one, warnings = figure(reads(builder, [(-30 * MS, LENGTH, 0.1)]))
    assert one["value"] - one["u"] <= 90e-6 < 110e-6 < one["value"]
    assert STILL_AT_WORK in one["conditions"]["note"] and one["conditions"]["before_w"] == pytest.approx(0.6, rel=1e-3)
    assert any(STILL_AT_WORK in text for text in warnings)


def test_too_few_reads_behind_writes_have_no_interval_and_the_reason(builder: Any) -> None:
    one, warnings = figure(reads(builder, [], count=30))
    assert one["value"] == pytest.approx(90e-6, rel=1e-2) and one["u"] is None
    assert one["conditions"]["note"] == NOT_TOLD and not any("earlier commands" in text for text in warnings)


def test_too_few_reads_that_no_write_preceded_keep_theirs(builder: Any) -> None:
    one, _ = figure(reads(builder, [], writes=False, count=30))
    assert one["u"] is not None and one["u"] < 0.02 * 90e-6


@pytest.mark.parametrize("kept", [0.99, 0.97, 0.95, 0.9, 0.8, 0.5])
def test_work_that_falls_off_slowly_is_within_the_interval_or_there_is_none(builder: Any, kept: float) -> None:
    """0.4 W at first; of each 4 ms the next have ``kept``, so that some is left when the phase ends."""
    one, _ = figure(reads(builder, [(4 * MS * k, 4 * MS * (k + 1), 0.4 * kept**k) for k in range(24)]))
    assert one["u"] is None or one["value"] - one["u"] <= 90e-6 * 1.001, "what the gaps show is brought to the whole, to a thousandth"


@pytest.mark.parametrize("writes", [True, False])
def test_a_stream_behind_writes_may_draw_a_thousandth_and_more_for_the_map(builder: Any, writes: bool) -> None:
    """All the way, and between commands that leave no gap nothing would show it."""
    one, _ = figure(reads(builder, [], writes=writes, stream=True))
    assert (one["u"] > 0.002 * 90e-6) == writes
