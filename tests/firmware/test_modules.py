"""Includes in firmware/src have no circle; a module is its .c and its .h."""

from __future__ import annotations

import re
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "firmware" / "src"


def modules(folder: Path) -> dict[str, set[str]]:
    """Module -> the modules it includes, as paths without suffixes."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in folder.rglob("*.[ch]"):
        module = str(file.relative_to(folder).with_suffix(""))
        for name in re.findall(r'^#include "(.+)\.h"', file.read_text(), re.M):
            near = (file.parent / name).relative_to(folder)
            other = str(near if (folder / near).with_suffix(".h").exists() else Path(name))
            if (folder / f"{other}.h").exists() and other != module:  # registers.h is generated
                found[module].add(other)
    return found


def test_no_modules_include_each_other_in_a_circle() -> None:
    graph = modules(SOURCES)
    assert len(graph) > 20, "the sources are there"
    TopologicalSorter(graph).prepare()


def test_a_circle_is_found_through_sources_and_headers(tmp_path: Path) -> None:
    (tmp_path / "scpi").mkdir()
    includes = {"meter.h": "", "meter.c": "scpi/a.h", "scpi/a.h": "b.h", "scpi/b.h": "", "scpi/b.c": "meter.h"}
    for name, included in includes.items():
        (tmp_path / name).write_text(f'#include "{included}"\n' if included else "")
    with pytest.raises(CycleError):
        TopologicalSorter(modules(tmp_path)).prepare()
