"""Prose stays as readable as it is, or becomes more so: no group of pages or docstrings passes its limit (tests/prose.toml)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.prose import AIM, FLOOR, NAMES, Prose, faults, group, limits, lowered, measured, read, row, sentences, wanted

PLAIN = ("The drive answers each command in order.",) * 200
VAGUE_ONE = "The host reads that of which it was told."  # three clauses, nine words
LONG_ONE = " ".join(["word"] * 26) + "."


def prose(*texts: str, openings: int = 0) -> Prose:
    """A group with these sentences."""
    return Prose([("x.py:1", text) for text in texts], [("x.py:1", "What it is.")] * openings)


def test_prose_keeps_its_limits() -> None:
    """A line of the failure says which sentence to look for, or which limit to lower."""
    assert "\n".join(faults(measured(), limits())) == ""


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("The host says what is in the capture.", 1),
        ("A table of what it measured, by class.", 1),
        ("Its length is that of the page.", 1),
        ("A rail, of which two are known.", 1),
        ("Tells the drive what a power state costs.", 2),
        ("The sum comes to 12 mW.", 1),
        ("The drive whose clock ran fast, and hence its figure.", 2),
        ("Neither reads nor writes are lost.", 0),
        ("A normal drive from Nordic is in the north.", 0),
        ("Figures that often offer that office of items.", 0),
        ("What does the whatever of writing whatsoever?", 0),
        ("An outcome, becomes tomorrow, untold.", 0),
        ("Read the units of its table.", 0),
    ],
)
def test_vague_clauses_are_whole_words(text: str, clauses: int) -> None:
    of = prose(text)
    assert of.figures()["vague"] == pytest.approx(1000 * clauses / of.words)


def test_a_list_item_is_its_own_sentence() -> None:
    text = """Figures of a rail follow here:

- the first item of a list
- the second item, which goes on
  in the next line
1. a third item with a number

| a table | is no prose at all |
# A heading is no prose
```
code is no prose either, is it?
```
A [link with words](docs/x.md#what-is) and `some code of what is` end here. Then a new sentence begins.

    an indented line is code
"""
    assert [sentence for _, sentence in sentences(text)] == [
        "Figures of a rail follow here:",
        "the first item of a list",
        "the second item, which goes on in the next line",
        "a third item with a number",
        "A link with words and X end here.",
        "Then a new sentence begins.",
    ]
    assert next(line for line, sentence in sentences(text) if sentence.startswith("a third")) == 5


def test_docstrings_fields_and_comments_of_documentation_count(tmp_path: Path) -> None:
    def of(name: str, text: str) -> Prose:
        (tmp_path / name).write_text(text)
        read(tmp_path / name, into := Prose(), tmp_path)
        return into

    python = of(
        "a.py",
        '"""A module with four words."""\nX = 1\n"""What a constant is for."""\n'
        'def f():\n    """Return the sum, in mW.\n\n'
        '    first: one number in mW\n    second: another number in mW\n    """\n    x = "what is no docstring at all"\n',
    )
    assert [s for _, s in python.sentences] == [
        "A module with four words.",
        "What a constant is for.",
        "Return the sum, in mW.",
        "first: one number in mW",
        "second: another number in mW",
    ]
    assert [place for place, _ in python.openings] == ["a.py:3"]
    rust = of(
        "a.rs",
        "//! A crate of many parts.\n\n/// That of a rail\n/// in many words.\n"
        "/* nothing that would count here */\n//// nor this line, of course\n",
    )
    assert [s for _, s in rust.sentences] == ["A crate of many parts.", "That of a rail in many words."]
    assert rust.openings == [("a.rs:3", "That of a rail\nin many words.\n")]
    page = of("a.js", "/**\n * The answer to a question.\n * @param {string} path below the server\n */\n/* not this one here */\n")
    assert [s for _, s in page.sentences] == ["The answer to a question.", "{string} path below the server"]
    assert [s for _, s in of("a.c", "/* Every comment of C counts. */\n").sentences] == ["Every comment of C counts."]


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("README.md", "README.md"),
        ("docs/scpi.md", "docs/scpi.md"),
        ("docs/log/2026-11-24-joulescope.md", "docs/log"),
        ("docs/reference/scpi.md", "docs/reference/scpi.md"),
        ("host/wattbell/door.py", "host/wattbell"),
        ("host/wattbell/wire/decode.py", "host/wattbell/wire"),
        ("gateware/wattbell_gateware/nvme/a/b.py", "gateware/wattbell_gateware/nvme"),
        ("sim/ssd/src/lib.rs", "sim"),
        ("hw/README.md", "hw"),
    ],
)
def test_groups(file: str, expected: str) -> None:
    assert group(file) == expected


@pytest.mark.parametrize("figure", NAMES)
def test_a_worse_and_a_much_better_group_are_both_found(figure: str) -> None:
    bad = {"vague": (VAGUE_ONE,) * 10, "long": (LONG_ONE,) * 60, "opening": ()}[figure]
    before, openings = prose(*PLAIN, *bad, openings=9), 9
    held = lowered({"x": before}, {"x": dict.fromkeys(NAMES, 1000.0)})
    assert faults({"x": before}, held) == []
    worse = {"vague": (VAGUE_ONE,), "long": (LONG_ONE,), "opening": ()}[figure]
    assert f"x: {figure} is" in "\n".join(faults({"x": prose(*PLAIN, *bad, *worse, openings=openings + (figure == "opening"))}, held))
    better = prose(*PLAIN, *(bad if figure == "opening" else ()), openings=0 if figure == "opening" else 9)
    found = "\n".join(faults({"x": better}, held))
    assert f"x: {figure} has fallen to 0.00; lower its limit" in found
    assert row("x", {**held["x"], figure: wanted(better, figure)}) in found


def test_limits_never_rise() -> None:
    held = {"x": {"vague": 3.0, "long": 7.0, "opening": 1}, "gone": dict.fromkeys(NAMES, 0)}
    worse = prose(*PLAIN, *(VAGUE_ONE,) * 50, *(LONG_ONE,) * 50, openings=5)
    assert lowered({"x": worse, "new": worse}, held) == {"x": held["x"], "new": AIM}
    assert lowered({"x": prose(*PLAIN)}, held) == {"x": FLOOR}


def test_a_group_without_limit_and_a_limit_without_group_are_found() -> None:
    found = faults({"x": prose(*PLAIN)}, {"gone": AIM})
    assert len(found) == 2 and "gone: no such page or folder" in found[0] and "x: has no limit" in found[1]


def test_figures_at_the_floor_leave_room_for_chance() -> None:
    assert faults({"x": prose(*PLAIN)}, {"x": FLOOR}) == []
    assert faults({"x": prose(*PLAIN, VAGUE_ONE[:20] + " is long")}, {"x": FLOOR}) == []
