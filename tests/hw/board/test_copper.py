"""The conduction solver and the filling of planes against results by hand; rails that are too thin are caught."""

from dataclasses import replace

import numpy as np
import pytest
from board.checks import copper as checks
from board.pcb import Pcb, PcbPad, PcbTrack, PcbVia, Zone
from board.raster import Grid
from board.raster import copper as copper_cells
from board.signal import copper, laid, report
from board.signal.stackup import load

STACK = load()
DATA = copper.load()


def test_a_strip_is_its_squares():
    found = copper.solve({"a": [(0, 0, 2, 20)]}, {"a": 100.0}, [], ("a", [(0, 0, 2, 0.1)]), ("a", [(0, 19.9, 2, 20)]))
    assert found.resistance == pytest.approx(19.9 / 2 / 100, rel=1e-3)  # between the middles of the end cells
    assert found.row_current["a"] == pytest.approx(1.0)


def test_a_corner_counts_0_559_squares():
    # Known by conformal mapping: a right-angled corner of equal arms is 0.559 squares
    arms = [(0, 0, 4, 24), (0, 20, 24, 24)]
    found = copper.solve({"a": arms}, {"a": 1.0}, [], ("a", [(0, 0, 4, 0.1)]), ("a", [(23.9, 20, 24, 24)]))
    assert found.resistance == pytest.approx((19.95 + 19.95) / 4 + 0.559, rel=2e-3)


def test_vias_in_parallel_join_two_sheets():
    sheets = {"a": [(0, 0, 4, 10)], "b": [(0, 0, 4, 10)]}
    vias = [("a", "b", 0.5 + n, 5.05, 4.0) for n in range(4)]
    found = copper.solve(sheets, {"a": 1e6, "b": 1e6}, vias, ("a", [(0, 0, 4, 0.1)]), ("b", [(0, 9.9, 4, 10)]))
    assert found.resistance == pytest.approx(1.0, rel=1e-3)


def test_contacts_share_by_their_own_resistance():
    # Two pads of one sheet, the further one behind 0.1 ohm more copper; contacts of 1 ohm make it nearly even
    sheet = {"a": [(0, 0, 1, 11)]}
    pads = ("a", [(0, 0, 1, 0.1), (0, 10.9, 1, 11)])
    alone = copper.solve(sheet, {"a": 100.0}, [], ("a", [(0, 2, 1, 2.1)]), pads)
    held = copper.solve(sheet, {"a": 100.0}, [], ("a", [(0, 2, 1, 2.1)]), pads, contact=1.0)
    assert max(alone.pad_shares) == pytest.approx(8.8 / 10.7, rel=0.02)
    assert max(held.pad_shares) == pytest.approx((1 + 0.088) / (2 + 0.107), rel=0.01)


def test_copper_that_does_not_join_is_refused():
    with pytest.raises(ValueError, match="not joined"):
        copper.solve({"a": [(0, 0, 1, 1), (2, 2, 3, 3)]}, {"a": 1.0}, [], ("a", [(0, 0, 1, 0.2)]), ("a", [(2, 2.8, 3, 3)]))


def test_a_via_is_its_barrel():
    # 0.25 mm drill, 18 um of copper, 0.6 mm: 0.6e-3 / (5.6e7 pi 0.232e-3 18e-6)
    assert copper.barrel(0.6e-3, 0.25e-3, 18e-6, 5.6e7) == pytest.approx(0.817e-3, rel=0.01)


def test_warming_is_ipc_2221s():
    # 1 oz (35 um), outer, 10 K: 1 A needs 0.30 mm by the formula's calculators
    assert copper.rise(1.0, 0.30 * 0.035, inner=False) == pytest.approx(10.0, rel=0.05)


def pad(ref: str, net: str, box: tuple[float, float, float, float], layer: str = "B.Cu", number: str = "1") -> PcbPad:
    x0, y0, x1, y1 = box
    corners = ((x0, y0), (x1, y0), (x1, y1), (x0, y1))
    return PcbPad(ref, number, net, (layer,), ((x0 + x1) / 2, (y0 + y1) / 2), (x1 - x0, y1 - y0), corners, 0.0)


def zone(net: str, box: tuple[float, float, float, float], layer: str = "B.Cu", solid: bool = True, priority: int = 1) -> Zone:
    x0, y0, x1, y1 = box
    return Zone(net, layer, ((x0, y0), (x1, y0), (x1, y1), (x0, y1)), priority, 0.2, solid, 0.2, 0.2, ())


def a_rail(sw: float = 4.0) -> Pcb:
    """Edge, switch, shunt, socket in strips of 4 mm, the last through In4 and up to the front; ``sw``: width behind the switch."""
    board = Pcb()
    board.pads += [pad("J1", "+3V3_HOST", (x, 1.0, x + 0.4, 2.0), number=str(n)) for n, x in enumerate((0.0, 1.2, 2.4, 3.6))]
    board.zones.append(zone("+3V3_HOST", (0.0, 1.0, 4.0, 6.0)))
    board.pads += [pad("U1100", "+3V3_HOST", (0.0, 5.5, 4.0, 6.0)), pad("U1100", "+3V3_SW", (0.0, 7.0, 4.0, 7.5), number="8")]
    board.zones.append(zone("+3V3_SW", (0.0, 7.0, sw, 10.0)))
    board.pads += [pad("R1000", "+3V3_SW", (0.0, 9.5, 4.0, 10.0)), pad("R1000", "+3V3_DRIVE", (0.0, 11.0, 4.0, 11.5), number="4")]
    board.zones += [zone("+3V3_DRIVE", (0.0, 11.0, 4.0, 13.0)), zone("+3V3_DRIVE", (0.0, 12.0, 4.0, 32.0), "In4.Cu")]
    board.zones.append(zone("+3V3_DRIVE", (0.0, 31.0, 4.0, 33.0), "F.Cu"))
    board.vias += [PcbVia("+3V3_DRIVE", (0.35 + 0.6 * n, y), 0.4, 0.2) for n in range(6) for y in (12.5, 31.5)]
    board.pads += [pad("J2", "+3V3_DRIVE", (x, 32.0, x + 0.4, 33.0), "F.Cu", str(n)) for n, x in enumerate((0.0, 1.2, 2.4, 3.6))]
    board.pads += [pad("J1", "GND", (-3.0, 1.0, -2.0, 2.0), "F.Cu", "90"), pad("J2", "GND", (-3.0, 32.0, -2.0, 33.0), "F.Cu", "90")]
    board.zones.append(zone("GND", (-4.0, 1.0, -1.0, 33.0), "F.Cu"))
    return board


def failing(board: Pcb) -> dict[str, str]:
    return {row.name: row.detail for row in checks.drops(checks.rail(board, STACK, DATA), DATA) if not row.passed}


def test_a_laid_rail_is_its_squares():
    found = checks.rail(a_rail(), STACK, DATA)
    assert not isinstance(found, str)
    outer = 1 / (STACK.conductivity * STACK.layer("B.Cu").thickness)
    # between the pads' inner edges; the switch's stretch 7.5 to 9.5 mm
    assert found.copper["switched"] == pytest.approx(outer * 2.0 / 4.0, rel=0.06)
    # four fingers of 0.4 in 4 mm spread the current: more than the squares, less than with one millimetre more
    assert outer * 3.5 / 4.0 < found.copper["host"] < outer * 4.5 / 4.0
    inner = 1 / (STACK.conductivity * STACK.layer("In4.Cu").thickness)
    assert found.copper["drive"] > inner * 19.0 / 4.0 + 2 * 0.2e-3
    assert found.found["drive"].via_share == pytest.approx(1 / 6, rel=0.25)


def test_four_millimetres_carry_three_amperes_outside_and_not_inside():
    """In4 alone is too warm and has too much resistance, three layers do; four contacts where nine are wanted."""
    thin = {"rail, warmest copper at 3 A", "rail, copper as hw/afe has it, shunt to socket and back", "rail, fullest contact at 3 A"}
    assert set(failing(a_rail())) == thin
    more = a_rail()
    more.zones.append(zone("+3V3_DRIVE", (0.0, 12.0, 4.0, 32.0), "In2.Cu"))
    more.zones.append(zone("+3V3_DRIVE", (0.0, 12.0, 4.0, 32.0), "In5.Cu"))
    assert set(failing(more)) == thin - {"rail, warmest copper at 3 A"}  # ground is 3 mm


def test_narrow_copper_is_caught():
    thin = checks.rail(a_rail(0.3), STACK, DATA)
    assert not isinstance(thin, str)
    assert thin.found["switched"].hottest_k > 100 and "0.3 mm of B.Cu" in thin.found["switched"].neck
    assert "0.3 mm of B.Cu" in failing(a_rail(0.3))["rail, warmest copper at 3 A"]


def test_copper_of_others_cuts_the_rail():
    board = a_rail()
    board.pads.append(pad("C1", "GND", (0.0, 8.2, 3.0, 8.6)))  # leaves 4 - 3 - 0.2 mm
    found = checks.rail(board, STACK, DATA)
    assert not isinstance(found, str) and "0.8 mm of B.Cu" in found.found["switched"].neck
    board.tracks.append(PcbTrack("GND", "B.Cu", (3.0, 8.4), (4.5, 8.4), 0.2))
    assert "switched" in failing(board)["rail, copper from edge to socket"]


def test_a_rail_without_its_vias_is_not_joined():
    board = a_rail()
    board.vias = [via for via in board.vias if via.at[1] < 20]
    assert "drive" in failing(board)["rail, copper from edge to socket"]


def test_thermal_reliefs_cost_resistance():
    def with_(solid: bool) -> float:
        board = Pcb(
            [pad("A", "N", (2.0, 1.0, 3.0, 2.0)), pad("B", "N", (2.0, 8.0, 3.0, 9.0))], zones=[zone("N", (0, 0, 5, 10), solid=solid)]
        )
        return laid.stretch(board, STACK, DATA, "N", laid.NetEnd("A"), laid.NetEnd("B")).resistance

    # two pads behind three or four bridges of 0.2 by 0.2 mm each: a third of a square
    more = (with_(False) - with_(True)) * STACK.conductivity * STACK.layer("B.Cu").thickness
    assert 2 * 0.2 < more < 2 * 0.8


def test_a_zone_that_comes_first_takes_its_ground():
    grid = Grid.over((0, 0, 10, 10), 0.1)
    board = Pcb(zones=[zone("A", (0, 0, 10, 10)), zone("B", (4, 4, 6, 6), priority=5), zone("", (0, 0, 2, 2))])
    ours = copper_cells(board, "A", "B.Cu", grid).sum() * 0.01
    corners = np.pi * 0.2**2
    assert ours == pytest.approx(100 - (2.0 * 2.0 + 4 * 2.0 * 0.2 + corners) - 4.0, abs=0.1)
    assert copper_cells(board, "B", "B.Cu", grid).sum() * 0.01 == pytest.approx(4.0)


def a_sense_line(start: str = "2") -> Pcb:
    board = Pcb(
        [
            pad("R1000", "kelvin_p", (0, 0, 1, 1), number=start),
            pad("U1000", "kelvin_p", (20, 0, 21, 1), "F.Cu", "4"),
            pad("R1000", "kelvin_n", (0, 3, 1, 4), number="3"),
            pad("U1001", "kelvin_n", (20, 3, 21, 4), "F.Cu", "5"),
        ]
    )
    for net, y in (("kelvin_p", 0.5), ("kelvin_n", 3.5)):
        board.tracks += [PcbTrack(net, "B.Cu", (0.5, y), (10.0, y), 0.2), PcbTrack(net, "F.Cu", (10.0, y), (20.5, y), 0.2)]
        board.vias.append(PcbVia(net, (10.0, y), 0.4, 0.2))
    return board


def test_a_sense_line_is_its_length_over_its_width():
    row = checks.sense(a_sense_line(), STACK)
    assert row.passed
    # 20 mm of 0.2 mm, 35 um: 100 squares of 0.51 mohm, and a barrel of 1.2 mohm
    found = laid.sense(a_sense_line(), STACK, "kelvin_p", a_sense_line().pads[0], [a_sense_line().pads[1]])
    assert found.ohm == pytest.approx(100 / (5.6e7 * 35e-6) + 0.7e-3 / (5.6e7 * np.pi * 0.182e-3 * 18e-6), rel=0.02)


def test_a_sense_line_that_is_cut_or_begins_elsewhere_is_caught():
    cut = a_sense_line()
    cut.vias.pop()
    assert "kelvin_n" in checks.sense(cut, STACK).detail
    assert not checks.sense(a_sense_line(start="1"), STACK).passed
    thin = a_sense_line()
    thin.tracks = [replace(track, width=0.005) for track in thin.tracks]
    assert not checks.sense(thin, STACK).passed


def test_the_document_has_todays_pairs_and_rail():
    # The eyes take 40 s: `python -m board.signal.report`
    text = (report.DOCS / "signal.md").read_text()
    assert report.pairs(STACK) in text
    assert report.rails(STACK) in text
