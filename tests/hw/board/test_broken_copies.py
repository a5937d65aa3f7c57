"""Each fault that somebody could make in the board is noticed by the check that is for it: made in a copy of the design, one at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from board.checks.fpga import balls, banks, decoupled, platform_balls, supplies, volts
from board.checks.m2 import pins_as
from board.checks.schematic import same_nets
from board.design import design
from board.netlist import Design, DesignError, Part
from board.schematic.sheet import Sheet

OTHERS = {
    number: name
    for lane, (petp, petn, perp, pern) in enumerate(((49, 47, 43, 41), (37, 35, 31, 29), (25, 23, 19, 17), (13, 11, 7, 5)))
    for number, name in ((str(petp), f"PETp{lane}"), (str(petn), f"PETn{lane}"), (str(perp), f"PERp{lane}"), (str(pern), f"PERn{lane}"))
}
"""Lanes of KiCad's symbol, which is not here without KiCad."""


def changed(ref: str, **changes: object) -> Design:
    """The design with another of one part."""
    ours = design()
    parts = ours.parts | {ref: replace(ours.parts[ref], **changes)}  # type: ignore[arg-type]
    return Design.of(parts.values(), {net.name: net.netclass for net in ours.nets.values() if net.netclass != "Default"})


def swapped(ref: str, one: str, other: str) -> Design:
    """The design with the nets of two pins swapped."""
    pins = dict(design().parts[ref].pins)
    pins[one], pins[other] = pins[other], pins[one]
    return changed(ref, pins=pins)


def test_the_design_as_it_is_passes() -> None:
    """Or the tests below would prove nothing."""
    assert balls(design(), platform_balls()).passed
    assert banks(design()).passed
    assert decoupled(design()).passed
    assert supplies(design()).passed
    assert len(design().parts) > 150


@pytest.mark.parametrize(("one", "other"), [("K1", "K2"), ("A18", "B18"), ("Y5", "Y6"), ("P2", "P5")])
def test_two_swapped_balls(one: str, other: str) -> None:
    check = balls(swapped("U200", one, other), platform_balls())
    assert not check.passed
    assert one in check.detail


def test_a_ball_that_only_the_gateware_has() -> None:
    """The other way round: a pin of the platform that the board forgot."""
    check = balls(design(), platform_balls() | {"A2": "something_new"})
    assert not check.passed
    assert "something_new" in check.detail


def test_a_bank_with_another_supply() -> None:
    pins = dict(design().parts["U200"].pins) | {"H7": "+2V5", "H6": "+2V5", "J6": "+2V5"}
    assert not banks(changed("U200", pins=pins)).passed


def test_a_missing_decoupling_capacitor() -> None:
    capacitor = next(part for part in design().parts.values() if part.place == "at U500.8")
    check = decoupled(changed(capacitor.ref, place=""))
    assert not check.passed
    assert "U500" in check.detail


def test_a_decoupling_capacitor_on_another_supply() -> None:
    capacitor = next(part for part in design().parts.values() if part.place == "at U500.8")
    assert not decoupled(changed(capacitor.ref, pins={"1": "+2V5", "2": "GND"})).passed


def test_a_missing_capacitor_at_a_regulators_output() -> None:
    """The transceiver's own 1.8 V: an output, and it needs one as much."""
    assert not decoupled(changed("C405", place="")).passed


@pytest.mark.parametrize(
    ("one", "other"),
    [("T4", "U4"), ("R5", "V4"), ("F15", "F9"), ("H10", "F15"), ("B14", "H10"), ("T6", "V10"), ("U3", "T5")],
)
def test_swapped_supplies_straps_and_port(one: str, other: str) -> None:
    check = supplies(swapped("U200", one, other))
    assert not check.passed
    assert one in check.detail


def test_an_open_ground() -> None:
    pins = dict(design().parts["U200"].pins) | {"B14": ""}
    assert "B14" in supplies(changed("U200", pins=pins)).detail


def test_voltage_of_a_net() -> None:
    named = {"+1V2_CORE": 1.2, "+12VA": 12.0, "-5VA": -5.0, "+5V2A": 5.2, "GND": 0.0, "+3V3": 3.3, "clk25": None}
    assert {net: volts(net) for net in named} == named


@pytest.mark.parametrize(("ref", "one", "other"), [("J1", "49", "47"), ("J2", "43", "49"), ("J2", "13", "7")])
def test_a_swapped_m2_pin(ref: str, one: str, other: str) -> None:
    """Against KiCad's symbol; here only its lanes."""

    def wrong(ours: Design) -> set[str]:
        lines = pins_as(ours, OTHERS).detail.splitlines()
        return {line.split()[0] for line in lines if line.split()[0].split(".")[1] in OTHERS}

    assert wrong(design()) == set()
    assert wrong(swapped(ref, one, other)) == {f"{ref}.{one}", f"{ref}.{other}"}


def test_a_wire_that_is_not_drawn() -> None:
    """KiCad's netlist without a pin, and with two nets joined."""
    drawn = {name: net.pins for name, net in design().nets.items()}
    assert same_nets(design(), drawn).passed
    assert not same_nets(design(), drawn | {"clk25": frozenset(list(drawn["clk25"])[:1])}).passed
    joined = dict(drawn)
    joined["i2c_scl"] |= joined.pop("i2c_sda")
    assert not same_nets(design(), joined).passed


def test_a_pin_that_a_sheet_forgets() -> None:
    page = Sheet("x", "X", 20)
    with pytest.raises(DesignError, match=r"R1 .*pins without a net \['2'\]"):
        page.part("R1", "Device:R", (10, 10), {"1": "GND"}, value="1k", footprint="", bom="")


def test_a_reference_used_twice() -> None:
    part = Part("R1", "Device:R", "", "1k", "", "x", {"1": "GND", "2": "a"})
    with pytest.raises(DesignError, match="R1 is on sheet x and on y"):
        Design.of([part, replace(part, sheet="y")], {})
