"""The maximum power of an operational state is judged by work in it, and never by rest: captures with levels written by hand."""

from __future__ import annotations

from typing import Any

import pytest
from wattbell.analysis import analyze
from wattbell_spec.wire import EventType

MS, S = 1_000_000, 1_000_000_000
STATES = [
    {"state": 0, "max_power_w": 5.0, "non_operational": False},
    {"state": 1, "max_power_w": 3.0, "non_operational": False},
    {"state": 3, "max_power_w": 0.1, "non_operational": True},
]


def judged(builder: Any, end: int) -> list[dict[str, Any]]:
    capture = builder.write(end=end)
    capture.meta["drive"] = {"power_states": STATES}
    return [row["judged"]["max_power_w"] for row in analyze(capture)["power_states"]["states"]]


def load(builder: Any, first: int, length: int, watt: float) -> None:
    builder.levels += [(first, watt), (first + length, 0.1)]
    for k in range(length // MS):
        builder.command(first + k * MS, MS, opcode=1, blocks=8)


def test_rest_shows_no_maximum(builder: Any) -> None:
    """Two seconds of rest with a command at either end: 0.1 W is below 5 W, and shows nothing."""
    builder.levels.append((0, 0.1))
    builder.command(100 * MS, MS // 2)
    builder.command(2100 * MS, MS // 2)
    ps0, ps1, _ = judged(builder, 2200 * MS)
    assert (ps0["verdict"], ps1["verdict"]) == ("not measured", "not measured") and ps0["measured"]["value"] is None


@pytest.mark.parametrize("phases", [False, True])
def test_the_highest_load_is_judged_however_long_the_drive_rests(builder: Any, phases: bool) -> None:
    """20 ms of 5.5 W in 2 s of rest, beside 50 ms of 2 W: 1.1 times the declared 5 W."""
    builder.levels.append((0, 0.1))
    if phases:
        builder.phase(1, 400 * MS, 600 * MS, "a")
        builder.phase(2, 1400 * MS, 1600 * MS, "b")
    load(builder, 500 * MS, 50 * MS, 2.0)
    load(builder, 1500 * MS, 20 * MS, 5.5)
    (ps0, *_) = judged(builder, 2 * S)
    assert ps0["measured"]["value"] == pytest.approx(5.5, rel=0.01) and (ps0["verdict"], ps0["why"][:4]) == ("fail", "1.1 ")


def test_a_load_is_of_the_state_that_was_asked_for(builder: Any) -> None:
    """PS1 is asked for between two loads: 4 W passes in PS0, and 4.5 W fails in PS1."""
    builder.levels.append((0, 0.1))
    load(builder, 500 * MS, 50 * MS, 4.0)
    builder.command(800 * MS, MS // 50, qid=0, opcode=9, slba=2, blocks=1)
    builder.events.append((800 * MS + MS // 50, EventType.POWER_STATE, 1, 0))
    load(builder, 1500 * MS, 50 * MS, 4.5)
    ps0, ps1, _ = judged(builder, 2 * S)
    assert [(one["verdict"], round(one["measured"]["value"], 1)) for one in (ps0, ps1)] == [("pass", 4.0), ("fail", 4.5)]
    assert "another may draw more" in ps0["why"]
