"""Transitions between power states in captures made by hand: times and energies worked out on paper."""

from __future__ import annotations

from typing import Any

import pytest
from wattbell.analysis.context import load
from wattbell.analysis.statepairs import RequestedTransition, by_pair, declared_latency, transitions_asked
from wattbell.capture import open_capture
from wattbell.capture.meta import save
from wattbell.measure.figure import Figure
from wattbell_spec.wire import EventType

US, MS = 1_000, 1_000_000
STATES = [
    {"state": 0, "max_power_w": 4.0, "non_operational": False},
    {"state": 1, "max_power_w": 2.0, "non_operational": False},
    {"state": 3, "max_power_w": 0.030, "non_operational": True, "entry_latency_s": 0.005, "exit_latency_s": 0.006},
    {"state": 4, "max_power_w": 0.010, "non_operational": True, "entry_latency_s": 0.010, "exit_latency_s": 0.020},
]


def ask(builder: Any, tick: int, state: int, takes: int = 10 * US, **more: Any) -> None:
    """Set Features 02h at ``tick``."""
    builder.command(tick, takes, qid=0, opcode=9, slba=2, blocks=state, **more)
    if not more:
        builder.events.append((tick + takes, EventType.POWER_STATE, state, 0))


def context(builder: Any, end: int) -> Any:
    capture = builder.write(end=end)
    capture.meta["drive"]["power_states"] = STATES
    save(capture.path, capture.meta)
    return load(open_capture(capture.path))


def found(builder: Any, end: int) -> dict[tuple[int, int], RequestedTransition]:
    return {one.pair: one for one in transitions_asked(context(builder, end))}


def start(builder: Any) -> None:
    """In PS0 by the host's request, at 1 W, from 1 ms on."""
    builder.power(0, 1.0)
    builder.events.append((0, EventType.CC_EN, 1, 0))
    ask(builder, 1 * MS, 0)


def test_into_a_sleeping_state_and_into_another_one(builder: Any) -> None:
    """PS0 to PS3: completed after 10 us, at the level 4 ms after it: 4.01 ms. PS3 to PS4: awake at 1 W for the 6 ms until the completion,
    and for 9 ms more until PS4: 15 ms and 15 mJ. PS4 to PS1: 22 ms to the completion, at 0.9 W from there on."""
    start(builder)
    ask(builder, 100 * MS, 3)
    builder.power(104 * MS + 10 * US, 0.025)
    ask(builder, 200 * MS, 4, takes=6 * MS)
    builder.levels += [(200 * MS, 1.0), (215 * MS, 0.008)]
    ask(builder, 400 * MS, 1, takes=22 * MS)
    builder.levels += [(400 * MS, 1.5), (422 * MS, 0.9)]
    seen = found(builder, 600 * MS)
    assert set(seen) == {(0, 3), (3, 4), (4, 1)} and all(one.by_rail and one.apst_known for one in seen.values())
    for pair, seconds, joules in (((0, 3), 4.01e-3, 4.01e-3), ((3, 4), 15e-3, 15e-3), ((4, 1), 22e-3, 33e-3)):
        time, energy = seen[pair].time, seen[pair].energy
        assert time.value == pytest.approx(seconds, abs=30e-6) and 0 < time.u < 50e-6
        assert energy.value == pytest.approx(joules, abs=60e-6) and energy.u > 0


def test_commands_of_the_host_in_between_do_not_count(builder: Any) -> None:
    """Two admin commands follow the request, 1 ms and 2 ms later. The drive sets out behind the second: 10 us and 4 ms."""
    start(builder)
    ask(builder, 100 * MS, 3)
    builder.command(101 * MS, 10 * US, qid=0, opcode=0x0A, slba=0xD0)
    builder.command(102 * MS, 10 * US, qid=0, opcode=0x0A, slba=0xD0)
    builder.power(106 * MS + 10 * US, 0.025)
    one = found(builder, 300 * MS)[0, 3]
    assert one.time.value == pytest.approx(4.01e-3, abs=30e-6) and one.energy.value == pytest.approx(4.01e-3, abs=60e-6)


def test_a_pulse_long_after_the_arrival_does_not_count(builder: Any) -> None:
    start(builder)
    ask(builder, 100 * MS, 3)
    builder.levels += [(104 * MS, 0.025), (130 * MS, 0.8), (131 * MS, 0.025)]
    assert found(builder, 300 * MS)[0, 3].time.value == pytest.approx(4e-3, abs=30e-6)


def test_a_level_that_is_left_again_is_no_arrival(builder: Any) -> None:
    """The rail touches the level for 1 ms, leaves it for 20 ms, and stays then."""
    start(builder)
    ask(builder, 100 * MS, 3)
    builder.levels += [(104 * MS, 0.025), (105 * MS, 0.8), (125 * MS, 0.025)]
    assert found(builder, 300 * MS)[0, 3].time.value == pytest.approx(25e-3, abs=30e-6)


def test_states_of_one_power_end_at_the_completion_if_awake_and_nowhere_if_asleep(builder: Any) -> None:
    """PS1 draws what PS0 draws. The drive never enters PS3: that is no transition of 10 us."""
    start(builder)
    ask(builder, 100 * MS, 1, takes=40 * US)
    ask(builder, 200 * MS, 3)
    seen = found(builder, 400 * MS)
    assert seen[0, 1].time.value == pytest.approx(40e-6) and not seen[0, 1].by_rail and seen[0, 1].time.u < 1e-6
    assert seen[1, 3].time.value is None and "or the drive never went" in seen[1, 3].time.conditions["absent"]


@pytest.mark.parametrize("event", [True, False])
def test_the_state_before_the_first_request_is_known_after_a_reset_alone(builder: Any, event: bool) -> None:
    builder.power(0, 1.0)
    builder.command(1 * MS, 10 * US)
    if event:
        builder.events.append((0, EventType.CC_EN, 1, 0))
    ask(builder, 100 * MS, 3)
    builder.power(104 * MS, 0.025)
    assert set(found(builder, 300 * MS)) == ({(0, 3)} if event else set())


def test_with_apst_on_nobody_knows_the_old_state(builder: Any) -> None:
    start(builder)
    builder.command(2 * MS, 10 * US, qid=0, opcode=9, slba=0x0C, blocks=1)
    ask(builder, 100 * MS, 3)
    builder.power(104 * MS, 0.025)
    one = found(builder, 300 * MS)[0, 3]
    assert one.time.value is None and one.time.conditions["absent"].startswith("APST was on")


def test_without_a_reset_or_a_setting_apst_is_not_known(builder: Any) -> None:
    builder.power(0, 1.0)
    ask(builder, 1 * MS, 0)
    ask(builder, 100 * MS, 3)
    builder.power(104 * MS, 0.025)
    one = found(builder, 300 * MS)[0, 3]
    assert one.time.value == pytest.approx(4e-3, abs=30e-6) and not one.apst_known


def test_a_drive_that_had_not_rested_in_the_old_state_is_in_none(builder: Any) -> None:
    """PS3 declares 5 ms to enter, and the host asks for PS4 8 ms behind its request for PS3."""
    start(builder)
    ask(builder, 100 * MS, 3)
    builder.power(104 * MS, 0.025)
    ask(builder, 108 * MS, 4)
    builder.power(120 * MS, 0.008)
    one = found(builder, 300 * MS)[3, 4]
    assert one.time.value is None and "before the drive had rested" in one.time.conditions["absent"]


def test_a_command_in_flight_and_a_refused_request(builder: Any) -> None:
    start(builder)
    builder.command(99 * MS, 5 * MS)
    ask(builder, 100 * MS, 3)
    ask(builder, 200 * MS, 4, status=2)
    builder.power(110 * MS, 0.025)
    seen = found(builder, 300 * MS)
    assert set(seen) == {(0, 3)} and "in flight" in seen[0, 3].time.conditions["absent"]


def test_an_io_command_ends_the_rest_and_the_sleeping_state(builder: Any) -> None:
    """The read 50 ms later wakes the drive into PS0: the next request for PS1 is a transition from PS0."""
    start(builder)
    ask(builder, 100 * MS, 3)
    builder.power(104 * MS, 0.025)
    builder.command(150 * MS, 6 * MS)
    builder.power(150 * MS, 1.0)
    ask(builder, 300 * MS, 1)
    builder.power(300 * MS, 0.7)
    seen = found(builder, 500 * MS)
    assert set(seen) == {(0, 3), (0, 1)} and seen[0, 3].time.value == pytest.approx(4e-3, abs=30e-6)


def test_a_visit_that_ends_at_another_level_has_no_time(builder: Any) -> None:
    """PS3 is visited three times, and rests at 0.2 W once."""
    start(builder)
    for k, watt in enumerate((0.025, 0.2, 0.026)):
        ask(builder, (100 + 200 * k) * MS, 3)
        builder.power((104 + 200 * k) * MS, watt)
        ask(builder, (200 + 200 * k) * MS, 0, takes=6 * MS)
        builder.power((200 + 200 * k) * MS, 1.0)
    pair = by_pair(transitions_asked(context(builder, 800 * MS)))[0, 3]
    assert (pair.seen, pair.measured) == (3, 2)


def test_missing_samples_are_no_transition(builder: Any) -> None:
    start(builder)
    ask(builder, 100 * MS, 3)
    builder.power(104 * MS, 0.025)
    builder.hole = (102 * MS, 106 * MS)
    one = found(builder, 300 * MS)[0, 3]
    assert one.time.value is None and "samples are missing" in one.time.conditions["absent"]


def made(times: list[float]) -> Any:
    ones = [RequestedTransition(3, 4, Figure(t, 1e-5, "s"), Figure(2 * t, 1e-6, "J"), True, 0.008) for t in times]
    return by_pair(ones)[3, 4]


def test_percentiles_by_nearest_rank() -> None:
    """1 ms to 11 ms: the median is 6 ms. Its interval of 95 % goes from the 2nd to the 10th of 11 (tables of the sign test)."""
    pair = made([k * 1e-3 for k in (4, 1, 9, 2, 11, 3, 8, 5, 10, 6, 7)])
    assert pair.longest.value == 11e-3 and pair.median.value == pytest.approx(6e-3)
    assert pair.median.u == pytest.approx(4e-3, rel=1e-3) and pair.energy.value == pytest.approx(12e-3)
    assert pair.p999.value is None and pair.p999.conditions["absent"] == "needs 1000 transitions; 11 were measured"


def test_few_times_have_a_median_without_an_uncertainty() -> None:
    pair = made([1e-3, 2e-3, 3e-3, 4e-3])
    assert pair.median.value == pytest.approx(2.5e-3) and pair.median.u is None


def test_a_thousand_times_have_a_p999() -> None:
    """The 999th of 1000 times is the p99.9. Its interval has no upper end below 3700 times."""
    assert made([k * 1e-6 for k in range(1, 1001)]).p999.value == pytest.approx(999e-6)
    assert made([k * 1e-6 for k in range(1, 1001)]).p999.u is None
    large = made([k * 1e-6 for k in range(1, 5001)]).p999
    assert large.value == pytest.approx(4995e-6) and large.u is not None


def test_the_declared_latency_needs_both_fields() -> None:
    states = {0: (0.0, 0.0), 3: (5e-3, 6e-3), 4: (10e-3, None)}
    assert declared_latency(states, 3, 4).value == pytest.approx(16e-3)
    assert declared_latency(states, 0, 3).conditions["absent"] == "is not declared (EXLAT of PS0: 0, not reported)"
    assert declared_latency(states, 4, 0).conditions["absent"] == "is not declared (EXLAT of PS4 and ENLAT of PS0: 0, not reported)"
