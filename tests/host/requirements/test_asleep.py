"""Own work of a drive asleep, in captures made by hand: means over a second worked out on paper."""

from __future__ import annotations

from typing import Any

import pytest
from wattbell.capture import open_capture
from wattbell.capture.meta import save
from wattbell.requirements.files import load
from wattbell.requirements.judging import JudgedRow, judge_all
from wattbell.requirements.of_capture import subject
from wattbell_spec.wire import EventType, LinkState

US, MS, S = 1_000, 1_000_000, 1_000_000_000
STATES = [
    {"state": 0, "max_power_w": 4.0, "non_operational": False},
    {"state": 3, "max_power_w": 0.030, "non_operational": True, "entry_latency_s": 0.005, "exit_latency_s": 0.005},
]
ASLEEP, AWAKE = 100 * MS, 3100 * MS


def row(
    builder: Any, *levels: tuple[int, float], link: LinkState | None = LinkState.L1_2, noppme: int | None = None, **drive: Any
) -> JudgedRow:
    """The row of a drive that the host sent to PS3 at 100 ms, and woke at 3100 ms; its rail is at 25 mW 5 ms after the request."""
    builder.interval = 100 * US
    builder.levels += [(0, 0.6), (ASLEEP + 5 * MS, 0.025), *levels, (AWAKE - 80 * US, 0.6)]
    if noppme is not None:
        builder.command(20 * MS, 10 * US, qid=0, opcode=9, slba=0x11, blocks=noppme)
    builder.command(ASLEEP - 10 * US, 10 * US, qid=0, opcode=9, slba=2, blocks=3)
    builder.events.append((ASLEEP, EventType.POWER_STATE, 3, 0))
    if link is not None:
        builder.events += [(1 * MS, EventType.LINK, int(LinkState.L0), 0), (ASLEEP + 1 * MS, EventType.LINK, int(link), 0)]
        builder.events.append((AWAKE - 80 * US, EventType.LINK, int(LinkState.L0), 0))
    builder.command(AWAKE, 1 * MS)
    capture = builder.write(end=3300 * MS)
    capture.meta["drive"] |= {"power_states": STATES, "nopspm": False, **drive}
    save(capture.path, capture.meta)
    (found,) = judge_all([subject(open_capture(capture.path))], [load("nvme")])
    (mine,) = (one for one in found.rows if one.requirement.id == "PERMISSIVE-OFF")
    return mine


def test_a_quiet_drive_passes(builder: Any) -> None:
    """The way in, and the link that wakes before the command, are no part of the rest: 25 mW, and not 80 us of 600 mW more."""
    found = row(builder)
    assert found.verdict == "pass" and found.measured.value == pytest.approx(0.025, rel=1e-3) and found.scope == "PS3"


def test_work_of_its_own_above_the_bound_fails(builder: Any) -> None:
    """0.2 s at 60 mW in a second of 25 mW: 32 mW."""
    found = row(builder, (1500 * MS, 0.060), (1700 * MS, 0.025))
    assert found.verdict == "fail" and found.measured.value == pytest.approx(0.032, rel=2e-3)


def test_less_work_passes(builder: Any) -> None:
    """0.1 s at 60 mW: 28.5 mW."""
    found = row(builder, (1500 * MS, 0.060), (1600 * MS, 0.025))
    assert found.verdict == "pass" and found.measured.value == pytest.approx(0.0285, rel=2e-3)


@pytest.mark.parametrize(
    ("noppme", "verdict", "why"), [(None, "conditional fail", "NOPPME"), (0, "fail", ""), (1, "not measured", "permits")]
)
def test_the_host_may_permit_it(builder: Any, noppme: int | None, verdict: str, why: str) -> None:
    found = row(builder, (1500 * MS, 0.060), (1700 * MS, 0.025), noppme=noppme, nopspm=True)
    assert found.verdict == verdict and why in found.why


@pytest.mark.parametrize("link", [None, LinkState.L1])
def test_a_link_that_is_awake_is_a_doubt(builder: Any, link: LinkState | None) -> None:
    found = row(builder, (1500 * MS, 0.060), (1700 * MS, 0.025), link=link)
    assert found.verdict == "conditional fail" and "L1.2" in found.why


@pytest.mark.parametrize("link", [None, LinkState.L1])
def test_a_link_that_may_be_awake_takes_no_pass_away(builder: Any, link: LinkState | None) -> None:
    """It can only add power."""
    assert row(builder, link=link).verdict == "pass"


def test_a_short_rest_is_not_measured(builder: Any) -> None:
    for tick in (900, 1700, 2400):
        builder.command(tick * MS, 10 * US, qid=0, opcode=2, slba=2)
    found = row(builder)
    assert found.verdict == "not measured" and "less than the window" in found.why
