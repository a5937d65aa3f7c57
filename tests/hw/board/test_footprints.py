"""Pads against pins, on footprints made here: KiCad's are in a root that `make test` does not have."""

from __future__ import annotations

from pathlib import Path

from board.checks.footprints import numbers_of_pads, pads_as_pins
from board.netlist import Design, Part

PADS = '(footprint "X" (pad "1" smd rect (at 0 0)) (pad "2" smd rect (at 1 0)) (pad "2" smd rect) (pad "" np_thru_hole circle (at 3 0)))'


def part(*pins: str) -> Design:
    """A design of one part with these pins."""
    return Design.of([Part("U1", "x:X", "x:X", "X", "", "s", dict.fromkeys(pins, "GND"))], {})


def test_numbers_of_pads(tmp_path: Path) -> None:
    (tmp_path / "X.kicad_mod").write_text(PADS)
    assert numbers_of_pads(tmp_path / "X.kicad_mod") == {"1", "2"}


def test_pads_and_pins_both_ways() -> None:
    pads = {"x:X": frozenset({"1", "2"})}
    assert pads_as_pins(part("1", "2"), pads).passed
    assert "pads without a pin ['2']" in pads_as_pins(part("1"), pads).detail
    assert "pins without a pad ['EP']" in pads_as_pins(part("1", "2", "EP"), pads).detail


def test_a_footprint_that_is_not_there_is_not_counted_as_right() -> None:
    assert pads_as_pins(part("1"), {}).figure == "0 of 0 parts"
