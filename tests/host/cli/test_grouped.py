"""Options of a command as dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner
from wattbell.cli.grouped import grouped


@dataclass(frozen=True)
class Colour:
    red: Annotated[int, typer.Option("--red")]
    bright: bool = False


@dataclass(frozen=True)
class Size:
    width: Annotated[int, typer.Option(help="In mm.")] = 3


@dataclass(frozen=True)
class Twice:
    width: int = 4


def called(*words: str) -> list[Any]:
    taken: list[Any] = []

    def command(context: typer.Context, colour: Colour, size: Size, name: str = "none") -> None:
        """Say what came."""
        taken.extend((context.command.help, colour, size, name))

    app = typer.Typer()
    app.command()(grouped(command))
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return taken


def test_each_option_comes_to_its_group() -> None:
    given = called("--red", "7", "--bright", "--width", "5", "--name", "x")
    assert given == ["Say what came.", Colour(7, True), Size(5), "x"]


def test_an_option_that_is_not_given_has_the_default_of_its_field() -> None:
    assert called("--red", "1")[1:] == [Colour(1, False), Size(3), "none"]


def test_an_option_without_a_default_is_required() -> None:
    def command(colour: Colour) -> None:
        raise AssertionError(colour)

    app = typer.Typer()
    app.command()(grouped(command))
    assert CliRunner().invoke(app, []).exit_code == 2


def test_one_name_for_two_options_is_refused() -> None:
    def command(size: Size, twice: Twice) -> None: ...

    with pytest.raises(TypeError, match="two parameters are called width"):
        grouped(command)
