"""What a test gives: points and scores, made of figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from .figure import Figure

F = TypeVar("F", bound=Figure, covariant=True)


@dataclass(frozen=True)
class Point(Generic[F]):
    """One step of a test: ``x`` is what was varied (``qd``, ``write_share``, ``t_s``, ``gb``...), ``point[name]`` a figure of it.
    ``bytes``, ``active_s``: the data and the time that several points are pooled by; None where they do not matter."""

    x: Mapping[str, float | str]
    figures: Mapping[str, F]
    bytes: int | None = None
    active_s: float | None = None

    def __getitem__(self, name: str) -> F:
        return self.figures[name]


@dataclass(frozen=True)
class Score(Generic[F]):
    """One score of a test. ``reading`` says which of several readings of an average this is; None where there is one."""

    name: str
    unit: str
    value: F
    reading: str | None = None
