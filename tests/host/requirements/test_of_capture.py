"""Observations of captures made by hand: the figures that a requirement asks for, worked out on paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from wattbell.capture import open_capture
from wattbell.capture.meta import save
from wattbell.capture.writer import CaptureWriter
from wattbell.requirements.files import load
from wattbell.requirements.judging import JudgedRow, judge_all
from wattbell.requirements.of_capture import subject
from wattbell_spec.wire import CommandFlag, EventType

US, MS, S = 1_000, 1_000_000, 1_000_000_000
STATES = [
    {"state": 0, "max_power_w": 4.0, "non_operational": False},
    {"state": 1, "max_power_w": 2.0, "non_operational": False},
    {"state": 3, "max_power_w": 0.030, "non_operational": True, "entry_latency_s": 0.005, "exit_latency_s": 0.005},
]


def declare(capture: Any, states: list[dict[str, Any]] | None = None) -> Any:
    capture.meta["drive"]["power_states"] = STATES if states is None else states
    capture.meta["drive"] |= {"model": "TESTDRIVE", "serial": "T1", "firmware": "F1"}
    save(capture.path, capture.meta)
    return open_capture(capture.path)


def rows(capture: Any, name: str = "ocp", **parameters: float) -> dict[tuple[str, str], JudgedRow]:
    (found,) = judge_all([subject(capture)], [load(name)], parameters)
    assert found.drive == "TESTDRIVE T1 F1 (model)" and found.warning
    return {(row.requirement.id, row.scope): row for row in found.rows}


def test_the_largest_mean_of_each_state_that_was_asked_for(builder: Any) -> None:
    """PS0 for 1.5 s at 3 W, with 0.5 s at 4.5 W in it: the best second has 3.75 W. PS1 for 1.5 s at 2.1 W."""
    builder.levels += [(0, 3.0), (500 * MS, 4.5), (1000 * MS, 3.0), (1500 * MS, 2.1)]
    builder.command(1 * MS, 10 * US)
    builder.command(1500 * MS - 10 * US, 10 * US, qid=0, opcode=9, slba=2, blocks=1)
    builder.events.append((1500 * MS, EventType.POWER_STATE, 1, 0))
    found = rows(declare(builder.write(end=3000 * MS)))
    first, second = found["PCM-1", "PS0"], found["PCM-1", "PS1"]
    assert first.measured.value == pytest.approx(3.75, rel=1e-4) and second.measured.value == pytest.approx(2.1, rel=1e-4)
    assert (first.verdict, second.verdict) == ("conditional pass", "fail")
    assert first.why == "observed for 1.5 s of 900 s" and ("PCM-1", "PS3") not in found
    peak = found["PCM-3", ""]
    assert peak.measured.value == pytest.approx(4.5, rel=1e-4) and peak.limit.value == pytest.approx(1.5 * 3.75, rel=1e-4)
    assert peak.verdict == "conditional pass" and "sampled every 1e-05 s, not every 4e-06 s" in peak.why


def test_a_drive_that_never_rests_is_judged_too(builder: Any) -> None:
    """Commands follow each other within 10 ms, so there is no idle time: the requests of the host are on the wire all the same."""
    builder.levels += [(0, 3.0), (1500 * MS, 2.1)]
    for k in range(300):
        builder.command(k * 10 * MS + 1 * MS, 100 * US)
    builder.command(1500 * MS - 10 * US, 10 * US, qid=0, opcode=9, slba=2, blocks=1)
    builder.events.append((1500 * MS, EventType.POWER_STATE, 1, 0))
    found = rows(declare(builder.write(end=3000 * MS)))
    assert found["PCM-1", "PS0"].measured.value == pytest.approx(3.0, rel=1e-4)
    assert found["PCM-1", "PS1"].measured.value == pytest.approx(2.1, rel=1e-4) and found["PCM-1", "PS1"].verdict == "fail"


def test_a_window_shorter_than_the_samples_allow_is_not_measured(builder: Any) -> None:
    builder.interval = 1 * MS
    builder.levels.append((0, 3.0))
    builder.command(1 * MS, 10 * US)
    row = rows(declare(builder.write(end=2000 * MS)), slot_power_limit_w=5.0)["PWR-7", ""]
    assert row.verdict == "not measured" and "a window of 100 us needs them closer" in row.why


def test_a_slot_limit_of_the_user(builder: Any) -> None:
    builder.levels += [(0, 3.0), (500 * MS, 4.5)]
    builder.command(1 * MS, 10 * US)
    capture = declare(builder.write(end=1000 * MS))
    assert rows(capture)["PWR-7", ""].verdict == "not measured"
    assert rows(capture, slot_power_limit_w=4.0)["PWR-7", ""].verdict == "conditional fail"


def test_the_largest_mean_counts_what_is_missing(builder: Any) -> None:
    builder.levels.append((0, 3.0))
    builder.hole = (500 * MS, 510 * MS)
    builder.command(1 * MS, 10 * US)
    row = rows(declare(builder.write(end=3000 * MS)))["PCM-1", "PS0"]
    assert row.measured.lost > 0 and row.verdict == "conditional pass" and "lost" in row.why


def test_what_is_missing_in_another_stay_in_the_state_counts_too(builder: Any) -> None:
    """PS0 twice: samples are missing in the first stay, and the largest mean lies in the second."""
    builder.levels += [(0, 3.0), (1500 * MS, 2.0), (2000 * MS, 3.5)]
    builder.hole = (500 * MS, 510 * MS)
    builder.command(1 * MS, 10 * US)
    for tick, state in ((1500, 1), (2000, 0)):
        builder.command(tick * MS - 10 * US, 10 * US, qid=0, opcode=9, slba=2, blocks=state)
        builder.events.append((tick * MS, EventType.POWER_STATE, state, 0))
    row = rows(declare(builder.write(end=3500 * MS)))["PCM-1", "PS0"]
    assert row.measured.value == pytest.approx(3.5, rel=1e-4) and row.measured.lost > 0 and "lost" in row.why


def test_states_need_an_identify(builder: Any) -> None:
    builder.levels.append((0, 3.0))
    builder.command(1 * MS, 10 * US)
    capture = declare(builder.write(end=2000 * MS), states=[])
    row = rows(capture)["PCM-1", ""]
    assert row.verdict in ("not measured", "not applicable") and row.measured.value is None


def test_latencies_of_admin_and_io_commands(builder: Any) -> None:
    """The Format is exempt, and the event request does not count. An aborted command had no CQE for 14 s."""
    builder.levels.append((0, 1.0))
    builder.command(1 * MS, 11 * S, qid=0, opcode=0x80)
    builder.command(2 * MS, 12 * S, qid=0, opcode=0x0C)
    builder.command(3 * MS, 10_500 * MS, qid=0, opcode=0x02)
    builder.command(4 * MS, 14 * S, qid=0, opcode=0x02, flags=int(CommandFlag.ABORTED))
    builder.command(5 * MS, 7 * S)
    found = rows(declare(builder.write(end=20 * S)))
    assert found["CTO-1", ""].measured.value == pytest.approx(14.0) and found["CTO-1", ""].verdict == "fail"
    assert found["CTO-3", ""].measured.value == pytest.approx(7.0) and found["CTO-3", ""].verdict == "pass"
    assert found["CTO-3", ""].remark == "the longest of 1"


def test_slow_commands_of_any_hour(builder: Any) -> None:
    """Five slow ones in the first minute and four an hour later: no hour has more than five. One of 1.9 s does not count."""
    builder.levels.append((0, 1.0))
    builder.interval = 100 * MS
    for k in range(5):
        builder.command(k * 10 * S, 2100 * MS)
    for k in range(4):
        builder.command(3610 * S + k * 10 * S, 2100 * MS)
    builder.command(3700 * S, 1900 * MS)
    row = rows(declare(builder.write(end=3710 * S)))["CTO-3-rate", ""]
    starts = [0, 10, 20, 30, 40, 3610, 3620, 3630, 3640]
    by_hand = max(sum(a <= b < a + 3600 for b in starts) for a in starts)
    assert row.measured.value == by_hand == 5 and row.verdict == "pass"


def test_the_time_from_enable_to_identify_and_to_the_first_io(builder: Any) -> None:
    builder.levels.append((0, 1.0))
    for tick, enable in ((100, 1), (5000, 0), (6000, 1), (8000, 0), (8100, 1)):
        builder.events.append((tick * MS, EventType.CC_EN, enable, 0))
    builder.command(200 * MS, 1 * MS, qid=0, opcode=6)
    builder.command(300 * MS, 1 * MS, qid=0, opcode=9)
    builder.command(400 * MS, 1 * MS)
    builder.command(7500 * MS, 1 * MS, qid=0, opcode=6)
    builder.command(7600 * MS, 1 * MS, qid=0, opcode=6)
    builder.command(8150 * MS, 1 * MS, qid=0, opcode=6)
    found = rows(declare(builder.write(end=9 * S)))
    assert found["TTR-1", ""].measured.value == pytest.approx(1.501) and found["TTR-1", ""].verdict == "fail"
    assert found["TTR-2", ""].measured.value == pytest.approx(0.301) and found["TTR-2", ""].verdict == "pass"


def test_without_an_enable_its_times_are_not_measured(builder: Any) -> None:
    builder.levels.append((0, 1.0))
    builder.command(200 * MS, 1 * MS, qid=0, opcode=6)
    row = rows(declare(builder.write(end=1 * S)))["TTR-1", ""]
    assert (row.verdict, row.why) == ("not measured", "CC.EN was not written 1 in this capture")


UNKNOWN = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("events", "least_s", "most_s"),
    [
        ([(100, "SHUTDOWN", 1, 0), (150, "SHUTDOWN_STATUS", 1, UNKNOWN), (700, "SHUTDOWN_STATUS", 2, 100)], 0.5, 0.6),
        ([(100, "SHUTDOWN", 1, 0), (700, "SHUTDOWN_STATUS", 2, 650)], 0.0, 0.6),
        ([(100, "SHUTDOWN", 1, 0), (700, "SHUTDOWN_STATUS", 2, UNKNOWN)], 0.0, 0.6),
        (
            [
                *((100, "SHUTDOWN", 1, 0), (200, "SHUTDOWN_STATUS", 2, 10), (300, "CC_EN", 0, 0)),
                *((400, "SHUTDOWN", 1, 0), (900, "SHUTDOWN_STATUS", 2, 10)),
            ],
            0.49,
            0.5,
        ),
        (  # one of 0 to 0.9 s, and one of 0.6 to 0.61 s: the longest took 0.6 s at least
            [
                *((100, "SHUTDOWN", 1, 0), (1000, "SHUTDOWN_STATUS", 2, UNKNOWN), (2000, "CC_EN", 0, 0)),
                *((3000, "SHUTDOWN", 1, 0), (3610, "SHUTDOWN_STATUS", 2, 10)),
            ],
            0.6,
            0.9,
        ),
    ],
)
def test_a_shutdown_ends_between_two_reads_of_the_host(
    builder: Any, events: list[tuple[int, str, int, int]], least_s: float, most_s: float
) -> None:
    builder.levels.append((0, 1.0))
    builder.command(10 * MS, 1 * MS)
    for tick, kind, arg8, arg32 in events:
        builder.events.append((tick * MS, EventType[kind], arg8, arg32 if arg32 == UNKNOWN else arg32 * MS))
    row = rows(declare(builder.write(end=10 * S)))["TTR-5", ""]
    assert row.verdict == "pass"
    assert row.measured.value == pytest.approx((least_s + most_s) / 2)
    assert row.measured.u == pytest.approx((most_s - least_s) / 2, rel=1e-3)


_ABRUPT = [(100, "SHUTDOWN", 2, 0), (200, "SHUTDOWN_STATUS", 2, 10)]
_CUT = [(300, "SHUTDOWN", 1, 0), (400, "TRACKER_RESET", 1, 0), (500, "SHUTDOWN_STATUS", 2, 10)]
_WHOLE = [(600, "SHUTDOWN", 1, 0), (650, "SHUTDOWN_STATUS", 2, 1)]


@pytest.mark.parametrize(
    ("events", "verdict", "why"),
    [
        (_ABRUPT, "not measured", "no normal shutdown"),
        (_ABRUPT + _CUT, "not measured", "SHST = 2"),
        (_ABRUPT + _CUT + _WHOLE, "conditional pass", "1 of 2"),
        (_WHOLE, "pass", ""),
    ],
)
def test_a_shutdown_that_was_not_read_as_complete_has_no_time(
    builder: Any, events: list[tuple[int, str, int, int]], verdict: str, why: str
) -> None:
    """Abrupt ones and answers behind a reset do not count."""
    builder.levels.append((0, 1.0))
    builder.command(10 * MS, 1 * MS)
    for tick, kind, arg8, arg32 in events:
        builder.events.append((tick * MS, EventType[kind], arg8, arg32 * MS))
    row = rows(declare(builder.write(end=1 * S)))["TTR-5", ""]
    assert row.verdict == verdict and why in row.why, row


@pytest.mark.parametrize(("declared_s", "verdict"), [(1.0, "pass"), (0.2, "fail"), (None, "not applicable")])
def test_the_entry_latency_of_runtime_d3_is_judged(builder: Any, declared_s: float | None, verdict: str) -> None:
    builder.levels.append((0, 1.0))
    builder.command(10 * MS, 1 * MS)
    builder.events += [(100 * MS, EventType.SHUTDOWN, 1, 0), (600 * MS, EventType.SHUTDOWN_STATUS, 2, 1 * MS)]
    capture = builder.write(end=1 * S)
    capture.meta.setdefault("drive", {})["rtd3_entry_s"] = declared_s
    assert rows(declare(capture), "nvme")["RTD3E", ""].verdict == verdict


def test_what_the_drive_declares(builder: Any) -> None:
    builder.levels += [(0, 4.5), (1000 * MS, 0.5)]
    for k in range(900):
        builder.command(k * MS, 1 * MS)
    found = rows(declare(builder.write(end=2000 * MS)), "declared")
    assert found["MP", "PS0"].verdict == "fail" and found["MP", "PS0"].measured.value == pytest.approx(4.5, rel=0.01)
    assert found["MP-idle", "PS3"].verdict == "not measured"
    assert found["ACTP", "PS0"].verdict == "not applicable" and found["ENLAT", "PS0"].verdict == "not applicable"


def test_a_capture_without_a_rail_judges_times_alone(builder: Any) -> None:
    builder.command(1 * MS, 11 * S, qid=0, opcode=0x02)
    found = rows(declare(builder.write()))
    assert found["CTO-1", ""].verdict == "fail"
    assert found["PWR-6", ""].verdict == "not measured" and found["PWR-6", ""].why


def test_the_voltage_of_the_rail_between_the_first_command_and_the_last(builder: Any) -> None:
    """A rail of 3.3 V, which the builder always writes: within 5 %."""
    builder.levels.append((0, 3.0))
    builder.command(10 * MS, 10 * US)
    builder.command(90 * MS, 10 * US)
    found = rows(declare(builder.write(end=100 * MS)), "form-factor", slot_power_limit_w=5.0)
    for name, limit in (("M2-LOW", 3.135), ("M2-HIGH", 3.465)):
        row = found[name, ""]
        assert row.measured.value == pytest.approx(3.3, rel=1e-6) and row.measured.u == pytest.approx(3.3e-3) and row.verdict == "pass"
        assert row.limit.value == pytest.approx(limit)
    assert found["M2-SLOT-POWER", ""].verdict == "conditional pass" and found["M2-PEAK-CURRENT", ""].verdict == "not measured"


def test_a_rail_too_coarse_for_the_voltage_or_without_commands(builder: Any) -> None:
    builder.interval = 2 * MS
    builder.levels.append((0, 3.0))
    builder.command(10 * MS, 10 * US)
    found = rows(declare(builder.write(end=100 * MS)), "form-factor")
    assert "a window of 1000 us needs them closer" in found["M2-LOW", ""].why


@pytest.mark.parametrize(("volts", "low", "high"), [(3.12, "fail", "pass"), (3.137, "conditional pass", "pass"), (3.48, "pass", "fail")])
def test_a_rail_beyond_its_limits(builder: Any, monkeypatch: pytest.MonkeyPatch, volts: float, low: str, high: str) -> None:
    """50 ms of the given voltage amid 3.3 V. The limits are 3.135 V and 3.465 V, U is 0.1 %."""
    written = CaptureWriter.add_rail

    def other(self: Any, tick: int, interval: int, voltage: Any, *more: Any, **named: Any) -> None:
        inside = (tick + np.arange(len(voltage)) * interval >= 40 * MS) & (tick + np.arange(len(voltage)) * interval < 90 * MS)
        written(self, tick, interval, np.where(inside, np.float32(volts), voltage), *more, **named)

    monkeypatch.setattr(CaptureWriter, "add_rail", other)
    builder.levels.append((0, 3.0))
    builder.command(10 * MS, 10 * US)
    builder.command(190 * MS, 10 * US)
    found = rows(declare(builder.write(end=200 * MS)), "form-factor")
    assert (found["M2-LOW", ""].verdict, found["M2-HIGH", ""].verdict) == (low, high)


@pytest.mark.parametrize(
    ("warning", "verdicts"), [(77, ("pass", "pass")), (75, ("pass", "fail")), (80, ("fail", "pass")), (None, ("not measured",) * 2)]
)
def test_declared_temperatures(builder: Any, warning: int | None, verdicts: tuple[str, str]) -> None:
    builder.levels.append((0, 3.0))
    builder.command(1 * MS, 10 * US)
    capture = builder.write(end=100 * MS)
    capture.meta["drive"] |= {"warning_temperature_c": warning, "critical_temperature_c": 85}
    found = rows(declare(capture))
    assert (found["TTHROTTLE-9", ""].verdict, found["TTHROTTLE-9-least", ""].verdict) == verdicts
    assert (found["TTHROTTLE-10", ""].verdict, found["TTHROTTLE-10-least", ""].verdict) == ("pass", "pass")
