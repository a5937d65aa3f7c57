"""The board's file read back: places, ways along tracks, pairs; and copies with a fault in a pair."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from board.check import Check
from board.checks import geometry as checks
from board.design import design
from board.layout.board import FILE
from board.layout.outline import load as outline
from board.pcb import Pcb, PcbPad, PcbTrack, PcbVia, read
from board.signal import lanes
from board.signal.channel import figures
from board.signal.routes import Routes
from board.signal.stackup import load

STACK = load()
VALUES = figures()


@pytest.fixture(scope="module")
def board() -> Pcb:
    return read(FILE)


def failing(board: Pcb) -> dict[str, str]:
    return {row.name: row.detail for row in checks.pairs(design(), board, STACK, VALUES) if not row.passed}


def copied(board: Pcb, tracks: Callable[[PcbTrack], list[PcbTrack]] = lambda one: [one], vias: tuple[PcbVia, ...] = ()) -> Pcb:
    return Pcb(board.pads, [new for old in board.tracks for new in tracks(old)], [*board.vias, *vias], board.zones, board.parts)


# ---- reading


def test_pads_lie_where_m2_has_them(board: Pcb) -> None:
    """The specification's pitch decides, not the tables that made the file: pin n is 0.25 mm from pin n + 1, odd row to the lanes."""
    for one, other in ((1, 5), (25, 49), (2, 18)):
        edge = [board.pad("J1", str(n)).at for n in (one, other)]
        assert math.dist(*edge) == pytest.approx(0.25 * (other - one), abs=1e-3)
    assert board.pad("J1", "1").layers == ("F.Cu",) and board.pad("J1", "2").layers == ("B.Cu",)
    assert board.pad("J2", "25").at[1] == pytest.approx(outline()["socket"]["odd_row"], abs=0.01)


def test_tracks_end_in_the_pads_that_they_belong_to(board: Pcb) -> None:
    """Turned and turned-over parts: every lane begins within its finger."""
    for leg, pin in (("P", "49"), ("N", "47")):
        ends = [at for track in board.tracks if track.net == f"HOST_TX0_{leg}" for at in (track.start, track.end)]
        (x0, y0), (x1, y1) = (f(board.pad("J1", pin).corners) for f in (min, max))
        assert any(min(x0, x1) <= x <= max(x0, x1) and min(y0, y1) <= y <= max(y0, y1) for x, y in ends)


TURNED = """(kicad_pcb (net 0 "") (net 1 "/sheet/A")
 (footprint "X" (layer "B.Cu") (at 110 180 90) (property "Reference" "U1")
  (pad "1" smd rect (at 1 0 90) (size 2 0.5) (layers "B.Cu") (net 1 "/sheet/A"))
  (pad "2" thru_hole circle (at -1 0 90) (size 1 1) (drill 0.5) (layers "*.Cu"))
  (pad "" np_thru_hole circle (at 0 0) (size 1 1) (drill 1) (layers "*.Cu")))
 (zone (net 1) (net_name "/sheet/A") (layers "F.Cu" "B.Cu") (priority 3) (connect_pads yes (clearance 0.25)) (fill yes (thermal_gap 0.3))
  (polygon (pts (xy 100 190) (xy 101 190) (xy 101 189)))))"""


def test_a_turned_part_in_a_file_of_its_own() -> None:
    """KiCad's page has y down and turns counterclockwise as seen: a pad right of the origin is above it after 90 degrees."""
    found = read(TURNED)
    one, two, hole = found.pads
    assert one.at == pytest.approx((10.0, 11.0)) and one.net == "A"
    assert {round(x, 2) for x, _ in one.corners} == {9.75, 10.25} and {round(y, 2) for _, y in one.corners} == {10.0, 12.0}
    assert len(two.layers) == 8 and two.drill == 0.5 and hole.layers == ()
    assert found.parts["U1"] == ((10.0, 10.0), "B")
    assert [(z.layer, z.priority, z.clearance, z.solid) for z in found.zones] == [("F.Cu", 3, 0.25, True), ("B.Cu", 3, 0.25, True)]
    assert found.zones[0].outline == ((0, 0), (1, 0), (1, 1))


# ---- ways


def test_the_shortest_way_and_a_branch() -> None:
    """A ring with a short and a long side, a branch that leaves a track in its middle, a via."""
    tracks = [
        PcbTrack("N", "F.Cu", (0, 0), (10, 0), 0.1),
        PcbTrack("N", "F.Cu", (4, 0), (4, 3), 0.1),  # begins on the first one
        PcbTrack("N", "F.Cu", (0, 0), (0, 20), 0.1),
        PcbTrack("N", "F.Cu", (0, 20), (10, 0), 0.1),
        PcbTrack("N", "B.Cu", (4, 3), (9, 3), 0.2),
    ]

    def pad(x: float, y: float, layer: str = "F.Cu") -> PcbPad:
        corners = ((x - 0.1, y - 0.1), (x + 0.1, y - 0.1), (x + 0.1, y + 0.1), (x - 0.1, y + 0.1))
        return PcbPad("R1", "1", "N", (layer,), (x, y), (0.2, 0.2), corners, 0.0)

    routes = Routes(Pcb([], tracks, [PcbVia("N", (4, 3), 0.4, 0.2)]), "N", STACK)
    straight = routes.between(pad(0, 0), pad(10, 0))
    assert straight is not None and straight.millimetres == pytest.approx(10) and straight.vias == 0
    down = routes.between(pad(0, 0), pad(9, 3, "B.Cu"))
    assert down is not None and down.millimetres == pytest.approx(4 + 3 + 5) and down.vias == 1
    assert routes.between(pad(0, 0), pad(9, 3)) is None  # on the other side
    assert routes.between(pad(0, 0), pad(30, 30)) is None


def test_tracks_that_end_in_one_pad_are_joined_by_it() -> None:
    def pad(number: str, x: float) -> PcbPad:
        return PcbPad("R1", number, "N", ("F.Cu",), (x, 0), (1, 1), ((x - 0.5, -0.5), (x + 0.5, -0.5), (x + 0.5, 0.5), (x - 0.5, 0.5)), 0.0)

    tracks = [PcbTrack("N", "F.Cu", (0, 0), (4.8, 0.2), 0.1), PcbTrack("N", "F.Cu", (5.2, -0.2), (10, 0), 0.1)]
    pads = [pad("1", 0), pad("2", 5), pad("3", 10)]
    assert Routes(Pcb(pads, tracks), "N", STACK).between(pads[0], pads[2]) is not None
    assert Routes(Pcb([pads[0], pads[2]], tracks), "N", STACK).between(pads[0], pads[2]) is None


# ---- pairs


def test_lanes_of_the_board_are_as_the_eyes_have_them(board: Pcb) -> None:
    every = lanes.lines(design(), board, STACK)
    assert sum(line.pair == "pcie" for line in every) == 9 and len(every) == 9 + 4 + 4
    assert all(line.legs for line in every if line.pair == "pcie")
    assert {"pairs, skew between the legs", "pairs, length: lanes / tap / to the FPGA"}.isdisjoint(failing(board))


def test_a_pair_ten_millimetres_too_long_is_caught(board: Pcb) -> None:
    """Both legs of a lane make a detour of 2 x 5 mm."""

    def detour(track: PcbTrack) -> list[PcbTrack]:
        if track.net[:-1] != "HOST_TX0_" or track.length < 8:
            return [track]
        (x, y), (u, v) = track.start, track.end
        middle, out = (y + v) / 2, x - 5
        points = [(x, y), (x, middle), (out, middle), (out, middle + 0.3), (u, middle + 0.3), (u, v)]
        return [replace(track, start=a, end=b) for a, b in zip(points[:-1], points[1:])]

    found = failing(copied(board, detour))
    assert "HOST_TX0: 32" in found["pairs, length: lanes / tap / to the FPGA"]
    assert "pairs, skew between the legs" not in found


def test_one_leg_that_is_longer_is_caught(board: Pcb) -> None:
    moved = copied(board, lambda track: _wave(track) if track.net == "DRIVE_TX1_P" and track.length > 8 else [track])
    assert failing(moved)["pairs, skew between the legs"] == "DRIVE_TX1"


def _wave(track: PcbTrack) -> list[PcbTrack]:
    (x, y), (u, v) = track.start, track.end
    points = [(x, y), (x, y + 4), (x - 0.4, y + 4.4), (x, y + 4.8), (u, v)]
    return [replace(track, start=a, end=b) for a, b in zip(points[:-1], points[1:])]


def test_a_pair_that_is_cut_is_not_drawn(board: Pcb) -> None:
    cut = copied(board, lambda track: [] if track.net == "REFCLK_N" and track.length > 8 else [track])
    assert "REFCLK: N: REFCLK_N is not drawn from J1 on" in failing(cut)["pairs drawn from end to end"]


def test_a_pair_of_the_wrong_gap_or_width_is_caught(board: Pcb) -> None:
    def apart(track: PcbTrack) -> list[PcbTrack]:
        if track.net != "HOST_TX2_P":
            return [track]
        return [replace(track, start=(track.start[0] - 0.05, track.start[1]), end=(track.end[0] - 0.05, track.end[1]))]

    wide = copied(board, lambda track: [replace(track, width=0.2)] if track.net == "HOST_TX0_P" else [track])
    for broken, name in ((copied(board, apart), "HOST_TX2"), (wide, "HOST_TX0")):
        assert failing(broken)["pairs, not at the solver's width and gap"] == name


def test_a_hole_in_the_plane_is_caught(board: Pcb) -> None:
    holed = Pcb(
        board.pads, board.tracks, board.vias, [zone for zone in board.zones if (zone.net, zone.layer) != ("GND", "In1.Cu")], board.parts
    )
    assert "pairs, no ground on the next layer" in failing(holed)


def test_vias_without_a_return_are_counted(board: Pcb) -> None:
    every = [line for line in lanes.lines(design(), board, STACK) if line.legs]
    _, all_ = lanes.return_vias(board, every, 1.5)
    nets = {net for line in every for leg in line.legs.values() for net in leg.nets}
    own = [via.at for via in board.vias if via.net in nets]
    assert all_ == len(own) > 0
    with_ground = copied(board, vias=tuple(PcbVia("GND", (x + 0.5, y + 0.5), 0.4, 0.2) for x, y in own))
    assert lanes.return_vias(with_ground, every, 1.5) == (all_, all_)
    without = Pcb(board.pads, board.tracks, [via for via in board.vias if via.net != "GND"], board.zones, board.parts)
    assert lanes.return_vias(without, every, 1.5) == (0, all_)


def test_a_gap_in_the_ground_along_the_edge_is_seen() -> None:
    board = read(FILE)
    assert checks.rim(board).passed
    board.vias = [via for via in board.vias if not (via.net == "GND" and via.at[0] > 35 and 100 < via.at[1] < 112)]
    found = checks.rim(board)
    assert not found.passed
    assert found.detail.startswith("at 38.0, 10")


# ---- USB and the reference clock


def test_usb_and_clock_are_pairs_and_one_leg_alone_is_caught(board: Pcb) -> None:
    def check(copy: Pcb) -> Check:
        return checks.coupled(lanes.others(design(), copy, STACK), copy, STACK)

    assert check(board).passed
    for net in ("usb_dm", "dcu_reference0_n"):
        away = copied(
            board,
            lambda track, net=net: _wave(track) if track.net == net and track.length > 1 and track.start[0] != track.end[0] else [track],
        )
        assert not check(away).passed, net
        cut = copied(board, lambda track, net=net: [] if track.net == net and track.length > 1 else [track])
        assert "is not drawn" in check(cut).detail
