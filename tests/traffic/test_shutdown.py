"""Shutdowns of drawn hosts and drives: events against the TLPs of the trace, in both fidelities."""

from __future__ import annotations

from pathlib import Path

import pytest
from wattbell_spec.wire import EventType

from tests.sim.rig.rig_process import column, decode, play
from tests.sim.rig.test_fidelity import compare
from tests.traffic.generate import Traffic, generate
from tests.traffic.judge import ORIGIN_TICK
from tests.traffic.kinds import draw
from tests.traffic.packets import DOWN, UP

_CC, _CSTS = 0x14, 0x1C
_UNKNOWN = 0xFFFFFFFF


def told_by_the_trace(traffic: Traffic) -> list[tuple[int, int, int, int]]:
    """Events as the TLPs tell them: tick, type, arg8, arg32. NVMe: CC, SHN; CSTS, SHST. A write of CC.EN = 0 ends a shutdown."""
    found: list[tuple[int, int, int, int]] = []
    asked: set[int] = set()
    notified = status = 0
    answered: int | None = None
    for at_ps, direction, _, tlp in traffic.records:
        tick = ORIGIN_TICK + at_ps // 1000
        kind = tlp[0]
        if direction == DOWN and kind in (0x40, 0x60) and register(traffic, tlp) == _CC:
            cc = int.from_bytes(tlp[16 if kind & 0x20 else 12 :][:4], "little")
            if not cc & 1:
                notified, status, answered = 0, 0, None
            elif cc >> 14 & 3 != notified:
                notified = cc >> 14 & 3
                found += [(tick, EventType.SHUTDOWN, notified, cc)] if notified else []
        elif direction == DOWN and kind in (0x00, 0x20) and register(traffic, tlp) == _CSTS:
            asked.add(tlp[6])
        elif direction == UP and kind == 0x4A and tlp[10] in asked:
            asked.discard(tlp[10])
            shown = tlp[12] >> 2 & 3
            if shown != status:
                found.append((tick, EventType.SHUTDOWN_STATUS, shown, _UNKNOWN if answered is None else tick - answered))
            status, answered = shown, tick
    return found


def register(traffic: Traffic, tlp: bytes) -> int:
    """Offset in BAR0 of a memory request."""
    address = int.from_bytes(tlp[8:16] if tlp[0] & 0x20 else tlp[8:12], "big") & ~3
    return address - traffic.setup.bar


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_a_shutdown_is_told_with_the_time_between_reads(seed: int, tmp_path: Path) -> None:
    traffic = generate(draw(seed, ("reset_shn",), 60))
    expected = told_by_the_trace(traffic)
    assert {kind for _, kind, _, _ in expected} == {EventType.SHUTDOWN, EventType.SHUTDOWN_STATUS}
    assert {status for _, kind, status, _ in expected if kind == EventType.SHUTDOWN_STATUS} >= {2}
    trace = tmp_path / "one.wbt"
    trace.write_bytes(traffic.trace())
    batches, _ = decode(play(trace, tmp_path, "--fidelity", "fast"))
    rows = zip(*(column(batches, "events", name) for name in ("tick", "type", "arg8", "arg32")), strict=True)
    assert [row for row in rows if row[1] in (EventType.SHUTDOWN, EventType.SHUTDOWN_STATUS)] == expected
    assert compare(trace)["caveat"] is None
