"""Commands from the kernel's block layer, which logs requests as issued to the driver and as completed.

It logs no CID and no queue, so a completion belongs to the oldest request in flight of the same place, direction and length. A shorter one
completes a part (``blk_update_request``): the request goes on behind it, and ends with its last part. A flush has no place.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from wattbell_spec.nvme import GENERIC, STATUSES, io

from wattbell.capture.hostcommands import HostCommands, command_table
from wattbell.capture.schema import SeenBy

SECTOR = 512
ISSUE, COMPLETE, REQUEUE = "D", "C", "R"
_FAILED = next(status.sc for status in STATUSES if status.sct == GENERIC and status.name == "internal_error")
_QUEUE = 1
_NAMES = {"read": "read", "write": "write", "trim": "dsm", "sync": "flush"}


class Request(NamedTuple):
    """An event of a request. ``action``: ISSUE, COMPLETE or REQUEUE; ``what``: read, write, trim or sync; sectors of 512 bytes."""

    ns: int
    action: str
    what: str
    sector: int
    sectors: int
    error: int = 0


@dataclass
class _Open:
    """A request in flight. ``left``: sectors that are not completed; ``parted_ns``: when the last part was, if any."""

    began_ns: int
    sector: int
    sectors: int
    left: int
    failed: bool = False
    parted_ns: int | None = None


class RequestPairing:
    """Pairs events of requests as they come, in order of time. ``lba_bytes``: of a logical block."""

    def __init__(self, lba_bytes: int = SECTOR, instant_u_ns: int = 1) -> None:
        self._lba, self._u_ns = lba_bytes, instant_u_ns
        self._open: defaultdict[tuple[str, int], deque[_Open]] = defaultdict(deque)
        self.unstarted = 0
        self.failed = 0
        self.parts = 0
        """Completions of a part of a request that are not its last."""
        self.total = 0

    @property
    def in_flight(self) -> int:
        """Issued and not completed so far."""
        return sum(map(len, self._open.values()))

    def add(self, events: Iterable[Request]) -> HostCommands:
        """The commands that these events complete."""
        rows: list[tuple[int, int, int, int, int, int]] = []
        for event in events:
            key = (event.what, 0 if event.what == "sync" else event.sector)
            if event.action == ISSUE:
                self._open[key].append(_Open(event.ns, event.sector, event.sectors, event.sectors))
                continue
            waiting = self._open.get(key)
            if not waiting:
                self.unstarted += event.action == COMPLETE
                continue
            if event.action == REQUEUE:
                again = waiting.pop()
                if again.parted_ns is not None:  # the part done before was a command by itself
                    rows.append(self._row(event.what, again, again.sectors - again.left, again.parted_ns))
            else:
                request = next((each for each in waiting if each.left == event.sectors), waiting[0])
                waiting.remove(request)
                request.failed |= event.error != 0
                if event.what == "sync" or not 0 < event.sectors < request.left:
                    rows.append(self._row(event.what, request, request.sectors, event.ns))
                else:
                    self.parts += 1
                    request.left -= event.sectors
                    request.parted_ns = event.ns
                    self._open[event.what, event.sector + event.sectors].appendleft(request)
            if not waiting:
                del self._open[key]
        self.total += len(rows)
        return HostCommands(_table(rows, self._u_ns), source=SeenBy.BLKTRACE)

    def _row(self, what: str, request: _Open, sectors: int, ended_ns: int) -> tuple[int, int, int, int, int, int]:
        self.failed += request.failed
        place = (0, 0) if what == "sync" else (request.sector * SECTOR // self._lba, sectors * SECTOR // self._lba)
        return request.began_ns, ended_ns, io(_NAMES[what]), *place, _FAILED if request.failed else 0

    def notes(self) -> list[str]:
        """Return notes for a reader of all the commands, each a sentence."""
        found = [
            "The block layer knows no CID, queue or NSID; Write Zeroes counts as a write, admin commands and passthrough are not seen."
        ]
        if self.unstarted:
            found.append(f"{self.unstarted} completions are of requests whose issue is not in the log; they are left out.")
        if self.in_flight:
            found.append(f"{self.in_flight} requests were in flight when the log ended; they are not in it.")
        if self.parts:
            found.append(f"{self.parts} completions are of a part of a request; a request ends with its last part.")
        if self.failed:
            found.append(f"{self.failed} requests failed; with what status is not in the log, Internal Error stands for it.")
        return found


def _table(rows: list[tuple[int, int, int, int, int, int]], u_ns: int) -> pa.Table:
    values = np.array(rows, np.int64).reshape(-1, 6)
    columns = {
        "doorbell_tick": values[:, 0],
        "cqe_tick": values[:, 1],
        "opcode": values[:, 2].astype(np.uint8),
        "slba": values[:, 3].astype(np.uint64),
        "blocks": np.minimum(values[:, 4], (1 << 32) - 1).astype(np.uint32),
        "status": values[:, 5].astype(np.uint16),
        "qid": np.full(len(values), _QUEUE, np.uint8),
    }
    return command_table(columns, SeenBy.BLKTRACE, u_ns)
