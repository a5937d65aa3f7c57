"""The row of transitions: each ordered pair of states against EXLAT and ENLAT; it names the worst."""

from __future__ import annotations

from typing import Any

import pytest
from wattbell.capture import open_capture
from wattbell.capture.meta import save
from wattbell.requirements.files import load
from wattbell.requirements.judging import JudgedRow, judge_all
from wattbell.requirements.of_capture import subject
from wattbell_spec.wire import EventType

US, MS = 1_000, 1_000_000


def state(number: int, entry_s: float, exit_s: float, asleep: bool = True) -> dict[str, Any]:
    return {"state": number, "max_power_w": 4.0, "non_operational": asleep, "entry_latency_s": entry_s, "exit_latency_s": exit_s}


def row(builder: Any, states: list[dict[str, Any]], steps: list[tuple[int, int, int, float, int]], clock: bool = True) -> JudgedRow:
    """Return the row of a capture that begins in PS0 at 1 W.

    steps : (tick of the request, state, its latency, power of the new state, tick of the arrival); the drive is awake at 1 W until then.
    """
    builder.power(0, 1.0)
    if clock:
        builder.events.append((0, EventType.CC_EN, 1, 0))
    builder.command(1 * MS, 10 * US)
    for tick, number, takes, watt, arrival in steps:
        builder.command(tick, takes, qid=0, opcode=9, slba=2, blocks=number)
        builder.events.append((tick + takes, EventType.POWER_STATE, number, 0))
        builder.power(tick, 1.0)
        builder.power(arrival, watt)
    capture = builder.write(end=1000 * MS)
    capture.meta["drive"]["power_states"] = states
    save(capture.path, capture.meta)
    (found,) = judge_all([subject(open_capture(capture.path))], [load("nvme")])
    (only,) = [one for one in found.rows if one.requirement.id == "TRANSITIONS"]
    return only


GOOD = [
    (100 * MS, 3, 10 * US, 0.030, 104 * MS),
    (300 * MS, 4, 5 * MS, 0.010, 312 * MS),
    (500 * MS, 3, 15 * MS, 0.030, 520 * MS),
    (700 * MS, 0, 4 * MS, 1.0, 704 * MS),
]
ALL_DECLARED = [state(0, 10e-6, 20e-6, asleep=False), state(3, 0.010, 0.005), state(4, 0.015, 0.020)]


def test_the_worst_pair_is_named_and_pairs_that_were_not_seen_leave_a_doubt(builder: Any) -> None:
    """PS3 to PS4: 12 ms of 5 ms + 15 ms. PS4 to PS3: 20 ms of 20 ms + 10 ms. PS0 to PS3: 4 ms of 10.02 ms. PS3 to PS0: 4 ms of 5.01 ms."""
    one = row(builder, ALL_DECLARED, GOOD)
    assert one.verdict == "conditional pass" and one.why == "2 of 6 pairs with a declared latency have no time, such as PS0 to PS4"
    assert one.scope == "PS3 to PS0", "it has the least room: 1.01 ms"
    assert one.measured.value == pytest.approx(4e-3, abs=30e-6) and one.limit.value == pytest.approx(5.01e-3)


def test_one_slow_pair_fails_the_row(builder: Any) -> None:
    slow = [*GOOD[:2], (500 * MS, 3, 15 * MS, 0.030, 535 * MS), GOOD[3]]
    one = row(builder, ALL_DECLARED, slow)
    assert (one.verdict, one.scope) == ("fail", "PS4 to PS3") and one.why == "1.17 times the limit"
    assert one.measured.value == pytest.approx(35e-3, abs=30e-6) and one.limit.value == pytest.approx(30e-3)
    assert "the worst of 6 pairs with a declared latency, of 6" in one.remark and "mean energy 35.0 mJ" in one.remark


def test_latencies_of_0_are_not_reported_and_give_no_limit(builder: Any) -> None:
    """PS0 declares 0, as on real drives. PS3 and PS4 alone have a limit: all of it was seen."""
    one = row(builder, [state(0, 0.0, 0.0, asleep=False), *ALL_DECLARED[1:]], GOOD)
    assert (one.verdict, one.scope) == ("pass", "PS3 to PS4") and one.limit.value == pytest.approx(20e-3)


def test_no_declared_latency_at_all_does_not_apply_and_names_the_fields(builder: Any) -> None:
    one = row(builder, [state(0, 0.0, 0.0, asleep=False), state(3, 0.0, 0.0), state(4, 0.0, 0.0)], GOOD)
    assert one.verdict == "not applicable"
    assert one.why.startswith("declared.transition_latency_s is not declared (EXLAT of PS") and "0, not reported" in one.why


def test_a_drive_of_one_state_has_no_transition(builder: Any) -> None:
    one = row(builder, ALL_DECLARED[:1], [])
    assert (one.verdict, one.why) == ("not applicable", "declared.power_states > 1 does not hold")


def test_without_identify_nothing_is_known(builder: Any) -> None:
    one = row(builder, [], GOOD)
    assert one.verdict == "not measured" and "nobody saw Identify" in one.why


def test_a_host_that_asks_for_no_state_shows_no_transition(builder: Any) -> None:
    one = row(builder, ALL_DECLARED, [])
    assert (one.verdict, one.why) == ("not measured", "the host never asked for it")


def test_a_pass_without_a_rail_that_tells_is_conditional(builder: Any) -> None:
    """PS1 draws what PS0 draws: the completion is no proof that the drive works as in PS1."""
    states = [state(0, 1e-3, 1e-3, asleep=False), state(1, 1e-3, 1e-3, asleep=False)]
    one = row(builder, states, [(100 * MS, 1, 50 * US, 1.0, 101 * MS), (300 * MS, 0, 50 * US, 1.0, 301 * MS)])
    assert one.verdict == "conditional pass" and "does not tell the two states apart" in one.why
    late = row(
        type(builder)(builder.path.parent / "late"), states, [(100 * MS, 1, 5 * MS, 1.0, 105 * MS), (300 * MS, 0, 50 * US, 1.0, 301 * MS)]
    )
    assert (late.verdict, late.scope) == ("fail", "PS0 to PS1"), "a late completion is no less late for that"


def test_apst_that_nobody_saw_off_is_a_doubt(builder: Any) -> None:
    builder.command(2 * MS, 10 * US, qid=0, opcode=9, slba=2, blocks=0)
    builder.events.append((2 * MS + 10 * US, EventType.POWER_STATE, 0, 0))
    one = row(builder, [state(0, 0.0, 0.0, asleep=False), *ALL_DECLARED[1:]], GOOD, clock=False)
    assert one.verdict == "conditional pass" and one.why == "nobody saw whether APST was off"
