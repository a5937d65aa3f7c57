"""Commands from what the kernel's block layer says of its requests: issued to the driver, completed.

There is no CID and no queue in it, so a completion belongs to the oldest request in flight of the same place and direction. A flush has
no place. A request may be completed in parts: the kernel then tells each part, with the sector behind the last one, and the request ends
with its last part.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
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


class _InFlight(NamedTuple):
    """A request that was issued. ``sector``, ``sectors``: as issued; ``left``: sectors that are not completed; ``failed``: of its parts."""

    ns: int
    sector: int
    sectors: int
    left: int
    failed: bool = False


class RequestPairing:
    """Pairs events of requests as they come, in order of time. ``lba_bytes``: of a logical block."""

    def __init__(self, lba_bytes: int = SECTOR, instant_u_ns: int = 1) -> None:
        self._lba, self._u_ns = lba_bytes, instant_u_ns
        self._open: defaultdict[tuple[str, int], deque[_InFlight]] = defaultdict(deque)
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
                self._open[key].append(_InFlight(event.ns, event.sector, event.sectors, event.sectors))
                continue
            waiting = self._open.get(key)
            if not waiting:
                self.unstarted += event.action == COMPLETE
                continue
            if event.action == REQUEUE:
                waiting.pop()
            else:
                request = waiting.popleft()
                failed = request.failed or event.error != 0
                if 0 < event.sectors < request.left:
                    rest = request._replace(left=request.left - event.sectors, failed=failed)
                    self._open[event.what, event.sector + event.sectors].appendleft(rest)
                    self.parts += 1
                else:
                    self.failed += failed
                    place = request.sector * SECTOR // self._lba, request.sectors * SECTOR // self._lba
                    if event.what == "sync":
                        place = 0, 0
                    rows.append((request.ns, event.ns, io(_NAMES[event.what]), *place, _FAILED if failed else 0))
            if not waiting:
                del self._open[key]
        self.total += len(rows)
        return HostCommands(_table(rows, self._u_ns), source=SeenBy.BLKTRACE)

    def notes(self) -> list[str]:
        """What a reader of all the commands must know, each a sentence."""
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
