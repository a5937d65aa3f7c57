"""Captures whose commands a host saw: facts that its log does not show are not measured, and its own time fails no drive."""

from __future__ import annotations

from typing import Any

import pytest
from wattbell.capture import open_capture
from wattbell.capture.schema import SeenBy
from wattbell.requirements.files import load
from wattbell.requirements.judging import JudgedRow, judge_all
from wattbell.requirements.latencylog import KINDS, Entry, LatencyLog
from wattbell.requirements.model import Requirement, RequirementFile
from wattbell.requirements.of_capture import DriveLogs, subject
from wattbell_spec.wire import EventType

US, MS, S = 1_000, 1_000_000, 1_000_000_000
HOST = {"source": int(SeenBy.TRACEPOINT), "fetch_tick": None}
TAP: dict[str, Any] = {}
NO_LOGS = DriveLogs()


def judged(capture: Any, logs: DriveLogs = NO_LOGS, *ones: Requirement) -> dict[str, JudgedRow]:
    files = [RequirementFile(name="f", title="", source="", requirement=ones)] if ones else [load("nvme"), load("ocp")]
    (found,) = judge_all([subject(open_capture(capture.path), logs)], files)
    return {row.requirement.id: row for row in found.rows}


def latencies(limit_s: float, most: float) -> tuple[Requirement, ...]:
    return (
        Requirement(id="io", clause="", text="t.", limit=limit_s, unit="s", measurand="io-latency"),
        Requirement(id="admin", clause="", text="t.", limit=limit_s, unit="s", measurand="admin-latency"),
        Requirement(id="slow", clause="", text="t.", limit=most, measurand="slow-io-per-hour", threshold_s=1e-3),
    )


@pytest.mark.parametrize(("seen", "verdict"), [(TAP, "fail"), (HOST, "conditional fail")])
def test_a_latency_above_its_limit_fails_for_certain_on_the_wire_alone(builder: Any, seen: dict[str, Any], verdict: str) -> None:
    builder.command(10 * MS, 2 * MS, qid=0, opcode=6, **seen)
    builder.command(20 * MS, 2 * MS, **seen)
    capture = builder.write()
    found = judged(capture, NO_LOGS, *latencies(1e-3, 0.5))
    assert {name: row.verdict for name, row in found.items()} == dict.fromkeys(("io", "admin", "slow"), verdict)
    assert all("host's own time" in row.why for row in found.values()) is (seen is HOST)
    # the drive's own part is shorter still
    assert {row.verdict for row in judged(capture, NO_LOGS, *latencies(3e-3, 1.5)).values()} == {"pass"}


def events_and_registers(builder: Any, seen: dict[str, Any]) -> Any:
    """A host enables the controller, a power threshold and the latency monitor, and a second at 3 W crosses the threshold of 2 W."""
    builder.levels += [(0, 1.0), (3 * S, 3.0), (6 * S, 1.0)]
    builder.events += [(1 * MS, EventType.CC_EN, 1, 0), (9 * S, EventType.SHUTDOWN, 1, 0)]
    builder.command(10 * MS, MS, qid=0, opcode=6, **seen)
    builder.command(20 * MS, MS, qid=0, opcode=9, slba=0x24, blocks=0x8001_4E20, **seen)
    builder.command(30 * MS, MS, qid=0, opcode=9, slba=0xC5, blocks=0, **seen)
    builder.command(40 * MS, 7 * MS, **seen)
    builder.command(8 * S, MS, qid=0, opcode=2, slba=0xC3, **seen)
    return builder.write(end=10 * S)


def monitor() -> LatencyLog:
    """A monitor that counted one read of 5 ms and more."""
    none = Entry(0, None, None, largest=False, by_host=False)
    entries = {(bucket, kind): none for bucket in range(4) for kind in KINDS}
    entries[0, "read"] = Entry(1, 7e-3, None, largest=False, by_host=False)
    return LatencyLog((5e-3, 10e-3, 20e-3, 40e-3), 0.0, None, entries)


def test_a_host_log_without_requests_for_events_and_without_registers_says_so(builder: Any) -> None:
    found = judged(events_and_registers(builder, HOST), DriveLogs(latency=monitor()))
    why = {
        "POWER-THRESHOLD": "no requests for events",
        "POWER-THRESHOLD-extra": "no requests for events",
        "LATENCY-MONITOR": "when the drive takes a command up",
        "LATENCY-MONITOR-latency": "when the drive takes a command up",
        "TTR-1": "registers of the controller",
        "TTR-2": "registers of the controller",
        "TTR-5": "registers of the controller",
    }
    assert {name: found[name].verdict for name in why} == dict.fromkeys(why, "not measured")
    assert all(text in found[name].why for name, text in why.items()), [found[name].why for name in why]


def test_a_tap_sees_them(builder: Any) -> None:
    found = judged(events_and_registers(builder, TAP), DriveLogs(latency=monitor()))
    assert found["TTR-1"].verdict == found["TTR-2"].verdict == "pass"
    assert found["LATENCY-MONITOR"].verdict == "pass"
    # no request for an event waited, and none came
    assert found["POWER-THRESHOLD"].verdict == "conditional fail"
