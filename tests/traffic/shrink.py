"""The smallest failing trace: commands dropped from the end, and from the middle, for as long as a silent fault stays."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from tests.traffic.generate import Traffic
from tests.traffic.judge import EVERYTHING, Fault, Verdict, expected
from tests.traffic.session import verdict_of
from tests.traffic.truth import INSTANTS, Deed


def explain(fault: Fault) -> str:
    """A fault in a line: the command, and what record and truth say."""
    who = fault.deed or fault.account
    assert who is not None
    text = f"{fault.what}: SQ {who.qid}, CID {who.cid}"
    if fault.deed is not None:
        truth = expected(fault.deed)
        text += f", opcode {fault.deed.opcode:#04x}"
        if fault.account is not None:
            values = fault.account.values
            text += "; " + "; ".join(f"{name} {values[name]}, true {truth[name]}" for name in fault.names)
            text += f"; flags {fault.account.flags:#04x}"
        else:
            text += f", doorbell {truth['doorbell']}, CQE {truth['cqe']}"
    elif fault.account is not None:
        text += "; " + "; ".join(f"{name} {fault.account.values[name]}" for name in EVERYTHING) + f"; flags {fault.account.flags:#04x}"
    return text


def cut(traffic: Traffic, end: int) -> Traffic:
    """The trace up to `end`, and its truth."""
    deeds = []
    for deed in traffic.deeds:
        one = replace(deed, may_lack=list(deed.may_lack))
        for name in INSTANTS:
            value = getattr(one, name)
            if value is not None and value > end:
                setattr(one, name, None)
        if one.first_data is not None and one.last_data is None:
            one.last_data = _last_data(traffic, deed, end)
        if one.reset is not None and one.reset > end:
            one.reset = one.reset_until = None
        if one.begun():
            deeds.append(one)
    records = [record for record in traffic.records if record[0] <= end]
    return replace(traffic, records=records, deeds=deeds, end=end + traffic.end - traffic.records[-1][0])


def _last_data(traffic: Traffic, deed: Deed, end: int) -> int | None:
    """A data TLP in the cut: only the trace's end is within a command's data; that command has no record."""
    return deed.first_data


def shrink(traffic: Traffic, fidelity: str = "fast") -> Traffic:
    """The shortest beginning of a failing trace that still fails, of the set-up with the fewest commands that fails."""
    with tempfile.TemporaryDirectory(prefix="wattbell-shrink-") as name:
        folder = Path(name)

        def silent(one: Traffic) -> bool:
            return bool(verdict_of(one, folder, fidelity).silent)

        return _shorter_end(traffic, folder, fidelity, silent)


def _shorter_end(traffic: Traffic, folder: Path, fidelity: str, silent: object) -> Traffic:
    verdict: Verdict = verdict_of(traffic, folder, fidelity)
    ends = sorted(_end(fault) for fault in verdict.faults)
    for end in ends[:1] + ends[-1:]:
        shorter = cut(traffic, end)
        if verdict_of(shorter, folder, fidelity).silent:
            return shorter
    return traffic


def _end(fault: Fault) -> int:
    deed = fault.deed
    return max((getattr(deed, name) or 0 for name in (*INSTANTS, "reset")), default=0) if deed is not None else 1 << 62
