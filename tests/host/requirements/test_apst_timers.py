"""APST's timers in captures made by hand: idle times before transitions against the table's, worked out on paper."""

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
STATES = [
    {"state": 0, "max_power_w": 4.0, "non_operational": False},
    {"state": 3, "max_power_w": 0.030, "non_operational": True, "entry_latency_s": 0.005, "exit_latency_s": 0.005},
    {"state": 4, "max_power_w": 0.005, "non_operational": True, "entry_latency_s": 0.010, "exit_latency_s": 0.050},
]
TABLE = [[0, 3, 100], [3, 4, 400]]
"""After 100 ms into PS3, and after 400 ms there into PS4."""


def rows(
    builder: Any, *levels: tuple[int, float], table: Any = TABLE, on: int = 1, end: int = 2000 * MS
) -> dict[tuple[str, str], JudgedRow]:
    """Return the rows of a drive with its last command until 20 ms, with the rail's power from each tick on."""
    builder.levels += [(0, 0.6), *levels]
    builder.events.append((0, EventType.CC_EN, 1, 0))
    builder.command(1 * MS, 10 * US, qid=0, opcode=9, slba=0x0C, blocks=on)
    builder.phase(1, 10 * MS, end - 5 * MS, "idle", kind="idle", apst=bool(on), **({"apst_table": table} if table else {}))
    builder.command(20 * MS - 50 * US, 50 * US)
    capture = builder.write(end=end)
    capture.meta["drive"]["power_states"] = STATES
    save(capture.path, capture.meta)
    (found,) = judge_all([subject(open_capture(capture.path))], [load("nvme")])
    return {(row.requirement.id, row.scope): row for row in found.rows if row.requirement.id.startswith("APST")}


def test_a_drive_in_time(builder: Any) -> None:
    """At PS3's level 104 ms after the last completion, and at PS4's 408 ms after that: 4 ms and 8 ms behind the table."""
    found = rows(builder, (124 * MS, 0.028), (532 * MS, 0.0045))
    late, early = found["APST-late", "PS3"], found["APST-early", "PS3"]
    assert late.measured.value == pytest.approx(4e-3, abs=0.3e-3) and late.limit.value == pytest.approx(5e-3)
    assert early.measured.value == pytest.approx(1.04, abs=0.003) and early.limit.value == 1.0
    assert found["APST-late", "PS4"].measured.value == pytest.approx(8e-3, abs=0.3e-3)
    assert found["APST-early", "PS4"].measured.value == pytest.approx(408 / 400, abs=0.001)
    assert {row.verdict for row in found.values()} == {"pass"} and len(found) == 4
    assert "PS3 to PS4, table 400" in found["APST-late", "PS4"].remark


def test_a_drive_that_is_early_into_one_state(builder: Any) -> None:
    """PS3 after 60 ms of 100 ms; PS4 in time."""
    found = rows(builder, (80 * MS, 0.028), (488 * MS, 0.0045))
    assert found["APST-early", "PS3"].verdict == "fail" and found["APST-early", "PS3"].measured.value == pytest.approx(0.6, abs=0.003)
    assert found["APST-early", "PS4"].verdict == "pass" and found["APST-late", "PS3"].verdict == "pass"


def test_a_drive_that_is_late_into_the_second_state(builder: Any) -> None:
    """PS4 after 700 ms of 400 ms in PS3."""
    found = rows(builder, (124 * MS, 0.028), (824 * MS, 0.0045))
    assert found["APST-late", "PS4"].verdict == "fail" and found["APST-late", "PS4"].measured.value == pytest.approx(0.3, abs=0.3e-3)
    assert found["APST-late", "PS3"].verdict == "pass" and found["APST-early", "PS4"].verdict == "pass"


def test_a_drive_that_ignores_its_table(builder: Any) -> None:
    """It stays in PS0 to the end: 1975 ms of idle time, 1875 ms more than the table's. It is not early."""
    found = rows(builder)
    late = found["APST-late", "PS3"]
    assert late.verdict == "fail" and late.measured.value == pytest.approx(1.875, abs=1e-3)
    assert found["APST-early", "PS3"].verdict == "not measured"


def test_a_drive_that_stays_at_a_doubtful_level_is_late_all_the_same(builder: Any) -> None:
    """At 0.1 W, PS3 with its maximum of 30 mW is improbable: no state is certain, but PS3 is excluded."""
    builder.levels.append((21 * MS, 0.1))
    late = rows(builder)["APST-late", "PS3"]
    assert late.verdict == "fail" and late.measured.value == pytest.approx(1.875, abs=1e-3)


def test_without_a_table_nothing_is_known(builder: Any) -> None:
    found = rows(builder, (124 * MS, 0.028), table=None)
    assert {row.verdict for row in found.values()} == {"not measured"} and "no phase has APST's table" in found["APST-late", "PS3"].why


def test_with_apst_off_there_is_no_timer(builder: Any) -> None:
    found = rows(builder, (124 * MS, 0.028), on=0)
    assert {row.verdict for row in found.values()} == {"not measured"}


def test_a_state_that_the_table_does_not_lead_into_has_no_row(builder: Any) -> None:
    found = rows(builder, (124 * MS, 0.028), table=[[0, 3, 100]])
    assert set(found) == {("APST-early", "PS3"), ("APST-late", "PS3")} and {row.verdict for row in found.values()} == {"pass"}
