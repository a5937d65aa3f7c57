"""Two hundred random boards: made, calibrated as the host would, and measured with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from wattbell.rig.calibration import CalibrationLine, CalibrationPoint, autozero, fit, registers
from wattbell_spec.units import CURRENT_LSB_A, VOLTAGE_LSB_V

from . import boards
from .design import NominalDesign, design
from .merge import WEIGHT, level_weight
from .parts import AfePart

__all__ = ["CURRENTS_A", "LIMIT_A", "LIMIT_ENERGY", "LIMIT_GAIN", "SCENARIOS", "Measured", "RandomInstrument", "Scenario", "population"]

LIMIT_GAIN, LIMIT_A = 1e-3, 5e-6
LIMIT_ENERGY = 2e-3
CURRENTS_A = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 5e-2, 1e-1, 1.0, 4.0)
CURRENT_UNIT, VOLTAGE_UNIT = CURRENT_LSB_A, VOLTAGE_LSB_V
POINT_S = 1.0
"""Averaging at each calibration point."""
AUTOZERO_S = 1.0
READING_S = 1.0
VOLTAGE_POINTS = (1.0, 4.5)
COARSE_POINTS = (0.25, 3.5)
FINE_POINTS = (0.01, 0.1)
FACTORY_KELVIN = 1.0


@dataclass(frozen=True)
class Scenario:
    """The use of an instrument.

    room: room temperature within this many kelvin of 25 C
    since: autozero within this many kelvin of the room temperature (None: never again after the factory)
    """

    name: str
    room: float
    since: float | None


SCENARIOS = (Scenario("lab, autozero", 5.0, 1.0), Scenario("0..50 C, autozero", 25.0, 1.0), Scenario("0..50 C, no autozero", 25.0, None))


class RandomInstrument:
    """A random board with its converters, which gives the mean of a path's codes.

    Some errors are drawn here and not in the decks: reference, converters (zero, gain, drift, a smooth nonlinearity of second and third
    order), heating of the shunt.
    """

    def __init__(self, parts: dict[str, AfePart], rng: Random):
        def error(part: str, figure: str) -> float:
            return parts[part].figures[figure].drawn(rng)

        self.board = boards.draw(parts, rng)
        self._heating = parts["shunt"].heating
        self._reference = parts["reference"].voltage
        self.reference_error = (error("reference", "tolerance"), error("reference", "drift"))
        self._converter = {
            path: {name: error("adc", name) for name in ("zero", "zero_drift", "gain", "gain_drift")}
            | {"cubic": error("adc", "inl") / math.sqrt(2), "square": error("adc", "inl") / math.sqrt(2)}
            for path in ("coarse", "fine", "voltage")
        }

    def codes(self, current: float, rail: float, kelvin: float, *, short: bool = False) -> dict[str, float]:
        """Mean codes of the paths; outside its scale a code stays at the end."""
        warmer = current**2 * self.board["rshunt"] * self._heating
        volts = boards.transfer(self.board, current, rail, kelvin, warmer, short)
        tolerance, drift = self.reference_error
        reference = self._reference * (1 + tolerance) * (1 + drift * kelvin)
        result = {}
        for path, converter in self._converter.items():
            low, high = (0, 2**18 - 1) if path == "voltage" else (-(2**17), 2**17 - 1)
            scale = 2**18 if path == "voltage" else 2**17
            x = getattr(volts, path) / reference
            code = x * scale * (1 + converter["gain"] / 2**17 + converter["gain_drift"] * kelvin)
            code += converter["zero"] + converter["zero_drift"] * kelvin * 2**18
            code += converter["cubic"] * 2.6 * (x**3 - x) + converter["square"] * (1 - x * x)
            result[path] = min(max(code, low), high)
        return result


@dataclass(frozen=True)
class Measured:
    """One reading, in A: what flowed, and the error; in W: the error of the power."""

    current: float
    error: float
    power_error: float


def population(parts: dict[str, AfePart], noise: dict[str, dict[str, float]], count: int, seed: int = 1) -> dict[str, list[list[Measured]]]:
    """{scenario: [readings of a board, one for each of CURRENTS_A]}. ``noise`` is :func:`.studies.noise`'s: means have its noise."""
    nominal = design(parts)
    result: dict[str, list[list[Measured]]] = {scenario.name: [] for scenario in SCENARIOS}
    for number in range(count):
        rng = Random(f"{seed} {number}")
        instrument = RandomInstrument(parts, rng)
        lines = _factory(instrument, parts, noise, nominal, rng)
        for scenario in SCENARIOS:
            result[scenario.name].append(_measure(instrument, lines, scenario, parts, noise, nominal, rng))
    return result


def mean_sigma(noise: dict[str, dict[str, float]], nominal: NominalDesign, path: str, seconds: float) -> float:
    """Standard deviation of a mean of codes over a time (conversions each microsecond), in codes."""
    lsb = getattr(nominal, f"lsb_{path}")
    if path == "voltage":
        return noise[path]["rms"] / lsb / math.sqrt(seconds * 1e6)
    return math.hypot(noise[path]["density_1khz"] / math.sqrt(2 * seconds), noise[path]["converter_rms"] / math.sqrt(seconds * 1e6)) / lsb


def _factory(
    instrument: RandomInstrument, parts: dict[str, AfePart], noise: dict[str, dict[str, float]], nominal: NominalDesign, rng: Random
) -> dict[str, CalibrationLine]:
    """Two points a path, against sources with errors of their own; then the current paths' offsets by autozero."""
    calibrator = parts["calibrator"].figures
    kelvin = rng.uniform(-FACTORY_KELVIN, FACTORY_KELVIN)
    current_gain, current_offset = calibrator["current_gain"].drawn(rng), calibrator["current_offset"].drawn(rng)
    voltage_gain = calibrator["voltage_gain"].drawn(rng)
    lines = {}
    for path, points in (("coarse", COARSE_POINTS), ("fine", FINE_POINTS), ("voltage", VOLTAGE_POINTS)):
        sigma = mean_sigma(noise, nominal, path, POINT_S)
        readings = []
        for value in points:
            if path == "voltage":
                code = instrument.codes(0.0, value * (1 + voltage_gain), kelvin)[path]
            else:
                code = instrument.codes(value * (1 + current_gain) + current_offset, parts["rail"].voltage, kelvin)[path]
            readings.append(CalibrationPoint(value, code + rng.gauss(0, sigma), sigma))
        lines[path] = fit(readings)
    return _zeroed(instrument, lines, kelvin, parts, noise, nominal, rng)


def _zeroed(
    instrument: RandomInstrument,
    lines: dict[str, CalibrationLine],
    kelvin: float,
    parts: dict[str, AfePart],
    noise: dict[str, dict[str, float]],
    nominal: NominalDesign,
    rng: Random,
) -> dict[str, CalibrationLine]:
    codes = instrument.codes(0.0, parts["rail"].voltage, kelvin, short=True)
    zeroed = dict(lines)
    for path in ("coarse", "fine"):
        sigma = mean_sigma(noise, nominal, path, AUTOZERO_S)
        zeroed[path] = autozero(lines[path], codes[path] + rng.gauss(0, sigma), sigma)
    return zeroed


def _measure(
    instrument: RandomInstrument,
    lines: dict[str, CalibrationLine],
    scenario: Scenario,
    parts: dict[str, AfePart],
    noise: dict[str, dict[str, float]],
    nominal: NominalDesign,
    rng: Random,
) -> list[Measured]:
    kelvin = rng.uniform(-scenario.room, scenario.room)
    if scenario.since is not None:
        lines = _zeroed(instrument, lines, kelvin + rng.uniform(-scenario.since, scenario.since), parts, noise, nominal, rng)
    held = {path: registers(line, VOLTAGE_UNIT if path == "voltage" else CURRENT_UNIT) for path, line in lines.items()}
    rail_part, shunt = parts["rail"], parts["shunt"]
    in_front = rail_part.source_resistance + rail_part.copper_before + parts["load_switch"].resistance
    readings = []
    for current in CURRENTS_A:
        rail = rail_part.voltage - in_front * current
        codes = instrument.codes(current, rail, kelvin)
        values = {}
        for path, code in codes.items():
            noisy = code + rng.gauss(0, mean_sigma(noise, nominal, path, READING_S))
            # A mean of many conversions: the registers' resolution counts, the rounding of each value does not (noise dithers it).
            values[path] = (noisy * 256 - held[path].offset) * held[path].gain / 2**32
        coarse, fine = values["coarse"] * CURRENT_UNIT, values["fine"] * CURRENT_UNIT
        weight = level_weight(round(values["coarse"])) / WEIGHT
        measured = coarse + (fine - coarse) * weight
        drive = rail - shunt.resistance * (1 + instrument.board["rtol"]) * current
        power = values["voltage"] * VOLTAGE_UNIT * measured
        readings.append(Measured(current, measured - current, power - drive * current))
    return readings
