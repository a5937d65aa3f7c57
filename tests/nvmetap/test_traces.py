"""The 54 traces of ``../shared/cases/traffic``, by another author: each command is right, or doubtful, or named in a table here."""

from __future__ import annotations

from typing import Any

import pytest
from cocotbext.nvmetap import Checker, Command, LinkObserver

from tests.nvmetap.wbt import shared_traces, watch

TRACES = 54
DOUBTFUL = {
    "opcodes": 1,  # the truth of the firmware download has 0 for its data; the drive reads a twentieth of it, which is said
    "prp4k_256": 2,
    "prp4k_64": 3,
    "prp4k_const": 6,
    "prp4k_exact": 4,
}
"""Most commands of a trace that may differ from the truth, all with a doubt.

The ``prp4k`` traces have no Identify, and their first command moves 8 blocks in 4096 bytes where a block has 4096: until lists contradict
that, lengths are learnt wrongly.
"""
LISTS = {"opcodes": 1}
"""Commands of a trace that set a host memory buffer. The truth has the read of the descriptor list as data.

CDW13 and CDW14 point to the list, not the data pointer (NVMe 1.4, 5.21.1.13). Here it counts as a list, as PRP lists do.
"""
ABSENT = {"over1024": 3}
"""Commands of the truth without any TLP in the trace: it ends before them."""
MORE = {"aer_5s": 1, "over1024": 1100, "sq_deleted": 2}
"""Commands with a CQE in the trace that the truth leaves out."""
BREACHES = {
    "hmb_1dw": "the trace has no Set Features for its host memory buffer",
    "hmb_bulk": "the same",
    "multi_hmb2": "the same",
    "opcodes": "a firmware download that moves a twentieth of its length",
}
"""Traces in which rules fire, and why that is right."""


def _names() -> list[str]:
    try:
        return sorted(shared_traces())
    except pytest.skip.Exception:
        return []


def _ns(time_ps: int | None) -> int | None:
    return None if time_ps is None else time_ps // 1000


def _differences(command: Command, truth: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    got = {
        "op": command.opcode,
        "db_ns": _ns(command.doorbell_ps),
        "first_ns": _ns(command.first_data_ps),
        "last_ns": _ns(command.last_data_ps),
        "msi_ns": _ns(command.interrupt_ps),
        "head_ns": _ns(command.head_ps),
    }
    return {name: (got[name], truth[name]) for name in got if name in truth and got[name] != truth[name]}


def test_all_traces_are_there() -> None:
    assert len(shared_traces()) == TRACES
    assert {*DOUBTFUL, *ABSENT, *MORE, *BREACHES} <= set(_names())


@pytest.mark.parametrize("name", _names())
def test_trace(name: str) -> None:
    content, truth = shared_traces()[name]
    observer = LinkObserver()
    checker = Checker(observer)
    commands = watch(content, observer)
    found: dict[tuple[int, int, int | None], list[Command]] = {}
    for command in commands:
        if command.cqe_ps is not None:
            found.setdefault((command.sqid, command.cid, _ns(command.cqe_ps)), []).append(command)
    wrong, doubtful, absent, lists = [], 0, 0, 0
    for told in truth:
        same = found.get((told["qid"], told["cid"], told["cqe_ns"]))
        if not same:
            absent += 1
            continue
        command = same.pop(0)
        differences = _differences(command, told)
        if differences and command.doubts:
            doubtful += 1
        elif differences and (command.sqid, command.opcode, command.data_bytes) == (0, 0x09, 0) and command.first_data_ps is None:
            lists += 1
        elif differences:
            wrong.append((command, differences))
    assert wrong == []
    assert lists == LISTS.get(name, 0)
    assert doubtful <= DOUBTFUL.get(name, 0)
    assert absent == ABSENT.get(name, 0)
    assert sum(map(len, found.values())) == MORE.get(name, 0)
    assert bool(checker.counts) == (name in BREACHES), checker.violations[:3]


def test_doubts_are_rare() -> None:
    """A doubt on every record would make the comparison worthless."""
    commands = right = 0
    for content, _truth in shared_traces().values():
        for command in watch(content, LinkObserver()):
            commands += 1
            right += not command.doubts or [doubt.name for doubt in command.doubts] == ["QUEUE_MEMORY"]
    assert commands > 8000
    assert right >= 0.99 * commands
