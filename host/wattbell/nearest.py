"""The known name that somebody who mistyped one most likely meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


def nearest(given: str, known: Iterable[str]) -> str | None:
    """The one of ``known`` that is most like ``given``, whatever the case and the dashes before it: the only one that begins with it, or
    else the one that has most of its letters. None where none is near."""
    by_letters = {_letters(name): name for name in known}
    meant = _letters(given)
    begun = [letters for letters in by_letters if meant and letters.startswith(meant)]
    found = begun if len(begun) == 1 else difflib.get_close_matches(meant, by_letters, 1)
    return by_letters[found[0]] if found else None


def _letters(name: str) -> str:
    return name.lstrip("-").casefold()


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """`` Did you mean NAME?``, to stand behind a sentence; empty where no known name is near."""
    name = nearest(given, known)
    return "" if name is None else f" Did you mean {name}?"


def did_you_mean_folder(given: Path, *marks: str) -> str:
    """The same for a folder that is not there: the one beside it that holds a file of one of these names and is called most like it."""
    try:
        beside = [folder.name for folder in given.parent.iterdir() if any((folder / mark).is_file() for mark in marks)]
    except OSError:
        return ""
    name = nearest(given.name, beside)
    return "" if name is None else f" Did you mean {given.with_name(name)}?"
