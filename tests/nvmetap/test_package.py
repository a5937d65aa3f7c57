"""The package stands alone: it imports the standard library, cocotb and itself, and its example is what it exports."""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path

import cocotbext.nvmetap
import pytest

ROOT = Path(__file__).parents[2] / "cocotbext"
PACKAGE = ROOT / "cocotbext" / "nvmetap"
ALLOWED = {*sys.stdlib_module_names, "cocotb", "cocotbext"}
OF_WATTBELL = {"capture.py"}
"""Modules that need Wattbell; nothing of the package imports them."""


def _imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*.py")), ids=lambda path: path.name)
def test_module_knows_nothing_of_this_repository(path: Path) -> None:
    own = {"numpy", "wattbell", "wattbell_spec"} if path.name in OF_WATTBELL else set()
    assert {name.partition(".")[0] for name in _imports(path)} <= ALLOWED | own
    assert not any(f"from .{Path(name).stem} import" in path.read_text() for name in OF_WATTBELL)


@pytest.mark.parametrize("name", ["command", "observer", "opcodes", "perfetto", "power", "rules", "tlp", "trace"])
def test_core_needs_no_cocotb(name: str) -> None:
    assert not any(found.startswith("cocotb") for found in _imports(PACKAGE / f"{name}.py"))


def test_everything_exported_is_there() -> None:
    assert all(hasattr(cocotbext.nvmetap, name) for name in cocotbext.nvmetap.__all__)
    assert (PACKAGE / "py.typed").is_file()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["dependencies"] == ["cocotb>=2.0,<3"]
