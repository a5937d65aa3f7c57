"""Counts, bytes, errors and latency of commands, by opcode, by size and by both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from wattbell_spec.wire import CommandFlag

from wattbell.analysis.names import admin_name, io_name, status_name
from wattbell.analysis.result import CommandLatency, CommandTable, Group
from wattbell.capture.schema import SeenBy
from wattbell.measure.errormodel import ErrorModel
from wattbell.measure.latency import Distribution, describe
from wattbell.measure.seen import START
from wattbell.measure.table import NONE, SIZED_OPCODES, Commands, is_one_of

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

UNKNOWN_OPCODE = "unknown"
"""Group of completions without a captured SQE (flag NO_SQE): their opcode is unknown."""
_INT32 = np.iinfo(np.int32)
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
    """Latency of the commands that have a CQE: doorbell -> CQE, or fetch -> CQE if doorbells are not on the wire.

    ``from`` names the definition, by the start's name for the observer of the commands. The definition that more commands have is taken for
    all. Commands without it are left out and counted (``without_start``), never mixed in. ``saturated`` counts ages that are lower bounds:
    if it is not 0, ``max`` and the mean are lower bounds too.
    """
    done = doorbells = fetches = shadow = 0
    for piece in commands.pieces():
        ended = ~piece.has(CommandFlag.ABORTED)
        has_doorbell = ended & (piece.doorbell_tick != NONE)
        done += int(np.count_nonzero(ended))
        doorbells += int(np.count_nonzero(has_doorbell))
        fetches += int(np.count_nonzero(ended & ~has_doorbell & (piece.fetch_tick != NONE)))
        shadow += int(np.count_nonzero(ended & piece.has(CommandFlag.SHADOW)))
    from_fetch = doorbells < fetches
    start, bit = ("fetch_tick", 0x02) if from_fetch else ("doorbell_tick", 0x01)
    parts: list[npt.NDArray[Any]] = []
    saturated = 0
    for piece in commands.pieces():
        begins = getattr(piece, start)
        chosen = ~piece.has(CommandFlag.ABORTED) & (begins != NONE)
        parts.append(_of(chosen, piece.cqe_tick, begins))
        saturated += int(np.count_nonzero(chosen & ((piece.saturated & bit) != 0)))
    ticks = _joined(parts)
    return {
        "from": "fetch" if from_fetch else START[SeenBy(int(commands.source[0]))] if len(commands) else "doorbell",
        **describe(ticks, tick_s, model, full),
        "without_start": done - len(ticks),
        "shadow_doorbells": shadow,
        "saturated": saturated,
        "lower_bound": saturated > 0,
    }


def splits_of(commands: Commands, tick_s: float, model: ErrorModel, groups: Iterable[Bool]) -> list[dict[str, Distribution]]:
    """Return the distribution of each split of the latency in each of ``groups`` (masks).

    A split takes the commands with both of its instants. Saturated instants are left out. Guessed ones count; ``guessed`` is their number.
    """
    masks = list(groups)
    out: list[dict[str, Distribution]] = [{} for _ in masks]
    for name, first, last, bits in SPLITS:
        parts: list[list[npt.NDArray[Any]]] = [[] for _ in masks]
        guessed = [0] * len(masks)
        low = 0
        for piece in commands.pieces():
            a, b = getattr(piece, first), getattr(piece, last)
            usable = (a != NONE) & (b != NONE) & ((piece.saturated & bits) == 0) & ~piece.has(CommandFlag.ABORTED)
            ticks, whole = _of(usable, b, a), bool(usable.all())
            doubtful = usable & (piece.interrupt_guessed != 0) if last == "msix_tick" else None
            for i, (found, mask) in enumerate(zip(parts, masks, strict=True)):
                here = mask[low : low + len(piece)]
                if doubtful is not None:
                    guessed[i] += int(np.count_nonzero(doubtful & here))
                here = here if whole else here[usable]
                found.append(ticks if here.all() else ticks[here])
            low += len(piece)
        for splits, number in zip(out, guessed, strict=True):
            ticks = _joined(parts.pop(0))
            if len(ticks):
                splits[name] = describe(ticks, tick_s, model, full=False)
                if number:
                    splits[name]["guessed"] = number
    return out


def _of(chosen: Bool, end: Int64, start: Int64) -> npt.NDArray[Any]:
    """Return ticks from ``start`` to ``end`` of the ``chosen``; as int32 if they fit, which sorts in half the time."""
    ticks = end - start if chosen.all() else end[chosen] - start[chosen]
    if len(ticks) and (int(ticks.min()) < _INT32.min or int(ticks.max()) > _INT32.max):
        return ticks
    return ticks.astype(np.int32)


def _joined(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, np.int32)


def doubts(commands: Commands) -> dict[str, int]:
    """How many records carry each flag that must be known before they are trusted, or a guessed interrupt; only those that occur."""
    counts, guessed = np.zeros(256, np.int64), 0
    for piece in commands.pieces():
        counts += np.bincount(piece.flags, minlength=256)
        guessed += int(np.count_nonzero(piece.interrupt_guessed))
    each = {flag.name.lower(): int(counts[np.arange(256) & int(flag) != 0].sum()) for flag in CommandFlag if flag.name}
    each["interrupt_guessed"] = guessed
    return {name: count for name, count in each.items() if count}


def summarize(commands: Commands, tick_s: float, model: ErrorModel) -> Group:
    """One group: ``count`` (with a CQE, failed ones included), ``bytes``, ``errors``, ``latency_s``, ``flags``."""
    nbytes = n_aborted = n_failed = error_bytes = 0
    statuses: list[npt.NDArray[np.uint16]] = []
    for piece in commands.pieces():
        aborted = piece.has(CommandFlag.ABORTED)
        failed = ~aborted & ((piece.status & 0x7FF) != 0)
        n_aborted += int(np.count_nonzero(aborted))
        nbytes += int(piece.nbytes[~aborted].sum())
        if failed.any():
            n_failed += int(np.count_nonzero(failed))
            error_bytes += int(piece.nbytes[failed].sum())
            statuses.append(piece.status[failed] & 0x7FF)
    out: Group = {
        "count": len(commands) - n_aborted,
        "bytes": nbytes,
        "errors": n_failed,
        "aborted": n_aborted,
        "latency_s": latency_of(commands, tick_s, model),
        "flags": doubts(commands),
    }
    if n_failed:
        codes, counts = np.unique(np.concatenate(statuses), return_counts=True)
        out["status"] = {status_name(int(c)): int(k) for c, k in zip(codes, counts, strict=True)}
        out["error_bytes"] = error_bytes
    return out


def _groups(commands: Commands, name_of: Callable[[int], str]) -> dict[str, Bool]:
    no_sqe = commands.has(CommandFlag.NO_SQE)
    out: dict[str, Bool] = {}
    for opcode in np.unique(commands.opcode[~no_sqe]):
        out[name_of(int(opcode))] = (commands.opcode == opcode) & ~no_sqe
    if no_sqe.any():
        out[UNKNOWN_OPCODE] = no_sqe
    return out


def _by_size(commands: Commands, tick_s: float, model: ErrorModel, known: Iterable[Mapping[str, Group]]) -> dict[str, Group]:
    """Group commands by equal ``nbytes``. A group of ``known``, by size, is used if it has all commands of that size (the sort is the
    cost).
    """
    counted: Counter[int] = Counter()
    for piece in commands.pieces():
        counted.update(dict(zip(*(x.tolist() for x in np.unique(piece.nbytes, return_counts=True)), strict=True)))
    kept = sorted(sorted(sorted(counted), key=lambda size: -counted[size])[:MAX_SIZES])
    out: dict[str, Group] = {}
    for size in kept:
        same = (group[str(size)] for group in known if str(size) in group)
        whole = next((one for one in same if one["count"] + one["aborted"] == counted[size]), None)
        out[str(size)] = summarize(commands.take(commands.nbytes == size), tick_s, model) if whole is None else whole.copy()
        out[str(size)].pop("splits_s", None)
        out[str(size)].pop("flags", None)
    if len(counted) > len(kept):
        rest = commands.take(~np.isin(commands.nbytes, kept))
        out["other"] = summarize(rest, tick_s, model)
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
    masks = [*groups.values(), *([] if len(groups) == 1 else [np.ones(len(io), np.bool_)])]
    splits = splits_of(io, tick_s, model, masks)
    for (name, mask), detail in zip(groups.items(), splits, strict=False):
        members = io if len(groups) == 1 else io.take(mask)
        by_opcode[name] = {**summarize(members, tick_s, model), "splits_s": detail}
        if name != UNKNOWN_OPCODE and int(members.opcode[0]) in SIZED_OPCODES:
            only_size = str(int(members.nbytes[0]))
            by_opcode_size[name] = _by_size(members, tick_s, model, [{only_size: by_opcode[name]}])
    sized = is_one_of(io.opcode, SIZED_OPCODES) & ~io.has(CommandFlag.NO_SQE)
    if len(by_opcode_size) == 1:
        by_size = next(iter(by_opcode_size.values()))
    else:
        by_size = _by_size(io.take(sized), tick_s, model, by_opcode_size.values()) if sized.any() else {}
    only = next(iter(by_opcode.values())) if len(by_opcode) == 1 else None
    everything: Group = only if only is not None else {**summarize(io, tick_s, model), "splits_s": splits[-1]}
    return {
        "all": everything,
        "by_opcode": by_opcode,
        "by_size": by_size,
        "by_opcode_size": by_opcode_size,
        "admin": {
            "count": int(np.count_nonzero(~admin.has(CommandFlag.ABORTED))),
            "by_opcode": {name: summarize(admin.take(mask), tick_s, model) for name, mask in _groups(admin, admin_name).items()},
        },
    }
