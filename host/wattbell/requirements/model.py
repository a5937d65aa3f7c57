"""The shape of a file of requirements."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ..measure.judge import Side

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Words = Annotated[str, Meta(max_length=2000)]
Positive = Annotated[float, Meta(gt=0, lt=1e12)]
Severity = Literal["mandatory", "recommended", "informative"]
States = Literal["any", "each", "operational", "non-operational"]
FAILS: tuple[Severity, ...] = ("mandatory", "recommended")
"""Severities that count for the exit code."""


class Requirement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A requirement. Either ``measurand`` and ``limit`` are given, or ``not_measured`` says why no rig can judge it.

    id : as the source numbers it; unique in its file.
    clause : place in the source.
    revision : of the source; empty: the file's.
    text : in our own words.
    measurand : a name of :data:`.measurands.MEASURANDS`.
    limit : a number, or an expression of declared fields, parameters and other figures (:mod:`.expression`).
    unit : of the limit.
    side : whether the figure must be at most or at least the limit.
    slack : a part of the figure that the limit does not cover, in ``unit``.
    guard : width of the guard band in units of U.
    applies : an expression; the requirement does not apply where it is 0 or not declared.
    states : power states that are judged one by one; ``any`` judges all time together.
    window_s : length of the window of a moving mean.
    threshold_s : latency from which a command counts, for measurands that count.
    sampling_s : longest interval between samples.
    duration_s : least time of observation that confirms the requirement; any time refutes it.
    exempt : opcodes that do not count, by name.
    conditions : conditions of the measurement, in words, such as the preconditioning.
    """

    id: Name
    clause: Words
    text: Annotated[str, Meta(min_length=1, max_length=2000)]
    title: Words = ""
    revision: Words = ""
    measurand: str = ""
    not_measured: Words = ""
    limit: float | Words | None = None
    unit: Annotated[str, Meta(max_length=16)] = ""
    side: Side = "at most"
    slack: Annotated[float, Meta(ge=0, lt=1e12)] = 0.0
    guard: Annotated[float, Meta(ge=0, le=10)] = 1.0
    applies: Words = ""
    states: States = "any"
    window_s: Positive | None = None
    threshold_s: Positive | None = None
    sampling_s: Positive | None = None
    duration_s: Positive | None = None
    exempt: tuple[str, ...] = ()
    conditions: tuple[Words, ...] = ()
    severity: Severity = "mandatory"


class RequirementFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of requirements of one source.

    name : by which ``--requirements`` selects a set of the package; the prefix of its rows.
    source : the document, with its revision.
    parameters : numbers that expressions may use as ``parameter.NAME``.
    """

    name: Name
    title: Words
    source: Words
    requirement: Annotated[tuple[Requirement, ...], Meta(min_length=1, max_length=2000)]
    revision: Words = ""
    parameters: dict[str, float] = {}
