"""The version of the analysis' JSON: a key that goes away or changes its meaning takes a new one (docs/methodology.md, "The JSON").

``schema-3.txt`` lists the keys of that version and the words of its verdicts. When a key is added, add its line there. When one goes away,
or words change, raise ``SCHEMA_VERSION``, say in methodology.md what changed, and write the list of the new version.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from pathlib import Path

from wattbell.analysis import SCHEMA_VERSION, result
from wattbell.measure.judge import Verdict

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs/methodology.md"


def described(kind: type) -> Iterator[tuple[str, str]]:
    """(type, key) of a TypedDict and of those that it holds."""
    seen, todo = set(), [kind]
    while todo:
        found = todo.pop()
        if isinstance(found, type) and typing.is_typeddict(found) and found not in seen:
            seen.add(found)
            hints = typing.get_type_hints(found)
            yield from ((found.__name__, key) for key in hints)
            todo += hints.values()
        todo += [part for part in typing.get_args(found) if not isinstance(part, str)]


def lines() -> list[str]:
    keys = {f"{name}.{key}" for name, key in described(result.Analysis)}
    return sorted(keys) + [f"verdict: {word}" for word in typing.get_args(Verdict)]


def test_keys_and_words_are_those_of_the_version() -> None:
    kept = (HERE / f"schema-{SCHEMA_VERSION}.txt").read_text().splitlines()
    assert lines() == kept
    assert len(kept) > 150 and "Judged.verdict" in kept


def test_the_page_names_the_version_and_what_it_changed() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert int(re.search(r"`schema\.version` is (\d+)", page)[1]) == SCHEMA_VERSION  # type: ignore[index]
    assert re.search(rf"\*\*{SCHEMA_VERSION}\*\*: ", page)
