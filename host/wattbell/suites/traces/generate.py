"""Generates a trace with the published statistics of an ATSB trace. Its name says that it is not the original trace.

Counts by direction and size are quotas, not draws, so they hold to rounding. Sizes that the published mix leaves out get weights that give
the published total of bytes. A logistic curve over the logarithm of the size decides which I/Os of a size are reads. Its two parameters
give the published reads and bytes read. Queue depth comes from batches of I/Os with one time stamp. The i-th I/O of a batch is issued at
depth i, so batches of k or more are as many as I/Os at depth k. A sequential I/O begins where the previous I/O of its direction ended.

Three things are unpublished and assumed:

- gaps between batches: 90 % lognormal around 0.2 ms, 10 % exponential with mean 50 ms, before any cut
- independence of size, order and address
- random starts: 80 % fall into 20 % of the footprint
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from ...errors import UsageError
from ...hostlog.iolog import append_entries, start_iolog
from ...nearest import did_you_mean
from .composition import BELOW_4K, COMPOSITIONS, OTHER_SIZES, Composition

Float = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

CHUNK = 4_000_000
MIN_IOS = 1000
_ALIGN = 4096


def footprint_bytes(name: str, scale: float) -> int:
    """Bytes of the address range that a generated trace touches."""
    whole = int(_composition(name).footprint * scale) // _ALIGN * _ALIGN
    return max(whole, 64 << 20)


def make_trace(name: str, path: Path, scale: float = 1.0, seed: int = 1) -> int:
    """Write a stand-in of the trace ``name`` as fio iolog v3; returns the number of I/Os.

    ``scale`` scales counts, bytes and footprint alike. Raises UsageError when fewer than 1000 I/Os are left.
    """
    composition = _composition(name)
    reads, writes = round(composition.reads * scale), round(composition.writes * scale)
    total = reads + writes
    if total < MIN_IOS:
        raise UsageError(f"scale {scale:g} leaves {total} I/Os of {name}; take at least {MIN_IOS / composition.ios:.2g}.")
    sizes, shares, read_share = size_mix(composition)
    footprint = footprint_bytes(name, scale)
    rng = np.random.default_rng(seed)
    chunks = max(1, -(-total // CHUNK))
    clock_us = 0
    with start_iolog(path) as stream:
        for k in range(chunks):
            part_reads = reads * (k + 1) // chunks - reads * k // chunks
            part = total * (k + 1) // chunks - total * k // chunks
            size, is_write = _sizes_and_directions(part_reads, part, sizes, shares, read_share, rng)
            batch = _batches(part, composition, rng)
            t_us, clock_us = _times(batch, clock_us, rng)
            offset = _offsets(size, is_write, composition.sequential, footprint, rng)
            action = np.where(is_write, "write", "read")
            append_entries(stream, pl.DataFrame({"t_us": t_us, "action": action, "offset": offset, "length": size}))
    return total


def _composition(name: str) -> Composition:
    try:
        return COMPOSITIONS[name]
    except KeyError:
        raise UsageError(f"There is no composition {name}; known: {', '.join(COMPOSITIONS)}.{did_you_mean(name, COMPOSITIONS)}") from None


def _bisect(f: Callable[[float], float], low: float, high: float) -> float:
    """Root of a rising function."""
    for _ in range(200):
        middle = (low + high) / 2
        if f(middle) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def size_mix(composition: Composition) -> tuple[Int64, Float, Float]:
    """Sizes in bytes, share of I/Os of each, and share of reads among the I/Os of each."""
    named = {s: share for s, share in composition.sizes.items() if s}
    for s, part in BELOW_4K.items():
        named[s] = composition.sizes.get(0, 0.0) * part
    rest = 1 - sum(named.values())
    mean = (composition.read_bytes + composition.write_bytes) / composition.ios
    wanted = (mean - sum(s * share for s, share in named.items())) / rest
    other = np.array(OTHER_SIZES, np.float64)

    def weights(tilt: float) -> Float:
        raw = np.exp(tilt * (other - other.mean()) / other.mean())
        found: Float = raw / raw.sum()
        return found

    tilt = _bisect(lambda t: float(weights(t) @ other) - wanted, -40.0, 40.0)
    sizes = np.array([*named, *OTHER_SIZES], np.int64)
    shares = np.concatenate((np.array(list(named.values())), rest * weights(tilt)))
    log_size = np.log(sizes / 4096)
    reads = composition.reads / composition.ios
    read_mean = composition.read_bytes / composition.ios

    def curve(slope: float) -> Float:
        def at(level: float) -> Float:
            found: Float = 1 / (1 + np.exp(-(level + slope * log_size)))
            return found

        return at(_bisect(lambda level: float(shares @ at(level)) - reads, -60.0, 60.0))

    slope = _bisect(lambda b: float((shares * sizes) @ curve(b)) - read_mean, -8.0, 8.0)
    return sizes, shares, curve(slope)


def _quota(shares: Float, total: int) -> Int64:
    """Whole numbers in proportion to ``shares`` that add up to ``total`` (largest remainders)."""
    exact = shares / shares.sum() * total
    counts = np.floor(exact).astype(np.int64)
    order = np.argsort(exact - counts)[::-1]
    counts[order[: total - int(counts.sum())]] += 1
    found: Int64 = counts
    return found


def _sizes_and_directions(
    reads: int, total: int, sizes: Int64, shares: Float, read_share: Float, rng: np.random.Generator
) -> tuple[Int64, npt.NDArray[np.bool_]]:
    kinds = np.concatenate((shares * read_share, shares * (1 - read_share)))
    n = len(sizes)
    counts = np.concatenate((_quota(kinds[:n], reads), _quota(kinds[n:], total - reads)))
    kind = np.repeat(np.arange(2 * n), counts)
    rng.shuffle(kind)
    return sizes[kind % n], kind >= n


def depth_shares(composition: Composition) -> Float:
    """Share of I/Os issued at depth 1, 2, ...: the published bins spread evenly, or geometric with the published mean."""
    if composition.depths:
        shares = np.zeros(max(high for _, high, _ in composition.depths))
        for low, high, share in composition.depths:
            shares[low - 1 : high] = share / (high - low + 1)
    else:
        ratio = 1 - 1 / composition.mean_depth
        shares = np.power(ratio, np.arange(64, dtype=np.float64))
    found: Float = shares / shares.sum()
    return found


def _batches(total: int, composition: Composition, rng: np.random.Generator) -> Int64:
    """Sizes of the batches, in order; they add up to ``total``."""
    reach = np.minimum.accumulate(_quota(depth_shares(composition), total))
    exactly = reach - np.append(reach[1:], 0)
    batch = np.repeat(np.arange(1, len(reach) + 1), exactly)
    batch = np.append(batch, np.ones(total - int(batch.sum()), np.int64))
    rng.shuffle(batch)
    return batch


def _times(batch: Int64, start_us: int, rng: np.random.Generator) -> tuple[Int64, int]:
    """Time stamp of each I/O in microseconds, and where the next chunk begins."""
    n = len(batch)
    gaps = rng.lognormal(np.log(200.0), 1.0, n)
    idle = rng.random(n) < 0.1
    gaps[idle] = rng.exponential(50_000.0, int(idle.sum()))
    stamps = start_us + np.cumsum(np.maximum(1, np.rint(gaps)).astype(np.int64))
    return np.repeat(stamps, batch), int(stamps[-1])


def _offsets(size: Int64, is_write: npt.NDArray[np.bool_], sequential: float, footprint: int, rng: np.random.Generator) -> Int64:
    """Start of each I/O in bytes; each stays inside the footprint."""
    out = np.empty(len(size), np.int64)
    wanted = round(sequential * len(size))
    follows = np.zeros(len(size), np.bool_)
    first = [int(np.argmax(is_write)), int(np.argmax(~is_write))]  # nothing comes before these
    candidates = np.setdiff1d(np.arange(len(size)), first)
    follows[rng.permutation(candidates)[:wanted]] = True
    for direction in (False, True):
        where = np.flatnonzero(is_write == direction)
        if not len(where):
            continue
        lengths = size[where]
        run = np.cumsum(~follows[where]) - 1
        before = np.cumsum(lengths) - lengths
        run_first = np.flatnonzero(~follows[where])
        run_length = np.add.reduceat(lengths, run_first)
        room = np.maximum(footprint - run_length, 0)
        hot = rng.random(len(run_first)) < 0.8
        place = rng.random(len(run_first)) * np.where(hot, 0.2, 1.0)
        start = (place * room).astype(np.int64) // _ALIGN * _ALIGN
        out[where] = start[run] + before - before[run_first][run]
    return out
