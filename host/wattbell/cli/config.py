"""The user's own defaults: a TOML file with a table for each command, and in it options by their long names without the dashes."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import door
from ..errors import UsageError
from ..nearest import did_you_mean
from .options import Json

VARIABLE = "WATTBELL_CONFIG"
COMPLETING = "_WATTBELL_COMPLETE"
"""Set by a shell that asks for the next words on its command line."""
_EACH_TIME = ("yes", "force", "serial", "drive", "repair", "seal", "out", "help", "install-completion", "show-completion", "version")
"""Options that the file may not set. They would overwrite or erase without a question, or make sense on a command line only."""


@dataclass
class ConfigFile:
    """The settings read.

    path: of the file, whether it exists or not
    values: option by option, as "record --duration"
    defaults: the same as Typer's ``default_map``
    """

    path: Path
    found: bool = False
    values: dict[str, Any] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)


read = ConfigFile(Path())
"""Settings that :func:`load` has read in this process."""


def place() -> Path:
    """Return the path of the file."""
    given = os.environ.get(VARIABLE)
    if given is not None:
        return Path(given)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "wattbell" / "config.toml"


def load(tree: Callable[[], Any]) -> ConfigFile:
    """Read the file, if there is one. `tree` makes the program's whole tree of commands. Raises UsageError for unknown options."""
    path = read.path = place()
    read.found = False
    read.values.clear()
    read.defaults.clear()
    if os.environ.get(VARIABLE) == "" or COMPLETING in os.environ:
        return read
    try:
        with door.open_file(path, door.SETTINGS) as file:
            content = tomllib.load(file)
    except FileNotFoundError:
        if VARIABLE in os.environ:
            raise UsageError(f"{path} (from {VARIABLE}) does not exist; make it, or unset {VARIABLE}.") from None
        return read
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}.") from None
    read.found = True
    read.defaults.update(_defaults(path, tree(), content, ""))
    return read


def _defaults(path: Path, command: Any, content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The ``default_map`` of one command, and of those below it."""
    made: dict[str, Any] = {}
    below = getattr(command, "commands", {})
    options = {opt[2:]: param for param in command.params for opt in (*param.opts, *param.secondary_opts) if opt.startswith("--")}
    for key, value in content.items():
        full = f"{name} {key}".strip()
        if key in below:
            if not isinstance(value, dict):
                raise UsageError(f"{path}: {key} is a command; write its options below [{full.replace(' ', '.')}].")
            made[key] = _defaults(path, below[key], value, full)
            continue
        if key in _EACH_TIME and (name or key not in options):
            raise UsageError(f"{path}: {full} is to be said on the command line, each time.")
        param = options.get(key)
        if param is None or not name or isinstance(value, dict) or key in _EACH_TIME:
            known = list(below) + (list(options) if name else [])
            what = f"an option of `wattbell {name}`" if name else "a command"
            raise UsageError(f"{path}: {full} is not {what}.{did_you_mean(key, known)}")
        if key in (opt[2:] for opt in param.secondary_opts):
            value = not value
        made[param.name] = _value(path, full, param, value)
        read.values[f"{name} --{key}"] = value
    return made


def _value(path: Path, full: str, param: Any, value: Any) -> Any:
    """Return a value as the command line would give it."""
    one = (str, int, float, bool)
    if not isinstance(value, list if param.multiple else one):
        raise UsageError(f"{path}: {full} takes {'a list of values' if param.multiple else 'one value'}.")
    if bool(getattr(param, "is_flag", False)) != isinstance(value, bool):
        raise UsageError(f"{path}: {full} takes {'true or false' if getattr(param, 'is_flag', False) else 'a value, not true or false'}.")
    if isinstance(value, list):
        return [_text(each) for each in value]
    return value if isinstance(value, bool) else _text(value)


def _text(value: Any) -> str:
    text = str(value)
    return os.path.expanduser(text) if text.startswith("~/") else text


def config(json: Json = False) -> None:
    """Show your own defaults: a TOML file, the place where it belongs, and its values.

    A table for each command, and in it options without their dashes:

      \\[record]

      statistics = "1s"

      \\[run]

      store = "~/drives.sqlite"

    It is ~/.config/wattbell/config.toml, or the file that WATTBELL_CONFIG names. The command line wins over the file.
    """
    from rich.text import Text

    from . import output

    if json:
        output.print_json({"path": str(read.path), "found": read.found, "values": read.values})
        return
    if not read.found:
        output.out.print(Text(f"{read.path}: not there; every option has its built-in default."), soft_wrap=True)
        return
    output.out.print(Text(str(read.path)), soft_wrap=True)
    shown = output.table("option", "default")
    for name, value in read.values.items():
        texts = [str(each).lower() if isinstance(each, bool) else str(each) for each in (value if isinstance(value, list) else [value])]
        shown.add_row(name, ", ".join(texts))
    output.out.print(shown)
