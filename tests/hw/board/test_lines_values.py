"""Swapped lines, clocks on ordinary balls and wrong values are noticed, one at a time, in copies of the design."""

from __future__ import annotations

from dataclasses import replace

import pytest
from board.checks.lines import clock_balls, clocks, lines, table
from board.checks.parts import held, rules, values
from board.design import design
from board.netlist import Design
from board.powertree import Tree, load

from .test_broken_copies import changed, swapped
from .test_power import part_at


def test_the_design_as_it_is_passes() -> None:
    assert lines(design(), table()).passed
    assert clocks(clock_balls(), table()["functions"]).passed
    assert values(design(), rules()).passed
    assert held(design(), rules(), Tree(design(), load())).passed


@pytest.mark.parametrize(
    ("ref", "one", "other", "line"),
    [
        ("U500", "2", "5", "flash, data 0"),
        ("U500", "3", "7", "flash, data 2"),
        ("U500", "1", "6", "flash, select"),
        ("U200", "W2", "V2", "flash, data 1"),
        ("U200", "W1", "Y2", "flash, data 3"),
        ("J500", "6", "8", "JTAG, TDO"),
        ("U501", "5", "6", "I2C, data"),
        ("U502", "1", "6", "I2C, clock"),
        ("U400", "4", "5", "ULPI, data 0"),
        ("U400", "3", "24", "ULPI, next"),
        ("U400", "13", "14", "USB, D+"),
        ("J400", "B6", "B7", "USB, D- at the connector"),
        ("U1007", "6", "8", "converters, clock"),
        ("U200", "Y11", "Y12", "reference of DCU 0, -"),
        ("U200", "Y11", "Y19", "reference of DCU 1, +"),
    ],
)
def test_two_swapped_lines(ref: str, one: str, other: str, line: str) -> None:
    check = lines(swapped(ref, one, other), table())
    assert not check.passed
    assert line in check.detail


def test_two_lines_of_a_flash_on_one_net() -> None:
    pins = dict(design().parts["U500"].pins)
    both = changed("U500", pins=pins | {"5": pins["2"]})
    assert not lines(both, table()).passed


@pytest.mark.parametrize(("name", "ball"), [("clk25", "G1"), ("clk25", "K1"), ("ulpi_clk", "C12"), ("ulpi_clk", "H4")])
def test_a_clock_on_another_ball(name: str, ball: str) -> None:
    """The pair's other pin, an ordinary ball, a general routing input."""
    check = clocks(clock_balls() | {name: ball}, table()["functions"])
    assert not check.passed
    assert ball in check.detail


def test_the_gatewares_clocks_are_found() -> None:
    """A clock that the check does not see would never fail it."""
    assert clock_balls() == {"clk25": "H2", "ulpi_clk": "B12"}


@pytest.mark.parametrize(
    ("one", "other", "kind", "wrong"),
    [
        ("usb_cc1", "GND", "R", "56k"),
        ("usb_rbias", "GND", "R", "8k2"),
        ("usb_xi", "GND", "C", "27p"),
        ("+3V3", "i2c_scl", "R", "10k"),
        ("+3V3", "flash_d3", "R", "10"),
        ("tcxo_out", "clk25", "R", "330"),
        ("HOST_TX2_P", "HOST_TX2_P_D", "R", "100"),
        ("PERST_HOST_N", "PERST_DRIVE_N", "R", "0"),
        ("TAP_H0_OUT_P", "LANE0_P", "C", "100p"),
        ("TAP_H1_TH", "GND", "R", "47k5"),
        ("osc0_p", "dcu_reference0_p", "C", "100p"),
        ("trigger_in_jack", "trigger_in_line", "R", "10"),
        ("load_switch_rise", "GND", "C", "4n7"),
        ("sw_1305", "+3V3", "L", "4u7"),
        ("set_1310", "GND", "C", "10u"),
    ],
)
def test_a_wrong_value(one: str, other: str, kind: str, wrong: str) -> None:
    part = part_at(one, other, kind)
    check = values(changed(part.ref, value=wrong), rules())
    assert not check.passed
    assert part.ref in check.detail


def test_a_part_that_is_gone() -> None:
    ours = design()
    gone = part_at("+3V3", "i2c_scl").ref
    check = values(Design.of((part for part in ours.parts.values() if part.ref != gone), {}), rules())
    assert "pull-ups of I2C: 1 parts, wanted 2" in check.detail


def test_a_value_of_which_nothing_is_said() -> None:
    ours = design()
    added = replace(part_at("+3V3", "i2c_scl"), ref="R999", pins={"1": "i2c_scl", "2": "led0"})
    check = held(Design.of([*ours.parts.values(), added], {}), rules(), Tree(ours, load()))
    assert not check.passed
    assert "R999" in check.detail
