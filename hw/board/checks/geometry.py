"""The pairs of the board's file compared with the assumptions of the eyes: length, skew, width and gap, planes below, return vias."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ..check import Check
from ..design import design
from ..layout import outline
from ..layout.board import FILE
from ..netlist import Design
from ..pcb import Pcb, read
from ..signal import lanes
from ..signal.channel import figures
from ..signal.stackup import Stackup, load

__all__ = ["coupled", "pairs", "quick", "rim"]

TOLERANCE = 1.0
"""mm by which a length may be off the one that the eyes have."""
SKEW = 0.15
"""mm between the legs of a pair: 0.9 ps, an hundredth of a bit at 16 GT/s and a half."""
UNCOUPLED = 4.5
"""mm of a pair that may be otherwise than the field solver was asked, in short pieces at pads, links and vias."""
RETURN = 1.5
"""mm within which a via of a pair wants one of ground."""
RIM = 4.0
"""Largest distance in mm from any point of the board's edge to a via of ground.

A quarter of a wave of 5 GHz in FR4 is 7 mm.
"""
RIM_STEP = 0.5
COUPLED_SKEW = 8.0
"""mm, 50 ps: half of the 100 ps that USB 2.0 leaves a cable (from memory), and a hundredth of a period of the clock."""
COUPLED_LOOSE = 5.0
"""mm of a stretch of USB or clock that may be other than the solver was asked: connector, clamps and capacitors force the legs apart."""


def quick() -> Iterator[Check]:
    """Needs no KiCad."""
    board = read(FILE)
    yield from pairs(design(), board, load(), figures())
    yield coupled(lanes.others(design(), board, load()), board, load())
    yield rim(board)


def pairs(ours: Design, board: Pcb, stack: Stackup, values: dict[str, dict[str, Any]]) -> Iterator[Check]:
    """Rows of one board."""
    every = lanes.lines(ours, board, stack)
    found = [line for line in every if line.legs]
    missing = [f"{line.name}: {line.missing}" for line in every if line.missing]
    yield Check("pairs drawn from end to end", f"{len(found)} of {len(every)}", "all", not missing, "\n".join(missing))
    if not found:
        return
    yield lengths(found, values)
    worst = max(found, key=lambda line: line.skew)
    figure = f"{worst.skew:.2f} mm, {worst.skew * lanes.PS_PER_MM:.1f} ps"
    yield Check("pairs, skew between the legs", figure, f"{SKEW} mm", worst.skew <= SKEW, worst.name)
    odd = {line.name: lanes.uncoupled(board, line, stack.pairs[line.pair]) for line in found}
    name = max(odd, key=odd.__getitem__)
    yield Check("pairs, not at the solver's width and gap", f"at most {odd[name]:.1f} mm", f"{UNCOUPLED} mm", odd[name] <= UNCOUPLED, name)
    open_mm = values["board"]["finger_length"] + values["board"]["pad_length"]
    bare = lanes.unreferenced(board, found)
    name = max(bare, key=bare.__getitem__)
    yield Check(
        "pairs, no ground on the next layer",
        f"at most {bare[name]:.1f} mm",
        f"{open_mm:.1f} mm",
        bare[name] <= open_mm,
        f"{name}; fingers, pads",
    )
    beside, all_ = lanes.return_vias(board, found, RETURN)
    yield Check("pairs' vias with a return via", f"{beside} of {all_}", f"all, within {RETURN} mm", beside == all_, "")


def coupled(found: list[lanes.PairRoute], board: Pcb, stack: Stackup) -> Check:
    """USB and the reference clock: as pairs, not as two tracks that know nothing of each other."""
    name = "USB and reference clock as pairs"
    limit = f"skew {COUPLED_SKEW:g} mm, {COUPLED_LOOSE:g} mm loose"
    missing = [f"{line.name}: {line.missing}" for line in found if line.missing]
    if missing:
        return Check(name, "not drawn", limit, False, "\n".join(missing))
    skew = {line.name: line.skew for line in found}
    loose = {line.name: lanes.uncoupled(board, line, stack.pairs[line.pair]) for line in found}
    wrong = [
        f"{one}: skew {skew[one]:.1f} mm, {loose[one]:.1f} mm loose"
        for one in skew
        if skew[one] > COUPLED_SKEW or loose[one] > COUPLED_LOOSE
    ]
    figure = f"skew at most {max(skew.values()):.1f} mm, {max(loose.values()):.1f} mm loose"
    return Check(name, figure, limit, not wrong, "\n".join(wrong))


def rim(board: Pcb) -> Check:
    """Check ground along the edge: the largest distance from a point of the outline (beyond the tongue) to a via between the planes."""
    ground = [via.at for via in board.vias if via.net == "GND"] + [pad.at for pad in board.pads if pad.net == "GND" and len(pad.layers) > 2]
    worst, where = 0.0, (0.0, 0.0)
    corners = outline.polygon()
    for a, b in zip(corners, [*corners[1:], corners[0]]):
        steps = max(1, math.ceil(math.dist(a, b) / RIM_STEP))
        for k in range(steps):
            at = (a[0] + (b[0] - a[0]) * k / steps, a[1] + (b[1] - a[1]) * k / steps)
            far = min((math.dist(at, one) for one in ground), default=math.inf)
            if far > worst:
                worst, where = far, at
    detail = f"at {where[0]:.1f}, {where[1]:.1f}"
    return Check("ground vias along the edge", f"at most {worst:.1f} mm away", f"{RIM:g} mm", worst <= RIM, detail)


def lengths(found: list[lanes.PairRoute], values: dict[str, dict[str, Any]]) -> Check:
    """Against channel.toml: lanes all alike, of the tap's two stretches the longest."""
    b = values["board"]
    straight = b["pair_before"] + b["pair_after"]
    wrong, shown = [], []
    for line in found:
        if line.pair == "pcie" and abs(line.millimetres - straight) > TOLERANCE:
            wrong.append(f"{line.name}: {line.millimetres:.1f} mm, the eyes have {straight:.0f}")
    shown.append(f"{max((line.millimetres for line in found if line.pair == 'pcie'), default=0.0):.1f}")
    for pair, meant in (("tap", values["tap"]["trace"]), ("lvds", values["fpga"]["trace"])):
        longest = max((line.millimetres for line in found if line.pair == pair), default=None)
        if longest is None:
            continue
        shown.append(f"{longest:.1f}")
        if abs(longest - meant) > TOLERANCE:
            wrong.append(
                f"longest {'tap to amplifier' if pair == 'tap' else 'amplifier to FPGA'}: {longest:.1f} mm, the eyes have {meant:.0f}"
            )
    figure = " / ".join(shown) + " mm"
    meant_all = f"{straight:.0f} / {values['tap']['trace']:.0f} / {values['fpga']['trace']:.0f} mm"
    return Check("pairs, length: lanes / tap / to the FPGA", figure, f"as in the eyes: {meant_all}", not wrong, "\n".join(wrong))
