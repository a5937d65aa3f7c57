"""Energy of one command of each class (opcode and size), above idle.

One class: accounting. E = (energy of the active span - idle power x active time) / commands.
Several classes: least squares. The span is cut into bins; the energy of a bin above idle is a sum of counts times the
unknown energies. Commands are split over the bins between doorbell and CQE. What this cannot see: work that the drive
does later for a command (cache folding, garbage collection) is charged to whatever runs then, or to idle.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt

from wattbell.analysis.names import io_name, size_text
from wattbell.analysis.result import EnergyPerCommand
from wattbell.measure.figure import Figure, K
from wattbell.measure.rail import Rail
from wattbell.measure.table import Commands
from wattbell.measure.throughput import Span

Float = npt.NDArray[np.float64]

MAX_CLASSES = 8
_BINS = 400
_MIN_BIN_SAMPLES = 8
_CONDITION_LIMIT = 300.0


def solve(counts: Float, energy: Float) -> tuple[Float, Float, float] | None:
    """Least squares ``counts @ x = energy`` (bins x classes, J): (x, standard errors, condition number).

    None where there are not more bins than classes or the columns cannot be told apart (condition above 300 after
    scaling each column to unit length).
    """
    n, m = counts.shape
    scale = np.linalg.norm(counts, axis=0)
    if n <= m + 1 or (scale == 0).any():
        return None
    scaled = counts / scale
    singular = np.linalg.svd(scaled, compute_uv=False)
    condition = float(singular[0] / singular[-1]) if singular[-1] > 0 else math.inf
    if condition > _CONDITION_LIMIT:
        return None
    x, *_ = np.linalg.lstsq(scaled, energy, rcond=None)
    residual = energy - scaled @ x
    variance = float(residual @ residual) / (n - m)
    covariance = variance * np.linalg.inv(scaled.T @ scaled)
    return x / scale, np.sqrt(np.diag(covariance)) / scale, condition


def spread_counts(starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], edges: Float) -> Float:
    """Commands in each bin, each command spread evenly over ``[start, end)``. Sums to the commands inside ``edges``.

    By the integral of the number in flight over its length: cumulative work W(t) = sum of clip((t - s)/(e - s), 0, 1).
    """
    order = np.argsort(starts, kind="stable")
    order_s, order_e, last = starts[order], np.sort(ends), ends[order]
    longest = int((ends - starts).max()) if len(starts) else 0
    done = np.searchsorted(order_e, edges, side="right").astype(np.float64)
    begun = np.searchsorted(order_s, edges, side="right")
    out = done.copy()
    for k, edge in enumerate(edges.tolist()):
        if begun[k] > done[k]:  # some straddle the edge
            near = slice(int(np.searchsorted(order_s, edge - longest, side="left")), int(begun[k]))
            first, end = order_s[near], last[near]
            across = end > edge
            length = np.maximum(end[across] - first[across], 1)
            out[k] += float(((edge - first[across]) / length).sum())
    return np.diff(out)


def energy_per_command(rail: Rail, commands: Commands, span: Span, idle_w: Figure | None, lost: int) -> EnergyPerCommand:
    """``{"method", "classes": {"read 4 KiB": figure in J}, ...}``, or ``{"absent": reason}``; ``lost`` is missing under all of them."""
    if idle_w is None or idle_w.value is None:
        return {"absent": "no steady operational idle level in this capture to measure above"}
    keys = commands.opcode.astype(np.int64) << 40 | np.minimum(commands.nbytes, (1 << 40) - 1)
    classes, counts = np.unique(keys, return_counts=True)
    if len(classes) > MAX_CLASSES:
        return {"absent": f"{len(classes)} classes of command: more than {MAX_CLASSES} cannot be told apart"}
    seconds = span.active_ticks * rail.tick_s
    if seconds < _MIN_BIN_SAMPLES * rail.interval_s or len(span.bursts) > 4096:
        return {"absent": "active time too short, or too many bursts, for the sample rate"}
    base, base_u = idle_w.value, idle_w.u or 0.0
    names = [_name(int(k)) for k in classes]
    if len(classes) == 1:
        parts = [rail.energy(a, b) for a, b in span.bursts.tolist()]
        above = sum(p.joules for p in parts) - base * sum(p.covered_s for p in parts)
        moved = sum(p.moved_j for p in parts)
        edges = sum(p.edge_u_j**2 for p in parts) + moved**2
        u = math.sqrt(edges + (base_u * seconds) ** 2 + (rail.model.gain * sum(p.joules for p in parts)) ** 2)
        conditions = {"idle_w": base, "commands": int(counts[0])}
        return {
            "method": "accounting: (energy of the active span - idle power x active time) / commands",
            "classes": {names[0]: Figure(above / int(counts[0]), u / int(counts[0]), "J", lost, conditions)},
        }
    return _regression(rail, commands, span, keys, classes, names, base, base_u, lost)


def _regression(
    rail: Rail,
    commands: Commands,
    span: Span,
    keys: npt.NDArray[np.int64],
    classes: npt.NDArray[np.int64],
    names: list[str],
    base: float,
    base_u: float,
    lost: int,
) -> EnergyPerCommand:
    length = max(span.whole_ticks / _BINS, _MIN_BIN_SAMPLES * rail.interval_ticks)
    bins = int(span.whole_ticks // length)
    edges: Float = (span.first_tick + np.arange(bins + 1) * length).astype(np.float64)
    joules = np.array([rail.energy(a, b).joules for a, b in itertools.pairwise(edges)])
    bin_s = length * rail.tick_s
    matrix = np.stack([spread_counts(commands.start_tick[keys == k], commands.cqe_tick[keys == k], edges) for k in classes], axis=1)
    answer = solve(matrix, joules - base * bin_s)
    if answer is None:
        return {"absent": "the classes run in too constant a proportion to be told apart"}
    x, error, condition = answer
    total = matrix.sum(axis=0)
    out: dict[str, Figure] = {}
    for i, name in enumerate(names):
        # An error of the idle power shifts all classes together: shared out by their part of the energy above idle.
        share = base_u * bins * bin_s * abs(x[i]) / max(float(np.abs(x) @ total), 1e-30)
        u = math.sqrt((K * error[i]) ** 2 + share**2 + (rail.model.gain * x[i]) ** 2)
        out[name] = Figure(float(x[i]), u, "J", lost, {"idle_w": base, "commands": round(float(total[i]))})
    return {
        "method": f"least squares over {bins} bins of {bin_s:.3g} s",
        "condition": condition,
        "classes": out,
    }


def _name(key: int) -> str:
    opcode, nbytes = key >> 40, key & ((1 << 40) - 1)
    return f"{io_name(opcode)} {size_text(nbytes)}" if nbytes else io_name(opcode)
