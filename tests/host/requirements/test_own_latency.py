"""The drive's own latency monitor against the wire. A drive written from the words of appendix C counts and packs its page here."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from wattbell.capture import open_capture
from wattbell.capture.meta import save
from wattbell.requirements import latencylog
from wattbell.requirements.files import load
from wattbell.requirements.judging import JudgedRow, judge_all
from wattbell.requirements.of_capture import DriveLogs, subject
from wattbell_spec.wire import CommandFlag

MS, S = 1_000_000, 1_000_000_000
READ, WRITE, TRIM = 2, 1, 9
EDGES_MS = (5, 10, 95, 385)
"""Thresholds as codes 0, 1, 18 and 76."""
Event = tuple[int, int, int]
"""Opcode, fetch in ns, latency in ns."""


@dataclass
class Monitor:
    """Counts as a drive does; at most one fault."""

    events: list[Event]
    largest: bool = True
    window: int = 0
    power_on_ms: int = 777_000
    counts: dict[tuple[int, int], int] = field(default_factory=dict)
    latencies: dict[tuple[int, int], int] = field(default_factory=dict)
    stamps: dict[tuple[int, int], int] = field(default_factory=dict)

    def run(self) -> Monitor:
        updated: dict[tuple[int, int], int] = {}
        for opcode, fetch, latency in sorted(self.events, key=lambda one: one[1] + one[2]):
            ms, end = latency // MS, fetch + latency
            if ms < EDGES_MS[0]:
                continue
            bucket = max(k for k, edge in enumerate(EDGES_MS) if ms >= edge)
            key = (bucket, opcode)
            self.counts[key] = self.counts.get(key, 0) + 1
            if key in updated and (not self.largest or ms <= self.latencies[key] or end < updated[key] + self.window * 100 * MS):
                continue
            updated[key], self.latencies[key], self.stamps[key] = end, ms, self.power_on_ms + end // MS
        return self

    def page(self) -> bytes:
        """Return the bytes. Addresses are the table's: counters of bucket b at 32 + 16 b, behind a reserved word trim, write, read."""
        out = bytearray(512)
        out[0] = 7
        out[6:10] = bytes((0, 1, 18, 76))
        struct.pack_into("<H", out, 10, 0xFFF if self.largest else 0)
        out[12] = self.window
        out[496:512] = bytes.fromhex("927ac08cd0846c9c7043e6d4585ed485")
        out[96:192] = b"\xff" * 96
        for (bucket, opcode), count in self.counts.items():
            struct.pack_into("<I", out, {READ: 44, WRITE: 40, TRIM: 36}[opcode] + 16 * bucket, count)
        for (bucket, opcode), ms in self.latencies.items():
            # bucket 0: read 215:214, write 213:212, trim 211:210; bucket 3: trim 193:192
            struct.pack_into("<H", out, {READ: 214, WRITE: 212, TRIM: 210}[opcode] - 6 * bucket, ms)
            # bucket 0: read 191:184, write 183:176, trim 175:168; bucket 3: trim 103:96
            struct.pack_into("<Q", out, {READ: 184, WRITE: 176, TRIM: 168}[opcode] - 24 * bucket, self.stamps[bucket, opcode])
        return bytes(out)


EVENTS: list[Event] = [
    (READ, 2 * S, 7 * MS),
    (READ, 3 * S, 8_400_000),
    (READ, 4 * S, 40 * MS),
    (READ, 5 * S, 3 * MS),
    (WRITE, 6 * S, 120 * MS),
    (WRITE, 7 * S, 200 * MS),
    (WRITE, 8 * S, 500 * MS),
    (TRIM, 9 * S, 20 * MS),
    (READ, 10 * S, 90 * MS),
    (READ, 11 * S, 12 * MS),
]


def recorded(builder: Any, events: list[Event], read_s: int = 700, set_s: float = 1.0) -> Any:
    """A capture of the events between the configuration and a reading ten minutes behind the last one."""
    builder.interval = 100 * MS
    builder.levels.append((0, 1.0))
    builder.command(round(set_s * S), 100_000, qid=0, opcode=0x09, slba=0xC5, blocks=0)
    for opcode, fetch, latency in events:
        builder.command(fetch - 500, latency + 500, fetch_tick=fetch, cqe_tick=fetch + latency, opcode=opcode)
    builder.command(read_s * S, 100_000, qid=0, opcode=0x02, slba=0x7F00C3, blocks=0)
    capture = builder.write(end=(read_s + 1) * S)
    capture.meta["drive"] |= {"model": "TESTDRIVE", "serial": "T1", "firmware": "F1"}
    save(capture.path, capture.meta)
    return open_capture(capture.path)


def rows(capture: Any, page: bytes | None) -> dict[str, JudgedRow]:
    logs = DriveLogs(latency=None if page is None else latencylog.parse(page))
    (found,) = judge_all([subject(capture, logs)], [load("ocp")])
    mine = [row for row in found.rows if row.requirement.id.startswith("LATENCY-MONITOR")]
    return {row.requirement.id.partition("-MONITOR")[2].lstrip("-") or "count": row for row in mine}


def verdicts(capture: Any, monitor: Monitor) -> dict[str, str]:
    return {name: row.verdict for name, row in rows(capture, monitor.page()).items()}


GOOD = dict.fromkeys(("count", "latency", "stamp"), "pass")


@pytest.mark.parametrize(("largest", "window"), [(True, 0), (False, 0), (True, 20)])
def test_a_right_monitor_passes(builder: Any, largest: bool, window: int) -> None:
    assert verdicts(recorded(builder, EVENTS), Monitor(EVENTS, largest, window).run()) == GOOD


@pytest.mark.parametrize("more", [-1, 1])
def test_a_counter_off_by_one_fails(builder: Any, more: int) -> None:
    monitor = Monitor(EVENTS).run()
    monitor.counts[1, READ] += more
    found = rows(recorded(builder, EVENTS), monitor.page())
    assert found["count"].verdict == "fail" and found["count"].measured.value == 1


def test_a_bucket_off_by_one_fails(builder: Any) -> None:
    monitor = Monitor(EVENTS).run()
    monitor.counts[2, WRITE], monitor.counts[3, WRITE] = 1, 2
    assert verdicts(recorded(builder, EVENTS), monitor)["count"] == "fail"


def test_a_latency_of_another_command_fails(builder: Any) -> None:
    """The largest read of bucket 1 took 90 ms; the monitor reports the one of 40 ms."""
    monitor = Monitor(EVENTS).run()
    monitor.latencies[1, READ] = 40
    found = rows(recorded(builder, EVENTS), monitor.page())
    assert found["latency"].verdict == "fail" and found["latency"].measured.value == pytest.approx(0.050)


def test_a_time_stamp_of_another_command_fails(builder: Any) -> None:
    monitor = Monitor(EVENTS).run()
    monitor.stamps[2, WRITE] -= 1080  # the earlier write's
    found = rows(recorded(builder, EVENTS), monitor.page())
    assert found["stamp"].verdict == "fail" and found["stamp"].measured.value == pytest.approx(1.08, abs=0.002)


def test_a_page_of_the_last_minutes_may_lack_commands_but_have_none_too_many(builder: Any) -> None:
    """Ten minutes may be missing from a page."""
    capture = recorded(builder, EVENTS, read_s=60)
    old = Monitor(EVENTS[:4]).run()
    assert {verdict for verdict in verdicts(capture, old).values() if "fail" in verdict} == set()
    old.counts[0, READ] += 1
    assert verdicts(capture, old)["count"] == "fail"


def test_a_command_at_a_threshold_may_be_in_either_bucket(builder: Any) -> None:
    """9.8 ms, which a drive that rounds to milliseconds counts as 10."""
    events = [*EVENTS, (WRITE, 20 * S, 9_800_000)]
    either = [Monitor([*EVENTS, (WRITE, 20 * S, ms * MS)]).run() for ms in (9, 10)]
    capture = recorded(builder, events)
    assert [verdicts(capture, monitor)["count"] for monitor in either] == ["pass", "pass"]


def test_a_latency_of_no_command_fails(builder: Any) -> None:
    """No write took from 5 to 10 ms; the nearest took 120 ms."""
    monitor = Monitor(EVENTS).run()
    monitor.latencies[0, WRITE], monitor.stamps[0, WRITE] = 8, 1
    found = rows(recorded(builder, EVENTS), monitor.page())
    assert found["latency"].verdict == "fail" and found["latency"].measured.value == pytest.approx(0.008)


def test_a_command_without_an_opcode_makes_verdicts_conditional(builder: Any) -> None:
    """Its SQE was not seen: the drive has counted a read that the records do not name."""
    builder.command(12 * S, 30 * MS, opcode=0, flags=int(CommandFlag.NO_SQE), fetch_tick=None)
    monitor = Monitor([*EVENTS, (READ, 12 * S, 30 * MS)]).run()
    assert verdicts(recorded(builder, EVENTS), monitor)["count"] == "conditional fail"


def test_without_the_configuration_nothing_is_measured(builder: Any) -> None:
    builder.levels.append((0, 1.0))
    builder.command(1 * MS, 10_000)
    capture = builder.write(end=2 * S)
    assert "--latency-log FILE" in rows(capture, None)["count"].why
    assert "no Set Features C5h" in rows(capture, Monitor(EVENTS).run().page())["count"].why


def test_a_page_that_was_cleared_meanwhile_is_not_judged(builder: Any) -> None:
    page = bytearray(Monitor(EVENTS).run().page())
    page[4:6] = (2).to_bytes(2, "little")  # ten minutes
    assert "clears its buckets after 10 minutes" in rows(recorded(builder, EVENTS), bytes(page))["count"].why


@pytest.mark.parametrize("seed", range(20))
def test_right_monitors_are_not_accused_and_wrong_ones_are_found(builder: Any, seed: int) -> None:
    """Draws commands, modes and windows; then one more or less in a counter that has commands."""
    draw = np.random.default_rng(seed)
    events = [
        (int(draw.choice((READ, WRITE, TRIM))), int((2 + k * 0.4) * S), int(MS * draw.choice((0.1, 3, 7, 8, 30, 60, 150, 300, 400, 900))))
        for k in range(80)
    ]
    monitor = Monitor(events, bool(draw.integers(2)), int(draw.choice((0, 10)))).run()
    capture = recorded(builder, events)
    found = verdicts(capture, monitor)
    assert found in (GOOD, {**GOOD, "stamp": "not measured"})  # several commands of one latency: whose stamp it is cannot be told
    key = [one for one in monitor.counts if one[1] != TRIM][int(draw.integers(4))]
    monitor.counts[key] += int(draw.choice((-1, 1)))
    assert verdicts(capture, monitor)["count"] == "fail"


def test_bytes_that_are_no_page_are_refused() -> None:
    good = bytearray(Monitor(EVENTS).run().page())
    for at, value, why in ((496, 0, "GUID"), (0, 6, "disabled"), (7, 0, "do not ascend: 5 ms, 5 ms")):
        page = bytearray(good)
        page[at] = value
        with pytest.raises(ValueError, match=why):
            latencylog.parse(bytes(page))
    with pytest.raises(ValueError, match="511 bytes of 512"):
        latencylog.parse(bytes(good[:511]))
