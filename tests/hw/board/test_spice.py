"""The schematic's netlist through the front end's decks: as drawn it is hw/afe's circuit; with one wrong part it is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest
from board.check import Check
from board.checks.analog import response, signs, static, total_noise
from board.design import design
from board.netlist import DesignError, Part
from board.spice import circuit, converters

Look = Callable[[Mapping[str, Part]], Iterator[Check]]


def only(look: Look, parts: Mapping[str, Part]) -> Check:
    (row,) = look(parts)
    return row


def with_pins(ref: str, **pins: str) -> dict[str, Part]:
    part = design().parts[ref]
    return {ref: replace(part, pins=dict(part.pins) | {name[1:]: net for name, net in pins.items()})}


def with_value(ref: str, value: str) -> dict[str, Part]:
    return {ref: replace(design().parts[ref], value=value)}


def with_note(ref: str, note: str) -> dict[str, Part]:
    return {ref: replace(design().parts[ref], note=note)}


@pytest.mark.parametrize("look", [response, total_noise, static, signs])
def test_as_drawn_it_is_the_circuit_of_the_decks(look: Look) -> None:
    row = only(look, design().parts)
    assert row.passed, row.detail


@pytest.mark.parametrize(
    ("change", "look", "said"),
    [
        (with_note("RN1000", "1k2 1k2 110 -"), response, "coarse, gain"),
        (with_note("RN1001", "1k5 1k6 200 -"), response, "fine, gain"),
        (with_note("RN1002", "2k 10k - -"), response, "voltage, gain"),
        (with_value("RN1003", "LT5400-8"), response, "coarse, gain"),
        (with_value("C1003", "10p"), response, "coarse, delay_s"),
        (with_pins("C1005", p2="GND"), response, "fine, delay_s"),
        (with_value("R1005", "102"), response, "coarse, delay_s"),
        (with_value("C1013", "36p"), response, "fine, delay_s"),
        (with_value("R1003", "4k99"), response, "fine, delay_s"),
        (with_value("R1009", "200"), response, "voltage, delay_s"),
        (with_value("C1002", "82p"), response, "voltage, delay_s"),
        (with_value("RN1004", "LT5400-7"), total_noise, "fine"),
        (with_value("R1010", "10k"), static, "coarse_in"),
        (with_pins("U1002", p4="GND"), static, "second_low at 4 A"),
        (with_pins("R1000", p2="kelvin_n", p3="kelvin_p"), signs, "coarse at 0.05 A"),
        (with_pins("U1000", p2="kelvin_p", p4="kelvin_n"), signs, "coarse at 0.05 A"),
        (with_pins("U1000", p2="kelvin_p"), signs, "in an autozero"),
        (with_pins("U1000", p10="kelvin_n"), signs, "voltage at ground"),
        (with_pins("D1001", p2="clamp_n"), signs, "clamp at -4 A"),
        (with_pins("R1022", p1="fine_sdo") | with_pins("R1023", p1="coarse_sdo"), signs, "coarse at 0.05 A"),
    ],
)
def test_a_wrong_part_is_caught(change: dict[str, Part], look: Look, said: str) -> None:
    row = only(look, design().parts | change)
    assert not row.passed
    assert said in row.detail


def test_a_drivers_feedback_the_wrong_way_round() -> None:
    """It latches, or ngspice finds no state at all; either is a failure."""
    assert not only(signs, design().parts | with_pins("U1004", p4="coarse_fb_n", p1="coarse_fb_p")).passed


def test_a_part_without_a_model_is_named() -> None:
    stray = Part("L1000", "Device:L", "", "10u", "", "frontend", {"1": "first_p", "2": "first_n"})
    with pytest.raises(DesignError, match="L1000 .*no model"):
        circuit(design().parts | {"L1000": stray})


def test_what_another_sheet_hangs_on_the_front_end_counts() -> None:
    """A resistor of the connectors' sheet from a sense terminal to ground: as good as a wrong one on this page."""
    stray = Part("R10", "Device:R", "", "10", "", "connectors", {"1": "first_p", "2": "coarse_sum_n"})
    assert "R10 o1 c2" in circuit(design().parts | {"R10": stray})
    assert not only(response, design().parts | {"R10": stray}).passed


def test_a_converter_on_no_line() -> None:
    with pytest.raises(DesignError, match="adc_sdo_v: 0 converters"):
        converters({ref: part for ref, part in design().parts.items() if ref != "R1024"})
