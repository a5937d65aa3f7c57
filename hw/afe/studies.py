"""Studies of the nominal front end by the decks: noise, bandwidth, edges, common mode, overload. All currents at the shunt.

circuit: of the schematic, in place of decks/frontend.lib (`board.spice`)
"""

from __future__ import annotations

import math

import numpy as np

from . import spice
from .design import DIVIDER, GAIN_COARSE, GAIN_FINE, design, parameters
from .parts import AfePart

__all__ = ["bandwidth", "common_mode", "edges", "headroom", "noise", "overload"]

DRIVE_CAPACITANCES_F = (20e-6, 100e-6, 400e-6)
PULSE_S = 100e-6
EDGE_AT_S = 50e-6
OVERLOAD_ENDS_S = 100.1e-6
SETTLED = 1e-3
RAIL_STEP_V = 0.165
"""Largest change in V of the rail from 3.3 V that M.2 allows."""


def noise(parts: dict[str, AfePart], circuit: str | None = None) -> dict[str, dict[str, float]]:
    """Return the noise of a conversion, and of means of conversions.

    A sample folds all noise in front of the converter into its band. So the RMS of a conversion is the integral over all frequencies (1 Hz
    to 100 MHz), and the converter's own is added in squares. A mean over t seconds has ``density / sqrt(2 t)`` of the amplifiers (white:
    they are chopped). It also has the converter's RMS over the root of the number.
    """
    nominal = design(parts)
    printed, spectra = spice.run("noise", parameters(parts), circuit=circuit)
    scale = {
        "coarse": 1 / (GAIN_COARSE * parts["shunt"].resistance),
        "fine": 1 / (GAIN_FINE * parts["shunt"].resistance),
        "voltage": 1 / DIVIDER,
    }
    lsb = {"coarse": nominal.lsb_coarse, "fine": nominal.lsb_fine, "voltage": nominal.lsb_voltage}
    result = {}
    for path, unit in scale.items():
        converter = nominal.adc_noise_voltage if path == "voltage" else nominal.adc_noise_current
        front = printed[f"total_{path}"]
        total = math.hypot(front, converter) * unit
        entry = {"front_end_rms": front * unit, "converter_rms": converter * unit, "rms": total, "rms_lsb": total / lsb[path]}
        if path in spectra:
            density = float(np.interp(1e3, *spectra[path].T[:2])) * unit
            entry["density_1khz"] = density
            for seconds in (1e-4, 1e-3, 1.0):
                entry[f"mean_{seconds:g}s"] = math.hypot(density / math.sqrt(2 * seconds), converter * unit / math.sqrt(seconds * 1e6))
        result[path] = entry
    return result


def bandwidth(parts: dict[str, AfePart], circuit: str | None = None) -> dict[str, dict[str, float]]:
    """Return corner (-3 dB) and delay of each path, and the relative difference of the two current paths at 10 and 100 kHz.

    The delay is the slope of the phase at the lowest frequency, 100 Hz.
    """
    _, tables = spice.run("ac", parameters(parts), circuit=circuit)
    table = tables["response"]
    frequency = table[:, 0]
    responses = {path: table[:, n] + 1j * table[:, n + 1] for path, n in (("coarse", 1), ("fine", 3), ("voltage", 5))}
    result: dict[str, dict[str, float]] = {}
    for path, response in responses.items():
        level = np.abs(response) / abs(response[0])
        result[path] = {
            "corner_hz": float(np.exp(np.interp(np.log(2) / 2, -np.log(level), np.log(frequency)))),
            "delay_s": float(-np.angle(response[0]) / (2 * math.pi * frequency[0])),
            "gain": float(abs(response[0])),
        }
    apart = np.abs((responses["coarse"] / responses["coarse"][0]) / (responses["fine"] / responses["fine"][0]) - 1)
    result["apart"] = {f"{hertz:g}": float(np.interp(hertz, frequency, apart)) for hertz in (1e4, 1e5)}
    return result


def edges(parts: dict[str, AfePart]) -> dict[str, dict[str, float]]:
    """Study a drive's capacitors behind the shunt: a step of 1 A of the drive, and a pulse of 100 us.

    The connector and the coarse converter see both. ``delay`` is the centre of gravity of the step's slope. ``within`` is the share of the
    pulse's charge that has passed the shunt when the pulse ends. ``until_999`` is the time from the pulse's beginning until 99.9 % has
    passed.
    """
    result = {}
    for capacitance in DRIVE_CAPACITANCES_F:
        values = parameters(parts) | {"cload": capacitance}
        _, tables = spice.run("edge", values | {"width": 1.0})
        time, connector, coarse = tables["edge"].T
        coarse = coarse / coarse[-1]
        start = EDGE_AT_S + 5e-9
        entry = {}
        for name, wave in (("connector", connector), ("coarse", coarse)):
            after = time > start
            missing = np.concatenate([[1.0], 1 - wave[after]])
            entry[f"{name}_delay_s"] = float(np.trapezoid(missing, np.concatenate([[start], time[after]])))
            entry[f"{name}_rise_s"] = _crossing(time, wave, 0.9) - _crossing(time, wave, 0.1)
            entry[f"{name}_overshoot"] = float(wave.max() - 1)
        _, tables = spice.run("edge", values | {"width": PULSE_S})
        time, connector, coarse = tables["edge"].T
        charge = np.concatenate([[0.0], np.cumsum((connector[1:] + connector[:-1]) / 2 * np.diff(time))])
        entry["pulse_peak"] = float(connector.max())
        entry["within"] = float(np.interp(EDGE_AT_S + PULSE_S, time, charge) / charge[-1])
        entry["until_999_s"] = _crossing(time, charge / charge[-1], 0.999) - EDGE_AT_S
        entry["charge"] = float(charge[-1] / PULSE_S)
        result[f"{capacitance * 1e6:g} uF"] = entry
    return result


def _crossing(time: np.ndarray, wave: np.ndarray, level: float) -> float:
    first = int(np.argmax(wave >= level))
    return float(np.interp(level, wave[first - 1 : first + 1], time[first - 1 : first + 1]))


def common_mode(parts: dict[str, AfePart]) -> dict[str, float]:
    """Return the current that a change of the rail feigns: static (A for the 165 mV that M.2 allows) and A/V by frequency.

    Every resistor of the drivers' networks and both amplifiers of the first pair are at their limits in the worst combination.
    """
    match, cmrr = parts["driver_network"].match, parts["amplifier"].cmrr
    worst = parameters(parts) | {"cc1": cmrr, "cc2": -cmrr}
    worst |= {
        f"{side}{n}": sign * match
        for side, signs in (("ca", (1, -1)), ("cb", (-1, 1)), ("fa", (1, -1)), ("fb", (-1, 1)))
        for n, sign in zip((1, 2), signs)
    }
    _, tables = spice.run("cm", worst)
    units = {"coarse": GAIN_COARSE * parts["shunt"].resistance, "fine": GAIN_FINE * parts["shunt"].resistance}
    result = {}
    for n, (path, unit) in enumerate(units.items()):
        rail = tables["rail"]
        result[f"{path}_rail_step_a"] = float((rail[-1, 1 + n] - rail[0, 1 + n]) / 2 / unit)
        response = np.hypot(tables["cm"][:, 1 + 2 * n], tables["cm"][:, 2 + 2 * n]) / unit
        for hertz in (1e3, 1e5):
            result[f"{path}_a_per_v_{hertz:g}hz"] = float(np.interp(hertz, tables["cm"][:, 0], response))
    return result


def headroom(parts: dict[str, AfePart], circuit: str | None = None) -> dict[str, dict[str, float]]:
    """Return the voltages of the amplifiers' outputs and the drivers' inputs, and the current in the fine driver's input clamp, in A.

    They are at 0.1 A and in an overload of the fine path at 4 A.
    """
    return {f"{current:g} A": spice.run("headroom", parameters(parts) | {"current": current}, circuit=circuit)[0] for current in (0.1, 4.0)}


def overload(parts: dict[str, AfePart]) -> dict[str, dict[str, float]]:
    """Study the way from 4 A, which saturates the fine path, to a small current within 100 ns.

    The result is the time until a path stays within 0.1 % of the fine path's full scale of its end. ``linear_s`` is the same for a single
    pole with the path's delay that cannot saturate, the shortest time with this bandwidth.
    """
    nominal = design(parts)
    units = {"coarse": GAIN_COARSE * parts["shunt"].resistance, "fine": GAIN_FINE * parts["shunt"].resistance}
    result = {}
    for low in (1e-3, 50e-3):
        _, tables = spice.run("overload", parameters(parts) | {"low": low})
        table = tables["overload"]
        entry = {}
        for n, (path, unit) in enumerate(units.items()):
            away = np.abs(table[:, 1 + n] - table[-1, 1 + n]) / unit > SETTLED * nominal.full_scale_fine
            entry[f"{path}_s"] = float(table[np.flatnonzero(away)[-1] + 1, 0]) - OVERLOAD_ENDS_S
        entry["linear_s"] = nominal.delay_coarse * math.log((4 - low) / (SETTLED * nominal.full_scale_fine))
        entry["saturated_at_v"] = float(table[0, 2])
        result[f"{low * 1e3:g} mA"] = entry
    return result
