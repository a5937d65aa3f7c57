"""The table of parts (``parts.toml``)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from random import Random

__all__ = ["FOLDER", "AfePart", "PartFigure", "load"]

FOLDER = Path(__file__).parent
KINDS = ("typ", "max", "design", "assumed")
DRAWS = (None, "limit", "uniform", "sigma")


@dataclass(frozen=True)
class PartFigure:
    """One figure of a part. ``kind``, ``draw`` and ``source`` are explained at the top of ``parts.toml``."""

    value: float
    unit: str
    kind: str
    source: str
    draw: str | None = None

    def drawn(self, rng: Random) -> float:
        """The error of a random board in this figure; raises ValueError where the table does not say how it is spread."""
        if self.draw == "uniform":
            return rng.uniform(-self.value, self.value)
        if self.draw == "sigma":
            return rng.gauss(0.0, self.value)
        if self.draw == "limit":
            while abs(error := rng.gauss(0.0, self.value / 3)) > self.value:
                pass
            return error
        raise ValueError("this figure is not one that is drawn")

    @property
    def sigma(self) -> float:
        """Standard deviation of :meth:`drawn` (of "limit" without the effect of the cut, 0.3 %)."""
        shares = {"uniform": 3**-0.5, "sigma": 1.0, "limit": 1 / 3}
        if self.draw is None:
            raise ValueError("this figure is not one that is drawn")
        return self.value * shares[self.draw]


@dataclass(frozen=True)
class AfePart:
    """A part with the reason for it. Figures are attributes: ``part.noise`` is a value, ``part.figures["noise"]`` the whole figure."""

    part: str
    why: str
    figures: dict[str, PartFigure]

    def __getattr__(self, name: str) -> float:
        try:
            return self.__dict__["figures"][name].value
        except KeyError:
            raise AttributeError(name) from None


def load(path: Path = FOLDER / "parts.toml") -> tuple[dict[str, AfePart], dict[str, str]]:
    """Parts and sources by name. Raises ValueError for a figure of an unknown kind, draw or source."""
    with path.open("rb") as file:
        table = tomllib.load(file)
    sources = table.pop("sources")
    parts = {}
    for name, entry in table.items():
        figures = {key: PartFigure(**value) for key, value in entry.items() if key not in ("part", "why")}
        for key, figure in figures.items():
            if figure.kind not in KINDS or figure.draw not in DRAWS or figure.source not in sources:
                raise ValueError(f"{path.name}: {name}.{key}: {figure}")
        parts[name] = AfePart(entry["part"], entry["why"], figures)
    return parts, sources
