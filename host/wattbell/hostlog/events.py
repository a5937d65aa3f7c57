"""Pair set-ups and completions of the NVMe driver to commands.

The driver's tracepoints describe a command in two events, ``nvme_setup_cmd`` and ``nvme_complete_rq`` (drivers/nvme/host/trace.h of the
Linux kernel). They belong together by controller, queue and CID. The driver's CID is a tag (12 bits). Since Linux 5.14 it also has the
number of times that the tag was used (4 bits). A tag has one command in flight. So a set-up and the tag's next event are one command if
that event is a completion of the same CID. Until Linux 6.0, ``nvme_complete_rq`` names the tag alone, without that number (679c54f2de67
adds it, which stable 5.15 has and stable 5.10 has not). There, a set-up and the next completion of its tag are one command.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
from wattbell_spec.nvme import LBA_OPCODES, io
from wattbell_spec.wire import BlockContent, CommandFlag

from wattbell.capture.hostcommands import HostCommands, command_table
from wattbell.capture.marking import BY_FEATURE, Marking
from wattbell.capture.schema import SeenBy
from wattbell.wire.decode import Gap

SETUP, COMPLETE = 0, 1
TAG = 0x0FFF
_HOST_ABORTS = (0x370, 0x371)
"""SCT 3, SC 70h and 71h: the host itself gave the command up (path error, reset after a time-out); there is no CQE."""
_SC = 0x7FF
_MOST_QID = 255


@dataclass
class Events:
    """Events in any order; arrays of one length.

    lba: CDW10 and CDW11
    cdw12: unchanged
    disk: name of the block device, empty for admin commands

    A completion has ``cid``, ``status`` and its place (controller, queue, disk); the rest is 0.
    """

    ns: npt.NDArray[np.int64]
    kind: npt.NDArray[np.uint8]
    controller: npt.NDArray[np.int32]
    qid: npt.NDArray[np.int32]
    cid: npt.NDArray[np.uint16]
    opcode: npt.NDArray[np.uint8]
    nsid: npt.NDArray[np.uint32]
    lba: npt.NDArray[np.uint64]
    cdw12: npt.NDArray[np.uint32]
    status: npt.NDArray[np.uint16]
    disk: npt.NDArray[np.bytes_]

    def __len__(self) -> int:
        return len(self.ns)

    def take(self, which: npt.NDArray[np.generic]) -> Events:
        """Those at some places, or where a mask is true."""
        return Events(*(getattr(self, field.name)[which] for field in fields(self)))


def empty() -> Events:
    """No events."""
    types = (np.int64, np.uint8, np.int32, np.int32, np.uint16, np.uint8, np.uint32, np.uint64, np.uint32, np.uint16, "S32")
    return Events(*(np.empty(0, kind) for kind in types))


def together(parts: Sequence[Events]) -> Events:
    """Several as one."""
    return Events(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Events))) if parts else empty()


@dataclass(frozen=True)
class WantedCommands:
    """The wanted commands. The admin queue belongs to every namespace.

    controller: the N of /dev/nvmeN; None: all
    nsid: the namespace; None: all
    """

    controller: int | None = None
    nsid: int | None = None
    disks: tuple[str, ...] = ()
    """Block devices of the namespace, as the events name them; each path to the namespace has a name.

    For completions, which have no NSID.
    """


class Pairing:
    """Pairs events as they come. ``instant_u_ns``: limit of the error of their time stamps as times of these events. ``marking``: which
    commands are markers."""

    def __init__(self, wanted: WantedCommands, instant_u_ns: int = 1, marking: Marking = BY_FEATURE) -> None:
        self._wanted = wanted
        self._marking = marking
        self._u_ns = instant_u_ns
        self._open = empty()
        self._latest_lost_ns: int | None = None
        self.others = 0
        """Commands of other namespaces and controllers."""
        self.unfinished = 0
        """Set up again under the same CID, or a later one of the same tag, without a completion."""
        self.unstarted = 0
        """Completions without a set-up."""
        self.wide_qids = 0
        self.unsized = 0
        """Commands that moved data of a length that this log's readers do not take (Zone Append)."""
        self.total = 0
        self.by_tag = 0
        """Pairs with a completion that names the tag alone."""
        self._whole_cids = False

    def add(self, events: Events, lost: Sequence[Gap] = ()) -> HostCommands:
        """The commands that these events complete. ``events``: none may be later than one of a later call. ``lost``: where events are
        missing, ticks in ns, count of events."""
        events = together([self._open, events])
        events = events.take(np.argsort(events.ns, kind="stable"))
        if self._wanted.controller is not None:
            mine = events.controller == self._wanted.controller
            self.others += int((~mine & (events.kind == COMPLETE)).sum())
            events = events.take(mine)
        key = (events.controller.astype(np.int64) << 44) | (events.qid.astype(np.int64) << 12) | (events.cid & TAG)
        order = np.argsort(key, kind="stable")
        events, key = events.take(order), key[order]
        same = key[1:] == key[:-1]
        starts = events.kind == SETUP
        # one completion with a number of uses shows that this kernel names it in all
        self._whole_cids |= bool((events.cid[~starts] > TAG).any())
        equal = events.cid[1:] == events.cid[:-1]
        alike = equal if self._whole_cids else equal | (events.cid[1:] == events.cid[:-1] & TAG)
        pairs = np.flatnonzero(same & starts[:-1] & ~starts[1:] & alike)
        self.by_tag += int((~equal[pairs]).sum())
        used = np.zeros(len(events), np.bool_)
        used[pairs] = used[pairs + 1] = True
        last = np.append(~same, np.ones(min(1, len(events)), np.bool_))
        still = starts & last
        self._open = events.take(still)
        dropped = events.take(starts & ~used & ~still)
        alone = events.take(~starts & ~used)
        begun, done = events.take(pairs), events.take(pairs + 1)
        return self._commands(begun, done, alone, dropped, list(lost))

    def end(self) -> HostCommands:
        """Return the commands without a completion: their markers, and no rows."""
        left, self._open = self._open, empty()
        return self._commands(empty(), empty(), empty(), left, [])

    @property
    def in_flight(self) -> int:
        """Commands set up and not completed so far."""
        return int((~self._of_another(self._open)).sum())

    def notes(self) -> list[str]:
        """Return notes for a reader of all the commands, each a sentence."""
        found = []
        if self.unfinished:
            found.append(
                f"{self.unfinished} commands were set up and no completion followed: not submitted in the end, or the event is lost."
            )
        if self.unstarted:
            found.append(f"{self.unstarted} completions are of commands whose set-up is not in the log (flag NO_SQE).")
        if self.in_flight:
            found.append(f"{self.in_flight} commands were in flight when the log ended; they are not in it.")
        if self.by_tag:
            found.append(
                f"{self.by_tag} completions name the tag alone (Linux 5.10 to 5.19 may): each is taken for that of the tag's latest set-up."
            )
        if self.others:
            found.append(f"{self.others} commands of other namespaces or controllers are left out.")
        if self.unsized:
            found.append(f"{self.unsized} Zone Append commands are not in the bytes: MB/s and bytes per joule are too low by their data.")
        if self.wide_qids:
            found.append(f"{self.wide_qids} commands of queues above {_MOST_QID} are shown in queue {_MOST_QID}.")
        return found

    def _commands(self, begun: Events, done: Events, alone: Events, dropped: Events, lost: list[Gap]) -> HostCommands:
        theirs = self._of_another(begun)
        self.others += int(theirs.sum())
        begun, done = begun.take(~theirs), done.take(~theirs)
        foreign = self._names_another(alone)
        self.others += int(foreign.sum())
        alone = alone.take(~foreign)
        dropped = dropped.take(~self._of_another(dropped))
        self.unstarted += len(alone)
        self.unfinished += len(dropped)
        markers = sorted(self._markers(begun) + self._markers(dropped))
        qid = np.concatenate((begun.qid, alone.qid))
        self.wide_qids += int((qid > _MOST_QID).sum())
        data = (begun.qid > 0) & np.isin(begun.opcode, np.array(LBA_OPCODES, np.uint8))
        ranges = (begun.qid > 0) & (begun.opcode == io("dsm"))
        low, high = (begun.lba & 0xFFFFFFFF), (begun.lba >> np.uint64(32))
        start = np.where(ranges, 0, np.where(data, begun.lba, low)).astype(np.uint64)
        blocks = np.where(ranges, 0, np.where(data, (begun.cdw12 & 0xFFFF).astype(np.uint64) + 1, high)).astype(np.uint32)
        # a Flush has no length; its CDW10 and CDW11 hold no address
        flush = (begun.qid > 0) & (begun.opcode == io("flush"))
        start[flush], blocks[flush] = 0, 0
        flags = np.where(ranges, int(CommandFlag.NO_RANGES), 0).astype(np.uint8)
        cut = np.isin(done.status & _SC, _HOST_ABORTS)
        flags[cut] |= int(CommandFlag.ABORTED)
        for gap in lost:
            flags[(begun.ns <= gap.last_tick) & (done.ns >= gap.first_tick)] |= int(CommandFlag.LOSS)
        self.unsized += int(((begun.qid > 0) & (begun.opcode == io("zone_append"))).sum())
        count, extra = len(begun), len(alone)
        nothing = np.zeros(extra, np.uint64)
        doorbell = np.ma.MaskedArray(np.concatenate((begun.ns, alone.ns)), np.arange(count + extra) >= count)
        nsid = np.ma.MaskedArray(np.concatenate((begun.nsid, nothing.astype(np.uint32))), np.arange(count + extra) >= count)
        columns = {
            "cqe_tick": np.concatenate((done.ns, alone.ns)),
            "doorbell_tick": doorbell,
            "opcode": np.concatenate((begun.opcode, nothing.astype(np.uint8))),
            "qid": np.minimum(qid, _MOST_QID).astype(np.uint8),
            "cid": np.concatenate((begun.cid, alone.cid)),
            "status": np.concatenate((done.status, alone.status)),
            "nsid": nsid,
            "slba": np.concatenate((start, nothing)),
            "blocks": np.concatenate((blocks, nothing.astype(np.uint32))),
            "flags": np.concatenate((flags, np.full(extra, int(CommandFlag.NO_SQE), np.uint8))),
        }
        self.total += count + extra
        table = command_table(columns, SeenBy.TRACEPOINT, self._u_ns)
        return HostCommands(table, markers, _of_commands(sorted(lost, key=lambda gap: gap.first_tick), alone), SeenBy.TRACEPOINT)

    def _markers(self, begun: Events) -> list[tuple[int, int]]:
        found = np.flatnonzero(self._marking.mask(begun.qid, begun.opcode, begun.lba))
        return [(int(begun.ns[at]), int(begun.lba[at] >> np.uint64(32))) for at in found]

    def _of_another(self, begun: Events) -> npt.NDArray[np.bool_]:
        if self._wanted.nsid is None:
            return np.zeros(len(begun), np.bool_)
        return np.asarray((begun.qid > 0) & (begun.nsid != self._wanted.nsid), np.bool_)

    def _names_another(self, alone: Events) -> npt.NDArray[np.bool_]:
        if self._wanted.nsid is None or not self._wanted.disks:
            return np.zeros(len(alone), np.bool_)
        known = np.isin(alone.disk, np.array([name.encode() for name in self._wanted.disks], "S32"))
        # commands that a program sends through the character device name no disk
        return np.asarray((alone.qid > 0) & (alone.disk != b"") & ~known, np.bool_)


def _of_commands(lost: list[Gap], alone: Events) -> list[Gap]:
    """Turn counts of events into counts of commands. A command has two events, so half of the missing ones.

    A completion without its set-up is a row and no loss.
    """
    edges = np.array([gap.first_tick for gap in lost] + [np.iinfo(np.int64).max], np.int64)
    rows, _ = np.histogram(alone.ns, edges) if lost else (np.zeros(0, np.int64), None)
    found = []
    for gap, there in zip(lost, rows.tolist(), strict=True):
        count = gap.count if gap.count < 0 else max(1, (gap.count - there + 1) // 2)
        found.append(Gap(BlockContent.COMMANDS, gap.first_tick, gap.last_tick, count, gap.reason))
    return found
