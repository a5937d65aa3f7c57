"""A step of a plan, with the keys that plans have (docs/ssd-model.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class FormatNvm(msgspec.Struct, frozen=True, omit_defaults=True):
    """Format NVM. ``nsid``: None for the namespace under test; ``ses``: Secure Erase Settings."""

    nsid: int | None = None
    ses: int = 0


class Writing(msgspec.Struct, frozen=True):
    """Sequential writes in blocks of ``bs`` over a share ``span`` of the namespace."""

    span: float = 1.0
    bs: str = "128k"


class Wake(msgspec.Struct, frozen=True):
    """An idle time, then a read of 4 KiB. ``slba`` counts blocks of 512 bytes."""

    idle_s: float
    slba: int = 0


class Restart(msgspec.Struct, frozen=True, omit_defaults=True):
    """The drive is shut down and brought up again, then read once (4 KiB). ``off_s``: how long its rail is off meanwhile; None: it
    stays on, and PERST# alone resets the drive."""

    off_s: float | None = None


class Rest(msgspec.Struct, frozen=True):
    """When a rail is at rest: the means of its seconds differ by at most ``range_share`` of their mean over ``window_s``. The
    wait ends after ``longest_s``. Used on real drives only."""

    window_s: float = 10.0
    range_share: float = 0.05
    longest_s: float = 600.0


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A step of a plan: exactly one of ``format`` to ``command`` is given as its action; the other keys set the conditions.

    measured: false for preconditioning
    rest_s: with ``idle_s``, how long the drive is left alone behind the step's phase, where no marker ends the rest; in no file of a plan
    command: a program and its arguments, on real drives only and in no file of a plan. With a command, ``apst`` and ``aspm`` of None leave
        the drive and its link as they are.
    """

    name: str
    format: FormatNvm | None = None
    sanitize: str | None = None
    fill: Writing | None = None
    fio: str | None = None
    trace: str | None = None
    idle_s: float | None = None
    wake: Wake | None = None
    restart: Restart | None = None
    settle: Rest | None = None
    command: tuple[str, ...] | None = None
    trace_idle_cut_s: float | None = None
    trace_iodepth: int | None = None
    ps: int | None = None
    apst: bool | None = False
    aspm: str | None = "off"
    write_cache: bool | None = None
    temperature_c: float | None = None
    duty: float | None = None
    duty_idle_max_s: float | None = None
    measured: bool = True
    rest_s: float | None = None

    @property
    def table(self) -> Mapping[str, Any]:
        """The step as a table of TOML."""
        found: Mapping[str, Any] = msgspec.to_builtins(self)
        return found
