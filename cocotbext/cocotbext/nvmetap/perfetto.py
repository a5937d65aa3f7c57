"""Commands and rail as a trace for Perfetto: JSON in the Trace Event Format, which ui.perfetto.dev opens."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .command import Command
from .coverage import opcode_name
from .power import SupplyRail

INSTANTS = ("doorbell_ps", "fetch_ps", "first_data_ps", "last_data_ps", "cqe_ps", "interrupt_ps", "head_ps")
"""Fields of :class:`Command` with its instants."""


def write_perfetto(path: Path | str, commands: Iterable[Command], rail: SupplyRail | None = None) -> int:
    """Write a trace; return the number of commands in it.

    A command is a slice from its first instant to its last, in the row of its SQ. Its instants are marks in the slice. The rail gives a
    counter of the power in W. Commands that showed no instant are left out.
    """
    events: list[dict[str, Any]] = []
    queues: set[tuple[int, int]] = set()
    count = 0
    for number, command in enumerate(commands):
        seen = {name: time for name in INSTANTS if (time := getattr(command, name)) is not None}
        if not seen:
            continue
        count += 1
        queues.add((command.function, command.sqid))
        events += _slice(command, number, seen)
    for function, sqid in sorted(queues):
        events.append(_meta("process_name", function, 0, f"function {function:04x}h"))
        events.append(_meta("thread_name", function, sqid, f"SQ {sqid}" if sqid else "admin SQ"))
    if rail is not None:
        events += _counter(rail)
    events.sort(key=lambda event: event.get("ts", 0.0))
    Path(path).write_text(json.dumps({"displayTimeUnit": "ns", "traceEvents": events}), encoding="utf-8")
    return count


def _slice(command: Command, number: int, seen: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Yield begin, marks and end of a command: asynchronous events, as commands of a queue overlap."""
    name = opcode_name(command.sqid, command.opcode)
    arguments = {
        key: value
        for key in ("cid", "opcode", "nsid", "slba", "blocks", "status", "data_bytes", "queue_depth")
        if (value := getattr(command, key)) is not None
    }
    if command.doubts:
        arguments["doubts"] = [doubt.value for doubt in command.doubts]
    common = {"cat": "nvme", "id": f"{number:#x}", "pid": command.function, "tid": command.sqid}
    first, last = min(seen.values()), max(seen.values())
    yield {"ph": "b", "name": name, "ts": first / 1e6, "args": arguments, **common}
    for key, time in seen.items():
        yield {"ph": "n", "name": key.removesuffix("_ps").replace("_", " "), "ts": time / 1e6, **common}
    yield {"ph": "e", "name": name, "ts": last / 1e6, **common}


def _counter(rail: SupplyRail) -> Iterator[dict[str, Any]]:
    for time_ps, volts, amps in rail.changes():
        yield {"ph": "C", "name": "power", "pid": 0, "ts": time_ps / 1e6, "args": {"W": volts * amps}}


def _meta(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}
