"""The commands: the module of each, and its loading on demand.

A command's module is imported when the command is called, or for its help. So ``wattbell --version`` imports no command. The modules in
turn import heavy packages (Polars, SciPy, the drive model) inside their functions: options, help and completion need none.
``tests/host/cli/test_light.py`` holds all commands to that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from inspect import cleandoc
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from ..errors import UsageError
from ..nearest import did_you_mean
from .applies import Checked

RECORD, LOOK, SUITES, EQUIPMENT, FILES, MAINTENANCE = "Record", "Look", "Suites", "Rigs and meters", "Files", "Maintenance"
"""Groups of the help, in the order of their first commands."""


@dataclass(frozen=True)
class CommandPlace:
    """The place of a command.

    panel: its group in the help
    module: in this folder
    name: of the function there, or of the :class:`typer.Typer` of a command with subcommands
    kind: name of the command's class there, None for :class:`.applies.Checked`
    """

    panel: str
    module: str
    name: str
    kind: str | None = None


PLACES = {
    "record": CommandPlace(RECORD, "record", "record"),
    "run": CommandPlace(RECORD, "run", "run", kind="RunCommand"),
    "import": CommandPlace(RECORD, "importfiles", "import_"),
    "view": CommandPlace(LOOK, "view", "view"),
    "info": CommandPlace(LOOK, "info", "info"),
    "analyze": CommandPlace(LOOK, "captures", "analyze"),
    "report": CommandPlace(LOOK, "captures", "report"),
    "suites": CommandPlace(SUITES, "suites", "suites"),
    "compare": CommandPlace(SUITES, "compare", "compare", kind="CompareCommand"),
    "judge": CommandPlace(SUITES, "judge", "judge"),
    "requirements": CommandPlace(SUITES, "judge", "requirements"),
    "policies": CommandPlace(SUITES, "policies", "policies"),
    "results": CommandPlace(SUITES, "results", "app"),
    "rigs": CommandPlace(EQUIPMENT, "rigs", "rigs"),
    "meters": CommandPlace(EQUIPMENT, "meters", "meters"),
    "calibrate": CommandPlace(EQUIPMENT, "calibrate", "calibrate"),
    "bridge": CommandPlace(EQUIPMENT, "bridge", "bridge"),
    "sump": CommandPlace(EQUIPMENT, "sump", "sump"),
    "sim": CommandPlace(EQUIPMENT, "sim", "app"),
    "export": CommandPlace(FILES, "captures", "export_app"),
    "trace": CommandPlace(FILES, "trace", "app"),
    "sigrok-decoders": CommandPlace(FILES, "captures", "sigrok_decoders"),
    "check": CommandPlace(MAINTENANCE, "check", "check"),
    "config": CommandPlace(MAINTENANCE, "config", "config"),
}
"""All commands, in the order of the help."""


class CommandGroup(TyperGroup):
    """A command with subcommands: refuses an unknown name in one line."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Typer's own, on a command that is there."""
        name = args[0]
        if name not in self.commands and not name.startswith("-") and not ctx.resilient_parsing:
            hint = did_you_mean(name, self.commands) or f" `{ctx.command_path} --help` lists them."
            raise UsageError(f"No such command: {ctx.command_path} {name}.{hint}")
        return super().resolve_command(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        """Typer's own. Its flags for help and completion get a default: to check None, every call would wait for Pydantic."""
        params = super().get_params(ctx)
        for param in params:
            if param.default is None and getattr(param, "is_bool_flag", False):
                param.default = False
        return list(params)


class _Loading(Mapping[str, Any]):
    """The commands by name; each is made when it is looked up, by ``make``."""

    def __init__(self, make: Callable[[str, CommandPlace], Any]) -> None:
        self._make = make
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self._make(name, PLACES[name])
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in PLACES

    def __iter__(self) -> Iterator[str]:
        return iter(PLACES)

    def __len__(self) -> int:
        return len(PLACES)


class Root(CommandGroup):
    """The program itself: lists all commands and makes none before it is needed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "commands": _Loading(_made)})

    def list_commands(self, ctx: Any) -> list[str]:
        """Names, in the order of the help."""
        return list(PLACES)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Typer's own. The list of commands needs a line of each, and none of their options, which take a third of the time to make."""
        whole, self.commands = self.commands, _Loading(_line)  # type: ignore[assignment]
        try:
            super().format_help(ctx, formatter)
        finally:
            self.commands = whole


def _line(name: str, place: CommandPlace) -> Any:
    """The command without its options, for the list of commands."""
    found = _written(place)
    text = found.info.help if isinstance(found, typer.Typer) else found.__doc__
    return TyperCommand(name=name, help=cleandoc(text or ""), rich_help_panel=place.panel)


def _written(place: CommandPlace) -> Any:
    return getattr(import_module(f".{place.module}", __package__), place.name)


def _made(name: str, place: CommandPlace) -> Any:
    """The command, its module imported."""
    found = _written(place)
    above = typer.Typer(rich_markup_mode="rich")
    if isinstance(found, typer.Typer):
        _check_options(found)
        above.add_typer(found, name=name, cls=CommandGroup, rich_help_panel=place.panel)
    else:
        kind = Checked if place.kind is None else _written(replace(place, name=place.kind))
        above.command(name, cls=kind, rich_help_panel=place.panel)(found)
    return typer.main.get_group(above).commands[name]


def _check_options(tree: typer.Typer) -> None:
    """Have every command below ``tree`` refuse options that do not apply (:mod:`.applies`)."""
    for command in tree.registered_commands:
        command.cls = Checked
    for group in tree.registered_groups:
        if group.typer_instance is not None:
            _check_options(group.typer_instance)
