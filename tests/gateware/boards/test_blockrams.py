"""blockrams.py on small placements: the saving it reports matches the wires, and every block RAM keeps a legal place of its own."""

import re
from random import Random

import pytest
from wattbell_gateware.boards.ecp5 import blockrams


def cell(kind: str, bel: str | None, **connections: list) -> dict:
    return {"type": kind, "attributes": {"NEXTPNR_BEL": bel} if bel else {}, "connections": connections}


def length(cells: dict, bels: dict[str, str]) -> int:
    """Return the total length of all wires at block RAMs, except clocks."""
    pins: dict[int, list[str]] = {}
    for name, each in cells.items():
        for port, bits in each["connections"].items():
            for bit in bits:
                if not port.startswith("CLK") and isinstance(bit, int) and name in bels:
                    pins.setdefault(bit, []).append(name)
    total = 0
    for names in pins.values():
        if any(cells[name]["type"] == "DP16KD" for name in names):
            x, y = zip(*(map(int, re.match(r"X(\d+)/Y(\d+)/", bels[name]).groups()) for name in names), strict=True)
            total += max(x) - min(x) + max(y) - min(y)
    return total


def scattered(seed: int, rams: int = 12) -> dict:
    """Return block RAMs anywhere in three rows of eight. A cluster of logic reads each; all share an address and a clock."""
    r = Random(seed)
    sites = r.sample([f"X{4 * k}/Y{row}/EBR{k % 2}" for k in range(8) for row in (10, 34, 58)], rams)
    cells, bit = {}, 10
    for n, site in enumerate(sites):
        data = list(range(bit, bit + 6))
        cells[f"ram{n}"] = cell("DP16KD", site, DOB=data, ADA=[2, "0", 3], CLKA=[1])
        x, y = r.randrange(30), r.randrange(60)
        for k, wire in enumerate(data):
            cells[f"lut{n}.{k}"] = cell("TRELLIS_COMB", f"X{x + k % 3}/Y{y + k % 2}/SLICEA.K0", A=[wire])
        bit += 6
    cells["address"] = cell("TRELLIS_FF", "X15/Y30/SLICEA.FF0", Q=[2], CLK=[1])
    cells["other"] = cell("TRELLIS_FF", "X15/Y31/SLICEA.FF0", Q=[3], CLK=[1])
    cells["unplaced"] = cell("GSR", None, GSR=[2])
    return {"cells": cells}


@pytest.mark.parametrize("seed", range(8))
def test_wires_get_shorter_by_what_it_says_and_no_place_is_taken_twice(seed):
    netlist = scattered(seed)
    bels = {name: each["attributes"]["NEXTPNR_BEL"] for name, each in netlist["cells"].items() if each["attributes"]}
    before = length(netlist["cells"], bels)
    found = blockrams.improve(netlist)
    assert found.before == before and found.after < 0.9 * before
    assert length(netlist["cells"], bels | found.bels) == found.after
    assert set(found.bels) == {f"ram{n}" for n in range(12)} and len(set(found.bels.values())) == 12
    for bel in found.bels.values():
        x, row, place = re.fullmatch(r"X(\d+)/Y(\d+)/EBR(\d)", bel).groups()
        assert int(row) in (10, 34, 58) and int(x) % 4 == 0 and int(x) // 4 % 2 == int(place)


def test_two_in_each_others_place_change_it():
    cells = {
        "a": cell("DP16KD", "X0/Y10/EBR0", DOA=[5, 6]),
        "b": cell("DP16KD", "X40/Y58/EBR0", DOA=[7, 8]),
        "c": cell("DP16KD", "X0/Y58/EBR0", DOA=[9]),
        "d": cell("DP16KD", "X40/Y10/EBR0", DOA=[4]),
        "of a": cell("TRELLIS_COMB", "X40/Y57/SLICEA.K0", A=[5], B=[6]),
        "of b": cell("TRELLIS_COMB", "X0/Y11/SLICEA.K0", A=[7], B=[8]),
        "of c": cell("TRELLIS_COMB", "X0/Y57/SLICEA.K0", A=[9]),
        "of d": cell("TRELLIS_COMB", "X40/Y11/SLICEA.K0", A=[4]),
    }
    found = blockrams.improve({"cells": cells})
    assert found.bels == {"a": "X40/Y58/EBR0", "b": "X0/Y10/EBR0", "c": "X0/Y58/EBR0", "d": "X40/Y10/EBR0"}
    assert found.after == 6


def test_they_are_held_in_the_netlist_that_is_placed_next():
    netlist = {"cells": {"a": cell("DP16KD", None), "logic": cell("LUT4", None)}}
    blockrams.hold(netlist, {"a": "X0/Y10/EBR0", "gone": "X4/Y10/EBR1"})
    assert netlist["cells"]["a"]["attributes"] == {"BEL": "X0/Y10/EBR0"} and netlist["cells"]["logic"]["attributes"] == {}


def test_a_netlist_that_is_not_placed_is_refused():
    with pytest.raises(ValueError, match="behind the placement"):
        blockrams.improve({"cells": {"a": cell("DP16KD", None, DOA=[1])}})
