"""Counts, bytes, errors and latency of commands, by opcode, by size and by both."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from wattbell_spec.wire import CommandFlag

from wattbell.analysis.names import admin_name, io_name, status_name
from wattbell.analysis.result import CommandLatency, CommandTable, Group
from wattbell.capture.schema import SeenBy
from wattbell.measure.errormodel import ErrorModel
from wattbell.measure.latency import Distribution, describe
from wattbell.measure.seen import START
from wattbell.measure.table import NONE, SIZED_OPCODES, Commands

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

UNKNOWN_OPCODE = "unknown"
"""Group of the completions whose SQE was never seen (flag NO_SQE): they have no opcode."""
MAX_SIZES = 64
"""Most sizes listed by group; the rest, by falling count, is under ``other``."""

SPLITS = (
    ("doorbell_to_fetch", "doorbell_tick", "fetch_tick", 0x03),
    ("fetch_to_first_data", "fetch_tick", "first_data_tick", 0x06),
    ("data", "first_data_tick", "last_data_tick", 0x0C),
    ("last_data_to_cqe", "last_data_tick", "cqe_tick", 0x08),
    ("fetch_to_cqe", "fetch_tick", "cqe_tick", 0x02),
    ("cqe_to_msix", "cqe_tick", "msix_tick", 0x10),
    ("cqe_to_cq_head", "cqe_tick", "cq_head_tick", 0x20),
)
"""Name, from, to, and the bits of ``saturated`` that spoil it."""


def latency_of(commands: Commands, tick_s: float, model: ErrorModel, full: bool = True) -> CommandLatency:
    """Latency of the commands that have a CQE: doorbell -> CQE, or fetch -> CQE where doorbells are not on the wire.

    ``from`` says which, by the name that the start has with who saw the commands. The definition that more commands have is taken for
    all; commands without it are left out and counted (``without_start``), never mixed in. ``saturated`` counts ages that are lower
    bounds: where it is not 0,
    ``max`` and the mean are lower bounds too.
    """
    done = ~commands.has(CommandFlag.ABORTED)
    has_doorbell = done & (commands.doorbell_tick != NONE)
    has_fetch = done & (commands.fetch_tick != NONE)
    shadow = done & commands.has(CommandFlag.SHADOW)
    from_fetch = int(np.count_nonzero(has_doorbell)) < int(np.count_nonzero(has_fetch & ~has_doorbell))
    chosen = has_fetch if from_fetch else has_doorbell
    start = commands.fetch_tick if from_fetch else commands.doorbell_tick
    bit = 0x02 if from_fetch else 0x01
    whole = bool(chosen.all())
    ticks = commands.cqe_tick - start if whole else commands.cqe_tick[chosen] - start[chosen]
    saturated = int(np.count_nonzero(chosen & ((commands.saturated & bit) != 0)))
    return {
        "from": "fetch" if from_fetch else START[SeenBy(int(commands.source[0]))] if len(commands) else "doorbell",
        **describe(ticks, tick_s, model, full),
        "without_start": int(np.count_nonzero(done)) - len(ticks),
        "shadow_doorbells": int(np.count_nonzero(shadow)),
        "saturated": saturated,
        "lower_bound": saturated > 0,
    }


def splits_of(commands: Commands, tick_s: float, model: ErrorModel) -> dict[str, Distribution]:
    """Where the time goes: each split over the commands that have both of its instants, without saturated ones."""
    out: dict[str, Distribution] = {}
    for name, first, last, bits in SPLITS:
        a, b = getattr(commands, first), getattr(commands, last)
        usable = (a != NONE) & (b != NONE) & ((commands.saturated & bits) == 0)
        usable &= ~commands.has(CommandFlag.ABORTED)
        if usable.any():
            out[name] = describe(b[usable] - a[usable], tick_s, model, full=False)
    return out


def doubts(commands: Commands) -> dict[str, int]:
    """How many records carry each flag that must be known before they are trusted; only those that occur."""
    counts = {flag.name.lower(): int(np.count_nonzero(commands.has(flag))) for flag in CommandFlag if flag.name}
    return {name: count for name, count in counts.items() if count}


def summarize(commands: Commands, tick_s: float, model: ErrorModel, detail: bool = True) -> Group:
    """One group: ``count`` (with a CQE, failed ones included), ``bytes``, ``errors``, ``latency_s``, ``flags``."""
    aborted = commands.has(CommandFlag.ABORTED)
    failed = ~aborted & ((commands.status & 0x7FF) != 0)
    n_aborted, n_failed = int(np.count_nonzero(aborted)), int(np.count_nonzero(failed))
    nbytes = int(commands.nbytes.sum()) - (int(commands.nbytes[aborted].sum()) if n_aborted else 0)
    out: Group = {
        "count": len(commands) - n_aborted,
        "bytes": nbytes,
        "errors": n_failed,
        "aborted": n_aborted,
        "latency_s": latency_of(commands, tick_s, model),
        "flags": doubts(commands),
    }
    if n_failed:
        codes, counts = np.unique(commands.status[failed] & 0x7FF, return_counts=True)
        out["status"] = {status_name(int(c)): int(k) for c, k in zip(codes, counts, strict=True)}
        out["error_bytes"] = int(commands.nbytes[failed].sum())
    if detail:
        out["splits_s"] = splits_of(commands, tick_s, model)
    return out


def _groups(commands: Commands, name_of: Callable[[int], str]) -> dict[str, Bool]:
    no_sqe = commands.has(CommandFlag.NO_SQE)
    out: dict[str, Bool] = {}
    for opcode in np.unique(commands.opcode[~no_sqe]):
        out[name_of(int(opcode))] = (commands.opcode == opcode) & ~no_sqe
    if no_sqe.any():
        out[UNKNOWN_OPCODE] = no_sqe
    return out


def _by_size(commands: Commands, tick_s: float, model: ErrorModel, shared: Group | None) -> dict[str, Group]:
    """Groups of equal ``nbytes``; ``shared`` is reused when there is only one size (the sort is the cost)."""
    sizes, counts = np.unique(commands.nbytes, return_counts=True)
    if len(sizes) == 1 and shared is not None:
        only = shared.copy()
        only.pop("splits_s", None)
        only.pop("flags", None)
        return {str(int(sizes[0])): only}
    kept = np.sort(sizes[np.argsort(-counts, kind="stable")[:MAX_SIZES]])
    out = {str(int(size)): summarize(commands.take(commands.nbytes == size), tick_s, model, detail=False) for size in kept}
    for entry in out.values():
        entry.pop("flags", None)
    if len(sizes) > len(kept):
        rest = commands.take(~np.isin(commands.nbytes, kept))
        out["other"] = summarize(rest, tick_s, model, detail=False)
    return out


def tabulate(commands: Commands, tick_s: float, model: ErrorModel) -> CommandTable:
    """``by_opcode``, ``by_size``, ``by_opcode_size``, ``all`` of the I/O commands, and ``admin.by_opcode``.

    ``commands`` must be free of markers. Sizes are bytes, as text keys; only opcodes with a block count have one.
    """
    io = commands.take(commands.qid > 0)
    admin = commands.take(commands.qid == 0)
    by_opcode: dict[str, Group] = {}
    by_opcode_size: dict[str, dict[str, Group]] = {}
    groups = _groups(io, io_name)
    for name, mask in groups.items():
        members = io if len(groups) == 1 else io.take(mask)
        by_opcode[name] = summarize(members, tick_s, model)
        if name != UNKNOWN_OPCODE and int(members.opcode[0]) in SIZED_OPCODES:
            by_opcode_size[name] = _by_size(members, tick_s, model, by_opcode[name])
    sized = np.isin(io.opcode, SIZED_OPCODES) & ~io.has(CommandFlag.NO_SQE)
    if len(by_opcode_size) == 1:
        by_size = next(iter(by_opcode_size.values()))
    else:
        by_size = _by_size(io.take(sized), tick_s, model, None) if sized.any() else {}
    only = next(iter(by_opcode.values())) if len(by_opcode) == 1 else None
    everything = only if only is not None else summarize(io, tick_s, model)
    return {
        "all": everything,
        "by_opcode": by_opcode,
        "by_size": by_size,
        "by_opcode_size": by_opcode_size,
        "admin": {
            "count": int(np.count_nonzero(~admin.has(CommandFlag.ABORTED))),
            "by_opcode": {
                name: summarize(admin.take(mask), tick_s, model, detail=False) for name, mask in _groups(admin, admin_name).items()
            },
        },
    }
