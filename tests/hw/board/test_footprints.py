"""Pads against pins, on footprints made here: KiCad's are in a root that `make test` does not have."""

from __future__ import annotations

from pathlib import Path

import pytest
from board.checks.footprints import fingers_as, footprint_path, lands, numbers_of_pads, pads_as_pins
from board.library import footprints
from board.netlist import Design, DesignError, Part

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


def test_a_finger_elsewhere_is_noticed() -> None:
    """The comparison with KiCad's edge (which is not here without KiCad), on changed copies of ours."""
    ours = lands(footprint_path("wattbell:M2_M_edge"))
    assert len(ours) == 67
    assert fingers_as(ours, ours).passed
    x, y, width, height, layer = ours["41"]
    for moved in ((x + 0.01, y, width, height, layer), (x, y, width, height, "B.Cu")):
        assert fingers_as(ours | {"41": moved}, ours).detail.startswith("41:")
    assert not fingers_as({n: land for n, land in ours.items() if n != "2"}, ours).passed


def test_socket_is_straight_behind_the_edge() -> None:
    """With the slot away from the edge and the drive upper side up, a contact of the socket is in line with the finger of its number
    (else the drive would lie on its back), and the row of the lanes is nearer to the edge."""
    edge, socket = lands(footprint_path("wattbell:M2_M_edge")), lands(footprint_path("wattbell:M2_M_socket"))
    assert {n: land[0] for n, land in edge.items()} == {n: land[0] for n, land in socket.items() if n}
    rows = {n: land[1] for n, land in socket.items() if n}
    assert min(y for n, y in rows.items() if int(n) % 2) > 0 > max(y for n, y in rows.items() if not int(n) % 2)
    assert round(rows["1"] - rows["2"], 3) == 7.55


def test_shunt_has_a_terminals_two_pads_at_one_end() -> None:
    shunt = lands(footprint_path("wattbell:R_Shunt_VCS1625"))
    assert [shunt[n][0] < 0 for n in "1234"] == [True, True, False, False]
    assert shunt["1"][1] == shunt["4"][1] != shunt["2"][1]


def test_a_figure_without_a_source_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = tmp_path / "footprints.toml"
    bad.write_text('[sources]\n[X]\nkind = "m2_edge"\nsource = "memory"\n')
    monkeypatch.setattr(footprints, "PATH", bad)
    footprints.tables.cache_clear()
    with pytest.raises(DesignError, match="no source 'memory'"):
        footprints.tables()
    footprints.tables.cache_clear()
