"""Report mistakes in a command line in one line of advice, in place of the boxes that Typer draws.

Typer checks values with Pydantic. The words of Pydantic and the names of Python's types are for programmers, so neither is shown.
"""

from __future__ import annotations

import re
from typing import Any

import typer

from ..nearest import did_you_mean

_WHOLE, _ANY = "a whole number", "a number"
_TOO_MUCH = re.compile(r"unexpected extra argument\S* \((.*)\)")


def nothing_given(error: typer.TyperException) -> bool:
    """Whether the user gave no argument at all, to which the help was the answer."""
    return type(error).__name__ == "NoArgsIsHelpError"


def sentence(error: typer.TyperException) -> str:
    """Return the mistake, with advice."""
    context, param = getattr(error, "ctx", None), getattr(error, "param", None)
    path = "wattbell" if context is None else context.command_path
    kind = type(error).__name__
    if kind == "NoSuchOption":
        return _no_such_option(error, context, path)
    if kind == "MissingParameter" and param is not None:
        return f"`{path}` needs {_name(param)}: {_about(param)}"
    if kind == "BadParameter" and param is not None:
        return _bad_value(error, param)
    if kind == "BadOptionUsage":
        return _bad_option(error, context)
    more = _TOO_MUCH.search(error.message)
    said = f"`{path}` takes nothing more: {more[1]}" if more else error.format_message().rstrip(".")
    return f"{said}. `{path} --help` says what it takes."


def _no_such_option(error: Any, context: Any, path: str) -> str:
    known = (
        [] if context is None else [option for param in context.command.get_params(context) if _shown(param) for option in _names(param)]
    )
    hint = did_you_mean(error.option_name, [option for option in known if option.startswith("--")])
    return f"No such option: {error.option_name} of `{path}`.{hint or f' `{path} --help` lists them.'}"


def _bad_option(error: Any, context: Any) -> str:
    """An option without its value, or a value where there is none."""
    params = [] if context is None else context.command.get_params(context)
    param = next((param for param in params if error.option_name in _names(param)), None)
    if "does not take" in error.message:
        return f"{error.option_name} takes no value; leave the value out."
    return f"{error.option_name} needs a value{'.' if param is None else f': {_about(param)}'}"


def _bad_value(error: Any, param: Any) -> str:
    """A value that is not of the kind that the option takes."""
    given = _given(error)
    head = _name(param) if given is None else f"{_name(param)} {_short(given)}"
    takes = param.type_descriptor
    if takes.choices is not None:
        choices = [str(getattr(choice, "value", choice)) for choice in takes.choices]
        return f"{head}: give {_listed(choices)}.{did_you_mean(given or '', choices)}"
    number = {int: _WHOLE, float: _ANY}.get(takes.annotation)
    if number is None:
        return f"{head}: {_about(param)}"
    low, high = takes.parameter_info.min, takes.parameter_info.max
    if low is not None and high is not None:
        number += f" from {low:g} to {high:g}"
    elif low is not None:
        number += f" of {low:g} or more"
    elif high is not None:
        number += f" of at most {high:g}"
    return f"{head}: give {number}."


def _given(error: Any) -> str | None:
    """The value as it was typed, which Pydantic keeps."""
    errors = getattr(error.__cause__, "errors", None)
    found = errors() if errors else []
    return str(found[0]["input"]) if found else None


def _names(param: Any) -> list[str]:
    return [*param.opts, *param.secondary_opts]


def _shown(param: Any) -> bool:
    return not getattr(param, "hidden", False)


def _name(param: Any) -> str:
    """The option by its long name, or an argument as the help has it."""
    if isinstance(param, typer.core.TyperOption):
        return str(max(param.opts, key=len))
    return str(param.metavar or param.name.upper())


def _about(param: Any) -> str:
    """The parameter's line of the help, without the marks of its typeface."""
    from rich.text import Text

    text = Text.from_markup(getattr(param, "help", None) or "").plain.strip()
    text = text or "see --help."
    return text if text.endswith((".", "?")) else f"{text}."


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
