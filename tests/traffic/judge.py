"""A stream's record of each command, held against the truth.

A record's instant is *right* if it has the tick of the TLP's first symbol: the trace's picoseconds, cut to ticks (docs/bus-trace.md,
docs/virtual-rig.md). No tolerance applies but to resets by a sideband, which may show 4 ns late.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from wattbell.wire.decode import StreamDecoder
from wattbell_spec import wire

from tests.traffic.truth import INSTANTS, Deed

ORIGIN_TICK = 1_000_000_000
"""Tick of the trace's beginning."""
_SIDEBAND_TICKS = 5
"""A sideband's event comes up to a clock of 4 ns late (docs/virtual-rig.md), and its ps are cut to a tick."""
_UNKNOWN32, _BOUND32 = 0xFFFFFFFF, 0xFFFFFFFE
_UNKNOWN24, _BOUND24 = 0xFFFFFF, 0xFFFFFE
_AGES = {
    "doorbell": ("doorbell_before", -1),
    "fetch": ("fetch_before", -1),
    "first_data": ("first_data_before", -1),
    "last_data": ("last_data_before", -1),
    "interrupt": ("msix_after", 1),
    "head": ("cq_head_after", 1),
}
"""Field of a record by instant, and whether it lies before or after the CQE."""
FIELDS = ("opcode", "status", "nsid", "slba", "blocks")
EVERYTHING = (*INSTANTS, *FIELDS)
GUESS, SHADOW, DATA_PARTIAL, ABORTED, NO_SQE, CID_REUSED, LOSS, NO_RANGES = (1 << k for k in range(8))
"""Flags of a record (docs/wire-format.md)."""
INTERRUPT_GUESSED = 1 << 8
"""Its field `interrupt_guessed`, as another flag."""
_COVERS = {
    GUESS: EVERYTHING,
    SHADOW: ("doorbell", "interrupt", "head"),
    DATA_PARTIAL: ("first_data", "last_data"),
    ABORTED: ("cqe", "interrupt", "head", "status"),
    NO_SQE: ("opcode", "nsid", "slba", "blocks", "doorbell", "fetch", "first_data", "last_data"),
    CID_REUSED: EVERYTHING,
    LOSS: EVERYTHING,
    NO_RANGES: ("slba", "blocks"),
    INTERRUPT_GUESSED: ("interrupt",),
}
"""Fields that each flag puts in doubt, by the wire format's words."""


@dataclass(frozen=True, slots=True)
class Bound:
    """An instant that is at least so far away; the record knows no more."""

    ticks: int


@dataclass(slots=True)
class Account:
    """A record as it reads: instants in ticks from the trace's beginning, None where not observed."""

    qid: int
    cid: int
    flags: int
    values: dict[str, Any]

    def covered(self) -> set[str]:
        """Facts that the record's own flags put in doubt."""
        return {name for flag, names in _COVERS.items() if self.flags & flag for name in names}


@dataclass
class Stream:
    """Records and counters of a decoded stream."""

    accounts: list[Account]
    status: dict[str, int] = field(default_factory=dict)
    """Counters of the last STATUS block, less the counters of the first."""
    in_flight: int = 0
    losses: Counter[int] = field(default_factory=Counter)
    """Records lost by source, of the LOSS events."""
    dropped: int = 0
    """Command records that blocks say are missing."""
    events: Counter[int] = field(default_factory=Counter)
    second_function: bool = False
    """An event says that there is a second function, which is not followed."""
    spaces: bool = False
    """An event says that the drive uses addresses of other spaces, so commands may be missing."""
    sqe_parts: bool = False
    """An event says that SQEs are read in parts, so the queues that they create are not followed."""


def read(data: bytes) -> Stream:
    """Decode a stream."""
    decoder = StreamDecoder()
    batches = decoder.feed(data) + decoder.finish()
    stream = Stream([])
    names = ["doorbell_before", "fetch_before", "first_data_before", "last_data_before", "msix_after", "cq_head_after"]
    first: dict[str, int] = {}
    for batch in batches:
        commands = batch.commands
        if commands is not None:
            columns = commands.columns
            cqes = (commands.cqe_tick - ORIGIN_TICK).tolist()
            rows = zip(
                cqes,
                *(columns[name].tolist() for name in (*names, "opcode", "qid", "cid", "status", "nsid", "blocks", "slba")),
                (columns["flags"] | columns["interrupt_guessed"].astype("uint16") * INTERRUPT_GUESSED).tolist(),
            )
            stream.accounts += [_account(*row) for row in rows]
        if batch.events is not None:
            columns = batch.events.columns
            stream.events.update(columns["type"].tolist())
            guesses = columns["arg8"][columns["type"] == wire.EventType.GUESSING]
            stream.second_function |= bool((guesses == wire.GuessReason.SECOND_FUNCTION).any())
            stream.spaces |= bool((guesses == wire.GuessReason.ADDRESS_SPACES).any())
            stream.sqe_parts |= bool((guesses == wire.GuessReason.SQE_PARTS).any())
            lost = columns["type"] == wire.EventType.LOSS
            for source, count in zip(columns["arg8"][lost].tolist(), columns["arg32"][lost].tolist()):
                stream.losses[source] += count
        if batch.status is not None:
            columns = batch.status.columns
            for name in ("lost_commands", "lost_records", "lost_tlps", "lost_pages", "unmatched", "malformed", "commands"):
                first.setdefault(name, int(columns[name][0]))
                stream.status[name] = int(columns[name][-1]) - first[name]
            stream.in_flight = int(columns["in_flight"][-1])
    stream.dropped = decoder.counters.dropped["COMMANDS"]
    return stream


def _account(
    cqe: int,
    doorbell: int,
    fetch: int,
    first: int,
    last: int,
    message: int,
    head: int,
    opcode: int,
    qid: int,
    cid: int,
    status: int,
    nsid: int,
    blocks: int,
    slba: int,
    flags: int,
) -> Account:
    values: dict[str, Any] = {"cqe": cqe, "opcode": opcode, "status": status, "nsid": nsid, "blocks": blocks, "slba": slba}
    for name, age in (("doorbell", doorbell), ("fetch", fetch), ("first_data", first), ("last_data", last)):
        values[name] = cqe - age if age < _BOUND32 else None if age == _UNKNOWN32 else Bound(cqe - _BOUND32)
    for name, age in (("interrupt", message), ("head", head)):
        values[name] = cqe + age if age < _BOUND24 else None if age == _UNKNOWN24 else Bound(cqe + _BOUND24)
    return Account(qid, cid, flags, values)


@dataclass
class Fault:
    """A record that differs from its command, or one without a command, or a command without a record."""

    what: str
    """``wrong``, ``unsaid``, ``invented`` or ``lost``."""
    deed: Deed | None
    account: Account | None
    names: tuple[str, ...] = ()


@dataclass
class Verdict:
    """Counts of commands. Each command that the trace shows is in one of the first seven."""

    right: int = 0
    flagged: int = 0
    wrong: int = 0
    """Silently wrong: an instant or a field differs and no flag puts it in doubt."""
    unsaid: int = 0
    """Nothing is wrong, but an instant is absent that the trace has, and no flag says so."""
    lost_counted: int = 0
    """A counter has them; or they belong to a second function, and the stream says that it is not followed."""
    lost_silent: int = 0
    pending: int = 0
    """Commands without an end in the trace, or not released: the last STATUS counts them as in flight, as it does the commands of a
    deleted SQ that were never read. Also those that ended before their SQE had passed: the trace does not name them."""
    invented: int = 0
    """Records without a flag that belong to no command."""
    invented_flagged: int = 0
    overcounted: int = 0
    """Commands that the stream counts as lost or in flight beyond those that are."""
    names: Counter[str] = field(default_factory=Counter)
    """How often each instant or field was wrong or unsaid."""
    faults: list[Fault] = field(default_factory=list)

    @property
    def commands(self) -> int:
        """Commands of the trace."""
        return self.right + self.flagged + self.wrong + self.unsaid + self.lost_counted + self.lost_silent + self.pending

    @property
    def silent(self) -> int:
        """Faults that no flag and no counter shows."""
        return self.wrong + self.unsaid + self.lost_silent + self.invented

    def add(self, other: Verdict) -> None:
        """Add the counts of another trace; its faults stay there."""
        for name in (
            "right",
            "flagged",
            "wrong",
            "unsaid",
            "lost_counted",
            "lost_silent",
            "pending",
            "invented",
            "invented_flagged",
            "overcounted",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.names.update(other.names)


def tick(ps: int | None) -> int | None:
    """Tick of an instant of the trace."""
    return None if ps is None else ps // 1000


def expected(deed: Deed) -> dict[str, Any]:
    """The expected record of the command."""
    values: dict[str, Any] = {name: tick(getattr(deed, name)) for name in INSTANTS}
    nsid = deed.nsid
    values["nsid"] = 0xFFFF if nsid == 0xFFFFFFFF else nsid if nsid < 0xFFFE else 0xFFFE
    values.update(opcode=deed.opcode, status=deed.status, slba=deed.slba & (1 << 40) - 1, blocks=deed.blocks)
    return values


def judge(deeds: list[Deed], stream: Stream, known: Iterable[str] = EVERYTHING) -> Verdict:
    """Match every record to a command by queue, CID and order, and compare. ``known``: the names that the truth has."""
    verdict = Verdict()
    compared = tuple(name for name in EVERYTHING if name in set(known))
    pairs, missing, invented = match(deeds, stream.accounts)
    if stream.second_function:
        verdict.lost_counted, missing = sum(deed.function != 0 for deed in missing), [deed for deed in missing if deed.function == 0]
    if stream.sqe_parts:
        verdict.lost_counted += sum(deed.qid != 0 for deed in missing)
        missing = [deed for deed in missing if deed.qid == 0]
    missing, invented = _nameless(verdict, missing, invented, stream.sqe_parts)
    for deed, account in pairs:
        _compare(verdict, deed, account, compared)
    for account in invented:
        if account.flags & ~INTERRUPT_GUESSED:
            verdict.invented_flagged += 1
        else:
            verdict.invented += 1
            verdict.faults.append(Fault("invented", None, account))
    _losses(verdict, stream, missing)
    return verdict


def _nameless(verdict: Verdict, missing: list[Deed], invented: list[Account], in_parts: bool) -> tuple[list[Deed], list[Account]]:
    """Match records of a reset's commands that no record can name: flagged, and with the doorbell of such a command.

    Their SQEs had not passed, passed in parts, or lie in a controller memory buffer.
    """

    def unnamed(deed: Deed) -> bool:
        return deed.unnamed() or (deed.cqe is None and (in_parts or deed.fetch is None))

    waiting: Counter[tuple[int, int | None]] = Counter((deed.qid, tick(deed.doorbell)) for deed in missing if unnamed(deed))
    left, found = [], Counter[tuple[int, int | None]]()
    for account in invented:
        key = (account.qid, account.values["doorbell"])
        if account.flags & ABORTED and account.flags & NO_SQE and found[key] < waiting[key]:
            found[key] += 1
        else:
            left.append(account)
    verdict.flagged += found.total()
    remaining = []
    for deed in missing:
        key = (deed.qid, tick(deed.doorbell))
        if unnamed(deed) and found[key]:
            found[key] -= 1
        else:
            remaining.append(deed)
    return remaining, left


def _losses(verdict: Verdict, stream: Stream, missing: list[Deed]) -> None:
    counted = stream.status.get("lost_commands", 0) + stream.status.get("lost_records", 0) + stream.dropped
    flying = stream.in_flight
    lost = []
    for deed in missing:
        ended = deed.reset is not None or (deed.cqe is not None and deed.head is not None)
        if deed.unnamed():
            verdict.pending += 1
            flying -= not ended and flying > 0
        elif flying > 0 and (not ended or (deed.cqe is None and deed.fetch is None)):
            # The second: its SQ was deleted, and lay in a controller memory buffer. The tracker counts it until the next reset.
            flying -= 1
            verdict.pending += 1
        else:
            lost.append(deed)
    told = min(counted, len(lost))
    verdict.lost_counted += told
    verdict.lost_silent = len(lost) - told
    verdict.overcounted = counted - told + flying
    if stream.spaces:
        verdict.lost_counted, verdict.lost_silent = len(lost), 0
    if verdict.lost_silent:
        verdict.faults += [Fault("lost", deed, None) for deed in lost]


def match(deeds: list[Deed], accounts: list[Account]) -> tuple[list[tuple[Deed, Account]], list[Deed], list[Account]]:
    """Pairs of a command and its record; commands without a record; records without a command.

    Of records with a command's queue and CID, first those with its CQE's tick; of the others, in the order of time, those with its doorbell
    or fetch, else the nearest.
    """
    by_key: dict[tuple[int, int], list[Deed]] = defaultdict(list)
    by_cqe: dict[tuple[int, int, int], Deed] = {}
    for deed in deeds:
        by_key[deed.qid, deed.cid].append(deed)
        if deed.cqe is not None:
            by_cqe.setdefault((deed.qid, deed.cid, deed.cqe // 1000), deed)
    pairs, later, taken = [], [], set()
    for account in accounts:
        deed = by_cqe.get((account.qid, account.cid, account.values["cqe"]))
        if deed is not None and id(deed) not in taken:
            taken.add(id(deed))
            pairs.append((deed, account))
        else:
            later.append(account)
    invented = sorted(later, key=lambda one: one.values["cqe"])
    for together in (True, False):  # a record without an SQE has no CID, and must not take the command of another record
        waiting, invented = invented, []
        for account in waiting:
            left = [deed for deed in by_key.get((account.qid, account.cid), ()) if id(deed) not in taken]
            left = [deed for deed in left if not together or _begun_together(deed, account)]
            if not left:
                invented.append(account)
                continue
            deed = min(left, key=lambda one: (one.function, not _begun_together(one, account), _distance(one, account)))
            taken.add(id(deed))
            pairs.append((deed, account))
    return pairs, [deed for deed in deeds if id(deed) not in taken], invented


def _begun_together(deed: Deed, account: Account) -> bool:
    return any(tick(getattr(deed, name)) == account.values[name] is not None for name in ("doorbell", "fetch"))


def _distance(deed: Deed, account: Account) -> int:
    end = deed.cqe if deed.cqe is not None else deed.reset
    end = end if end is not None else deed.doorbell or deed.fetch or 0
    return abs(end // 1000 - account.values["cqe"])


def _compare(verdict: Verdict, deed: Deed, account: Account, compared: tuple[str, ...]) -> None:
    truth, values = expected(deed), account.values
    flags = account.flags
    ended = deed.reset is not None and (deed.cqe is None or flags & ABORTED)
    wrong, absent = [], []
    for name in compared:
        want, got = truth[name], values[name]
        if want == got:
            continue
        if got.__class__ is Bound:
            if want is not None and (
                (want <= got.ticks) if name in ("doorbell", "fetch", "first_data", "last_data") else (want >= got.ticks)
            ):
                continue
            wrong.append(name)
        elif ended and name in ("cqe", "interrupt", "head", "status"):
            if (name == "cqe" and not (flags & ABORTED and _in_reset(deed, got))) or (name in ("interrupt", "head") and got is not None):
                wrong.append(name)
        elif ended and name in ("first_data", "last_data") and got is not None and any(got == stray // 1000 for stray in deed.strays):
            continue
        elif got is None and want is not None:
            if name not in deed.may_lack:
                absent.append(name)
        else:
            wrong.append(name)
    doubt = account.covered()
    bad = tuple(name for name in wrong if name not in doubt)
    unsaid = tuple(name for name in absent if name not in doubt)
    if bad:
        verdict.wrong += 1
        verdict.names.update(bad + unsaid)
        verdict.faults.append(Fault("wrong", deed, account, bad + unsaid))
    elif unsaid:
        verdict.unsaid += 1
        verdict.names.update(unsaid)
        verdict.faults.append(Fault("unsaid", deed, account, unsaid))
    elif wrong or absent or flags & ~(ABORTED if ended else 0):
        verdict.flagged += 1
    else:
        verdict.right += 1


def _in_reset(deed: Deed, got: int) -> bool:
    assert deed.reset is not None
    until = deed.reset if deed.reset_until is None else deed.reset_until
    return deed.reset // 1000 <= got <= until // 1000 + _SIDEBAND_TICKS


__all__ = ["Account", "Fault", "Stream", "Verdict", "judge", "match", "read"]
