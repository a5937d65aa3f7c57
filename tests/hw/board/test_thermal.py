"""The board as a plate against results by hand, and a shunt that lies the wrong way."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from board import powertree
from board.checks import thermal as checks
from board.design import design
from board.layout.board import FILE
from board.netlist import DesignError
from board.pcb import Pcb, read
from board.powertree import Tree
from board.signal import thermal


def box(width, length):
    return [(0, 0), (width, 0), (width, length), (0, length)]


def test_even_heat_warms_evenly():
    # 3 W over both faces of 60 x 100 mm at 10 W/(m2 K): 3 / (2 * 0.006 * 10)
    found = thermal.plate(box(60, 100), 0.1, 10.0, [(3.0, [0, 0, 60, 100])])
    assert found.rise == pytest.approx(25.0, rel=1e-6)


def test_a_long_strip_is_a_fin():
    # Heated at one end: falls by exp(-x / L), L = sqrt(k t / 2 h)
    found = thermal.plate(box(10, 400), 0.1, 20.0, [(1.0, [0, 0, 10, 2])])
    length = np.sqrt(thermal.COPPER_W_M_K * 0.1e-3 / 40) * 1e3
    assert found.at(5, 20) / found.at(5, 20 + length) == pytest.approx(np.e, rel=0.01)


def test_a_notch_takes_no_heat():
    # the same heat on three quarters of the square
    notched = [(0, 0), (60, 0), (60, 30), (30, 30), (30, 60), (0, 60)]
    found = thermal.plate(notched, 0.1, 10.0, [(1.0, [0, 0, 60, 60])])
    assert found.rise == pytest.approx(1.0 / (2 * 0.0027 * 10), rel=1e-6)


@pytest.fixture(scope="module")
def board():
    return read(FILE)


LOSSES = checks.losses(Tree(design(), powertree.load()))


def rows(board, data=None):
    return {c.name.removesuffix(" (estimate)"): c for c in checks.temperatures(data or thermal.load(), board, LOSSES)}


def test_the_fpga_holds_in_a_laboratory_and_not_in_the_warm(board):
    assert rows(board)["heat, FPGA's junction"].passed
    warm = copy.deepcopy(thermal.load())
    warm["board"]["ambient_c"]["value"] = 45.0
    assert not rows(board, warm)["heat, FPGA's junction"].passed


def test_regulators_are_the_power_trees():
    assert {"U1303", "U1305", "U1316", "U1309"} <= LOSSES.keys() and "FB1304" not in LOSSES
    assert 0.3 < LOSSES["U1305"] < 1.0


def test_a_shunt_that_points_at_the_drive_is_caught(board):
    """Its drive's end 5 mm nearer to the socket and its warm contacts."""
    where = [pad.at for pad in board.pads if (pad.ref, pad.number) in (("R1000", "1"), ("R1000", "4"))]
    turned = Pcb(board.pads[:], board.tracks, board.vias, board.zones, dict(board.parts))
    moved = dict(zip(("1", "4"), ((0.0, 12.0), (0.0, 17.0))))
    turned.pads = [replace(pad, at=moved[pad.number]) if pad.ref == "R1000" and pad.number in moved else pad for pad in board.pads]
    assert len(where) == 2 and not rows(turned)["heat, difference across the shunt"].passed


def test_a_warm_part_beside_the_shunt_is_caught(board):
    """The difference between the ends is the neighbour's."""
    near = Pcb(board.pads, board.tracks, board.vias, board.zones, dict(board.parts))
    x, y = board.pad("R1000", "4").at
    near.parts["U1305"] = ((x + 5.0, y), "F")
    assert not rows(near)["heat, difference across the shunt"].passed


def test_a_part_that_is_not_placed_is_named(board):
    lost = Pcb(board.pads, board.tracks, board.vias, board.zones, {ref: at for ref, at in board.parts.items() if ref != "U101"})
    with pytest.raises(DesignError, match="U101"):
        rows(lost)


def test_a_source_beside_the_board_is_refused():
    with pytest.raises(ValueError, match="beside"):
        thermal.plate(box(60, 100), 0.1, 10.0, [(1.0, [70, 0, 80, 10])])
