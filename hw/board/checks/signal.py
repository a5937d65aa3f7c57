"""Checks of the pairs' impedance and the channel's eyes, from ``layout/stackup.toml`` and ``signal/channel.toml``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ..check import Check
from ..design import design
from ..netlist import Design
from ..signal import impedance, margins
from ..signal.channel import Channel, Model, figures
from ..signal.field import coupling
from ..signal.stackup import Stackup, load

__all__ = ["build_p", "build_t", "crosstalk", "detection", "idle", "pair_impedances", "quick", "slow", "tap_parts", "thickness"]

NOMINAL = 0.02
EDGE_M = (0.72e-3, 0.88e-3)
"""Thickness of the edge in m that M.2 asks for: 0.8 mm +-10 %."""


def quick() -> Iterator[Check]:
    """Check the pairs, and the channel of the longest host at 5 GT/s."""
    stack = load()
    yield thickness(stack)
    yield from pair_impedances(stack)
    yield crosstalk(stack)
    model = Model(stack, figures(), stop=25e9)
    yield from build_p(model, ("far",), ("g5",))
    yield from build_t(model, ("far",), ("g5",))
    yield detection(model)
    yield tap_parts(design(), model.values)


def slow() -> Iterator[Check]:
    """Check all hosts and rates."""
    model = Model(load(), figures())
    yield from build_p(model)
    yield from build_t(model)
    yield idle(model)


def thickness(stack: Stackup) -> Check:
    """Check the thickness of the edge that goes into the host's socket."""
    low, high = EDGE_M
    return Check(
        "edge, thickness",
        f"{stack.thickness * 1e3:.3f} mm",
        f"{low * 1e3:.2f} .. {high * 1e3:.2f} mm",
        low <= stack.thickness <= high,
        stack.name,
    )


def pair_impedances(stack: Stackup) -> Iterator[Check]:
    """Check the nominal impedances by the field solver; the fab holds 10 % of them."""
    for pair in stack.pairs.values():
        found = impedance.differential(stack, pair)
        yield Check(
            f"impedance, pair class {pair.name}",
            f"{found:.1f} ohm",
            f"{pair.target:.0f} ohm +-{NOMINAL:.0%}",
            abs(found / pair.target - 1) <= NOMINAL,
            f"{pair.width * 1e3:.3f} mm, gap {pair.gap * 1e3:.3f} mm on {pair.layer} over {', '.join(pair.reference)}",
        )


def crosstalk(stack: Stackup, limit_db: float = -40.0) -> Check:
    """Check the backward coupling between neighbouring PCIe pairs: a quarter of the sum of capacitive and inductive coupling,
    saturated.
    """
    pair = stack.pairs["pcie"]
    cut = impedance.section(stack, pair, "even")
    # Two whole pairs side by side instead of half of one.
    trace, plane = cut.conductors[0], cut.conductors[1]
    pitch = pair.width + pair.gap
    start, traces = cut.x1 - trace.x1, []
    for n in range(4):
        x = start + (n % 2) * pitch + (n // 2) * (pitch + pair.width + pair.between)
        traces.append((x, x + pair.width))
    right = traces[-1][1] + start
    conductors = (*(replace(trace, x0=a, x1=b, volts=0.0) for a, b in traces), replace(plane, x1=right))
    insulators = []
    for d in cut.dielectrics:
        if d.x0 > 0 or d.x1 < cut.x1:  # solder mask over a trace
            rim = trace.x0 - d.x0
            insulators += [replace(d, x0=a - rim, x1=b + rim) for a, b in traces]
        else:
            insulators.append(replace(d, x1=right))
    both = replace(cut, x1=right, dielectrics=tuple(insulators), conductors=conductors)
    modes = ((0.5, -0.5, 0.0, 0.0, 0.0), (0.0, 0.0, 0.5, -0.5, 0.0))
    c = coupling(both, modes)
    inverse = np.linalg.inv(coupling(both.air(), modes))
    kc, kl = -c[0, 1] / c[0, 0], inverse[0, 1] / inverse[0, 0]
    db = 20 * float(np.log10(max(abs(kc + kl) / 4, 1e-9)))
    return Check(
        "crosstalk between PCIe pairs, near end",
        f"{db:.0f} dB",
        f"at most {limit_db:.0f} dB",
        db <= limit_db,
        f"{pair.between * 1e3} mm apart",
    )


def _channels(model: Model, hosts: tuple[str, ...], **options: bool) -> Iterator[tuple[str, bool, Channel]]:
    for host in hosts:
        for to_drive in (True, False):
            yield host, to_drive, model.channel(model.values["host"][host], to_drive=to_drive, **options)


def _worst(name: str, found: list[tuple[str, float, float]], height: float, width: float) -> Check:
    """Return the row of several eyes (where, V, UI), by the eye with the smallest margin."""
    where, least, narrow = min(found, key=lambda e: min(e[1] / height, e[2] / width))
    passed = all(h >= height and w >= width for _, h, w in found)
    figure = f"{least * 1e3:.0f} mV, {narrow:.2f} UI ({where})"
    return Check(
        name, figure, f"{height * 1e3:.0f} mV, {width:.2f} UI", passed, "; ".join(f"{x}: {h * 1e3:.0f} mV {w:.2f} UI" for x, h, w in found)
    )


def _where(case: margins.Case) -> str:
    return f"{case.host} host, {'host' if case.to_drive else 'drive'} talks"


def build_p(model: Model, hosts: tuple[str, ...] = margins.HOSTS, rates: tuple[str, ...] = margins.RATES) -> Iterator[Check]:
    """Check the receivers' eyes with all lanes straight through. Lanes 2 and 3 have their links: the worse case."""
    channels = list(_channels(model, hosts, tapped=False, lanes23=True))
    for rate in rates:
        cases = [margins.at_receiver(model, c, rate, host, to_drive) for host, to_drive, c in channels]
        yield _worst(f"build P, {_speed(rate)}, receivers", *_eyes(cases))


def build_t(model: Model, hosts: tuple[str, ...] = margins.HOSTS, rates: tuple[str, ...] = margins.RATES[:2]) -> Iterator[Check]:
    """Check the eyes at the receivers with the tap on the lanes, at the amplifier's input, and at the FPGA."""
    channels = list(_channels(model, hosts))
    for rate in rates:
        cases = [margins.at_receiver(model, c, rate, host, to_drive) for host, to_drive, c in channels]
        yield _worst(f"build T, {_speed(rate)}, receivers", *_eyes(cases))
        taps = [margins.at_tap(model, c, rate, host, to_drive) for host, to_drive, c in channels]
        # The amplifier's sensitivity is a level; the width counts at the FPGA.
        least = taps[0].height_limit
        yield _worst(f"build T, {_speed(rate)}, amplifier's input", [(_where(t), t.eye.height, t.eye.width) for t in taps], least, 1e-9)
        behind = [(_where(t), margins.at_fpga(model, t)) for t in taps]
        limits = behind[0][1][2:]
        stated = " (stated, no margin by PCIe)" if limits[1] < cases[0].width_limit else ""
        yield _worst(f"build T, {_speed(rate)}, FPGA's input{stated}", [(w, f[0], f[1]) for w, f in behind], *limits)


def _speed(rate: str) -> str:
    return f"{rate[1:].replace('_', '.')} GT/s"


def _eyes(cases: list[margins.Case]) -> tuple[list[tuple[str, float, float]], float, float]:
    return [(_where(c), c.eye.height, c.eye.width) for c in cases], cases[0].height_limit, cases[0].width_limit


def idle(model: Model) -> Check:
    """Check that the amplifier's default threshold of loss of signal lies between electrical idle's rest and the least signal."""
    found = margins.levels(model, [c for _, _, c in _channels(model, margins.HOSTS)])
    threshold = model.values["amplifier"]["los_default"] * 1e-3
    return Check(
        "tap, loss of signal: idle, threshold, least signal",
        f"{found.idle * 1e3:.0f} mV, {found.signal * 1e3:.0f} mV",
        f"below and above {threshold * 1e3:.0f} mV",
        found.idle < threshold < found.signal,
        "half swing, worst pattern, 5 GT/s",
    )


def detection(model: Model) -> Check:
    """Check that the tap's capacitor does not look like a receiver, and that the level does not sag behind it."""
    t = model.values["tap"]
    sag = margins.wander(model, "g2_5")
    return Check(
        "tap, capacitor and baseline wander",
        f"{t['ac_capacitor'] * 1e-3:.1f} nF, {sag:.1%}",
        f"{t['link_capacitance_limit'] * 1e-3:.0f} nF, 5 %",
        t["ac_capacitor"] < t["link_capacitance_limit"] and sag < 0.05,
    )


def tap_parts(board: Design, values: dict[str, dict[str, Any]]) -> Check:
    """Check that the schematic has the resistors, capacitors and amplifiers of the eyes' calculation."""
    tap = values["tap"]
    wanted = {"R": f"{tap['resistance']:g}", "C": f"{tap['ac_capacitor'] * 1e-3:g}n"}
    found = [part for part in board.parts.values() if part.place.startswith("tap ")]
    wrong = [f"{part.ref} is {part.value}" for part in found if part.value != wanted.get(part.ref[0])]
    amplifiers = [part for part in board.parts.values() if part.value == values["amplifier"]["part"]]
    passed = not wrong and len(found) == 16 and len(amplifiers) == 4
    figure = f"{len(found) - len(wrong)} resistors and capacitors, {len(amplifiers)} amplifiers"
    return Check("tap, parts as worked out", figure, "16 and 4", passed, "; ".join(wrong))
