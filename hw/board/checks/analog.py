"""The front end as KiCad reads it out of the drawing, through hw/afe's decks: gains, delays, noise and voltages compared with hw/afe's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache

from afe import design as afe
from afe import spice, studies
from afe.parts import AfePart, load

from ..check import Check
from ..design import KICAD
from ..kicadcli import components
from ..netlist import DesignError, Part
from ..schematic.write import PROJECT
from ..spice import circuit

__all__ = ["response", "signs", "slow", "static", "total_noise"]

PATHS = ("coarse", "fine", "voltage")
GAIN, DELAY_S, CORNER, NOISE = 1e-3, 2e-9, 5e-3, 1e-2
"""Allowed differences between a schematic and hw/afe. The filters' standard values may be off by 0.05 % each: 2 ns of 2 us."""
NODE_V, CLAMP_A = 20e-3, 1e-4
CURRENTS_A = (0.05, -0.05)
OVERLOAD_A, CLAMP_V = 4.0, 0.9
"""A current that would make 1 V in front of the clamp, and the largest voltage behind it (0.83 V by the deck)."""
TRANSFER = """What the converters see of a current, with the switches of the autozero either way
.include params.inc
.include macros.lib
.include frontend.lib
.options reltol=1e-6 vntol=1e-9 abstol=1e-14
Vrail a 0 {vrail}
Idrive b 0 {current}
Xs a b sp sn shunt
X0 sp sn cp cm fp fm vp board zeroi={zeroi} zerov={zerov}
.control
op
let coarse = v(cp)-v(cm)
let fine = v(fp)-v(fm)
let clamp = v(x0.l1)-v(x0.l2)
let volts = v(vp)
let drive = v(sn)
print coarse
print fine
print clamp
print volts
print drive
quit 0
.endc
.end
"""


def slow() -> Iterator[Check]:
    """Needs KiCad, for its netlist, and ngspice."""
    drawn = components(KICAD / f"{PROJECT}.kicad_sch")
    for check in (response, total_noise, static, signs):
        yield from check(drawn)


@cache
def _components() -> dict[str, AfePart]:
    return load()[0]


def _held(name: str, limit: str, parts: Mapping[str, Part], look: Callable[[str], tuple[str, list[str]]]) -> Check:
    """Make a row from the result of ``look`` on the circuit: its figure, and the faults.

    A circuit that cannot be made or simulated fails.
    """
    try:
        figure, wrong = look(circuit(parts))
    except (DesignError, spice.SpiceError) as error:
        return Check(name, "not simulated", limit, False, str(error))
    return Check(name, figure, limit, not wrong, "; ".join(wrong))


def response(parts: Mapping[str, Part]) -> Iterator[Check]:
    """Gain, delay and corner of the three paths, by decks/ac.cir."""
    wanted = studies.bandwidth(_components())

    def look(text: str) -> tuple[str, list[str]]:
        found = studies.bandwidth(_components(), text)
        worst, wrong = {"gain": 0.0, "delay_s": 0.0, "corner_hz": 0.0}, []
        for path in PATHS:
            for key, limit in (("gain", GAIN), ("delay_s", DELAY_S), ("corner_hz", CORNER)):
                off = found[path][key] - wanted[path][key]
                off = abs(off if key == "delay_s" else off / wanted[path][key])
                worst[key] = max(worst[key], off)
                if not off <= limit:
                    wrong.append(f"{path}, {key}: {found[path][key]:.6g}, hw/afe {wanted[path][key]:.6g}")
        return f"{worst['gain']:.2%}, {worst['delay_s'] * 1e9:.1f} ns, {worst['corner_hz']:.2%}", wrong

    yield _held("front end as drawn: gain, delay, corner", f"{GAIN:.1%}, {DELAY_S * 1e9:.0f} ns, {CORNER:.1%}", parts, look)


def total_noise(parts: Mapping[str, Part]) -> Iterator[Check]:
    """Noise of the front end in a conversion, by decks/noise.cir."""
    wanted = studies.noise(_components())

    def look(text: str) -> tuple[str, list[str]]:
        found = studies.noise(_components(), text)
        off = {path: abs(found[path]["front_end_rms"] / wanted[path]["front_end_rms"] - 1) for path in PATHS}
        wrong = [f"{path}: {found[path]['front_end_rms']:.4g}" for path in PATHS if not off[path] <= NOISE]
        return f"{max(off.values()):.2%}", wrong

    yield _held("front end as drawn: noise", f"{NOISE:.0%}", parts, look)


def static(parts: Mapping[str, Part]) -> Iterator[Check]:
    """Check voltages of the nodes at 0.1 and 4 A, by decks/headroom.cir: a wrong common mode, supply or clamp shifts them."""
    wanted = studies.headroom(_components())

    def look(text: str) -> tuple[str, list[str]]:
        found = studies.headroom(_components(), text)
        worst, wrong = 0.0, []
        for at, nodes in wanted.items():
            for name, value in nodes.items():
                off = abs(found[at][name] - value)
                if name != "clamp_current":
                    worst = max(worst, off)
                if not off <= (CLAMP_A if name == "clamp_current" else NODE_V):
                    wrong.append(f"{name} at {at}: {found[at][name]:.4g}, hw/afe {value:.4g}")
        return f"{worst * 1e3:.1f} mV", wrong

    yield _held("front end as drawn: nodes at 0.1 and 4 A", f"{NODE_V * 1e3:.0f} mV", parts, look)


def signs(parts: Mapping[str, Part]) -> Iterator[Check]:
    """Check the sign of the converters, the part of the current left in an autozero, and that the clamp works both ways."""
    resistance = _components()["shunt"].resistance
    gains = {"coarse": afe.GAIN_COARSE * resistance, "fine": afe.GAIN_FINE * resistance}

    def look(text: str) -> tuple[str, list[str]]:
        def at(current: float, **zero: float) -> dict[str, float]:
            values = afe.parameters(_components()) | {"current": current, "zeroi": 0.0, "zerov": 0.0} | zero
            return spice.run("transfer", values, TRANSFER, text)[0]

        wrong = []
        worst = 0.0
        for current in CURRENTS_A:
            found, zeroed = at(current), at(current, zeroi=1.0, zerov=1.0)
            for path, gain in gains.items():
                off = found[path] / (gain * current) - 1
                worst = max(worst, abs(off))
                if not abs(off) <= GAIN:
                    wrong.append(f"{path} at {current:g} A: {found[path]:.4g} V, not {gain * current:.4g}")
                if not abs(zeroed[path]) <= GAIN * gain * abs(current):
                    wrong.append(f"{path} at {current:g} A in an autozero: {zeroed[path]:.4g} V, not 0")
            off = found["volts"] / (found["drive"] * afe.DIVIDER) - 1
            worst = max(worst, abs(off))
            if not abs(off) <= GAIN:
                wrong.append(f"voltage: {found['volts']:.4g} V of {found['drive']:.4g}")
            if not abs(zeroed["volts"]) <= GAIN:
                wrong.append(f"voltage at ground: {zeroed['volts']:.4g} V, not 0")
        for current in (OVERLOAD_A, -OVERLOAD_A):
            if not 0 < (clamp := at(current)["clamp"] * (1 if current > 0 else -1)) < CLAMP_V:
                wrong.append(f"clamp at {current:g} A: {clamp:.3g} V, not below {CLAMP_V} V")
        return f"{worst:.2%}", wrong

    yield _held("front end as drawn: signs, autozero, clamp", f"{GAIN:.1%}", parts, look)
