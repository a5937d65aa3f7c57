"""The rail's copper as it lies on the board: resistance of each stretch, its necks, its vias; the sense lines of the shunt."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..netlist import DesignError
from ..pcb import COPPER, Pcb, PcbPad
from ..raster import Grid, copper
from . import copper as sheet
from .stackup import Stackup

__all__ = ["GROUND", "NECK", "STRETCHES", "CopperPath", "Sense", "sense", "stretch", "stretches"]

BOX = (-11.0, 0.0, 11.0, 37.0)
"""Tongue, neck, and the ground below the drive's socket, mm."""
STEP, GROUND_STEP = 0.1, 0.2
NECK = 0.03
"""Necks that carry less than this share are not looked at."""


@dataclass(frozen=True)
class CopperPath:
    """Ohm between two terminals, and where its current is densest."""

    resistance: float
    hottest_k: float
    """At 3 A, by IPC-2221, of the worst neck."""
    neck: str
    via_share: float
    via_k: float
    """The same of the fullest barrel."""
    worst_pin: float
    """Share of the current in the fullest pad of the connector, with even contacts (of ground, with none)."""


@dataclass(frozen=True)
class NetEnd:
    """Pads of a part on a net; ``apart``: contacts of a connector, each with a resistance of its own."""

    ref: str
    apart: bool = False


STRETCHES: dict[str, tuple[str, NetEnd, NetEnd]] = {
    "host": ("+3V3_HOST", NetEnd("J1", True), NetEnd("U1100")),
    "switched": ("+3V3_SW", NetEnd("U1100"), NetEnd("R1000")),
    "drive": ("+3V3_DRIVE", NetEnd("R1000"), NetEnd("J2", True)),
}
GROUND = ("GND", NetEnd("J1", True), NetEnd("J2", True))
CURRENT_A = 3.0


def stretches(board: Pcb, stack: Stackup, data: dict[str, Any]) -> dict[str, CopperPath | str]:
    """Every stretch, and "ground", or why it cannot be worked out."""
    found: dict[str, CopperPath | str] = {}
    for name, (net, start, end) in (STRETCHES | {"ground": GROUND}).items():
        try:
            found[name] = stretch(board, stack, data, net, start, end)
        except (ValueError, DesignError) as error:
            found[name] = str(error)
    return found


def stretch(board: Pcb, stack: Stackup, data: dict[str, Any], net: str, start: NetEnd, end: NetEnd) -> CopperPath:
    """One of them. Raises ``ValueError`` where copper does not join the two."""
    figures = {key: f["value"] for key, f in data["figures"].items()}
    grid = Grid.over(BOX, GROUND_STEP if net == "GND" else STEP)
    masks = {layer: copper(board, net, layer, grid) for layer in COPPER}
    used = [layer for layer in COPPER if masks[layer].any() and _more_than_vias(board, net, layer)]
    masks = {layer: masks[layer] for layer in used}
    conductance = {layer: stack.conductivity * stack.layer(layer).thickness for layer in used}
    joins: list[sheet.Join] = []
    for at, drill in [(via.at, via.drill) for via in board.vias if via.net == net] + [
        (pad.at, pad.drill) for pad in board.pads if pad.net == net and pad.drill and len(pad.layers) > 1
    ]:
        cell = grid.cell(at)
        there = [layer for layer in used if cell is not None and masks[layer][cell]]
        for upper, lower in itertools.pairwise(there):
            length = abs(stack.layer(upper).top - stack.layer(lower).top)
            ohm = sheet.barrel(length, drill * 1e-3, figures["plating_mm"] * 1e-3, stack.conductivity)
            assert cell is not None
            joins.append((upper, lower, *cell, ohm))
    first, last = (_terminal(board, grid, masks, net, one) for one in (start, end))
    plain = sheet.conduct(masks, conductance, joins, first, last, grid.step)
    shares = plain.pad_shares
    if net != "GND" and (start.apart or end.apart):
        shares = sheet.conduct(masks, conductance, joins, first, last, grid.step, figures["contact_even_ohm"]).pad_shares
    hottest, where = 0.0, ""
    for layer, runs in plain.necks.items():
        thick = stack.layer(layer).thickness * 1e3
        for share, width in runs:
            if share > NECK and width >= 2 * grid.step:
                warm = sheet.rise(CURRENT_A * min(share, 1.0), width * thick, layer.startswith("In"))
                if warm > hottest:
                    hottest, where = warm, f"{CURRENT_A * share:.2f} A in {width:.1f} mm of {layer}"
    drill, plating = min((via.drill for via in board.vias if via.net == net), default=1.0), figures["plating_mm"]
    via_k = sheet.rise(CURRENT_A * plain.via_share, math.pi * (drill - plating) * plating, True) if plain.via_share > 0 else 0.0
    return CopperPath(plain.resistance, hottest, where, plain.via_share, via_k, max(shares))


def _more_than_vias(board: Pcb, net: str, layer: str) -> bool:
    return (
        any(zone.net == net and zone.layer == layer for zone in board.zones)
        or any(track.net == net and track.layer == layer for track in board.tracks)
        or any(pad.net == net and layer in pad.layers for pad in board.pads)
    )


def _terminal(board: Pcb, grid: Grid, masks: dict[str, np.ndarray], net: str, end: NetEnd) -> list[sheet.Terminal]:
    """Return the pads of one end: contacts separately, else the pads of a layer together. A pad outside the raster does not count."""
    found: list[sheet.Terminal] = []
    for pad in board.pads_on(end.ref, net):
        where = grid.polygon(pad.corners)
        layer = next((one for one in pad.layers if one in masks), None)
        if layer is None or not where.any():
            continue
        if not end.apart and found and found[-1][0] == layer:
            found[-1][1][:] |= where
        else:
            found.append((layer, where))
    if not found:
        raise DesignError(f"{end.ref} has no pad on {net}")
    return found


@dataclass(frozen=True)
class Sense:
    """A sense line from the shunt to the furthest input that hangs on it."""

    millimetres: float
    ohm: float
    to: str


def sense(board: Pcb, stack: Stackup, net: str, start: PcbPad, pins: list[PcbPad]) -> Sense:
    """Raises DesignError where tracks do not join them."""
    from .routes import Routes

    routes, worst = Routes(board, net, stack), Sense(0.0, 0.0, "")
    for pin in pins:
        far = routes.between(start, pin)
        if far is None:
            raise DesignError(f"{net}: {pin.ref}.{pin.number} is not joined with {start.ref}.{start.number}")
        if far.ohm > worst.ohm:
            worst = Sense(far.millimetres, far.ohm, f"{pin.ref}.{pin.number}")
    return worst
