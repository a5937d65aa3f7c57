"""Coverage of cocotbext-nvmetap: bins, sums over runs, and the page."""

from __future__ import annotations

import html.parser
import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cocotbext.nvmetap.coverage import AXES, Coverage, CoverageError


@dataclass(frozen=True)
class Seen:
    """A finished command: a read of 8 blocks by PRPs, alone in its queue."""

    function: int = 0x100
    sqid: int = 1
    opcode: int | None = 2
    blocks: int | None = 8
    sgl: bool | None = False
    data_bytes: int = 4096
    doorbell_ps: int | None = 1
    cqe_ps: int | None = 5


READ = Seen()
DEPTHS = [(1, "1"), (2, "2"), (3, "3-4"), (4, "3-4"), (5, "5-8"), (1024, "257-1024"), (1025, "over 1024")]
SIZES = [(1, "1"), (2, "2-8"), (8, "2-8"), (9, "9-16"), (1024, "257-1024"), (65536, "over 1024")]


@pytest.mark.parametrize(
    ("command", "axis", "value"),
    [
        (READ, "opcode", "02h read"),
        (replace(READ, sqid=0), "opcode", "admin 02h get log page"),
        (replace(READ, opcode=0x7F), "opcode", "7Fh other"),
        (replace(READ, opcode=None), "opcode", "unknown"),
        (READ, "pointer", "PRP"),
        (replace(READ, sgl=True), "pointer", "SGL"),
        (replace(READ, sgl=None), "pointer", "unknown"),
        (Seen(opcode=0, blocks=None, data_bytes=0), "pointer", "none"),
        (Seen(opcode=8, data_bytes=0), "pointer", "none"),
        (Seen(sqid=0, opcode=5, sgl=None, data_bytes=0), "pointer", "none"),
        (replace(READ, doorbell_ps=None), "depth", "unknown"),
        *((replace(READ, blocks=blocks), "size", name) for blocks, name in SIZES),
        (replace(READ, blocks=None), "size", "unknown"),
        (replace(READ, opcode=None, blocks=None), "size", "unknown"),
        (Seen(opcode=0, blocks=None), "size", "none"),
        (Seen(sqid=0, opcode=6, blocks=None), "size", "none"),
        (READ, "reset", "first life"),
        (replace(READ, cqe_ps=None), "reset", "cut by a reset"),
    ],
)
def test_each_value_has_its_bin(command: Seen, axis: str, value: str) -> None:
    coverage = Coverage()
    coverage.add(command)
    assert coverage.along(axis)[value] == 1 == sum(coverage.along(axis).values())


@pytest.mark.parametrize(("depth", "name"), DEPTHS)
def test_the_depth_is_counted_at_the_doorbell(depth: int, name: str) -> None:
    """`depth - 1` commands are in flight at the last doorbell. Commands of other queues, functions and lives count for nothing."""
    coverage = Coverage()
    coverage.add(Seen(doorbell_ps=500, cqe_ps=10_000_000))
    coverage.begin_life()
    for other in (Seen(sqid=2), Seen(function=0x200)):
        coverage.add(replace(other, opcode=1, doorbell_ps=900, cqe_ps=10_000_000))
    for done in range(5):
        coverage.add(Seen(opcode=1, doorbell_ps=done, cqe_ps=1000))
    last = Seen(opcode=5, doorbell_ps=5000, cqe_ps=5500)
    coverage.add(last)  # before those that are in flight: they end later
    for number in range(depth - 1):
        coverage.add(Seen(opcode=1, doorbell_ps=2000 + number, cqe_ps=None if number == 7 else 6000 + number))
    assert [kind.depth for kind in coverage.counts if kind.opcode == "05h compare"] == [name]


def test_a_reset_parts_the_commands() -> None:
    coverage = Coverage()
    coverage.add(READ)
    coverage.begin_life()
    coverage.add(READ)
    coverage.add(replace(READ, cqe_ps=None))
    assert coverage.along("reset") == {"first life": 1, "after a reset": 1, "cut by a reset": 1} and coverage.resets == 1


def test_runs_add_up(tmp_path: Path) -> None:
    for run in range(3):
        coverage = Coverage()
        for number in range(20):
            coverage.add(replace(READ, blocks=1 + run * number, sgl=bool(number % 2)))
        coverage.begin_life()
        coverage.save(tmp_path / f"{run}.json")
    merged = Coverage.merged(tmp_path.glob("*.json"))
    assert (merged.runs, merged.resets) == (3, 3)
    by_hand = {"1": 22, "2-8": 10, "9-16": 12, "17-32": 12, "33-64": 4}
    assert {size: count for size, count in merged.along("size").items() if count} == by_hand
    assert not list(tmp_path.glob("*.part"))
    merged.save(tmp_path / "sum.json")
    again = Coverage.load(tmp_path / "sum.json")
    assert again.counts == merged.counts and (again.runs, again.resets) == (3, 3)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": "x", "axes": []}', "\x00", "BAD COUNT"])
def test_a_file_that_is_no_coverage_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken.json"
    Coverage().save(path)
    if text == "BAD COUNT":
        text = json.dumps({**json.loads(path.read_text()), "counts": [["a", 1]]})
    path.write_text(text)
    with pytest.raises(CoverageError, match="broken.json is no coverage") as caught:
        Coverage.load(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(CoverageError, match="no file of coverage"):
        Coverage.merged(tmp_path.glob("*.nothing"))


def test_a_goal_lists_the_combinations_that_are_missing() -> None:
    coverage = Coverage()
    coverage.add(READ)
    coverage.add(replace(READ, opcode=1, doorbell_ps=2))
    goal = {"opcode": ["01h write", "02h read"], "depth": ["1", "2"]}
    assert coverage.missing(goal) == [{"opcode": "01h write", "depth": "1"}, {"opcode": "02h read", "depth": "2"}]
    assert coverage.missing({"pointer": ["PRP"]}) == []
    with pytest.raises(CoverageError, match="'3' is no value of depth: there are 1, 2, 3-4"):
        coverage.missing({"depth": ["3"]})
    with pytest.raises(CoverageError, match="'colour' is no axis"):
        coverage.along("colour")


class Tables(html.parser.HTMLParser):
    """The rows of a page's tables, and every address that the page names."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.addresses: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def test_the_page_has_every_count_and_needs_nothing_else(tmp_path: Path) -> None:
    coverage = Coverage()
    for number in range(17):
        coverage.add(replace(READ, doorbell_ps=10 * number, cqe_ps=10 * number + 5))
    coverage.add(replace(READ, opcode=1, sgl=True, doorbell_ps=None))
    coverage.write_page(tmp_path / "page.html", title="A <b> & c")
    text = (tmp_path / "page.html").read_text()
    page = Tables(text)
    assert page.addresses == [] and "http" not in text and "url(" not in text
    assert "<title>A &lt;b&gt; &amp; c</title>" in text and "18 commands of 2 kinds in 1 run(s), with 0 reset(s)" in text
    assert ["02h read", "17", "", ""] in page.rows  # by pointer: PRP, SGL, none
    assert ["01h write", "", "1", ""] in page.rows
    assert ["02h read", "PRP", "1", "2-8", "first life", "17"] in page.rows
    assert ["01h write", "SGL", "unknown", "2-8", "first life", "1"] in page.rows
    assert [*AXES, "commands"] in page.rows
