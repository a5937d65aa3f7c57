"""Monitor, tracker and the truth of another author's generator, for each kind of its traffic.

The tracker speaks through the records of the fast twin's stream. It shares no code and no author with the monitor.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cocotbext.nvmetap import Checker, Command, Direction, LinkObserver, Rule

from tests.nvmetap import other_author
from tests.nvmetap.__main__ import main
from tests.nvmetap.other_author import BROKEN, UNSUPPORTED, compare, doubted, observe, pairs, trace, value
from tests.traffic.generate import Traffic
from tests.traffic.judge import Account, Bound, match, read
from tests.traffic.kinds import KINDS
from tests.traffic.rig import Playing
from tests.traffic.truth import INSTANTS, Deed

SEED, SIZE = 11, 40
DEEP = 300
"""I/O commands of a trace that has many in flight by design."""
_TICK_PS = 1000
FEW = {
    "second_function": "the tracker follows one function, and says so",
    "sqe_halves": "the tracker follows no queue whose SQEs come in parts, and says so",
}
"""Kinds with few records of the tracker, with the reason."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep breaches that a test provokes out of the log."""
    logger = logging.getLogger("cocotbext.nvmetap")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


def _accounts(traffic: Traffic, folder: Path) -> list[Account]:
    """Return the tracker's records."""
    file = folder / "one.wbt"
    file.write_bytes(traffic.trace())
    stream, _said = Playing(file, traffic.attach).stream()
    return read(stream).accounts


def _disagreement(deed: Deed, command: Command, account: Account) -> list[str]:
    """Return the instants in which two records differ that neither doubts; one that a record may lack is left out."""
    found = []
    for name in INSTANTS:
        if name in doubted(command) or name in account.covered() or name in deed.may_lack:
            continue
        ps, ticks = value(command, name), account.values[name]
        mine = None if ps is None else ps // _TICK_PS
        if not isinstance(ticks, Bound) and mine != ticks:
            found.append(name)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_monitor_and_tracker_agree_with_the_truth(kind: str, tmp_path: Path) -> None:
    traffic = trace(SEED, (kind,), DEEP if kind == "deep" else SIZE)
    result = compare(traffic)
    assert result.clean, result.faults[:3]
    if kind in UNSUPPORTED:
        assert result.unsupported == result.commands and sum(observe(traffic)[2].unmatched.values()) > result.commands
        return
    assert result.right + result.doubtful == result.commands
    mine = {id(deed): command for deed, command in pairs(traffic.deeds, observe(traffic)[0])[0]}
    theirs, _, _ = match(traffic.deeds, _accounts(traffic, tmp_path))
    both = [(deed, mine[id(deed)], account) for deed, account in theirs if id(deed) in mine]
    assert len(both) > 0.5 * len(traffic.deeds) or kind in FEW
    different = [(names, command, account) for deed, command, account in both if (names := _disagreement(deed, command, account))]
    assert different == []


def test_doubts_are_rare_where_nothing_is_ambiguous() -> None:
    """A doubt on every record would make the comparison worthless."""
    for kind in ("base", "spdk", "sgl_segments", "list_chain", "mptr", "hmb_bulk", "intx"):
        result = compare(trace(SEED, (kind,), 200))
        assert result.right >= result.commands - 3, (kind, result)


def test_a_broken_rule_of_a_kind_is_broken_there_alone() -> None:
    """The table of rules that traffic breaks has no row that is never needed, and none that hides another rule."""
    for kind, rules in BROKEN.items():
        fired: set[Rule] = set()
        for seed in range(12):
            fired |= observe(trace(seed, (kind,), SIZE))[1].counts.keys()
        assert fired == rules


@pytest.mark.parametrize("name", ["doorbell", "fetch", "first_data", "cqe", "interrupt", "head"])
def test_a_wrong_instant_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that is off by 1 ps in one instant is silently wrong, or lost."""
    traffic = trace(SEED, ("base",), SIZE)
    commands, checker, observer = observe(traffic)
    number = next(
        k for k, command in enumerate(commands) if not command.doubts and command.interrupt_ps is not None and command.first_data_ps
    )
    field = f"{name}_ps"
    commands[number] = replace(commands[number], **{field: getattr(commands[number], field) + 1})
    monkeypatch.setattr(other_author, "observe", lambda _traffic: (commands, checker, observer))
    result = compare(traffic)
    assert not result.clean
    assert result.wrong + result.absent == 1


def test_a_lost_and_an_invented_record_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    traffic = trace(SEED, ("base",), SIZE)
    commands, checker, observer = observe(traffic)
    changed = [*commands[1:], replace(commands[-1], cid=0xABCD)]
    monkeypatch.setattr(other_author, "observe", lambda _traffic: (changed, checker, observer))
    result = compare(traffic)
    assert (result.absent, result.invented) == (1, 1)


def test_a_link_that_goes_down_frees_the_tags() -> None:
    """The tags of a function are free after a reset of its link; without one, their use again breaks a rule."""
    for down in (False, True):
        observer = LinkObserver()
        checker = Checker(observer)
        read_of_4 = bytes.fromhex("00000001 0100050f 00001000")
        observer.feed(1, Direction.UP, read_of_4)
        if down:
            observer.link(2, up=False)
        observer.feed(3, Direction.UP, read_of_4)
        assert checker.counts[Rule.TAG_REUSED] == (not down)


def test_program_prints_a_table_and_tells_faults(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["--commands", "60", "--seed", "3", "--kinds", "base", "--size", "50"]) == 0
    assert "| base |" in capsys.readouterr().out
    monkeypatch.setattr(other_author, "BROKEN", {})
    assert main(["--commands", "1000", "--seed", "3", "--kinds", "two_doorbells", "--size", "50", "--show", "1"]) == 1
    assert "DOORBELL_REPEATED" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["prefetch", "coalescing", "late", "reset_nssr"])
def test_an_ambiguous_trace_is_doubted(kind: str) -> None:
    """Seed 4243 reads SQEs twice, sends messages behind the head doorbell, and completes reads from before the trace."""
    result = compare(trace(4243, (kind,), 100))
    assert result.clean, result.faults[:3]
    assert result.doubtful + result.unsupported > 0


def test_an_intx_may_cross_the_head_doorbell() -> None:
    result = compare(trace(55, (), 0))
    assert result.clean, result.faults[:3]


@pytest.mark.parametrize("seed", [75, 236])
def test_data_at_an_address_of_the_controller_is_data_if_it_is_on_the_link(seed: int) -> None:
    """The generator gives out host memory behind the address of BAR0. No bridge would pass it, and the monitor believes the link."""
    result = compare(trace(seed, (), 0))
    assert result.clean, result.faults[:3]
