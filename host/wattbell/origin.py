"""The origin of figures: a measured drive, or a drive model. Every page, chart, table and export states it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any


class Origin(StrEnum):
    """Origin of the figures of a capture or of a run. Its value is the word in CSV, Parquet and JSON."""

    VIRTUAL = "virtual"
    """A drive model, or the virtual rig."""
    MEASURED = "measured"
    """A drive, by a rig or another instrument."""
    UNKNOWN = "unknown"
    """The document does not say; older ones do not."""

    @property
    def mark(self) -> str:
        """Mark behind the name of a drive; empty for a measured one."""
        return {Origin.VIRTUAL: "model", Origin.UNKNOWN: "origin unknown"}.get(self, "")

    @property
    def words(self) -> str:
        """The same in words, for a caption or a comment."""
        return {
            Origin.VIRTUAL: "MODEL: computed on the virtual rig, not measured",
            Origin.MEASURED: "measured",
            Origin.UNKNOWN: "ORIGIN UNKNOWN: nothing says whether this was measured or computed by a model",
        }[self]

    @property
    def warning(self) -> str:
        """:attr:`words`; empty for a measured drive."""
        return "" if self is Origin.MEASURED else self.words

    @property
    def stated(self) -> bool | None:
        """The value of ``virtual`` in documents; None for unknown."""
        return None if self is Origin.UNKNOWN else self is Origin.VIRTUAL

    def marked(self, name: str) -> str:
        """``name`` with the mark behind it."""
        return f"{name} ({self.mark})" if self.mark else name


def origin_of(virtual: object) -> Origin:
    """The origin by the value of ``virtual`` in a document: anything but true and false is unknown."""
    return Origin.VIRTUAL if virtual is True else Origin.MEASURED if virtual is False else Origin.UNKNOWN


def stated_by(word: str) -> bool | None:
    """The value of ``virtual`` by a word in a file that Wattbell exported."""
    return Origin(word).stated if word in set(Origin) else None


def origin_of_capture(meta: Mapping[str, Any]) -> Origin:
    """The origin of a capture, by its ``meta.json``."""
    return origin_of((meta.get("conditions") or {}).get("virtual"))


def warning_of(origins: Iterable[Origin]) -> str:
    """One caption for figures of several origins; empty if all were measured."""
    found = set(origins)
    if len(found) < 2:
        return "".join(origin.warning for origin in found)
    parts = [text for origin, text in _SOME.items() if origin in found]
    return "; ".join(parts)


_SOME = {
    Origin.VIRTUAL: "MODEL: some of these drives are models on the virtual rig, not measured",
    Origin.UNKNOWN: "ORIGIN UNKNOWN: of some of these runs nothing says whether they were measured",
}
