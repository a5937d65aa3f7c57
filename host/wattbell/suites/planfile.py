"""A plan that somebody wrote (docs/ssd-model.md), read from its file."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from .. import door
from ..errors import UsageError
from .step import Step
from .units import size_bytes

ACTIONS = ("fio", "idle_s", "wake", "format", "sanitize", "fill", "trace", "restart", "settle")
_NAMES = {"idle_s": "idle", "wake": "wake-up"}
_PRECONDITIONING = ("format", "sanitize", "fill", "settle")
_SANITIZE = ("block", "crypto", "overwrite")
_LONGEST_S = 1e6


@dataclass(frozen=True)
class Plan:
    """``folder``: of the plan, where its job files and traces are. ``condition`` and ``data_bytes``: how a model's drive begins."""

    folder: Path
    steps: tuple[Step, ...]
    condition: str | None = None
    data_bytes: int | None = None


class _File(msgspec.Struct, forbid_unknown_fields=True):
    step: Annotated[tuple[Step, ...], msgspec.Meta(min_length=1)]
    condition: Literal["test-data", "full", "empty"] | None = None
    data_bytes: Annotated[int, msgspec.Meta(ge=0)] | None = None


def read_plan(path: Path) -> Plan:
    """The plan in a file. UsageError, with file and step, when it makes no sense."""
    try:
        content = tomllib.loads(door.read_text(path, door.SETTINGS))
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no plan ({error}).") from None
    steps = content.get("step")
    for number, table in enumerate(steps if isinstance(steps, list) else [], start=1):
        if isinstance(table, dict):
            problem = _complete(table)
            if problem:
                raise UsageError(f"{path}: step {number}: {problem}.")
    try:
        file = msgspec.convert(content, _File)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UsageError(f"{path} is no plan: {error}.") from None
    for number, step in enumerate(file.step, start=1):
        problem = _problem(step)
        if problem:
            raise UsageError(f"{path}: step {number} ({step.name}): {problem}.")
    return Plan(path.absolute().parent, file.step, file.condition, file.data_bytes)


def _complete(table: dict[str, Any]) -> str | None:
    """Add the defaults that a plan may leave out; return the fault of the step, or None."""
    given = [action for action in ACTIONS if action in table]
    if len(given) != 1 or "command" in table or "rest_s" in table:
        return f"it must have exactly one of {', '.join(ACTIONS)}"
    (action,) = given
    value = table[action]
    table.setdefault("name", Path(value).stem if action in ("fio", "trace") and isinstance(value, str) else _NAMES.get(action, action))
    table.setdefault("measured", action not in _PRECONDITIONING)
    return None


def _problem(step: Step) -> str | None:
    if not step.name.isprintable() or not 0 < len(step.name) <= 200:
        return "a name has 1 to 200 printable characters"
    if (step.duty is not None or step.duty_idle_max_s is not None) and step.fio is None:
        return "duty and duty_idle_max_s go with fio"
    if step.duty_idle_max_s is not None and step.duty is None:
        return "duty_idle_max_s goes with duty"
    if step.duty is not None and not 0 < step.duty <= 1:
        return f"duty = {step.duty:g} is not above 0 and at most 1"
    if (step.trace_idle_cut_s is not None or step.trace_iodepth is not None) and step.trace is None:
        return "trace_idle_cut_s and trace_iodepth go with trace"
    if step.trace_iodepth is not None and not 1 <= step.trace_iodepth <= 65535:
        return f"trace_iodepth = {step.trace_iodepth} is not between 1 and 65535"
    if not isinstance(step.apst, bool) or step.aspm not in ("off", "l1", "l1.2"):
        return "apst is true or false, aspm one of off, l1, l1.2"
    if step.ps is not None and not 0 <= step.ps <= 31:
        return f"ps = {step.ps} is not between 0 and 31"
    if step.sanitize is not None and step.sanitize not in _SANITIZE:
        return f"sanitize is one of {', '.join(_SANITIZE)}"
    if step.format is not None and not 0 <= step.format.ses <= 2:
        return "format.ses is 0, 1 (user data erase) or 2 (cryptographic erase)"
    if step.fill is not None:
        return _fill_problem(step.fill.span, step.fill.bs)
    for name, seconds in _times(step).items():
        if not 0 <= seconds <= _LONGEST_S:
            return f"{name} = {seconds:g} is not between 0 and {_LONGEST_S:g} s"
    if step.wake is not None and not 0 <= step.wake.slba < 1 << 54:
        return "wake.slba is no block of a drive"
    return None


def _fill_problem(span: float, bs: str) -> str | None:
    if not 0 < span <= 1:
        return f"fill.span = {span:g} is not above 0 and at most 1"
    try:
        whole = size_bytes(bs)
    except ValueError as error:
        return f"fill.bs: {error}"
    return None if 512 <= whole <= 1 << 30 else f"fill.bs = {bs} is not between 512 bytes and 1 GiB"


def _times(step: Step) -> Mapping[str, float]:
    found = {
        "idle_s": step.idle_s,
        "duty_idle_max_s": step.duty_idle_max_s,
        "trace_idle_cut_s": step.trace_idle_cut_s,
        "wake.idle_s": None if step.wake is None else step.wake.idle_s,
        "restart.off_s": None if step.restart is None else step.restart.off_s,
    }
    if step.settle is not None:
        found |= {"settle.window_s": step.settle.window_s, "settle.longest_s": step.settle.longest_s}
        found["settle.range_share"] = step.settle.range_share
    if step.temperature_c is not None and not math.isfinite(step.temperature_c):
        found["temperature_c"] = step.temperature_c
    return {name: value for name, value in found.items() if value is not None}
