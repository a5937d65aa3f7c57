"""Generator of the fields of a command for the page of ``wattbell view``."""

from __future__ import annotations

import json
from collections.abc import Iterable

from . import columns
from .files import HEAD

__all__ = ["PATH", "fields"]

PATH = "host/wattbell/view/page/fields.js"


def fields() -> str:
    """Return ``fields.js``."""
    instants = _array("INSTANTS", "Instants of a command in their order", ((i.name, i.title) for i in columns.INSTANTS))
    shown = _array("SHOWN", "Facts of a command that are shown if they are not 0", ((c.name, c.title) for c in columns.SHOWN))
    return f"{HEAD}\n{instants}\n{shown}\n{_titles()}"


def _titles() -> str:
    rows = "".join(f"  {column.name}: {json.dumps(column.title)},\n" for column in columns.FACTS)
    return f"/** Titles of the facts of a command, by their keys of the answer. */\nexport const TITLES = {{\n{rows}}};\n"


def _array(name: str, about: str, pairs: Iterable[tuple[str, str]]) -> str:
    rows = "".join(f"  {json.dumps(pair)},\n" for pair in pairs)
    return f"/** {about}: key of the answer, name. @type {{[string, string][]}} */\nexport const {name} = [\n{rows}];\n"
