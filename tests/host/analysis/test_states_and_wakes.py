"""A drive's sleep and wake-ups where the signals mislead: resets, old edges, wake-ups that are the majority of commands."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from wattbell.analysis import analyze
from wattbell.analysis.idle import operational_idle
from wattbell.analysis.signals import requested_state
from wattbell.measure.figure import Figure
from wattbell_spec.wire import CommandFlag, EventType, LinkState

MS = 1_000_000
US = 1_000


def events(*made: tuple[int, EventType, int]) -> pl.DataFrame:
    return pl.DataFrame([(tick, int(kind), value) for tick, kind, value in made], schema=["tick", "type", "arg8"], orient="row")


@pytest.mark.parametrize("enable", [0, 1])
def test_a_reset_of_the_controller_ends_the_state_that_the_host_asked_for(enable: int) -> None:
    """After a controller reset the feature has its default, power state 0, whatever Set Features had set."""
    track = requested_state(events((100, EventType.POWER_STATE, 4), (200, EventType.CC_EN, enable), (300, EventType.POWER_STATE, 3)))
    assert track is not None
    assert [track.at(tick) for tick in (100, 101, 200, 201, 300, 301)] == [0, 4, 4, 0, 0, 3]
    assert requested_state(events((200, EventType.CC_EN, 1))) is None, "nobody ever asked"


def test_the_workload_hint_is_no_part_of_the_state() -> None:
    """CDW11 of Set Features 02h: power state in bits 4:0, workload hint in 7:5."""
    track = requested_state(events((100, EventType.POWER_STATE, 0b010_00011)))
    assert track is not None and track.at(101) == 3


def test_idle_after_a_reset_is_not_said_to_be_the_state_asked_for_before(builder: Any) -> None:
    builder.power(0, 0.6)
    for k in range(20):
        builder.command(MS + k * 100 * US, 80 * US)
    builder.events += [(5 * MS, EventType.POWER_STATE, 4, 0), (6 * MS, EventType.CC_EN, 0, 0), (7 * MS, EventType.CC_EN, 1, 0)]
    (level,) = analyze(builder.write(500 * MS))["idle"]["levels"]
    assert level["label"] == "PS0" and "nothing requested" in level["how"]


def waking(builder: Any, wakes: int, awake: int, clkreq: bool = False, wake_events: bool = True) -> dict[str, Any]:
    """`awake` reads of 80 us in a stream, then `wakes` reads of 6 ms, each after 100 ms of idle."""
    builder.power(0, 0.6)
    for k in range(awake):
        builder.command(MS + k * 100 * US, 80 * US)
    if clkreq:
        builder.events.append((900 * US, EventType.CLKREQ, 0, 0))  # before everything: belongs to no wake-up
    for k in range(1, wakes + 1):
        doorbell = (10 + 106 * k) * MS
        if wake_events:
            for before, state in ((50 * US, LinkState.RECOVERY), (US, LinkState.L0)):
                builder.events.append((doorbell - before, EventType.LINK, int(state), 0))
        builder.command(doorbell, 6 * MS)
    result: dict[str, Any] = analyze(builder.write((150 + 106 * wakes) * MS))
    return result


def test_the_baseline_of_a_wake_up_has_no_wake_up_in_it(builder: Any) -> None:
    """Five of nine reads are wake-ups: a median that included them would be a wake-up, and the extra time zero."""
    (group,) = waking(builder, wakes=5, awake=4)["wakeup"]["by_state"]
    assert group["count"] == 5
    assert group["extra_s"] == {"median": pytest.approx(5.92e-3), "max": pytest.approx(5.92e-3), "n": 5}
    assert group["latency_s"]["mean"] == pytest.approx(6e-3)


def test_two_reads_are_no_baseline(builder: Any) -> None:
    (group,) = waking(builder, wakes=2, awake=2)["wakeup"]["by_state"]
    assert group["extra_s"] is None


def test_clkreq_of_long_ago_is_not_the_begin_of_a_wake_up(builder: Any) -> None:
    """Asserted once before the idle time and never released: the link's exit then counts from the first sign of recovery."""
    for event in waking(builder, wakes=3, awake=4, clkreq=True)["wakeup"]["events"]:
        assert event["from_clkreq_s"] is None
        assert event["link_exit_s"] == pytest.approx(49e-6)


def test_without_any_sideband_nothing_is_said_of_the_link(builder: Any) -> None:
    for event in waking(builder, wakes=2, awake=4, wake_events=False)["wakeup"]["events"]:
        assert event["from_clkreq_s"] is None and event["link_exit_s"] is None
        assert event["to_fetch_s"] == pytest.approx(500e-9) and event["to_first_data_s"] is None


def test_the_idle_before_a_wake_up_is_from_the_last_completion(builder: Any) -> None:
    first, second = waking(builder, wakes=2, awake=4)["wakeup"]["events"]
    assert first["idle_s"] == pytest.approx(116e-3 - 1.38e-3)
    assert second["idle_s"] == pytest.approx(100e-3)


@pytest.mark.parametrize(("idle", "found"), [(20 * MS, 1), (20 * MS - 1, 0)])
def test_idle_is_twenty_milliseconds_or_more(builder: Any, idle: int, found: int) -> None:
    end = builder.command(MS, 80 * US)
    builder.command(end + idle, 80 * US)
    assert analyze(builder.write())["idle"]["gaps"] == found


def level(label: str, watt: float, seconds: float, l0: float | None) -> dict[str, Any]:
    return {"label": label, "mean_w": Figure(watt), "duration_s": seconds, "link": None if l0 is None else {"L0": l0, "L1_2": 1 - l0}}


@pytest.mark.parametrize(
    ("levels", "watt"),
    [
        ([level("PS0", 0.6, 1, 1.0), level("PS0", 0.5, 9, 1.0), level("PS3", 0.03, 99, 0.0)], 0.5),
        ([level("PS0", 0.6, 9, 1.0), level("PS0", 0.5, 1, 1.0)], 0.5),  # the lowest in L0, though seen for less long
        ([level("PS0", 0.6, 9, 1.0), level("PS0", 0.4, 1, 0.5)], 0.6),  # mostly not in L0
        ([level("PS0", 0.6, 9, None), level("PS0", 0.4, 1, None)], 0.6),  # the link is not known
        ([level("PS0", 0.6, 1, 1.0), level("PS0", 0.3, 9, 0.0)], 0.3),  # twice the level seen longest: busy with itself
        ([level("PS0", 0.75, 1, 1.0), level("PS0", 0.5, 9, 0.0)], 0.75),  # 1.5 times, no more
        ([level("operational idle", 0.6, 1, 1.0)], 0.6),
    ],
)
def test_operational_idle_is_the_level_that_load_stands_upon(levels: list[dict[str, Any]], watt: float) -> None:
    found = operational_idle({"levels": levels})
    assert found is not None and found.value == watt


def test_a_drive_that_only_sleeps_has_no_operational_idle() -> None:
    assert operational_idle({"levels": [level("PS3", 0.03, 9, 0.0)]}) is None


@pytest.mark.parametrize("flag", [CommandFlag.ABORTED, CommandFlag.NO_SQE])
def test_a_command_that_did_not_end_by_itself_or_that_nobody_saw_begin_is_no_wake_up(builder: Any, flag: CommandFlag) -> None:
    builder.power(0, 0.6)
    for k in range(4):
        builder.command(MS + k * 100 * US, 80 * US)
    builder.command(150 * MS, 6 * MS, flags=int(flag))
    builder.command(300 * MS, 7 * MS)
    (event,) = analyze(builder.write(400 * MS))["wakeup"]["events"]
    assert event["latency_s"] == pytest.approx(7e-3)
