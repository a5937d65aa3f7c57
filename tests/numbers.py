"""Numbers without an uncertainty: found in documents and tables, and as docs/accuracy.md lists them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from wattbell.present.table import Table

PAGE = Path(__file__).parents[1] / "docs/accuracy.md"
KEYS, COLUMNS = "### In JSON", "### In tables"
_FIGURE = {"value", "u"}


def without_u(document: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of numbers that have no uncertainty beside them. Lists add nothing to a path.

    A score has its name as its key. Beside: ``u`` of a figure; the same key in ``u`` or ``interval`` of the mapping that holds the number.
    """
    if isinstance(document, Mapping):
        if document.keys() >= _FIGURE:
            if document["value"] is not None and document["u"] is None:
                yield path
            rest = {key: value for key, value in document.items() if key not in (*_FIGURE, "n_lost")}
            yield from without_u(rest, path)
            return
        score = document.keys() >= {"reading", "name"}
        path = (*path, str(document["name"])) if score else path
        beside = [document[name] for name in ("u", "interval") if isinstance(document.get(name), Mapping)]
        for key, value in document.items():
            if not any(one is value or one.get(key) is not None for one in beside):
                yield from without_u(value, path if score else (*path, str(key)))
    elif isinstance(document, list | tuple):
        for value in document:
            yield from without_u(value, path)
    elif isinstance(document, int | float) and not isinstance(document, bool):
        yield path


def unmarked(tables: Iterable[tuple[str, Table]]) -> Iterator[tuple[str, str]]:
    """(table, heading) of columns with a number that is printed without its uncertainty: ``1.23(4)`` has one."""
    for name, table in tables:
        for row in table.rows:
            for column, entry in zip(table.columns, row, strict=True):
                text = entry if isinstance(entry, str) else entry.text
                if column.numeric and re.search(r"\d", text) and not re.search(r"\d\(\d", text):
                    yield name, " ".join(column.heading.split())


def listed(heading: str) -> list[tuple[str, list[str]]]:
    """The rows of the page's table below a heading: the first cell, and the text in backquotes of the second."""
    part = PAGE.read_text(encoding="utf-8").split(f"\n{heading}\n", 1)[1].split("\n#", 1)[0]
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")][1:]
    return [(row[0].strip("` "), re.findall(r"`([^`]+)`", row[1])) for row in rows]


def patterns() -> list[str]:
    """Names of keys in JSON."""
    return [pattern for _, found in listed(KEYS) for pattern in found]


def matches(path: tuple[str, ...], pattern: str) -> bool:
    """``a.b`` is the end of a path; a last ``*`` is all below; another is one key."""
    parts = pattern.split(".")
    if parts[-1] == "*":
        head = parts[:-1]
        return any(_same(path[i : i + len(head)], head) for i in range(len(path) - len(head)))
    return _same(path[-len(parts) :], parts)


def _same(path: tuple[str, ...], parts: list[str]) -> bool:
    return len(path) == len(parts) and all(fnmatchcase(key, part) for key, part in zip(path, parts, strict=True))
