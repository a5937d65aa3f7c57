"""The power tree: dividers against the tables of those who make the regulators, and every fault in a copy of the design noticed."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
from board.checks.power import checks
from board.design import design
from board.netlist import Design, Part
from board.powertree import Tree, divided, inverted, load

from .test_broken_copies import changed


def failing(ours: Design, table: dict[str, object] | None = None) -> dict[str, str]:
    """Detail of each row that fails."""
    return {row.name: row.detail for row in checks(ours, table or load()) if not row.passed}


def without(ref: str) -> Design:
    ours = design()
    parts = [part for part in ours.parts.values() if part.ref != ref]
    nets = {net for part in parts for net in part.pins.values()}
    return Design.of(parts, {net.name: net.netclass for net in ours.nets.values() if net.netclass != "Default" and net.name in nets})


def moved(ref: str, pin: str, net: str) -> Design:
    """The design with one pin on another net."""
    return changed(ref, pins=dict(design().parts[ref].pins) | {pin: net})


def part_at(one: str, other: str, kind: str = "R") -> Part:
    """The one part of a kind between two nets: by its work, not by its number."""
    (found,) = (p for p in design().parts.values() if p.symbol == f"Device:{kind}" and set(p.pins.values()) == {one, other})
    return found


def test_the_design_as_it_is_passes() -> None:
    assert failing(design()) == {}
    assert len(Tree(design(), load()).links) > 15


@pytest.mark.parametrize(("top", "bottom", "volt"), [(100, 150, 1.0), (100, 100, 1.2), (200, 100, 1.8), (475, 150, 2.5), (732, 162, 3.3)])
def test_dividers_are_those_of_ti_table(top: float, bottom: float, volt: float) -> None:
    """TPS62822's table (JAJSEU1B, table 3)."""
    assert divided(0.6, 0.0, (top, 0.0), (bottom, 0.0)).nominal == pytest.approx(volt, rel=0.006)


def test_split_dividers_are_those_of_ti_examples() -> None:
    """TPS65131 (SLVS493B): 8 V from 1 M and 180 k, -5 V from 750 k and 180 k."""
    assert divided(1.213, 0.0, (1e6, 0.0), (180e3, 0.0)).nominal == pytest.approx(8.0, rel=0.01)
    assert inverted(1.213, 0.0, (750e3, 0.0), (180e3, 0.0)).nominal == pytest.approx(5.0, rel=0.015)


def test_tolerances_add_up_at_the_corners() -> None:
    """Each corner is reached by real resistors: no combination within the tolerances lies outside, and one lies on the edge."""
    span = divided(0.6, 0.01, (453e3, 0.01), (100e3, 0.01))
    corners = [
        0.6 * (1 + 0.01 * a) * (1 + 453e3 * (1 + 0.01 * b) / (100e3 * (1 + 0.01 * c))) for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)
    ]
    assert span.low == pytest.approx(min(corners))
    assert span.high == pytest.approx(max(corners))


@pytest.mark.parametrize(
    ("one", "other", "wrong", "rail"),
    [
        ("+1V2_CORE", "fb_1303", "120k", "+1V2_CORE"),
        ("+1V2_QUIET", "fb_1304", "105k", "+1V2_SERDES"),
        ("fb_1305", "GND", "91k", "+3V3"),
        ("+13V3_PRE", "split_fbp", "1M3", "+13V3_PRE"),
        ("split_fbn", "-6V3_PRE", "430k", "-6V3_PRE"),
    ],
)
def test_a_wrong_feedback_resistor(one: str, other: str, wrong: str, rail: str) -> None:
    assert f"supply {rail}" in failing(changed(part_at(one, other).ref, value=wrong))


def test_ordinary_resistors_where_exact_ones_are_wanted() -> None:
    """1 % at the SERDES would leave its 3 % no room for the bead's drop."""
    ours = design()
    spoilt = {
        part.ref: replace(part, bom=part.bom.removesuffix("-thin"))
        for part in ours.parts.values()
        if part.bom.endswith("-thin") and part.sheet == "power"
    }
    assert len(spoilt) == 2
    tree = Tree(Design.of((ours.parts | spoilt).values(), {}), load())
    assert tree.voltage("+1V2_SERDES").low < Tree(ours, load()).voltage("+1V2_SERDES").low - 0.005


def test_a_divider_that_is_not_there() -> None:
    assert "power tree" in failing(without(part_at("fb_1303", "GND").ref))


@pytest.mark.parametrize(
    "place", ["at U200.K8", "near U200", "at U200.V10", "at U100.1", "near U1303", "near FB1304", "near U1316", "at U1311.11"]
)
def test_one_missing_of_several_capacitors(place: str) -> None:
    """The others of the net and the circuit are still there."""
    one = next(
        part for part in design().parts.values() if part.place == place and part.symbol == "Device:C" and "GND" in part.pins.values()
    )
    assert "capacitors of each supply, number and sum" in failing(without(one.ref))


def test_a_smaller_capacitor() -> None:
    one = next(part for part in design().parts.values() if part.place == "near U200" and part.value == "47u")
    assert "capacitors of each supply, number and sum" in failing(changed(one.ref, value="4u7"))


def test_exchanged_enables() -> None:
    """SERDES before the core."""
    first = changed("U1303", pins=dict(design().parts["U1303"].pins) | {"1": "pwr_core_good"})
    both = Design.of(
        (first.parts | {"U1304": replace(first.parts["U1304"], pins=dict(first.parts["U1304"].pins) | {"1": "pwr_5v_good"})}).values(), {}
    )
    detail = failing(both)["order of the supplies, by power good"]
    assert "+1V2_CORE" in detail
    assert "+1V2_QUIET" in detail


@pytest.mark.parametrize(
    ("ref", "pin", "net"),
    [("U1306", "3", "pwr_core_good"), ("U1310", "4", "pwr_3v3_good"), ("U1305", "8", "pwr_core_good"), ("U1302", "1", "pwr_core_good")],
)
def test_an_enable_or_a_power_good_on_another_net(ref: str, pin: str, net: str) -> None:
    assert "order of the supplies, by power good" in failing(moved(ref, pin, net))


def test_a_missing_pull_up() -> None:
    assert (
        "pwr_core_good is pulled up to nothing"
        in failing(without(part_at("+5V", "pwr_core_good").ref))["order of the supplies, by power good"]
    )


def test_a_pull_up_to_a_rail_that_comes_later() -> None:
    ref = part_at("+5V", "pwr_core_good").ref
    pins = {number: net.replace("+5V", "+3V3") for number, net in design().parts[ref].pins.items()}
    assert "order of the supplies, by power good" in failing(changed(ref, pins=pins))


def test_a_reset_that_nothing_drives() -> None:
    assert "thresholds of power good and reset" in failing(moved("U1314", "1", "somewhere"))


@pytest.mark.parametrize(
    ("one", "other", "wrong"), [("+5V", "sense_5v", "110k"), ("+12VA", "pgfb_1310", "392k"), ("+13V3_PRE", "en_1309", "100k")]
)
def test_a_wrong_threshold(one: str, other: str, wrong: str) -> None:
    assert "thresholds of power good and reset" in failing(changed(part_at(one, other).ref, value=wrong))


def test_a_wrong_threshold_of_the_light() -> None:
    assert "USB, threshold of the light for 1.5 A" in failing(changed(part_at("+3V3", "cc_threshold").ref, value="47k"))


def test_a_wrong_limit_and_a_fast_rise() -> None:
    assert "supply +5V" in failing(changed(part_at("efuse_limit", "GND").ref, value="10k"))
    assert "USB, capacitance and inrush" in failing(changed(part_at("efuse_slope", "GND", "C").ref, value="100p"))


def test_a_rail_that_nobody_feeds() -> None:
    assert "+3V3_LOGIC" in failing(moved("U501", "8", "+3V3_LOGIC"))["supply pins on a rail that is made"]


def test_too_much_for_the_source() -> None:
    table = copy.deepcopy(load())
    table["load"]["ecp5"]["VCC"]["max"] = 2.5
    found = failing(design(), table)
    assert {"USB, current", "supply +1V2_CORE"} <= found.keys()


def test_a_circuit_without_figures() -> None:
    found = failing(changed("U501", bom="unheard-of"))
    assert "unheard-of" in found["circuits with figures in power.toml"]
    assert "24lc64" in found["circuits with figures in power.toml"]


def test_a_hot_regulator() -> None:
    table = copy.deepcopy(load())
    table["load"]["onet1191p"]["VCC"]["max"] = 0.2
    assert "regulators, warmest junction" in failing(design(), table)


def test_the_rail_is_good_where_the_registers_and_scpi_say_so() -> None:
    """One figure: the supervisor's threshold."""
    threshold = f"above {load()['supervisor']['tps3808g33']['threshold_v']['value']:.2f} V"
    for page in ("registers.md", "scpi.md", "controller.md"):
        assert threshold in (Path(__file__).parents[3] / "docs" / page).read_text(), page
