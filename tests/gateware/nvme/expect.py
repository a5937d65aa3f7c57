"""Commands and queues of the model, and the record a tracker must make of each command."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

UNKNOWN32, SATURATED32 = 0xFFFFFFFF, 0xFFFFFFFE
UNKNOWN24, SATURATED24 = 0xFFFFFF, 0xFFFFFE
GUESS, SHADOW, PARTIAL, ABORTED, NO_SQE, REUSED, LOSS, NO_RANGES = (1 << i for i in range(8))
READ, WRITE, FLUSH, DSM, WRITE_ZEROES = 0x02, 0x01, 0x00, 0x09, 0x08


@dataclass(eq=False)
class Command:
    qid: int
    cid: int
    opcode: int
    sqe: bytes
    nsid: int = 1
    length: int = 0  # bytes of data
    prp1: int = 0
    pages: list[int] = field(default_factory=list)  # address of the part of the data in each page
    lists: list[tuple[int, bytes]] = field(default_factory=list)  # PRP list pages: address, content
    pooled: bool = False  # its list lies in a block of the pool
    own_pages: bool = True  # its data pages are its own, and are freed when it ends
    left_over: int = 0  # a page of another command that is in its PRP2, which it does not need
    ranges: bytes = b""
    status: int = 0
    data: list[int] = field(default_factory=list)  # ticks of its data TLPs
    amounts: list[tuple[int, int]] = field(default_factory=list)  # of these, tick and bytes
    due: int | None = None  # bytes of data that a tracker can know to be due
    killed: int = 0  # tick at which it was aborted
    shown_early: bool = False  # its record was made at the CQE
    ticks: dict[str, int] = field(default_factory=dict)
    flags: int = 0
    done: object = None
    record: tuple[int, int] = (0, 0)  # slba, blocks
    queue: Queue | None = None
    guessed: bool = True  # at its CQE the host's messages were not known


@dataclass(eq=False)
class CompletionQueue:
    cqid: int
    base: int
    size: int
    vector: int
    tail: int = 0  # drive: where the next CQE goes
    head: int = 0
    phase: int = 1
    held: list[tuple[Command, bytes]] = field(default_factory=list)  # drive: CQEs to be written in one TLP
    unseen: list[Command] = field(default_factory=list)  # CQEs the host has not taken yet
    waiting: list[Command] = field(default_factory=list)  # CQEs without interrupt yet
    interrupt_set: bool = False
    in_flight: int = 0  # commands of all its submission queues
    unrung: list[Command] = field(default_factory=list)  # CQEs that the host has taken without ringing the doorbell
    alive: bool = True


@dataclass(eq=False)
class Queue:
    """A submission queue; others may complete to the same `cq`."""

    qid: int
    base: int
    size: int
    cq: CompletionQueue
    tail: int = 0  # host: where the next SQE goes
    rung: int = 0  # host: last doorbell
    bell: int = 0  # drive: the last doorbell seen
    rings: int = 0
    heard: int = 0
    head: int = 0  # drive: next to fetch
    entries: dict[int, Command] = field(default_factory=dict)
    in_flight: int = 0
    alive: bool = True
    cids: int = 0


def unsure(c: Command, page: int) -> int:
    """Return whether data of a command of unknown length is in doubt: 0 no, 1 perhaps, 2 surely.

    Blocks have at least 512 bytes. The pages that blocks of that size need are sure, and of other commands the page of PRP1. Data in
    further pages is in doubt. So is data of a short buffer behind the 512 bytes in which it may end, and data on a page that another
    command has.
    """
    if c.due is not None or not c.pages:
        return 0
    is_lba = c.qid and c.opcode in (READ, WRITE, 0x05)
    sure = -(-(c.prp1 % page + 512 * c.record[1]) // page) if is_lba else 1
    return 2 if len(c.pages) > sure and c.data and not c.killed and not c.status & 0x7FF else 1


def expected_record(c: Command, page: int = 4096) -> dict[str, int] | None:
    t, flags = dict(c.ticks), c.flags
    data = sorted(c.data)
    aborted = c.killed and t.get("cqe", c.killed + 1) > c.killed
    if c.killed:
        t = {name: tick for name, tick in t.items() if tick < c.killed}
        data = [tick for tick in data if tick < c.killed]
        if ("fetch" if flags & SHADOW else "doorbell") not in t:
            return None
    if aborted:
        t["cqe"] = c.killed
        flags |= ABORTED | (0 if "sqe" in t else NO_SQE)
    if c.shown_early or t.get("msix", 0) > t.get("head", t.get("msix", 0)):
        t.pop("msix", None)
    if c.shown_early:
        t.pop("head", None)
    if data:
        t["first"], t["last"] = data[0], data[-1]
    cqe = t["cqe"]

    def before(name: str) -> int:
        return min(cqe - t[name], SATURATED32) if name in t else UNKNOWN32

    def after(name: str) -> int:
        return min(t[name] - cqe, SATURATED24) if name in t and not aborted else UNKNOWN24

    known = not flags & NO_SQE
    checked = known and c.due is not None
    if checked:
        came = sum(size for tick, size in c.amounts if not c.killed or tick < c.killed)
        failed = aborted or c.status & 0x7FF
        flags |= PARTIAL if came > c.due or (came < c.due and not failed) else 0
    if c.opcode == DSM and c.qid and aborted and known:
        return {"cqe_tick": cqe, "cid": c.cid, "qid": c.qid, "loose": 1}
    slba, blocks = c.record
    if known and unsure(c, page) == 2:
        flags |= PARTIAL
    return {
        "cqe_tick": cqe,
        "doorbell_before": UNKNOWN32 if flags & SHADOW else before("doorbell"),
        "fetch_before": before("fetch"),
        "first_data_before": before("first"),
        "last_data_before": before("last"),
        "msix_after": after("msix"),
        "cq_head_after": after("head"),
        "opcode": c.opcode if known else 0,
        "qid": c.qid,
        "interrupt_guessed": int(c.guessed and not aborted),
        "cid": c.cid if known else 0,
        "status": c.status if not aborted else 0,
        "length_checked": int(checked),
        "nsid": (0xFFFF if c.nsid == 0xFFFFFFFF else min(c.nsid, 0xFFFE)) if known else 0,
        "blocks": blocks & 0xFFFFFFFF if known else 0,
        "slba": slba if known else 0,
        "flags": flags,
    }


def allow_partial(records: Iterable[dict[str, int]], perhaps: Iterable[Sequence[int]], got: Iterable[tuple[int, int, int, int]]) -> None:
    """Set PARTIAL in the expected records that may have it and have it. ``perhaps``: :attr:`.Model.perhaps_partial`.

    got : CQE's tick, queue, CID and flags of the tracker's records
    """
    flagged = {tuple(key) for *key, flags in got if flags & PARTIAL} & set(map(tuple, perhaps))
    for record in records:
        if (record["cqe_tick"], record["qid"], record["cid"]) in flagged:
            record["flags"] |= PARTIAL
