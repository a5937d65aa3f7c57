"""What the tracker's files know of each other: no circle of imports, and how many names of the engine they reach, which is not to grow."""

from __future__ import annotations

import ast
from pathlib import Path

import wattbell_gateware.nvme as package

FOLDER = Path(package.__file__).parent
STATES = ("admin", "completions", "control", "emit", "fetch", "heads", "insert", "interrupts", "pages", "queues")
"""Files whose functions get the engine as ``e``."""
REACHED = 111
"""Names of the engine that these files use, at most: its tables, ports and methods are among them."""


def trees() -> dict[str, ast.Module]:
    return {path.stem: ast.parse(path.read_text()) for path in FOLDER.glob("*.py")}


def imports(tree: ast.Module) -> set[str]:
    """Modules of the same folder."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            found |= {node.module} if node.module else {alias.name for alias in node.names}
    return found


def names_of(tree: ast.Module, holder: str) -> set[str]:
    """Attributes of `holder` that are used or set."""
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return {node.attr for node in nodes if isinstance(node.value, ast.Name) and node.value.id == holder}


def set_by(tree: ast.Module, holder: str) -> set[str]:
    """Those that are set."""
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    return {node.attr for node in nodes if isinstance(node.value, ast.Name) and node.value.id == holder}


def test_no_file_imports_one_that_imports_it():
    known = {name: imports(tree) for name, tree in trees().items()}
    finished: set[str] = set()
    while ready := {name for name in known.keys() - finished if not known[name] & known.keys() - finished}:
        finished |= ready
    assert not known.keys() - finished, "a circle, or files that import one"


def test_what_files_reach_of_the_engine_does_not_grow():
    files = trees()
    uses = {name: names_of(files[name], "e") for name in STATES}
    reached = sorted(set().union(*uses.values()))
    assert len(reached) <= REACHED, f"{len(reached)}: {', '.join(reached)}"
    uses["engine"] = names_of(files["engine"], "self")
    for name in STATES:
        alone = sorted(each for each in set_by(files[name], "e") if [by for by in uses if each in uses[by]] == [name])
        assert not alone, f"{name}: {', '.join(alone)} belong into its Registers"


def test_registers_of_a_file_are_taken_by_nobody_else():
    for name, tree in trees().items():
        taken = [
            node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and "Registers" in {alias.name for alias in node.names}
        ]
        through = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "Registers"]
        assert not taken + through, name
