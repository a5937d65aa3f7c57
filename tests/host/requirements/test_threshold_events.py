"""Events of the power threshold, in captures made by hand: when each is due is worked out on paper."""

from __future__ import annotations

from typing import Any

import pytest
from wattbell.capture import open_capture
from wattbell.capture.meta import save
from wattbell.requirements.files import load
from wattbell.requirements.judging import JudgedRow, judge_all
from wattbell.requirements.of_capture import subject
from wattbell_spec.wire import CommandFlag

US, MS, S = 1_000, 1_000_000, 1_000_000_000
ARMED = 500 * MS
STEP = 2 * S
"""The rail goes from 1 W to 3 W here. A second has 2 W if half of it lies behind: from 2.5 s on, and surely before 3.5 s."""
EIGHTHS = 1 << 31 | 2 << 16 | 200
"""CDW11: enabled, 0.01 W, 2 W."""


def rows(
    builder: Any, *events: int, word: int = EIGHTHS, waits: bool = True, drop: int | None = None, end: int = 8 * S
) -> dict[str, JudgedRow]:
    """The rows of a drive that reported events at these ticks, with a reset 200 ms before the end."""
    builder.interval = 1 * MS
    builder.levels += [(0, 1.0), (STEP, 3.0), *([(drop, 1.0)] if drop else [])]
    begin = ARMED - 100 * US
    for tick in events:
        builder.command(begin, tick - begin, qid=0, opcode=0x0C, blocks=0)
        begin = tick + 50 * US
    if waits:
        reset = end - 200 * MS
        builder.command(begin, reset - begin, qid=0, opcode=0x0C, blocks=0, flags=int(CommandFlag.ABORTED))
    if word:
        builder.command(ARMED - 20 * US, 20 * US, qid=0, opcode=9, slba=0x24, blocks=word)
    capture = builder.write(end=end)
    capture.meta["drive"] |= {"model": "TESTDRIVE", "serial": "T1", "firmware": "F1"}
    save(capture.path, capture.meta)
    (found,) = judge_all([subject(open_capture(capture.path))], [load("nvme")])
    prefix = "POWER-THRESHOLD"
    return {row.requirement.id.removeprefix(prefix): row for row in found.rows if row.requirement.id.startswith(prefix)}


@pytest.mark.parametrize("tick", [2550 * MS, 3000 * MS, 3450 * MS])
def test_an_event_in_time_passes(builder: Any, tick: int) -> None:
    """At the end of any second with 2 W."""
    found = rows(builder, tick)
    assert {name: row.verdict for name, row in found.items()} == {"": "pass", "-extra": "pass"}
    assert abs(found[""].measured.known) <= 0.5 and found[""].measured.u == pytest.approx(0.5, abs=0.03)
    assert "2 W, due 2.0" in found[""].remark


def test_a_late_event_fails(builder: Any) -> None:
    """2.6 s behind the latest second."""
    found = rows(builder, 6100 * MS)
    assert found[""].verdict == "fail" and found[""].measured.value == pytest.approx(3.1, abs=0.05)
    assert found["-extra"].verdict == "pass"


def test_an_event_that_may_be_late_is_undecided(builder: Any) -> None:
    """1.2 s behind the middle."""
    assert rows(builder, 4200 * MS)[""].verdict == "conditional fail"


def test_no_event_fails_while_a_request_waits(builder: Any) -> None:
    found = rows(builder)
    assert (found[""].verdict == "fail" and "no event came" in found[""].remark + found[""].why) or found[""].measured.known > 4
    assert found[""].measured.value == pytest.approx(7.8 - 3.0, abs=0.05), "until the reset"


def test_no_event_is_a_doubt_if_nobody_saw_a_request(builder: Any) -> None:
    found = rows(builder, waits=False)
    assert found[""].verdict == "conditional fail" and "waiting request" in found[""].why


@pytest.mark.parametrize("events", [(1500 * MS,), (3000 * MS, 5000 * MS)])
def test_an_event_too_many_is_suspect(builder: Any, events: tuple[int, ...]) -> None:
    """One before any second has 2 W; a second one without another request. A tap cannot read its content."""
    found = rows(builder, *events)
    assert found["-extra"].verdict == "conditional fail" and found["-extra"].measured.value == 1.0
    assert "no content of events" in found["-extra"].why


def test_a_power_below_the_threshold_gives_no_event(builder: Any) -> None:
    found = rows(builder, word=1 << 31 | 2 << 16 | 350)
    assert found[""].verdict == "not measured" and "surely above" in found[""].why
    assert found["-extra"].verdict == "pass"


def test_a_short_peak_may_be_missed(builder: Any) -> None:
    """0.6 s at 3 W: a second that has it all has 2.2 W, and others have less than 2 W."""
    found = rows(builder, drop=STEP + 600 * MS)
    assert found[""].verdict == "not measured" and found["-extra"].verdict == "pass"


def test_without_a_threshold_nothing_is_measured(builder: Any) -> None:
    found = rows(builder, word=0)
    assert {row.verdict for row in found.values()} == {"not measured"} and "Set Features 24h" in found[""].why


def test_power_of_a_part_is_not_compared(builder: Any) -> None:
    found = rows(builder, 3000 * MS, word=EIGHTHS | 1 << 20)
    assert found[""].verdict == "not measured" and "whole drive" in found[""].why
