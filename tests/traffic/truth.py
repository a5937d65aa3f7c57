"""True course of each command: when its TLPs passed the tap."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

INSTANTS = ("doorbell", "fetch", "first_data", "last_data", "cqe", "interrupt", "head")
"""In ps; None: the trace has no such instant."""


@dataclass(slots=True)
class Deed:
    """A command as it happened.

    ``fetch``: the drive's read that brought the SQE. ``first_data``, ``last_data``: of user data and metadata alike; of a host's data,
    the completions that bring them. ``cqe``: the TLP with the phase tag. ``interrupt``: the message by which the drive announced the CQE.
    ``head``: the first doorbell that moves the CQ's head past the CQE.
    """

    function: int
    qid: int
    cid: int
    opcode: int
    nsid: int
    slba: int
    blocks: int
    """``slba`` and ``blocks`` as the wire format defines them for a record (docs/wire-format.md)."""
    status: int = 0
    doorbell: int | None = None
    fetch: int | None = None
    first_data: int | None = None
    last_data: int | None = None
    cqe: int | None = None
    interrupt: int | None = None
    head: int | None = None
    reset: int | None = None
    """When a reset or the deletion of its queue ended the command; None: neither did."""
    reset_until: int | None = None
    """End of the interval in which the reset took effect; None: an instant."""
    may_lack: list[str] = field(default_factory=list)
    """Instants that a record may also lack: the TLP came when the command was already over by another account."""
    unseen: bool = False
    """The trace begins too late to show the command's CQE: no record is due."""
    sequence: int = 0
    """Order in which the host submitted."""

    pieces: list[int] = field(default_factory=list)
    """Starts of the TLPs with data."""
    strays: list[int] = field(default_factory=list)
    """Starts of TLPs with its data behind the reset that ended it, as completions of reads that were outstanding."""
    named: int | None = None
    """When the SQE had passed the tap. Before that the trace does not show which command it is."""

    def unnamed(self) -> bool:
        """Whether the command ended, or the trace, before its SQE had passed: no record can name it."""
        if self.named is None:
            return self.cqe is None
        return self.reset is not None and self.named > (self.reset_until or self.reset)

    def begun(self) -> bool:
        """Whether the trace shows that the command exists."""
        return self.doorbell is not None or self.fetch is not None

    def settle(self) -> None:
        """Work out the data's span. TLPs behind a reset belong to nothing."""
        pieces = self.pieces
        if self.reset is not None:
            limit = self.reset if self.reset_until is None else self.reset_until
            self.strays = [start for start in pieces if start > limit]
            pieces = [start for start in pieces if start <= limit]
        self.first_data, self.last_data = (min(pieces), max(pieces)) if pieces else (None, None)
        self.pieces = []
        # Of one tick (1 ns), nobody can say which came first.
        if self.interrupt is not None and self.head is not None and self.interrupt // 1000 >= self.head // 1000:
            self.may_lack.append("interrupt")
        if self.reset is not None and self.unnamed():
            self.may_lack.append("fetch")
        if self.reset is not None:
            self.may_lack += [name for name in INSTANTS if (getattr(self, name) or 0) // 1000 == self.reset // 1000]

    def lacks_after(self, down: int) -> None:
        """Forget TLPs that were due on a link that went down at `down`."""
        for name in INSTANTS:
            value = getattr(self, name)
            if value is not None and value > down:
                setattr(self, name, None)
        self.pieces = [start for start in self.pieces if start <= down]
        if self.named is not None and self.named > down:
            self.named = self.fetch = None


def to_json(deed: Deed) -> dict[str, Any]:
    """Plain data, for the file beside a trace."""
    return {name: getattr(deed, name) for name in Deed.__slots__ if name not in ("pieces", "strays")}
