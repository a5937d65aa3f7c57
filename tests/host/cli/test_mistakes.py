"""Typing mistakes: one line with the nearest name, and no word of the libraries that read the command line. Generated from the tree of
commands, so that a new option cannot be left out."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperOption
from wattbell.cli import app, console

INTERNALS = (
    "value error",
    "input should",
    "invalid value",
    "valid integer",
    "none",
    "pydantic",
    "enum",
    "usage:",
    "try ",
    "\n",
    "traceback",
)


def commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group, with the words that lead to it."""
    command = app.tree() if command is None else command
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*path, name))


def options() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every option, with its command."""
    for path, command in commands():
        yield from ((path, param) for param in command.params if isinstance(param, TyperOption) and not param.hidden)


@pytest.fixture
def mistaken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Calls the program; the one line that it answers with, without ``error: ``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WATTBELL_CONFIG", "")

    def call(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["wattbell", *words])
        monkeypatch.setattr(console.err, "_file", sys.stderr)
        capfd.readouterr()
        with pytest.raises(SystemExit, match="^2$"):
            app.answer()
        out, err = capfd.readouterr()
        assert out == "" and err.startswith("error: ") and err.endswith("\n"), (words, out, err)
        line = err.removeprefix("error: ").removesuffix("\n")
        assert not [word for word in INTERNALS if word in line.casefold().replace("--no", "")], line
        assert os.listdir(tmp_path) == []
        return line

    return call


def test_a_command_that_is_nearly_one(mistaken: Any) -> None:
    groups = [(path, command) for path, command in commands() if getattr(command, "commands", None)]
    assert len(groups) == 5
    for path, group in groups:
        for name in group.commands:
            assert mistaken(*path, f"{name}x") == f"No such command: wattbell {' '.join((*path, f'{name}x'))}. Did you mean {name}?"
    assert mistaken("frobnicate") == "No such command: wattbell frobnicate. `wattbell --help` lists them."
    assert mistaken("results", "frobnicate").endswith("`wattbell results --help` lists them.")


def test_an_option_that_is_nearly_one(mistaken: Any) -> None:
    tried = 0
    for path, option in options():
        for name in (name for name in (*option.opts, *option.secondary_opts) if name.startswith("--")):
            command = " ".join(("wattbell", *path))
            assert mistaken(*path, f"{name}x") == f"No such option: {name}x of `{command}`. Did you mean {name}?"
            tried += 1
    assert tried > 150
    assert mistaken("run", "--frobnicate") == "No such option: --frobnicate of `wattbell run`. `wattbell run --help` lists them."
    assert mistaken("run", "-q").startswith("No such option: -q of `wattbell run`.")


def test_a_choice_that_is_nearly_one(mistaken: Any) -> None:
    tried = 0
    for path, option in options():
        for choice in option.type_descriptor.choices or ():
            name = max(option.opts, key=len)
            line = mistaken(*path, name, f"{choice.value}x")
            assert line.startswith(f"{name} {choice.value}x: give ") and line.endswith(f". Did you mean {choice.value}?")
            assert all(other.value in line for other in option.type_descriptor.choices)
            tried += 1
    assert tried > 15
    assert mistaken("run", "quick", "--out", "o", "--fidelity", "slow") == "--fidelity slow: give rtl or fast."


def test_a_number_that_is_none(mistaken: Any) -> None:
    tried = 0
    for path, option in options():
        takes = option.type_descriptor
        if takes.annotation in (int, float) or takes.parameter_info.parser is not None:
            name = max(option.opts, key=len)
            assert mistaken(*path, name, "many").startswith(f"{name} many: give ")
            tried += 1
    assert tried > 40
    assert mistaken("record", "--out", "o", "--decimation", "0") == "--decimation 0: give a whole number from 1 to 4096."
    assert mistaken("view", "c", "--port", "70000") == "--port 70000: give a whole number from 0 to 65535."


def test_what_is_left_out_or_too_much(mistaken: Any) -> None:
    assert mistaken("record") == "`wattbell record` needs --out: Capture directory to write."
    assert mistaken("results", "show") == "`wattbell results show` needs RUN: Id (or its beginning), or a results directory."
    assert mistaken("record", "--out").startswith("--out needs a value")
    assert mistaken("rigs", "--json=2") == "--json takes no value; leave the value out."
    assert mistaken("check", "a", "b") == "`wattbell check` takes nothing more: b. `wattbell check --help` says what it takes."
    assert "`wattbell --help`" in mistaken("-v")


def test_a_suite_a_test_or_a_drive_that_is_nearly_one(mistaken: Any) -> None:
    run = ("--virtual", "intel-660p-1tb", "--out", "o", "--dry-run")
    assert mistaken("run", "qick", *run).endswith("Did you mean quick?")
    assert mistaken("suites", "anandtech-2081").endswith("Did you mean anandtech-2018?")
    assert mistaken("run", "quick", *run, "--tests", "idel").endswith("Did you mean idle?")
    assert mistaken("run", "quick", "--out", "o", "--virtual", "intel-660p").endswith("Did you mean intel-660p-1tb?")


def test_a_meter_a_format_or_a_trace_that_is_nearly_one(mistaken: Any) -> None:
    assert mistaken("record", "--out", "o", "--meter", "ppk:/dev/ttyACM0").endswith("Did you mean ppk2?")
    assert mistaken("import", "none.csv", "--out", "o", "--format", "joulescope").endswith("Did you mean joulescope-csv?")
    assert mistaken("import", "none.csv", "--out", "o", "--fio", "f.json", "--align", "edge").endswith("Did you mean edges?")
    assert mistaken("trace", "make", "haevy", "--out", "o").endswith("Did you mean heavy?")
