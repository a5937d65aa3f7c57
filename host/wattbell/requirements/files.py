"""Read files of requirements: sets of the package by name, others by path."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from wattbell_spec.nvme import ADMIN, IO

from .. import door
from ..errors import UsageError
from ..nearest import did_you_mean
from ..suites.manifest import read_toml
from .expression import names_in, parse
from .measurands import DECLARED, DRIVE_FIELDS, MEASURANDS, SCOPE_FIELDS
from .model import Requirement, RequirementFile

_OPTIONAL = ("states", "window_s", "threshold_s", "sampling_s", "duration_s", "exempt")


def set_names() -> list[str]:
    """Return the names of the package's sets, in the order in which they are judged."""
    return sorted(Path(one.name).stem for one in files(__package__).joinpath("data").iterdir() if one.name.endswith(".toml"))


def load(name: str) -> RequirementFile:
    """Return a set of the package by its name, or the file at a path that ends in ``.toml``. Raises UsageError with the mistake."""
    known = set_names()
    if name in known:
        text = files(__package__).joinpath("data", f"{name}.toml").read_text("utf-8")
        return _made(read_toml(text, Path(f"{name}.toml")), f"{name}.toml")
    path = Path(name)
    if path.suffix != ".toml":
        raise UsageError(f"There is no set of requirements {name}; known: {', '.join(known)}, or a file .toml.{did_you_mean(name, known)}")
    try:
        text = door.read_text(path, door.SETTINGS)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not TOML ({error}).") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from None
    return _made(read_toml(text, path), str(path))


def load_all(names: Iterable[str]) -> list[RequirementFile]:
    """Return the files of several names. Raises UsageError for two files of one name."""
    made = [load(name) for name in dict.fromkeys(names)]
    for one in made:
        if sum(other.name == one.name for other in made) > 1:
            raise UsageError(f"Two files of requirements are named {one.name}; give one of them another `name`.")
    return made


def _made(raw: dict[str, Any], where: str) -> RequirementFile:
    try:
        found = msgspec.convert(raw, RequirementFile, str_keys=True)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {_told(str(error), raw)}.") from None
    for name, number in found.parameters.items():
        if not math.isfinite(number):
            raise UsageError(f"{where}: parameter {name} is {number:g}: give a number.")
    ids = [one.id for one in found.requirement]
    for one in found.requirement:
        try:
            _check(one, found)
        except UsageError as error:
            raise UsageError(f"{where}, {one.id}: {error}.") from None
        if ids.count(one.id) > 1:
            raise UsageError(f"{where}: {one.id} is there {ids.count(one.id)} times.")
    return found


def _told(error: str, raw: dict[str, Any]) -> str:
    """Return msgspec's words, with the id of the requirement in place of its number."""
    text, _, path = error.partition(" - at `$")
    start = ".requirement["
    listed = raw.get("requirement")
    if path.startswith(start) and isinstance(listed, list):
        number, _, key = path[len(start) :].rstrip("`").partition("]")
        entry = listed[int(number)] if number.isdigit() and int(number) < len(listed) else {}
        name = entry.get("id") if isinstance(entry, dict) else None
        return f"{name or f'requirement {int(number) + 1}'}: {text}{f' ({key[1:]})' if key else ''}"
    return text + (f" ({path.rstrip('`').lstrip('.')})" if path.strip("`") else "")


def _check(one: Requirement, file: RequirementFile) -> None:
    if bool(one.measurand) == bool(one.not_measured):
        raise UsageError("give either measurand and limit, or not_measured with the reason")
    if not one.measurand:
        given = [key for key in ("limit", "applies", *_OPTIONAL) if getattr(one, key) not in (None, "", (), "any")]
        if given:
            raise UsageError(f"{given[0]} has no meaning beside not_measured")
        return
    measurand = MEASURANDS.get(one.measurand)
    if measurand is None:
        hint = did_you_mean(one.measurand, MEASURANDS) or f" Known: {', '.join(MEASURANDS)}"
        raise UsageError(f"there is no measurand {one.measurand}.{hint}")
    if one.limit is None:
        raise UsageError("it has no limit")
    if not isinstance(one.limit, str) and not 0 <= one.limit < math.inf:
        raise UsageError(f"its limit is {one.limit:g}: give a number of at least 0, or an expression")
    if one.unit != measurand.unit:
        raise UsageError(f"the unit of {one.measurand} is {measurand.unit!r}, not {one.unit!r}")
    for key in _OPTIONAL:
        value = getattr(one, key)
        stated = value not in (None, (), "any")
        if key in measurand.needs and not stated:
            raise UsageError(f"{one.measurand} needs {key}")
        if stated and key not in measurand.needs and key not in measurand.takes:
            raise UsageError(f"{key} has no meaning for {one.measurand}")
    unknown = [name for name in one.exempt if name not in _opcodes()]
    if unknown:
        raise UsageError(f"there is no opcode {unknown[0]}.{did_you_mean(unknown[0], _opcodes())}")
    for text in (one.limit, one.applies):
        if isinstance(text, str) and text:
            _check_names(text, one, file)


def _check_names(text: str, one: Requirement, file: RequirementFile) -> None:
    parse(text)
    for name in names_in(text):
        place, _, attribute = name.partition(".")
        if place == "declared" and attribute not in (*DECLARED, *DRIVE_FIELDS, *SCOPE_FIELDS):
            raise UsageError(f"{name} is no declared field; fields: {', '.join((*DECLARED, *DRIVE_FIELDS, *SCOPE_FIELDS))}")
        if place == "declared" and attribute in SCOPE_FIELDS:
            if one.measurand != "state-transition-time":
                raise UsageError(f"{name} belongs to state-transition-time: no other figure has two states")
        elif place == "declared" and one.states == "any" and attribute not in DRIVE_FIELDS:
            raise UsageError(f"{name} needs states: all time together has no declared state")
        if place == "measured" and attribute not in MEASURED:
            raise UsageError(f"there is no {name}; known: {', '.join(f'measured.{known}' for known in MEASURED)}")


MEASURED = ("average_w",)
"""``measured.average_w``: the largest mean power over 1 s in the same scope."""


def _opcodes() -> Sequence[str]:
    return [opcode.name for opcode in (*ADMIN, *IO)]
