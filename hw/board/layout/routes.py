"""The routes that were found: routes.tsv, where a net's way holds as long as its pads stay in place."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ..netlist import Design
from .escape import VIA
from .land import Placed
from .track import Copper, Track, Via

__all__ = ["FOUND", "kept", "signature"]

FOUND = Path(__file__).with_name("routes.tsv")


def signature(design: Design, placed: dict[str, Placed], net: str) -> str:
    """Return a hash of the places of a net's pads."""
    pads = sorted(
        (pad.ref, pad.number, pad.at)
        for ref, number in design.nets[net].pins
        if ref in placed
        for pad in placed[ref].pads()
        if pad.number == number
    )
    return hashlib.sha256(repr(pads).encode()).hexdigest()[:12]


def kept(design: Design, placed: dict[str, Placed] | None) -> Copper:
    """Return the copper in routes.tsv of nets with unmoved pads; without places, of all nets."""
    made = Copper()
    if not FOUND.is_file():
        return made
    good: set[str] = set()
    for line in FOUND.read_text().splitlines()[1:]:
        net, kind, *rest = line.split("\t")
        if kind == "pads":
            if net in design.nets and (placed is None or signature(design, placed, net) == rest[0]):
                good.add(net)
        elif net in good and kind == "via":
            made.vias.append(Via(net, (float(rest[0]), float(rest[1])), *VIA))
        elif net in good:
            x0, y0, x1, y1, width = map(float, rest)
            made.tracks.append(Track(net, kind, (x0, y0), (x1, y1), width))
    return made
