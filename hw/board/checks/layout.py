"""The board's file: parts placed, as generated, KiCad's design rules, parity with the schematic, connections not routed."""

from __future__ import annotations

import math
import shutil
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from ..check import Check
from ..design import TITLE, design, sheets
from ..kicadcli import WORK, DrcReport, drc, filled
from ..layout.board import FILE, board_file, copper, placed
from ..layout.pairs import LANES
from ..layout.track import Copper
from ..layout.unrouted import by_net, committed
from ..layout.write import board_text
from ..netlist import Design
from ..schematic.sexpr import children, first, parse
from ..schematic.write import net_names

__all__ = ["OPEN_PIN", "clean", "lanes", "lengths_of_board", "nets_of_board", "noticed", "quick", "same_board", "slow", "unrouted"]

CHANNEL = Path(__file__).parents[1] / "signal" / "channel.toml"
SKEW_MM = 0.1
"""0.7 ps, a ninetieth of a bit of 16 GT/s."""
LENGTH_MM = 1.5

OPEN_PIN = "Pad missing net given by schematic (unconnected-"
"""A pin that is on no net: KiCad gives it one of its own in the schematic's netlist, our board leaves its pad without."""


def quick() -> Iterator[Check]:
    """Check, without KiCad, that the committed board has the design's parts, and their pads the design's nets."""
    yield same_board(design(), nets_of_board(FILE), net_names(sheets()))
    yield from lanes(lengths_of_board(FILE), net_names(sheets()))


def slow() -> Iterator[Check]:
    """Check what needs KiCad."""
    lay = placed()
    every = len(lay.placed) + len(lay.missing)
    yield Check(
        "parts placed",
        f"{len(lay.placed)} of {every}",
        "all",
        not lay.missing,
        "\n".join(f"{ref}: {why}" for ref, why in sorted(lay.missing.items())),
    )
    ((_, text),) = board_file().items()
    same = FILE.is_file() and FILE.read_text() == text
    yield Check("board as generated", "same" if same else "differs", "same", same, "run 'python -m board --write'")
    found = drc(filled(FILE))
    yield clean(found)
    parity = [where for _, _, where in found.parity if not where.startswith(OPEN_PIN)]
    yield Check("DRC, board against schematic", str(len(parity)), "0", not parity, "\n".join(parity[:20]))
    yield unrouted(found, committed())
    yield noticed(found, drc(filled(_moved_track())))


def clean(found: DrcReport) -> Check:
    """Nothing that KiCad complains about but for missing connections, which are counted apart."""
    detail = "\n".join(f"{kind}: {where}" for _, kind, where in found.violations[:20])
    return Check("DRC, errors and warnings", str(len(found.violations)), "0", not found.violations, detail)


def unrouted(found: DrcReport, known: Mapping[str, int]) -> Check:
    """Missing connections: no more than are committed (layout/unrouted.tsv, hw/README.md), in no other nets."""
    nets = by_net(found)
    more = {net: count for net, count in nets.items() if count > known.get(net, 0)}
    detail = ", ".join(f"{net} {count} (committed: {known.get(net, 0)})" for net, count in more.items())
    limit = f"{sum(known.values())} committed" if known else "0"
    return Check("connections not routed", f"{nets.total()} in {len(nets)} of {len(design().nets)} nets", limit, not more, detail)


MOVED = "clk25"
"""A net with a track in the copy that ends elsewhere."""


def _moved_track() -> Path:
    """Make a copy of the project in which one net's longest track ends on another's.

    It still begins at its own net. A track that touches nothing of its net gets the net below it when KiCad reads the file, which KiCad
    does not report.
    """
    made = copper()
    longest = max((t for t in made.tracks if t.net == MOVED), key=lambda t: math.dist(t.start, t.end))
    victim = max((t for t in made.tracks if t.net != MOVED and t.layer == longest.layer), key=lambda t: math.dist(t.start, t.end))
    tracks = [replace(t, end=victim.end) if t == longest else t for t in made.tracks]
    folder = WORK / "moved"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(FILE.parent, folder)
    board = folder / FILE.name
    board.write_text(board_text(design(), sheets(), placed(), Copper(tracks, made.vias), TITLE))
    return board


def noticed(right: DrcReport, wrong: DrcReport) -> Check:
    """Whether KiCad sees a track that lies on another net and is missing where it was: or an empty report would prove nothing."""
    more = {kind for _, kind, _ in wrong.violations} - {kind for _, kind, _ in right.violations}
    gone = by_net(wrong)[MOVED] - by_net(right)[MOVED]
    seen = bool(more & {"shorting_items", "tracks_crossing", "clearance"}) and gone > 0
    return Check("DRC of a copy with a track moved", f"{len(more)} kinds, {gone} open", "noticed", seen, ", ".join(sorted(more)))


def nets_of_board(path: Path) -> dict[str, dict[str, str]]:
    """Return the net of each pad of each part of the schematic, from a board's file."""
    found: dict[str, dict[str, str]] = {}
    for footprint in children(parse(path.read_text()), "footprint"):
        if first(footprint, "path") is None:
            continue
        ref = next(str(p[2]) for p in children(footprint, "property") if p[1] == "Reference")
        pads = {}
        for pad in children(footprint, "pad"):
            net = first(pad, "net")
            if str(pad[1]):
                pads[str(pad[1])] = str(net[2]) if net else ""
        found[ref] = pads
    return found


def lengths_of_board(path: Path) -> dict[str, float]:
    """Return mm of track of each net, by KiCad's name, from a board's file."""
    board = parse(path.read_text())
    names = {str(net[1]): str(net[2]) for net in children(board, "net")}
    found: defaultdict[str, float] = defaultdict(float)
    for segment in children(board, "segment"):
        start, end, net = first(segment, "start"), first(segment, "end"), first(segment, "net")
        assert start is not None and end is not None and net is not None
        x0, y0, x1, y1 = (float(str(value)) for value in (*start[1:3], *end[1:3]))
        found[names[str(net[1])]] += math.hypot(x1 - x0, y1 - y0)
    return dict(found)


def lanes(lengths: Mapping[str, float], names: Mapping[str, str]) -> Iterator[Check]:
    """Pairs from edge to socket as drawn: every leg there, the two of a pair alike, and as long as the channel is calculated with."""
    figures = tomllib.loads(CHANNEL.read_text())["board"]
    meant = figures["pair_before"]["value"] + figures["pair_after"]["value"]
    legs = {}
    for lane in LANES:
        nets = [[f"{lane.name}_{leg}", *([f"{lane.name}_{leg}_D"] if lane.linked else [])] for leg in "PN"]
        legs[lane.name] = [sum(lengths.get(names[net], 0.0) for net in one) for one in nets]
    skew = {name: abs(p - n) for name, (p, n) in legs.items()}
    worst = max(skew, key=lambda name: skew[name])
    detail = ", ".join(f"{name} {p:.2f} and {n:.2f} mm" for name, (p, n) in legs.items())
    yield Check("lanes, one leg against the other", f"{skew[worst]:.3f} mm ({worst})", f"{SKEW_MM} mm", skew[worst] <= SKEW_MM, detail)
    longest = max(max(pair) for pair in legs.values())
    shortest = min(min(pair) for pair in legs.values())
    right = abs(longest - meant) <= LENGTH_MM and abs(shortest - meant) <= LENGTH_MM
    yield Check(
        "lanes, length against the channel's", f"{shortest:.1f} .. {longest:.1f} mm", f"{meant:.0f} mm +-{LENGTH_MM}", right, detail
    )


def same_board(ours: Design, board: Mapping[str, Mapping[str, str]], names: Mapping[str, str]) -> Check:
    """Parts of the design that are on the board with the right nets; a part that only the board has is wrong."""
    wrong = [f"{ref} is not in the schematic" for ref in board if ref not in ours.parts]
    right = 0
    for ref, pads in board.items():
        if ref not in ours.parts:
            continue
        meant = {pin: names.get(net, "") for pin, net in ours.parts[ref].pins.items()}
        bad = [f"{ref}.{pin} is on '{pads.get(pin)}', meant '{net}'" for pin, net in meant.items() if pads.get(pin) != net]
        right += not bad
        wrong += bad
    missing = sorted(ours.parts.keys() - board.keys())
    wrong += [f"not on the board: {', '.join(missing)}"] if missing else []
    return Check("parts on the board, nets as meant", f"{right} of {len(ours.parts)}", "all", not wrong, "\n".join(wrong[:20]))
