"""The board's file against the design, its outline, and pieces of the layout, without KiCad."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from board.checks.layout import clean, lanes, lengths_of_board, nets_of_board, noticed, same_board, unrouted
from board.design import design, sheets
from board.kicadcli import DrcReport
from board.layout import outline, routes
from board.layout.board import FILE
from board.layout.land import Placed
from board.layout.track import beside, length
from board.layout.unrouted import README, committed, paragraph, with_paragraph
from board.netlist import Design
from board.schematic.write import net_names


def test_the_committed_board_has_the_designs_parts_and_nets() -> None:
    check = same_board(design(), nets_of_board(FILE), net_names(sheets()))
    assert check.passed, check.detail


@pytest.fixture(scope="module")
def board() -> dict[str, dict[str, str]]:
    return nets_of_board(FILE)


def test_a_swapped_pad_a_missing_and_a_stray_part_are_noticed(board: dict[str, dict[str, str]]) -> None:
    names = net_names(sheets())
    one = dict(board["U500"])
    one["2"], one["5"] = one["5"], one["2"]
    assert "U500.2 is on" in same_board(design(), board | {"U500": one}, names).detail
    assert "not on the board: U500" in same_board(design(), {ref: pads for ref, pads in board.items() if ref != "U500"}, names).detail
    assert "X1 is not in the schematic" in same_board(design(), board | {"X1": {}}, names).detail


def test_a_part_changed_in_a_sheet_is_noticed(board: dict[str, dict[str, str]]) -> None:
    ours = design()
    parts = ours.parts | {"R500": replace(ours.parts["R500"], pins={"1": "GND", "2": "flash_cs"})}
    assert not same_board(Design.of(parts.values(), {}), board, net_names(sheets())).passed


def test_the_outline_is_one_closed_line() -> None:
    edges = outline.edges()
    for piece, following in zip(edges, edges[1:] + edges[:1]):
        assert math.dist(piece.end, following.start) < 1e-6
    for piece in edges:
        if isinstance(piece, outline.Arc):  # three points on one circle, with the chord less than its diameter
            assert math.dist(piece.start, piece.middle) == pytest.approx(math.dist(piece.middle, piece.end), abs=1e-3)


def test_spacers_are_where_a_drive_of_each_length_ends() -> None:
    """Measured from the stop in the socket: the row of the lanes, and 3.55 mm."""
    at = [hole.at[1] - 24.8 - 3.55 for hole in outline.holes()[:5]]
    assert at == pytest.approx([30, 42, 60, 80, 110])


def test_a_line_beside_another_keeps_its_distance() -> None:
    middle = [(0.0, 0.0), (10.0, 0.0), (15.0, 5.0), (15.0, 20.0)]
    left, right = beside(middle, 0.135), beside(middle, -0.135)
    for side in (left, right):
        for a, b, c, d in zip(middle[:-1], middle[1:], side[:-1], side[1:]):
            across = abs((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])) / math.dist(a, b)
            assert across == pytest.approx(0.135)
            assert abs((b[0] - a[0]) * (d[1] - a[1]) - (b[1] - a[1]) * (d[0] - a[0])) / math.dist(a, b) == pytest.approx(0.135)
    # two turns to the left by 45 degrees: the inner leg is shorter by 4 d tan(22.5 deg)
    assert length(right) - length(left) == pytest.approx(8 * 0.135 * math.tan(math.pi / 8))


def test_a_part_turned_and_on_the_back() -> None:
    """The edge's footprint is ours, so it can be read without KiCad. Pin 1 is right of the middle and below the origin, seen from above."""
    front = Placed("J1", "wattbell:M2_M_edge", (0.0, 0.0)).pad("1")
    assert front.at == pytest.approx((9.25, -2.75))
    turned = Placed("J1", "wattbell:M2_M_edge", (0.0, 0.0), 90.0).pad("1")
    assert turned.at == pytest.approx((2.75, 9.25))  # counterclockwise
    assert turned.size == pytest.approx((1.5, 0.35))
    back = Placed("J1", "wattbell:M2_M_edge", (0.0, 0.0), 0.0, True).pad("1")
    assert back.at == pytest.approx((9.25, 2.75))
    assert back.layers == ("B.Cu",)


def test_lanes_as_drawn_and_one_leg_longer() -> None:
    lengths, names = lengths_of_board(FILE), net_names(sheets())
    assert all(check.passed for check in lanes(lengths, names))
    for more, failing in ((0.2, [True, False]), (10.0, [True, True])):
        longer = lengths | {names["HOST_TX0_P"]: lengths[names["HOST_TX0_P"]] + more}
        assert [not check.passed for check in lanes(longer, names)] == failing


def test_a_way_of_a_net_whose_pad_has_moved_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Footprints of ours only: J1 can be read without KiCad."""
    ours, here = design(), {"J1": Placed("J1", "wattbell:M2_M_edge", (0.0, 4.0))}
    signature = routes.signature(ours, here, "SUSCLK")
    monkeypatch.setattr(routes, "FOUND", tmp_path / "routes.tsv")
    routes.FOUND.write_text(f"head\nSUSCLK\tpads\t{signature}\nSUSCLK\tB.Cu\t0\t0\t1\t0\t0.12\nSUSCLK\tvia\t1\t0\nDEVSLP\tvia\t2\t0\n")
    kept = routes.kept(ours, here)
    assert len(kept.tracks) == len(kept.vias) == 1
    moved = {"J1": Placed("J1", "wattbell:M2_M_edge", (0.0, 4.1))}
    assert not routes.kept(ours, moved).tracks


def report(kinds: list[str], unconnected: dict[str, int]) -> DrcReport:
    return DrcReport(
        [("error", kind, "somewhere") for kind in kinds],
        [("error", "unconnected_items", f"Missing Pad 1 [{net}] of R1") for net, count in unconnected.items() for _ in range(count)],
        [],
    )


def test_more_missing_connections_than_committed_fail() -> None:
    known = {"/fpga/a": 2, "b": 1}
    assert unrouted(report([], {"/fpga/a": 2}), known).passed
    worse = unrouted(report([], {"/fpga/a": 1, "b": 2}), known)
    assert not worse.passed
    assert worse.detail == "b 2 (committed: 1)"
    assert not unrouted(report([], {"c": 1}), known).passed
    assert not clean(report(["clearance"], {})).passed


def test_a_report_that_sees_no_fault_is_a_fault() -> None:
    """The copy with a moved track: without a violation more, or with the net still whole, the report proves nothing."""
    right = report([], {})
    assert noticed(right, report(["shorting_items"], {"clk25": 1})).passed
    assert not noticed(right, right).passed
    assert not noticed(right, report(["shorting_items"], {})).passed
    assert not noticed(right, report([], {"clk25": 1})).passed


def test_the_readme_says_what_is_not_routed() -> None:
    text = README.read_text()
    assert with_paragraph(text, paragraph(committed(), len(design().nets))) == text
    assert with_paragraph(text, paragraph({"GND": 1}, 2)) != text
    with pytest.raises(ValueError, match="no paragraph"):
        with_paragraph("nothing", "")
