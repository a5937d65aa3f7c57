"""The committed files are the output of the sheets, and KiCad's syntax goes through our reader and writer unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest
from board.checks.schematic import same_files
from board.design import KICAD, project_files
from board.schematic.sexpr import dump, parse
from hypothesis import given
from hypothesis import strategies as st


def test_generated_files_are_the_committed_ones() -> None:
    check = same_files(KICAD)
    assert check.passed, check.detail


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    for path, text in project_files().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert same_files(tmp_path).passed
    sheet = tmp_path / "tap.kicad_sch"
    sheet.write_text(sheet.read_text().replace('"100 [T]"', '"1000 [T]"', 1))
    (tmp_path / "old.kicad_sch").write_text("(kicad_sch)")
    check = same_files(tmp_path)
    assert not check.passed
    assert "tap.kicad_sch differs" in check.detail
    assert "old.kicad_sch is no sheet's" in check.detail


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\t"), max_size=30))
def test_any_text_in_quotes_comes_back(text: str) -> None:
    assert parse(dump(["a", [text, text]])) == ["a", [text, text]]


@pytest.mark.parametrize("text", ["", "(a", "(a))", "a", "(a) (b)"])
def test_a_cut_file_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"bracket|one list"):
        parse(text)
