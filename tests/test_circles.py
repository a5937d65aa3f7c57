"""No Python module imports itself by way of others. Grimp, the library behind import-linter, reads the imports."""

from __future__ import annotations

import sys
from pathlib import Path

import grimp
import pytest

LAZY = "wattbell"
"""`import wattbell` gives the API's names when they are asked for; the package itself imports nothing."""


def circles(package: str) -> list[str]:
    """Return each import that leads back to its importer, as a chain of modules."""
    graph = grimp.build_graph(package, exclude_type_checking_imports=True, cache_dir=None)
    if package == LAZY:
        for imported in graph.find_modules_directly_imported_by(LAZY):
            graph.remove_import(importer=LAZY, imported=imported)
    found = []
    for importer in sorted(graph.modules):
        for imported in sorted(graph.find_modules_directly_imported_by(importer)):
            back = graph.find_shortest_chain(importer=imported, imported=importer)
            if back:
                found.append(" -> ".join((importer, *back)))
    return found


@pytest.mark.parametrize("package", ["board", "afe", "wattbell_spec", "wattbell_gateware", "wattbell", "studies", "tools"])
def test_no_module_imports_itself_by_way_of_others(package: str) -> None:
    assert circles(package) == []


def test_a_circle_inside_a_function_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "ring"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "first.py").write_text("from .second import two\n")
    (folder / "second.py").write_text("def two():\n    from .first import one\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert circles("ring") == ["ring.first -> ring.second -> ring.first", "ring.second -> ring.first -> ring.second"]
