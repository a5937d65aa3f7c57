"""The known name that somebody who mistyped one most likely meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


def nearest(given: str, known: Iterable[str]) -> str | None:
    """Return the one of ``known`` that is most like ``given``, ignoring case and leading dashes; None if none is near.

    It is the only one that begins with ``given``, or else the one that shares most of its letters.
    """
    by_letters = {_letters(name): name for name in known}
    meant = _letters(given)
    begun = [letters for letters in by_letters if meant and letters.startswith(meant)]
    found = begun if len(begun) == 1 else difflib.get_close_matches(meant, by_letters, 1)
    return by_letters[found[0]] if found else None


def _letters(name: str) -> str:
    return name.lstrip("-").casefold()


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """`` Did you mean NAME?``, to stand behind a sentence; empty if no known name is near."""
    name = nearest(given, known)
    return "" if name is None else f" Did you mean {name}?"


def did_you_mean_folder(given: Path, *marks: str) -> str:
    """Return a question that suggests a similar folder for a missing one; "" without one.

    The suggestion lies beside the missing folder, holds a file named as one of ``marks``, and has the most similar name.
    """
    try:
        beside = [folder.name for folder in given.parent.iterdir() if any((folder / mark).is_file() for mark in marks)]
    except OSError:
        return ""
    name = nearest(given.name, beside)
    return "" if name is None else f" Did you mean {given.with_name(name)}?"
