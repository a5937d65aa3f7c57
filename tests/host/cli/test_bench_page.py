"""The lines of docs/bench.md: programs' options exist, and files are there or made by a line before. `make bench-page` types them."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from wattbell.cli.app import app
from wattbell.meters.meter import KINDS

from tests.patience import PATIENCE_S
from tests.slow import bench_page

LINES = bench_page.lines()
OPERATORS = ("&&", "||", ";", "|")


def commands(line: str) -> Iterator[tuple[list[str], list[str]]]:
    """The words of each simple command of a line, and the files that its output goes to."""
    lexer = shlex.shlex(line.splitlines()[0], posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    into: list[str] = []
    for word in [*lexer, ";"]:
        if word not in OPERATORS:
            words.append(word)
            continue
        while ">" in words:
            at = words.index(">")
            into.append(words[at + 1])
            del words[at : at + 2]
        yield words, into
        words, into = [], []


def parsed(words: list[str]) -> dict[str, Any]:
    """The arguments of a command of ours, by its own parser, which refuses unknown ones; and nothing is run."""
    context = typer.main.get_command(app).make_context("wattbell", list(words))
    group: Any = context.command
    name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
    return dict(command.make_context(name, rest, parent=context).params)


def files(given: dict[str, Any]) -> Iterator[Path]:
    """Those that a command reads."""
    for name, value in given.items():
        for each in value if isinstance(value, list | tuple) else [value]:
            if isinstance(each, Path) and name not in ("out", "store"):
                yield each
    if Path(str(given.get("what"))).suffix:
        yield Path(given["what"])


def test_each_line_has_one_entry_and_each_entry_one_line() -> None:
    found = [bench_page.begins(line) for line in LINES]
    assert all(len(starts) == 1 for starts in found), found
    assert sorted(start for (start,) in found) == sorted([*bench_page.NOT_TYPED, *bench_page.EXPECTED])
    assert {expected.act for expected in bench_page.EXPECTED.values()} - {""} == set(bench_page.ACTS)


def test_the_readers_own_words_are_replaced_and_nothing_else() -> None:
    for words in bench_page.OTHERS:
        assert any(words in line for line in LINES)
    for line in LINES:
        typed = bench_page.typed(line) or ""
        assert not re.search("ttyACM|S4EWNX", typed)
        assert not typed or bench_page.EXPECTED[bench_page.begins(line)[0]].more or "--meter" in line or "--serial" in line or typed == line


@pytest.mark.parametrize("line", [line for line in LINES if "wattbell " in line])
def test_options_of_ours_exist(line: str) -> None:
    for text in (line, bench_page.typed(line) or line):
        for words, _ in commands(text):
            given = parsed(words[1:])
            if given.get("meter"):
                assert given["meter"].partition(":")[0] in KINDS


def test_an_option_that_is_none_is_found() -> None:
    with pytest.raises(Exception, match="No such option: --metre"):
        parsed(["run", "quick", "--drive", "/dev/nvme0n1", "--out", "x", "--metre", "ppk2"])


def test_each_file_is_there_or_made_by_a_line_before() -> None:
    made = {Path(act.makes) for act in bench_page.ACTS.values()}
    missing = []
    for line in LINES:
        for words, into in commands(line):
            if words[0] == "wattbell":
                given = parsed(words[1:])
                read, written = list(files(given)), [given.get("out")]
            else:
                read = [Path(word) for word in words[1:] if word.endswith(".fio")]
                written = [Path(word.partition("=")[2]) for word in words if word.startswith("--output=")]
            missing += [(line, str(file)) for file in read if file not in made]
            made |= {Path(each) for each in (*written, *into) if each}
    assert missing == []


def test_other_programs_are_those_that_the_page_installs() -> None:
    programs = {next(word for word in words if "=" not in word) for line in LINES for words, _ in commands(line)}
    assert programs == {"apt-get", "make", ".", "mountpoint", "mount", "cat", "wattbell", "nvme", "fio"}
    (install,) = [line for line in LINES if line.startswith("apt-get install ")]
    assert {"fio", "nvme-cli"} <= set(install.split())
    targets = (bench_page.PAGE.parents[1] / "Makefile").read_text()
    for line in LINES:
        assert all(re.search(rf"^{target}:", targets, re.MULTILINE) for target in re.findall(r"\bmake (\w+)", line))


def test_the_typist_sees_a_prompt_behind_which_something_goes_on_talking(tmp_path: Path) -> None:
    lines = [
        "(for i in $(seq 300); do sleep 0.01; echo talk; done) & sleep 0.2",
        "kill %1; wait; false",
        "read -p 'really? [y/N]: ' answer; echo $answer",
        "cat > made <<'END'\none\nEND",
    ]
    (tmp_path / "lines.json").write_text(json.dumps({"folder": str(tmp_path), "lines": lines}))
    script = Path(bench_page.__file__).with_name("bench_page_guest.py")
    subprocess.run([sys.executable, script], cwd=tmp_path, check=True, capture_output=True, timeout=PATIENCE_S)
    said = json.loads((tmp_path / "said.json").read_text())
    assert [(entry["code"], entry["asked"]) for entry in said] == [(0, 0), (1, 0), (0, 1), (0, 0)]
    assert said[2]["said"].endswith("y\n") and (tmp_path / "made").read_text() == "one\n"
