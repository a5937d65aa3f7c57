"""The smallest failing trace: fewer commands, a plainer set-up, and an early end, for as long as a silent fault stays."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.traffic.generate import Traffic, generate
from tests.traffic.judge import EVERYTHING, Fault, Verdict, expected
from tests.traffic.session import verdict_of
from tests.traffic.truth import INSTANTS, Deed

_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500)
_PLAINER: tuple[dict[str, Any], ...] = (
    {"aers": 0},
    {"queues": 1},
    {"queues": 2},
    {"depth": 1},
    {"depth": 2},
    {"batch": 1},
    {"payload": "none"},
    {"attr": 0},
    {"parallel": 1},
    {"fetch_burst": 1},
    {"interleaved": False},
    {"completions": "most"},
    {"tags": "next"},
    {"lengths": (512,)},
    {"lengths": (4096,)},
    {"lengths": (16384,)},
    {"cids": "next"},
    {"mps": 512, "mrrs": 4096},
)
"""Changes that make a set-up plainer, tried one after the other."""


def explain(fault: Fault) -> str:
    """A fault in a line: the command, and what record and truth say."""
    who = fault.deed or fault.account
    assert who is not None
    text = f"{fault.what}: SQ {who.qid}, CID {who.cid}"
    account = fault.account
    if fault.deed is not None:
        truth = expected(fault.deed)
        text += f", opcode {fault.deed.opcode:#04x}"
        if account is None:
            return f"{text}, doorbell {truth['doorbell']}, CQE {truth['cqe']}"
        text += "; " + "; ".join(f"{name} {account.values[name]}, true {truth[name]}" for name in fault.names)
    else:
        assert account is not None
        text += "; " + "; ".join(f"{name} {account.values[name]}" for name in EVERYTHING)
    return f"{text}; flags {account.flags:#04x}"


def cut(traffic: Traffic, end: int) -> Traffic:
    """The trace up to `end` in ps, and its truth. Data of commands that have no CQE by then has no end."""
    deeds = []
    for deed in traffic.deeds:
        one = replace(deed, may_lack=list(deed.may_lack))
        for name in (*INSTANTS, "reset", "named"):
            value = getattr(one, name)
            if value is not None and value > end:
                setattr(one, name, None)
        if one.first_data is not None and one.last_data is None:
            one.last_data = one.first_data
        if one.begun():
            deeds.append(one)
    tail = traffic.end - max(record[0] for record in traffic.records)
    return replace(traffic, records=[record for record in traffic.records if record[0] <= end], deeds=deeds, end=end + tail)


def shrink(traffic: Traffic, fidelity: str = "fast", judged: Callable[[Traffic, Path, str], Verdict] = verdict_of) -> Traffic:
    """A small trace that still has a silent fault; `traffic` itself where no smaller one has."""
    with tempfile.TemporaryDirectory(prefix="wattbell-shrink-") as name:
        folder = Path(name)

        def fails(one: Traffic) -> bool:
            return bool(judged(one, folder, fidelity).silent)

        best = traffic
        for size in (size for size in _SIZES if size < traffic.setup.commands):
            one = generate(replace(traffic.setup, commands=size))
            if fails(one):
                best = one
                break
        for change in _PLAINER:
            plainer = replace(best.setup, **change)
            if plainer != best.setup and fails(one := generate(plainer)) and len(one.records) <= len(best.records):
                best = one
        faults = judged(best, folder, fidelity).faults
        ends = sorted(_end(fault.deed) for fault in faults if fault.deed is not None)
        for end in ends[:1]:
            if fails(one := cut(best, end)):
                best = one
        return best


def _end(deed: Deed) -> int:
    """The last instant of a command, in ps."""
    return max(getattr(deed, name) or 0 for name in (*INSTANTS, "reset"))
