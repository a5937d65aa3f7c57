"""Results of a test: points and scores, made of figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from .figure import Figure

F = TypeVar("F", bound=Figure, covariant=True)


@dataclass(frozen=True)
class Point(Generic[F]):
    """One step of a test.

    x: the varied quantities (``qd``, ``write_share``, ``t_s``, ``gb``...)
    figures: by name, also as ``point[name]``
    bytes, active_s: data and time by which several points are pooled; None if they do not matter
    """

    x: Mapping[str, float | str]
    figures: Mapping[str, F]
    bytes: int | None = None
    active_s: float | None = None

    def __getitem__(self, name: str) -> F:
        return self.figures[name]


@dataclass(frozen=True)
class Score(Generic[F]):
    """One score of a test. ``reading`` says which of several readings of an average this is; None if there is one."""

    name: str
    unit: str
    value: F
    reading: str | None = None
