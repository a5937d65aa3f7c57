"""The analysis of the parts by hand: gains, codes, delays, noise. The decks and this analysis are compared with each other."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .parts import AfePart

__all__ = [
    "BOLTZMANN",
    "CELSIUS_27",
    "CLAMP_RESISTANCE",
    "COARSE_DRIVER",
    "DIVIDER",
    "DIVIDER_CAPACITANCE",
    "DIVIDER_OHM",
    "FINE_DRIVER",
    "FIRST_PAIR",
    "GAIN_COARSE",
    "GAIN_FINE",
    "GAIN_FIRST",
    "SECOND_PAIR",
    "NominalDesign",
    "design",
    "parameters",
    "phase_margin",
]

BOLTZMANN = 1.380649e-23
CELSIUS_27 = 300.15

FIRST_PAIR = (100.0, 1200.0)
SECOND_PAIR = (200.0, 1500.0)
"""Between the inverting inputs, and from each to its output."""
COARSE_DRIVER = (1250.0, 5000.0)
FINE_DRIVER = (1000.0, 9000.0)
"""At the inputs, and feedback."""
DIVIDER_OHM = (2200.0, 10_000.0)
"""From the rail's follower, and to ground. The board's sheet takes these five from here; decks/frontend.lib has its own, and the two are
held against each other (tests/hw/board/test_spice.py)."""
GAIN_FIRST = 1 + 2 * FIRST_PAIR[1] / FIRST_PAIR[0]
GAIN_SECOND = 1 + 2 * SECOND_PAIR[1] / SECOND_PAIR[0]
GAIN_COARSE = GAIN_FIRST * COARSE_DRIVER[1] / COARSE_DRIVER[0]
GAIN_FINE = GAIN_FIRST * GAIN_SECOND * FINE_DRIVER[1] / FINE_DRIVER[0]
DIVIDER = DIVIDER_OHM[1] / sum(DIVIDER_OHM)
DIVIDER_RESISTANCE = DIVIDER_OHM[0] * DIVIDER_OHM[1] / sum(DIVIDER_OHM)
DIVIDER_CAPACITANCE = 8e-12
CLAMP_RESISTANCE = 1000.0
GAIN_RESISTORS = ("rg1", "rf1", "rf2", "rg2", "rf4", "rf5", "rv1", "rv2")
DRIVER_RESISTORS = ("ca1", "ca2", "cb1", "cb2", "fa1", "fa2", "fb1", "fb2")
"""Names of their errors among the decks' parameters."""


@dataclass(frozen=True)
class NominalDesign:
    """Nominal figures. Currents in A at the shunt, voltages in V at the rail, times in s."""

    full_scale_coarse: float
    full_scale_fine: float
    full_scale_voltage: float
    lsb_coarse: float
    lsb_fine: float
    lsb_voltage: float
    burden: float
    """At the coarse path's full scale."""
    delay_coarse: float
    """Sum of the time constants from the shunt to the converter: the delay of a ramp, and an edge's centre of gravity."""
    delay_fine: float
    delay_voltage: float
    adc_noise_current: float
    """RMS of the AD4003, at its input."""
    adc_noise_voltage: float


def pole(gain: float, gbw: float) -> float:
    """Time constant of an amplifier of one pole at a noise gain."""
    return gain / (2 * math.pi * gbw)


def adc_noise(snr_db: float, peak_to_peak: float) -> float:
    """Return the RMS noise of a converter from the signal-to-noise ratio for a full-scale sine in its data sheet."""
    return peak_to_peak / (2 * math.sqrt(2)) / 10 ** (snr_db / 20)


def design(parts: dict[str, AfePart]) -> NominalDesign:
    """The nominal front end."""
    shunt, amplifier, driver, filter_, adc = (parts[k] for k in ("shunt", "amplifier", "driver", "filter", "adc"))
    reference = parts["reference"].voltage
    first = pole(GAIN_FIRST, amplifier.gbw) - shunt.inductance / shunt.resistance
    coarse, fine = (
        2 * filter_.resistance * c + r * driver.feedback for c, r in ((filter_.coarse, COARSE_DRIVER[1]), (filter_.fine, FINE_DRIVER[1]))
    )
    full_coarse, full_fine = (reference / gain / shunt.resistance for gain in (GAIN_COARSE, GAIN_FINE))
    full_voltage = reference / DIVIDER
    return NominalDesign(
        full_scale_coarse=full_coarse,
        full_scale_fine=full_fine,
        full_scale_voltage=full_voltage,
        lsb_coarse=full_coarse / 2**17,
        lsb_fine=full_fine / 2**17,
        lsb_voltage=full_voltage / 2**18,
        burden=full_coarse * shunt.resistance,
        delay_coarse=first + pole(5, driver.gbw) + coarse,
        delay_fine=first
        + pole(GAIN_SECOND, amplifier.gbw)
        + pole(10, driver.gbw)
        + CLAMP_RESISTANCE * 2 * parts["clamp"].capacitance
        + fine,
        delay_voltage=2 * pole(1, amplifier.gbw) + DIVIDER_RESISTANCE * DIVIDER_CAPACITANCE + filter_.voltage_resistance * filter_.voltage,
        adc_noise_current=adc_noise(adc.snr, 10.0),
        adc_noise_voltage=adc_noise(adc.snr_voltage, 5.0),
    )


def phase_margin(driver: AfePart, network: tuple[float, float], feedback: float) -> float:
    """Return the phase margin of a driver's loop, in degrees.

    The loop has one pole at the driver's gain-bandwidth, and a divider of the network's resistors. ``feedback`` (F) is across the second
    resistor. The stray capacitance of the driver's inputs is at the node between the two resistors.
    """
    inputs, behind = network
    frequency = np.logspace(5, 9, 4001)
    s = 2j * math.pi * frequency
    at_node = 1 / (1 / inputs + s * driver.stray)
    back = 1 / (1 / behind + s * feedback)
    loop = driver.gbw / (1j * frequency) * at_node / (at_node + back)
    crossing = int(np.argmax(np.abs(loop) < 1))
    return float(180 + np.degrees(np.angle(loop[crossing])))


def parameters(parts: dict[str, AfePart]) -> dict[str, float]:
    """Parameters of the decks for the nominal board: every error 0."""
    amplifier, driver, filter_, clamp, shunt, rail = (parts[k] for k in ("amplifier", "driver", "filter", "clamp", "shunt", "rail"))
    values = {
        "aol": amplifier.open_loop_gain,
        "en": amplifier.noise,
        "sr": amplifier.slew,
        "vh": amplifier.supply_high,
        "vl": amplifier.supply_low,
        "fgbw": driver.gbw,
        "faol": driver.open_loop_gain,
        "fen": driver.noise,
        "fsr": driver.slew,
        "fvh": driver.high,
        "fvl": driver.low,
        "vocm": driver.vocm,
        "cfeedback": driver.feedback,
        "rfilter": filter_.resistance,
        "ccoarse": filter_.coarse,
        "cfine": filter_.fine,
        "rvfilter": filter_.voltage_resistance,
        "cvoltage": filter_.voltage,
        "dis": clamp.saturation,
        "dn": clamp.emission,
        "dcj": clamp.capacitance,
        "dtt": clamp.transit,
        "rshunt": shunt.resistance,
        "lshunt": shunt.inductance,
        "rtol": 0.0,
        "rtc": 0.0,
        "emf": 0.0,
        "vrail": rail.voltage,
        "rsource": rail.source_resistance + rail.copper_before + parts["load_switch"].resistance,
        "rbehind": rail.copper_behind,
        "lsource": rail.source_inductance,
        "esr": rail.esr,
    }
    values |= {f"gbw{n}": amplifier.gbw for n in (1, 2, 4, 5, 7, 8)}
    values |= {f"cc{n}": 0.0 for n in (1, 2, 4, 5, 7, 8)}
    values |= {f"{kind}{n}": 0.0 for kind in ("os", "dr") for n in range(1, 9)}
    resistors = (*GAIN_RESISTORS, *DRIVER_RESISTORS)
    values |= dict.fromkeys((*resistors, *map(temperature_coefficient, resistors)), 0.0)
    return values | dict.fromkeys(("tolc", "tolf", "tolv", "tcc", "tcf", "tcv"), 0.0)


def temperature_coefficient(resistor: str) -> str:
    """Name of the parameter beside a resistor's error: ``rg1`` -> ``tg1``, ``ca1`` -> ``cta1``."""
    return "t" + resistor[1:] if resistor[0] == "r" else resistor[0] + "t" + resistor[1:]
