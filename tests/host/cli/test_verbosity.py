"""``--verbose``."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from wattbell.cli import output, verbosity
from wattbell.drive.tools import Tools


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    lines: list[str] = []
    monkeypatch.setattr(output, "say", lambda text: lines.append(str(text)))
    yield lines
    for handler in list(verbosity.LOG.handlers):
        verbosity.LOG.removeHandler(handler)
    verbosity.LOG.setLevel(logging.NOTSET)
    verbosity.LOG.propagate = True


def test_nothing_is_said_without_it(said: list[str]) -> None:
    with output.spinner("analysing"):
        pass
    assert said == []


def test_steps_and_programs_are_said_with_the_time(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    verbosity.begin()
    verbosity.begin()
    assert "wattbell" in said[0]
    said.clear()
    with output.spinner("analysing [bold]") as change:
        change("analysing: rail")
    monkeypatch.setattr(Tools, "find", lambda _self, name: f"/bin/{name}")
    Tools().attempt("true", "a file")
    assert [line.partition("] ")[2] for line in said] == ["analysing [bold]", "analysing: rail", "/bin/true 'a file'"]
    assert all(line.startswith("[") for line in said)
