"""Every command that a page names exists: targets of the Makefile, commands of `wattbell` with their options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import typer
from wattbell.cli.app import app

from tests.docs.pages import ROOT, Page, page, pages

NOT_HERE = {"CHANGELOG.md"}
"""Pages of commands as they were."""


@cache
def targets() -> frozenset[str]:
    """Return the targets of the Makefile."""
    return frozenset(re.findall(r"^([a-z][a-z0-9-]*):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@cache
def program() -> Any:
    """The command `wattbell`."""
    return typer.main.get_command(app)


def made(of: Page) -> Iterator[str]:
    """Targets that a page names."""
    for code in of.code():
        for words in re.findall(r"(?:^|&&|;|\|)\s*make((?:\s+[A-Z]+=\S+)*(?:\s+[a-z][a-z0-9-]*)+)", code.partition(" #")[0]):
            yield from (word for word in words.split() if "=" not in word)


@pytest.mark.parametrize("of", pages(), ids=lambda of: of.name)
def test_targets_of_make_exist(of: Page) -> None:
    assert [target for target in made(of) if target not in targets()] == []


def called(of: Page) -> Iterator[list[str]]:
    """The words behind `wattbell` of each command that a page names, up to "..."; a command of the user's own behind `--` is left out."""
    for code in of.code():
        for part in re.split(r"&&|;|\||\$\(", code):
            if match := re.match(r"\s*(?:\$ )?(?:sudo )?wattbell(?=\s|$)(.*)", part):
                words = shlex.split(re.split(r"\.\.\.|\s{3}", match[1])[0], comments=True)  # behind three blanks: what it is for
                yield words[: words.index("--")] if "--" in words else words


def unknown(words: list[str]) -> str:
    """The first word that the program does not know, as a command or an option; "" if it knows all."""
    command = program()
    context = command.context_class(command, info_name="wattbell")
    for word in words:
        word = word.rstrip(",.;:)")
        if word.startswith("-") and word != "-" and not re.fullmatch(r"-[\d.]+", word):
            known = {option for each in command.get_params(context) for option in (*each.opts, *each.secondary_opts)}
            if word.partition("=")[0] not in known | {"--install-completion", "--show-completion"}:
                return word
        elif hasattr(command, "get_command") and re.fullmatch(r"[a-z][a-z-]*", word):
            found = command.get_command(context, word)
            if found is None:
                return word
            context = found.context_class(found, info_name=word, parent=context)
            command = found
    return ""


@pytest.mark.parametrize("of", [each for each in pages() if each.name not in NOT_HERE], ids=lambda of: of.name)
def test_commands_of_ours_exist_with_their_options(of: Page) -> None:
    assert [" ".join(words) for words in called(of) if unknown(words)] == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("`wattbell runn quick`", "runn"),
        ("`wattbell run quick --virtal x`", "--virtal"),
        ("`wattbell export jsonl x`", "jsonl"),
        ("```sh\nmake demo && wattbell view x --fragmnt 3   # --what\n```", "--fragmnt"),
        ("`wattbell run quick -x`", "-x"),
        ("```\nwattbell run quick \\\n  --ot x\n```", "--ot"),
        ("`wattbell run --out x -- dd --frob`", ""),
        ("`wattbell trace ...`", ""),
        ("`wattbell --version`", ""),
        ("`wattbell run SUITE --virtual P ...`", ""),
    ],
)
def test_a_command_that_is_none_is_found(text: str, word: str) -> None:
    [words] = called(Page("x.md", text))
    assert unknown(words) == word


def test_a_target_that_is_none_is_found() -> None:
    text = "`make frob`, `make`, `make clean frob-2`, `BOARDS=3 make x`\n```sh\nmake setup && . x; make TLPS=3 tap   # make nothing\n```"
    assert list(made(Page("x.md", text))) == ["frob", "clean", "frob-2", "setup", "tap"]
    assert {"demo", "test", "tap", "setup", "help"} <= targets() and not {"frob", "OUT", "demo: LEVEL"} & targets()


def test_readmes_commands_are_taken_by_the_program_as_they_stand() -> None:
    """Its own parser takes each; nothing is run."""
    ours = [words for words in called(page("README.md")) if words]
    assert [words[:2] for words in ours] == [["run", "quick"], ["run", "--drive"]]
    for words in ours:
        context = program().make_context("wattbell", list(words))
        group: Any = context.command
        name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
        params = command.make_context(name, rest, parent=context).params
        assert params["virtual"] or params["drive"]
