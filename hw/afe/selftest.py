"""How late the paths are: from board to board, with temperature, and as the self-test would find it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from wattbell.calibration import Edge, edge_delay

from .design import GAIN_FIRST, GAIN_SECOND, pole
from .parts import Part

__all__ = ["EDGES", "STEP_A", "answer", "simulated_edges", "skew"]

EDGES = 1000
STEP_A = {"coarse": 1.0, "fine": 0.09}
"""The load that is switched: the fine path must stay inside its scale."""
INTERVAL_S, SETTLE_S, KELVIN = 1e-6, 40e-6, 25.0


def answer(time: np.ndarray, poles: Sequence[float], zero: float = 0.0) -> np.ndarray:
    """Of poles in series (time constants, all different) behind a zero to a unit step at 0: partial fractions."""
    time = np.asarray(time)
    result = np.where(time >= 0, 1.0, 0.0)
    for tau in poles:
        share = tau ** (len(poles) - 2) * (tau - zero) / math.prod(tau - other for other in poles if other != tau)
        result = result - np.where(time >= 0, share * np.exp(-np.maximum(time, 0.0) / tau), 0.0)
    return result


def simulated_edges(entry: dict[str, Any], step: float, count: int, seed: int) -> list[Edge]:
    """Edges as a path of ``model.toml`` shows them, with its noise: the front end's through a pole of 2 us, the converter's white."""
    rng = np.random.default_rng(seed)
    length = round(3 * SETTLE_S / INTERVAL_S) + 3
    rho = math.exp(-INTERVAL_S / entry["delay_s"])
    first = -SETTLE_S - INTERVAL_S + rng.uniform(0, INTERVAL_S, count)
    white = rng.standard_normal((count, length))
    front = np.empty_like(white)
    front[:, 0] = white[:, 0]
    for k in range(1, length):
        front[:, k] = rho * front[:, k - 1] + math.sqrt(1 - rho**2) * white[:, k]
    noise = entry["front_end_rms"] * front + entry["converter_rms"] * rng.standard_normal((count, length))
    time = first[:, None] + INTERVAL_S * np.arange(length)
    samples = step * answer(time, entry["poles_s"], entry["zero_s"]) + noise
    return [Edge(0.0, float(f), INTERVAL_S, list(s)) for f, s in zip(first, samples)]


def skew(parts: dict[str, Part], tables: dict[str, dict[str, Any]]) -> dict[str, dict[str, float]]:
    """By path, in s: ``spread`` from board to board (k = 1), ``drift`` over 25 K, and of the current paths what the self-test's own
    algorithm finds on simulated edges: ``found_error`` and the ``found_sigma`` that it states. ``tables`` are those of model.toml."""
    amplifier, filter_ = parts["amplifier"], parts["filter"]
    first, second = (pole(gain, amplifier.gbw) * KELVIN * amplifier.gbw_tc for gain in (GAIN_FIRST, GAIN_SECOND))
    capacitor = filter_.figures["tc"].value * KELVIN * 2e-6
    drift = {"coarse": first + capacitor, "fine": first + second + capacitor, "voltage": capacitor}
    result = {path: {"spread": tables[path]["delay_sigma"], "drift": drift[path]} for path in drift}
    for path, step in STEP_A.items():
        found = edge_delay(simulated_edges(tables[path], step, EDGES, seed=3), SETTLE_S)
        result[path] |= {"found_error": found.delay_s - tables[path]["delay_s"], "found_sigma": found.sigma_s}
    return result
