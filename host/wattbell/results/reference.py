"""The reference set: results of the suite `quick` on the modelled drives, shipped with the package (tools/reference.py makes them).

A page of one drive can thus show how it compares. They are models' figures, and say so in their names.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from ..origin import Origin
from .model import Run, parse

SOURCE = "reference set"
"""``source`` of its runs."""


@cache
def reference_set() -> tuple[Run, ...]:
    """All runs of the set."""
    text = (files("wattbell.results") / "reference" / "quick.json").read_text("utf-8")
    found = []
    for document in json.loads(text):
        found.append(parse(document, SOURCE, lambda _name: None, source=SOURCE))
    return tuple(found)


def references(runs: Sequence[Run]) -> list[Run]:
    """Those that measured the same as one of ``runs`` (same job files, same scale) on a model that is not among them."""
    wanted = {(run.suite, run.suite_hash, run.scale) for run in runs}
    there = {run.profile for run in runs if run.origin is Origin.VIRTUAL}
    return [run for run in reference_set() if (run.suite, run.suite_hash, run.scale) in wanted and run.profile not in there]
