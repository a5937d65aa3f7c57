"""The error budget: every term by hand from the table of parts, in squares, k = 2.

It is independent of the random boards (:mod:`.population`) and of the decks, except for the noise density; a test holds the two
against each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .design import BOLTZMANN, GAIN_COARSE, GAIN_FINE, GAIN_FIRST, design
from .merge import LOW
from .parts import AfePart
from .population import AUTOZERO_S, COARSE_POINTS, CURRENT_UNIT, FINE_POINTS, LIMIT_A, LIMIT_GAIN, POINT_S, READING_S, VOLTAGE_POINTS
from .selftest import ELEMENTARY_CHARGE, leakage

__all__ = [
    "CONDITIONS",
    "COVERAGE",
    "DECADES_A",
    "Condition",
    "Term",
    "current_terms",
    "expanded",
    "limit",
    "power",
    "pulse",
    "voltage_terms",
]

COVERAGE = 2.0
DECADES_A = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 4.0)
HOURS_OF_A_YEAR = 8766.0


@dataclass(frozen=True)
class Condition:
    """A condition of use.

    room: K either side of 25 C
    since: K either side of the temperature at the autozero
    aged: a year after calibration; else fresh from calibration, or not calibrated at all
    """

    name: str
    room: float
    since: float
    aged: bool = False
    calibrated: bool = True


CONDITIONS = (
    Condition("not calibrated, 0..50 C", 25.0, 25.0, calibrated=False),
    Condition("calibrated, 25 +-5 C", 5.0, 1.0),
    Condition("calibrated, 0..50 C", 25.0, 1.0),
    Condition("the same, a year later", 25.0, 1.0, aged=True),
)


@dataclass(frozen=True)
class Term:
    """A standard uncertainty (k = 1): relative, or in the channel's unit."""

    name: str
    relative: float = 0.0
    absolute: float = 0.0

    def at(self, value: float) -> float:
        """Return the error in the channel's unit."""
        return math.hypot(self.relative * value, self.absolute)


def expanded(terms: list[Term], value: float) -> float:
    """k = 2, in the channel's unit."""
    return COVERAGE * math.sqrt(sum(term.at(value) ** 2 for term in terms))


def _uniform(half_width: float) -> float:
    return half_width / math.sqrt(3)


def is_fine(current: float) -> bool:
    """Whether a current is read by the fine path alone."""
    return abs(current) <= LOW * CURRENT_UNIT


def current_terms(
    parts: dict[str, AfePart], density: float, current: float, condition: Condition, reading_s: float = READING_S
) -> list[Term]:
    """Terms of a mean current over ``reading_s``. ``density`` is the noise at 1 kHz in A/sqrt(Hz)."""
    shunt, driver, reference = parts["shunt"], parts["driver"], parts["reference"]
    nominal, fine = design(parts), is_fine(current)
    resistance, room, since = shunt.resistance, _uniform(condition.room), _uniform(condition.since)
    gain, driver_gain, lsb = (GAIN_FINE, 9.0, nominal.lsb_fine) if fine else (GAIN_COARSE, 4.0, nominal.lsb_coarse)
    pairs = (GAIN_FIRST, GAIN_FINE / GAIN_FIRST / 9.0) if fine else (GAIN_FIRST,)

    def sigma(part: str, figure: str) -> float:
        return parts[part].figures[figure].sigma

    # A pair's gain follows (mean of two Rf) / Rg; a driver's the mean of two ratios.
    by_resistors = math.sqrt(sum(1.5 * (1 - 1 / g) ** 2 for g in pairs))
    tracking = math.hypot(by_resistors * sigma("gain_network", "tracking"), sigma("driver_network", "tracking"))
    offset_at_shunt = {  # of 1 V of offset in each amplifier
        "first pair": math.sqrt(2) / resistance,
        "second pair": math.sqrt(2) / GAIN_FIRST / resistance if fine else 0.0,
        "driver": (1 + driver_gain) / gain / resistance,
    }
    terms = [
        Term("shunt, temperature coefficient", sigma("shunt", "tcr") * room),
        Term("gain networks and drivers' networks, tracking", tracking * room),
        Term("reference, drift", sigma("reference", "drift") * room),
        Term("converter, gain drift", sigma("adc", "gain_drift") * room),
        Term("converter, nonlinearity", 0.0, sigma("adc", "inl") * lsb),
        Term("shunt, thermal voltage", 0.0, shunt.thermal_emf * sigma("shunt", "gradient") / resistance),
        Term("first pair, drift since autozero", 0.0, sigma("amplifier", "drift") * since * offset_at_shunt["first pair"]),
        Term("second pair, drift since autozero", 0.0, sigma("amplifier", "drift") * since * offset_at_shunt["second pair"]),
        Term("driver, drift since autozero", 0.0, sigma("driver", "drift") * since * offset_at_shunt["driver"]),
        Term("converter, zero drift since autozero", 0.0, sigma("adc", "zero_drift") * 2**18 * since * lsb),
        Term("noise of the reading", 0.0, density / math.sqrt(2 * reading_s)),
    ]
    # Leakage of the lower transistors of the two test loads lifts the points between by its product with the guard's resistance.
    thermal = BOLTZMANN * (298.15 + condition.room) / ELEMENTARY_CHARGE
    leak = leakage(parts, 25 + condition.room)
    terms.append(Term("test loads, leakage", 0.0, _uniform(2 * leak * math.tanh(leak * parts["test_load"].guard / thermal))))
    # Heating by the current itself, against that at the upper calibration point.
    heated = abs(current**2 - (FINE_POINTS if fine else COARSE_POINTS)[1] ** 2 * condition.calibrated)
    terms.append(Term("shunt, self-heating", sigma("shunt", "tcr") * heated * resistance * shunt.heating))
    if condition.calibrated:
        span = FINE_POINTS if fine else COARSE_POINTS
        terms += [
            Term("calibrator, gain", sigma("calibrator", "current_gain")),
            Term("noise at the calibration points", math.sqrt(2) * density / math.sqrt(2 * POINT_S) / (span[1] - span[0])),
            Term("noise of the autozero", 0.0, density / math.sqrt(2 * AUTOZERO_S)),
        ]
    else:
        matching = math.hypot(by_resistors * sigma("gain_network", "match"), sigma("driver_network", "match"))
        common = parts["rail"].voltage
        by_driver = 2 * driver_gain / (1 + driver_gain) * sigma("driver_network", "match") * (common - driver.vocm) / gain / resistance
        terms += [
            Term("shunt, tolerance", sigma("shunt", "tolerance")),
            Term("gain networks and drivers' networks, matching", matching),
            Term("reference, tolerance", sigma("reference", "tolerance")),
            Term("converter, gain", sigma("adc", "gain") / 2**17),
            Term(
                "first pair, offset and common mode",
                0.0,
                math.hypot(sigma("amplifier", "offset"), sigma("amplifier", "cmrr") * common) * offset_at_shunt["first pair"],
            ),
            Term("second pair, offset", 0.0, sigma("amplifier", "offset") * offset_at_shunt["second pair"]),
            Term("driver, offset", 0.0, sigma("driver", "offset") * offset_at_shunt["driver"]),
            Term("driver, common mode", 0.0, by_driver),
            Term("converter, zero", 0.0, sigma("adc", "zero") * lsb),
        ]
    if condition.aged:
        terms += [
            Term("shunt, a year", shunt.stability),
            Term("reference, a year", reference.ageing * math.sqrt(HOURS_OF_A_YEAR / 1000)),
        ]
    return [term for term in terms if term.relative or term.absolute]


def voltage_terms(parts: dict[str, AfePart], condition: Condition) -> list[Term]:
    """Terms of a mean voltage over a second."""
    nominal, room = design(parts), _uniform(condition.room)

    def sigma(part: str, figure: str) -> float:
        return parts[part].figures[figure].sigma

    divider = math.sqrt(2) * 2.2 / 12.2
    terms = [
        Term("divider, tracking", divider * sigma("gain_network", "tracking") * room),
        Term("reference, drift", sigma("reference", "drift") * room),
        Term("converter, gain drift", sigma("adc", "gain_drift") * room),
        Term("converter, zero drift", 0.0, sigma("adc", "zero_drift") * 2**18 * room * nominal.lsb_voltage),
        Term("converter, nonlinearity", 0.0, sigma("adc", "inl") * nominal.lsb_voltage),
        Term("followers, drift", 0.0, math.sqrt(2) * sigma("amplifier", "drift") * room / (10 / 12.2)),
    ]
    if condition.calibrated:
        terms.append(Term("calibrator", sigma("calibrator", "voltage_gain")))
        terms.append(
            Term(
                "noise at the calibration points",
                0.0,
                nominal.adc_noise_voltage
                / (10 / 12.2)
                / 1e3
                * math.sqrt(2)
                * max(VOLTAGE_POINTS)
                / (VOLTAGE_POINTS[1] - VOLTAGE_POINTS[0]),
            )
        )
    else:
        terms += [
            Term("divider, matching", divider * sigma("gain_network", "match")),
            Term("reference, tolerance", sigma("reference", "tolerance")),
            Term("converter, gain", sigma("adc", "gain") / 2**18),
            Term("converter, zero", 0.0, sigma("adc", "zero") * nominal.lsb_voltage),
        ]
    if condition.aged:
        terms.append(Term("reference, a year", parts["reference"].ageing * math.sqrt(HOURS_OF_A_YEAR / 1000)))
    return terms


def power(parts: dict[str, AfePart], density: float, watts: float, condition: Condition, reading_s: float = READING_S) -> float:
    """k = 2 of a mean power at 3.3 V, in W. The reference's terms of voltage and current are added in squares though they are
    the same one's: a power sees it twice. So they are counted once more here."""
    rail = parts["rail"].voltage
    current = watts / rail
    by_current = expanded(current_terms(parts, density, current, condition, reading_s), current) * rail
    by_voltage = expanded(voltage_terms(parts, condition), rail) * current
    common = [t.relative for t in voltage_terms(parts, condition) if t.name.startswith("reference")]
    correlated = 2 * COVERAGE**2 * sum(x * x for x in common) * watts**2
    return math.sqrt(by_current**2 + by_voltage**2 + correlated)


def pulse(parts: dict[str, AfePart], density: float, current: float, seconds: float, condition: Condition) -> dict[str, float]:
    """k = 2 of the energy of a rectangular pulse at 3.3 V, relative, by origin; the pulse is wholly inside the window."""
    rail = parts["rail"].voltage
    terms = current_terms(parts, density, current, condition, seconds)
    noise = [t for t in terms if t.name == "noise of the reading"]
    rest = [t for t in terms if t.name != "noise of the reading"]
    return {
        "energy_j": rail * current * seconds,
        "noise": expanded(noise, current) / current,
        "offset": COVERAGE * math.sqrt(sum(t.absolute**2 for t in rest)) / current,
        "gain": COVERAGE * math.sqrt(sum(t.relative**2 for t in rest) + sum(t.relative**2 for t in voltage_terms(parts, condition))),
        "all": power(parts, density, rail * current, condition, seconds) / (rail * current),
    }


def limit(current: float) -> float:
    """The goal, in A."""
    return LIMIT_GAIN * abs(current) + LIMIT_A
