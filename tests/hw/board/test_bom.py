"""The bill of materials: makers' codes against numbers as distributors list them, and faults in copies noticed."""

from __future__ import annotations

import copy
import csv
import re
import tomllib
from pathlib import Path

import afe.parts
import pytest
from board import bom
from board.checks.bom import checks, committed
from board.design import design
from board.netlist import Design

from .test_broken_copies import changed

FRONT_END = tomllib.loads((Path(afe.parts.__file__).parent / "parts.toml").read_text())


def failing(ours: Design, table: dict[str, object] | None = None, front_end: dict[str, object] | None = None) -> dict[str, str]:
    rows = checks(ours, table or bom.load(), front_end or FRONT_END)
    return {row.name: row.detail for row in rows if not row.passed}


def entry(key: str, **fields: object) -> dict[str, object]:
    """The table with some fields of one entry changed; None takes one away."""
    table = copy.deepcopy(bom.load())
    for name, value in fields.items():
        table["parts"][key].pop(name, None)
        if value is not None:
            table["parts"][key][name] = value
    return table


def test_the_design_as_it_is_passes() -> None:
    assert failing(design()) == {}
    assert committed(design(), bom.MANUFACTURE).passed


@pytest.mark.parametrize(
    ("value", "codes"),
    [
        ("0", ("0R", "0000", "0R")),
        ("33", ("33R", "33R0", "330")),
        ("5R6", ("5R6", "5R60", "5R6")),
        ("100", ("100R", "100R", "101")),
        ("196", ("196R", "196R", "1960")),
        ("4k75", ("4K75", "4K75", "4751")),
        ("10k", ("10K", "10K0", "103")),
        ("52k3", ("52K3", "52K3", "5232")),
        ("100k", ("100K", "100K", "104")),
        ("1M", ("1M", "1M00", "105")),
    ],
)
def test_codes_of_the_makers(value: str, codes: tuple[str, str, str]) -> None:
    found = bom.maker_codes(value)
    assert (found["yageo"], found["vishay"], found["panasonic"]) == codes


def test_the_table_has_each_part_once() -> None:
    """Read as who orders reads it: quantities are the number of references that a build has."""
    (text,) = bom.manufacture_files(design()).values()
    rows = list(csv.DictReader(text.splitlines()))
    listed = [reference for row in rows for reference in row["parts"].split()]
    names = {re.sub(r"\[.*", "", reference) for reference in listed}
    assert len(names) == len(listed)
    assert names == {part.ref for part in design().parts.values() if part.bom != bom.NOT_BOUGHT}
    for row in rows:
        here = row["parts"].split()
        assert int(row["build T"]) == sum(not r.endswith(("[P]", "[none]")) for r in here)
        assert int(row["build P"]) == sum(not r.endswith(("[T]", "[none]")) for r in here)
        assert all(row[column] for column in row)


def test_what_a_board_costs_is_the_sum_of_its_lines() -> None:
    (text,) = bom.manufacture_files(design()).values()
    rows = list(csv.DictReader(text.splitlines()))
    for build in bom.BUILDS:
        for boards in (10, 100):
            total = sum(int(row[f"build {build}"]) * float(row[f"USD at {boards}"]) for row in rows)
            assert bom.cost(design(), build, boards) == pytest.approx(total)
    readme = " ".join((Path(bom.__file__).parents[1] / "README.md").read_text().split())
    alone = sum(row["second source"].startswith("none: ") for row in rows)
    assert f"has {len(rows)} lines. {alone} lines have no second source" in readme
    said = re.search(r"build T\s+(\d+) USD at 10 boards, (\d+) at 100; build P (\d+) and (\d+)", readme)
    assert said is not None
    assert [round(bom.cost(design(), build, boards)) for build in bom.BUILDS for boards in (10, 100)] == [int(n) for n in said.groups()]


def test_a_part_that_the_table_forgets() -> None:
    table = copy.deepcopy(bom.load())
    del table["parts"]["lm393"]
    assert "U1315: bom.toml has nothing for 'lm393'" in failing(design(), table)["bill of materials, every part"]


def test_an_entry_of_no_part() -> None:
    table = copy.deepcopy(bom.load())
    table["parts"]["left-over"] = dict(table["parts"]["lm393"])
    assert "left-over" in failing(design(), table)["bill of materials, every part"]


@pytest.mark.parametrize(
    ("fields", "says"),
    [({"second": None}, "either a second source or the reason"), ({"mpn": None}, "mpn missing"), ({"colour": "red"}, "unknown colour")],
)
def test_an_entry_that_is_not_whole(fields: dict[str, object], says: str) -> None:
    assert says in failing(design(), entry("lm393", **fields))["bill of materials, every part"]


def test_a_part_of_another_package() -> None:
    assert "U1315" in failing(design(), entry("lm393", package="TSSOP-8"))["bill of materials, packages as footprints"]


def test_another_circuit_than_drawn() -> None:
    assert "U1303" in failing(design(), entry("tps62822", mpn="TPS62130RGTR"))["bill of materials, values as drawn"]


def test_another_value_under_the_same_key() -> None:
    assert "r-2k2-0402" in failing(changed("R506", value="22k"))["bill of materials, every part"]
    assert "c-120p-0402 is" in failing(changed("C1312", value="12p"))["bill of materials, values as drawn"]


def test_another_amplifier_than_hw_afe_calculates_with() -> None:
    other = copy.deepcopy(FRONT_END)
    other["amplifier"]["part"] = "Analog Devices ADA4522-2"
    assert "opa2189" in failing(design(), None, other)["bill of materials, front end as hw/afe"]


def test_a_section_of_hw_afe_that_nobody_buys() -> None:
    table = entry("vcs1625-10m", afe=None, name=None)
    assert "[shunt]" in failing(design(), table)["bill of materials, front end as hw/afe"]


def test_a_capacitor_for_too_little_voltage() -> None:
    found = failing(design(), entry("c-10u-1206", volts=10.0))
    assert "C1422" in found["capacitors, share of the rated voltage"]
    assert "C1402" not in found["capacitors, share of the rated voltage"]


def test_a_table_that_was_not_written_anew(tmp_path: Path) -> None:
    (text,) = bom.manufacture_files(design()).values()
    (tmp_path / "bom.csv").write_text(text)
    assert committed(design(), tmp_path).passed
    (tmp_path / "bom.csv").write_text(text.replace("LM393DR", "LM339"))
    assert not committed(design(), tmp_path).passed
