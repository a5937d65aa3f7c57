"""How late the paths are: from board to board, with temperature, and as the self-test would find it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from wattbell.rig.calibration import Edge, edge_delay

from . import spice
from .design import BOLTZMANN, GAIN_FIRST, GAIN_SECOND, parameters, pole
from .parts import AfePart

__all__ = ["EDGES", "HOSTS", "STEP_A", "answer", "leakage", "load_edge", "load_edges", "load_leakage", "simulated_edges", "skew"]

EDGES = 1000
STEP_A = {"coarse": 1.0, "fine": 0.09}
"""The load that is switched: the fine path must stay inside its scale."""
INTERVAL_S, SETTLE_S, KELVIN = 1e-6, 40e-6, 25.0
HOSTS = {
    "stiff": {"rregulator": 1e-6, "lregulator": 1e-12, "chost": 1e-12, "rhostcap": 1.0},
    "slow": {"rregulator": 5e-3, "lregulator": 2e-7, "chost": 2e-4, "rhostcap": 5e-3},
}
"""Sources of the slot, beside parts.toml's [rail]: one without impedance, or a regulator of 5 mohm and 0.2 uH with 200 uF behind it.

These are assumptions; a host's source is unknown.
"""
ELEMENTARY_CHARGE = 1.602176634e-19
ON_S, OFF_S = 5e-6, 85e-6
"""Instants in s at which the deck's load gets its commands to switch."""


def answer(time: np.ndarray, poles: Sequence[float], zero: float = 0.0) -> np.ndarray:
    """Return the answer of poles in series (time constants, all different) behind a zero to a unit step at 0: partial fractions."""
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


def skew(parts: dict[str, AfePart], tables: dict[str, dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the skew by path, in s.

    ``spread`` is from board to board (k = 1), ``drift`` over 25 K. For the current paths, ``found_error`` is the error of the self-test's
    own algorithm on simulated edges, and ``found_sigma`` its own statement. ``tables``: of model.toml.
    """
    amplifier, filter_ = parts["amplifier"], parts["filter"]
    first, second = (pole(gain, amplifier.gbw) * KELVIN * amplifier.gbw_tc for gain in (GAIN_FIRST, GAIN_SECOND))
    capacitor = filter_.figures["tc"].value * KELVIN * 2e-6
    drift = {"coarse": first + capacitor, "fine": first + second + capacitor, "voltage": capacitor}
    result = {path: {"spread": tables[path]["delay_sigma"], "drift": drift[path]} for path in drift}
    for path, step in STEP_A.items():
        found = edge_delay(simulated_edges(tables[path], step, EDGES, seed=3), SETTLE_S)
        result[path] |= {"found_error": found.delay_s - tables[path]["delay_s"], "found_sigma": found.sigma_s}
    return result


def leakage(parts: dict[str, AfePart], celsius: float) -> float:
    """Return the largest leakage of one transistor of a test load, in A: exponential between the two stated limits."""
    load = parts["test_load"]
    return load.leakage * (load.leakage_hot / load.leakage) ** ((celsius - 25) / 125)


def _load_parameters(parts: dict[str, AfePart], path: str, celsius: float) -> dict[str, float]:
    load = parts["test_load"]
    return {
        **parameters(parts),
        **HOSTS["stiff"],
        "cswitched": load.switched_capacitance,
        "lloop": load.loop_inductance,
        "rload": load.figures[f"resistance_{path}"].value,
        "rguard": load.guard,
        "rgate": load.gate_resistance,
        "rdriver": load.driver_resistance,
        "vgate": load.gate_voltage,
        "vto": load.threshold,
        "kp": load.transconductance,
        "rd": load.drain_resistance,
        "cgs": load.gate_source,
        "cgd": load.gate_drain,
        "cjo": load.drain_source,
        "leak": leakage(parts, celsius),
        "thermal": BOLTZMANN * (celsius + 273.15) / ELEMENTARY_CHARGE,
    }


def load_leakage(parts: dict[str, AfePart], celsius: float) -> float:
    """Return the current of one load through the shunt when it is off, in A, by the deck.

    The transistors' own conduction does not follow the temperature there, only their leakage does.
    """
    printed, _ = spice.run("selftest-load", _load_parameters(parts, "coarse", celsius))
    return printed["leak"]


def load_edge(parts: dict[str, AfePart], path: str, **other: float) -> dict[str, float]:
    """The current through the shunt when a path's load is switched, by the deck at 25 C; ``other``: parameters that differ.

    ``current_a`` that it settles at; of the edge (``on_``, ``off_``): ``delay_s`` from the buffer's input to the edge's centroid, as
    `wattbell.rig.calibration.edge_delay` takes it; ``rise_s`` from 10 to 90 %; ``overshoot`` of the step; ``settled_s`` until it stays
    within 0.1 %."""
    _, tables = spice.run("selftest-load", _load_parameters(parts, path, 25.0) | other)
    time, current, _ = tables["edge"].T
    entry = {"current_a": float(current[(time > ON_S + SETTLE_S) & (time < OFF_S)].mean())}
    for name, at in (("on", ON_S), ("off", OFF_S)):
        final = current[(time > at + SETTLE_S) & (time < at + 2 * SETTLE_S)].mean()
        first = current[(time > at - ON_S / 2) & (time < at)].mean()
        inside = (time >= at) & (time <= at + SETTLE_S)
        after, reached = time[inside] - at, (current[inside] - first) / (final - first)
        low, high = (float(np.interp(level, reached[: reached.argmax()], after[: reached.argmax()])) for level in (0.1, 0.9))
        entry |= {
            f"{name}_delay_s": float(np.trapezoid(1 - reached, after)),
            f"{name}_rise_s": high - low,
            f"{name}_overshoot": float(reached.max() - 1),
            f"{name}_settled_s": float(after[np.flatnonzero(abs(reached - 1) > 1e-3)[-1]]),
        }
    return entry


def load_edges(parts: dict[str, AfePart]) -> dict[str, dict[str, float]]:
    """Return `load_edge` of both loads, in a row each.

    Rows on a stiff host: nominal parts, and every transistor at an end of its threshold with the buffer's resistance half (early) or twice
    (late). One more row: nominal parts on a slow host.
    """
    load = parts["test_load"]
    rows = {}
    for path, amperes in STEP_A.items():
        stem = f"{amperes:g} A"
        rows[stem] = load_edge(parts, path)
        for name, sign in (("early", -1), ("late", 1)):
            driver = load.driver_resistance * 2.0**sign
            rows[f"{stem}, parts at their {name} ends"] = load_edge(
                parts, path, vto=load.threshold + sign * load.threshold_spread, rdriver=driver
            )
        rows[f"{stem}, slow host"] = load_edge(parts, path, **HOSTS["slow"])
    return rows
