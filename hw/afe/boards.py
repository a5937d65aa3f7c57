"""Random boards: drawn, solved by hand (:func:`transfer`), and run through ngspice (:func:`spice_transfer`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

import numpy as np

from . import spice
from .design import (
    CLAMP_RESISTANCE,
    COARSE_DRIVER,
    DIVIDER_CAPACITANCE,
    DIVIDER_RESISTANCE,
    DRIVER_RESISTORS,
    FINE_DRIVER,
    GAIN_RESISTORS,
    GAIN_SECOND,
    parameters,
    pole,
    temperature_coefficient,
)
from .parts import AfePart

__all__ = ["AMPLIFIERS", "Outputs", "delays", "draw", "spice_transfer", "transfer"]

AMPLIFIERS = (1, 2, 4, 5, 7, 8)
DRIVERS = (3, 6)


def draw(parts: dict[str, AfePart], rng: Random) -> dict[str, float]:
    """Parameters of the decks for a random board. The converters, the reference and the shunt's heating are not among them
    (see :mod:`.population`)."""

    def error(part: str, figure: str) -> float:
        return parts[part].figures[figure].drawn(rng)

    board = parameters(parts)
    shunt = parts["shunt"]
    board["rtol"], board["rtc"] = error("shunt", "tolerance"), error("shunt", "tcr")
    board["lshunt"] = shunt.inductance * (1 + error("shunt", "inductance_spread"))
    board["emf"] = shunt.thermal_emf * error("shunt", "gradient")
    for n in AMPLIFIERS:
        board[f"os{n}"], board[f"dr{n}"] = error("amplifier", "offset"), error("amplifier", "drift")
        board[f"cc{n}"] = error("amplifier", "cmrr")
    # Both amplifiers of a package are from one piece of silicon.
    for pair in ((1, 2), (4, 5), (7, 8)):
        gbw = parts["amplifier"].gbw * (1 + error("amplifier", "gbw_spread"))
        board |= {f"gbw{n}": gbw for n in pair}
    for n in DRIVERS:
        board[f"os{n}"], board[f"dr{n}"] = error("driver", "offset"), error("driver", "drift")
    for names, part in ((GAIN_RESISTORS, "gain_network"), (DRIVER_RESISTORS, "driver_network")):
        for name in names:
            board[name], board[temperature_coefficient(name)] = error(part, "match"), error(part, "tracking")
    for path in "cfv":
        board[f"tol{path}"], board[f"tc{path}"] = error("filter", "tolerance"), error("filter", "tc")
    return board


@dataclass(frozen=True)
class Outputs:
    """One number a path: volts at the converters' inputs, or delays."""

    coarse: float
    fine: float
    voltage: float


def transfer(board: dict[str, float], current: float, rail: float, kelvin: float, warmer: float = 0.0, short: bool = False) -> Outputs:
    """Static transfer by hand, ``kelvin`` above 25 C, without clamps and saturation. The shunt may be ``warmer`` than the rest
    (kelvin). ``short``: the autozero switch is closed, both inputs at the drive's side of the shunt.

    Pairs: ``d = (vp - vn) (1 + (Rf1 + Rf2) / Rg)``. Driver between dividers of feedback factors p and q:
    ``D = 2 (o1 (1 - p) - o2 (1 - q) + vocm (p - q) + vos) / (p + q + 2 / A)``.
    """

    def resistor(name: str, nominal: float) -> float:
        return nominal * (1 + board[name]) * (1 + board[temperature_coefficient(name)] * kelvin)

    def offset(n: int) -> float:
        return board[f"os{n}"] + board[f"dr{n}"] * kelvin

    def pair(vp: float, vn: float, n: tuple[int, int], ratios: tuple[float, float]) -> tuple[float, float]:
        vp += offset(n[0]) + board[f"cc{n[0]}"] * vp
        vn += offset(n[1]) + board[f"cc{n[1]}"] * vn
        difference = (vp - vn) / (1 + (1 + sum(ratios)) / board["aol"])
        return vp + ratios[0] * difference, vn - ratios[1] * difference

    def driver(o1: float, o2: float, n: int, side: str, nominal: tuple[float, float]) -> float:
        inner = [resistor(f"{side}a{k}", nominal[0]) for k in (1, 2)]
        outer = [resistor(f"{side}b{k}", nominal[1]) for k in (1, 2)]
        p, q = (a / (a + b) for a, b in zip(inner, outer))
        vocm = board["vocm"]
        return 2 * (o1 * (1 - p) - o2 * (1 - q) + vocm * (p - q) + offset(n)) / (p + q + 2 / board["faol"])

    shunt = board["rshunt"] * (1 + board["rtol"]) * (1 + board["rtc"] * (kelvin + warmer))
    drive = rail - shunt * current
    ratio1 = tuple(resistor(name, 1200.0) / resistor("rg1", 100.0) for name in ("rf1", "rf2"))
    o1, o2 = pair(drive if short else rail + board["emf"], drive, (1, 2), ratio1)
    ratio2 = tuple(resistor(name, 1500.0) / resistor("rg2", 200.0) for name in ("rf4", "rf5"))
    o4, o5 = pair(o1, o2, (4, 5), ratio2)
    below, above = resistor("rv2", 10_000.0), resistor("rv1", 2_200.0)
    follower = (drive * (1 + board["cc7"]) + offset(7)) / (1 + 1 / board["aol"])
    divided = follower * below / (below + above)
    return Outputs(
        coarse=driver(o1, o2, 3, "c", (1250.0, 5000.0)),
        fine=driver(o4, o5, 6, "f", (1000.0, 9000.0)),
        voltage=(divided * (1 + board["cc8"]) + offset(8)) / (1 + 1 / board["aol"]),
    )


def delays(board: dict[str, float]) -> Outputs:
    """Delays by hand, in s, at 25 C: the sum of the time constants."""
    shunt = board["rshunt"] * (1 + board["rtol"])
    gain1 = 1 + 2400 / 100
    first = pole(gain1, board["gbw1"]) - board["lshunt"] / shunt
    filters = {path: (1 + board[f"tol{path[0]}"]) * board[f"c{path}"] for path in ("coarse", "fine", "voltage")}

    def feedback(path: str, network: tuple[float, float]) -> float:
        return network[1] * (1 + (board[f"{path}b1"] + board[f"{path}b2"]) / 2) * board["cfeedback"]

    return Outputs(
        coarse=first + pole(5, board["fgbw"]) + feedback("c", COARSE_DRIVER) + 2 * board["rfilter"] * filters["coarse"],
        fine=first
        + pole(GAIN_SECOND, board["gbw4"])
        + pole(10, board["fgbw"])
        + feedback("f", FINE_DRIVER)
        + CLAMP_RESISTANCE * 2 * board["dcj"]
        + 2 * board["rfilter"] * filters["fine"],
        voltage=pole(1, board["gbw7"])
        + pole(1, board["gbw8"])
        + DIVIDER_RESISTANCE * DIVIDER_CAPACITANCE
        + board["rvfilter"] * filters["voltage"],
    )


def spice_transfer(board: dict[str, float]) -> tuple[dict[tuple[str, float, float, float], float], Outputs]:
    """Return the same by ngspice: {(path, current, rail, kelvin): volts} of the deck's sweeps, and the delays."""
    _, tables = spice.run("board", board)
    temperatures = (-25.0, 0.0, 25.0)
    static = {}
    for path, table in (("coarse", tables["coarse"]), ("fine", tables["fine"])):
        for row in table:
            static |= {(path, float(row[0]), board["vrail"], kelvin): float(v) for kelvin, v in zip(temperatures, row[1:])}
    for row in tables["rail"]:
        for n, path in enumerate(("coarse", "fine", "voltage")):
            static |= {(path, 0.0, float(row[0]), kelvin): float(row[1 + 3 * n + k]) for k, kelvin in enumerate(temperatures)}
    phases = np.concatenate([tables["delay"][0, 1:], tables["delayv"][0, 1:]])
    return static, Outputs(*(float(-phase / (2 * math.pi * 100)) for phase in phases))
