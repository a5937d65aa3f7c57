"""The conduction solver against what is known by hand; rails that are too thin are caught."""

import copy

import pytest
from board.checks import copper as checks
from board.signal import copper, report
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


def test_the_intended_rail_holds():
    assert [c.name for c in checks.quick() if not c.passed] == []


def test_a_rail_with_a_neck_is_caught():
    thin = copy.deepcopy(DATA)
    thin["switched"]["In4_Cu"] = [[-7.0, 14.0, -2.0, 15.0]]
    thin["switched"]["B_Cu"] = [[-7.0, 14.0, -2.0, 15.0], [-4.2, 15.0, -3.8, 16.0], [-7.0, 16.0, -2.0, 20.0]]
    thin["switched"]["vias"] = []
    rows = {c.name: c.passed for c in checks.drops(checks.rail(STACK, thin), thin)}
    assert not rows["rail, warmest copper at 3 A"]


def test_a_rail_on_one_end_of_the_row_fills_its_contacts():
    half = copy.deepcopy(DATA)
    half["host"]["B_Cu"] = [r for r in half["host"]["B_Cu"] if r[0] > -7.5]
    half["host"]["vias"] = [v for v in half["host"]["vias"] if v[0] > -7.5]
    full = checks.rail(STACK, DATA)
    assert checks.rail(STACK, half).worst_pin > full.worst_pin


def test_the_document_has_todays_pairs_and_rail():
    # The eyes take 40 s: `python -m board.signal.report`
    text = (report.DOCS / "signal.md").read_text()
    assert report.pairs(STACK) in text
    assert report.rails(STACK) in text
