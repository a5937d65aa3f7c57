"""Table of parts (``parts.toml``)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from random import Random

__all__ = ["FOLDER", "Figure", "Part", "load"]

FOLDER = Path(__file__).parent
KINDS = ("typ", "max", "design", "assumed")
DRAWS = (None, "limit", "uniform", "sigma")


@dataclass(frozen=True)
class Figure:
    """One figure of a part. The top of ``parts.toml`` explains ``kind``, ``draw`` and ``source``."""

    value: float
    unit: str
    kind: str
    source: str
    draw: str | None = None

    def drawn(self, rng: Random) -> float:
        """Return a random board's error in this figure. Raises ValueError if the table gives no spread."""
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
        """Standard deviation of :meth:`drawn`; for "limit" without the effect of the cut, 0.3 %."""
        shares = {"uniform": 3**-0.5, "sigma": 1.0, "limit": 1 / 3}
        if self.draw is None:
            raise ValueError("this figure is not one that is drawn")
        return self.value * shares[self.draw]


@dataclass(frozen=True)
class Part:
    """A part with the reason for it. Figures are attributes: ``part.noise`` is a value, ``part.figures["noise"]`` the whole figure."""

    part: str
    why: str
    figures: dict[str, Figure]

    def __getattr__(self, name: str) -> float:
        try:
            return self.__dict__["figures"][name].value
        except KeyError:
            raise AttributeError(name) from None


def load(path: Path = FOLDER / "parts.toml") -> tuple[dict[str, Part], dict[str, str]]:
    """Return parts and sources by name. Raises ValueError for a figure of an unknown kind, draw or source."""
    with path.open("rb") as file:
        table = tomllib.load(file)
    sources = table.pop("sources")
    parts = {}
    for name, entry in table.items():
        figures = {key: Figure(**value) for key, value in entry.items() if key not in ("part", "why")}
        for key, figure in figures.items():
            if figure.kind not in KINDS or figure.draw not in DRAWS or figure.source not in sources:
                raise ValueError(f"{path.name}: {name}.{key}: {figure}")
        parts[name] = Part(entry["part"], entry["why"], figures)
    return parts, sources
