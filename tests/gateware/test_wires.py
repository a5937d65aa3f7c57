"""Signals of both directions, queues, states and docstrings of ports are each written in one way.

The counts are limits of the whole gateware. Lower them when a change makes it possible.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import wattbell_gateware

FOLDER = Path(wattbell_gateware.__file__).parent
ENDS = re.compile(r"\b(?!look_up\b)[a-z_]+_(?:up|down)\b")
"""A name with its direction at the end; ``look_up`` is a verb."""
QUEUE = "queue.py"
PINS = re.compile(r"\b[wr]_(?:en|rdy|data)\b")
"""Pins of a FIFO of ``amaranth.lib.fifo``."""
LONGEST = 120
"""Lines of a function that builds states."""


def lines(folder: Path, pattern: re.Pattern[str], suffixes: tuple[str, ...] = (".py", ".json")) -> list[str]:
    """Return every match of the pattern in the folder's files, with file and line."""
    return [
        f"{path.relative_to(folder)}:{number}: {found[0]}"
        for path in sorted(folder.rglob("*"))
        if path.suffix in suffixes
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for found in pattern.finditer(line)
    ]


def pins(folder: Path) -> list[str]:
    """Return where a FIFO is wired by hand, or made outside of :class:`Queue`."""
    found = lines(folder, PINS, (".py",)) + lines(folder, re.compile(r"^from amaranth\.lib(?:\.fifo import| import .*\bfifo\b)"), (".py",))
    return [each for each in found if not each.startswith(f"{QUEUE}:")]


def lengths(folder: Path) -> Iterator[tuple[int, str]]:
    """Return the lines of each function with an ``m.State`` of its own, and its name."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.end_lineno and builds_states(node):
                yield node.end_lineno - node.lineno + 1, f"{path.relative_to(folder)}: {node.name}"


def builds_states(node: ast.FunctionDef) -> bool:
    """Return whether the function calls ``m.State``."""
    return any(isinstance(each, ast.Call) and ast.unparse(each.func) == "m.State" for each in ast.walk(node))


def crowded(folder: Path) -> list[str]:
    """Return the lines of the sections "Ports" that explain several ports at once."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                ports = (ast.get_docstring(node) or "").partition("Ports\n-----\n")[2].partition("\n\n")[0]
                found += [f"{path.relative_to(folder)}: {line}" for line in ports.splitlines() if re.match(r"\w+, (?!\.\. )", line)]
    return found


def test_a_direction_is_a_member_and_no_part_of_a_name():
    assert lines(FOLDER, ENDS) == []


def test_only_the_queue_touches_the_pins_of_a_fifo():
    assert not pins(FOLDER)
    assert "amaranth.lib.fifo" in (FOLDER / QUEUE).read_text()


def test_no_function_builds_too_many_states():
    found = list(lengths(FOLDER))
    assert len(found) > 50
    assert not [each for each in found if each[0] > LONGEST]


def test_a_line_explains_one_port():
    assert not crowded(FOLDER)


@pytest.mark.parametrize(
    "text",
    ["m.d.comb += fifo.w_en.eq(1)", "x = queue.r_data[0]", "from amaranth.lib.fifo import SyncFIFO", "from amaranth.lib import data, fifo"],
)
def test_a_fifo_by_hand_is_found(tmp_path, text):
    (tmp_path / "one.py").write_text(f"{text}\n")
    (tmp_path / QUEUE).write_text(f"{text}\n")
    assert [each.partition(":")[0] for each in pins(tmp_path)] == ["one.py"]


def test_a_long_function_of_states_is_found(tmp_path):
    states = '        with m.State("A"):\n            pass\n'
    (tmp_path / "one.py").write_text(f"def long(m):\n    with m.FSM():\n{states * 60}\n\ndef short(m):\n    with m.FSM():\n{states}")
    assert list(lengths(tmp_path)) == [(122, "one.py: long"), (4, "one.py: short")]


def test_two_ports_in_a_line_are_found(tmp_path):
    (tmp_path / "one.py").write_text('class One:\n    """One.\n\n    Ports\n    -----\n    a : one.\n    b, c : two.\n    """\n')
    assert crowded(tmp_path) == ["one.py: b, c : two."]


def test_a_direction_in_a_name_is_found(tmp_path):
    (tmp_path / "one.py").write_text("skip_up = lanes_down = 1  # up, down, setup\n")
    assert lines(tmp_path, ENDS) == ["one.py:1: skip_up", "one.py:1: lanes_down"]
