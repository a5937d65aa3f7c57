"""The known name that somebody who mistyped one most likely meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(given: str, known: Iterable[str]) -> str | None:
    """The one of ``known`` that is most like ``given``, whatever the case and the dashes before it; None where none is near."""
    by_letters = {_letters(name): name for name in known}
    found = difflib.get_close_matches(_letters(given), by_letters, 1)
    return by_letters[found[0]] if found else None


def _letters(name: str) -> str:
    return name.lstrip("-").casefold()


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """`` Did you mean NAME?``, to stand behind a sentence; empty where no known name is near."""
    name = nearest(given, known)
    return "" if name is None else f" Did you mean {name}?"
