"""The tracker's files know each other's constructors, and nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import wattbell_gateware.nvme as package
from wattbell_gateware.nvme.places import Place

FOLDER = Path(package.__file__).parent
TREES = {path.stem: ast.parse(path.read_text()) for path in FOLDER.glob("*.py")}
STATES = {
    name: {
        ast.literal_eval(argument) if isinstance(argument, ast.Constant) else argument.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "State"
        for argument in node.args
        if isinstance(argument, ast.Constant | ast.Attribute)
    }
    for name, tree in TREES.items()
}
"""File -> the states that are built there."""


def imports(tree: ast.Module) -> set[str]:
    """Modules of the same folder."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            found |= {node.module} if node.module else {alias.name for alias in node.names}
    return found


def rooms() -> dict[str, tuple[str, ast.ClassDef]]:
    """Class -> its file and definition."""
    return {
        node.name: (name, node)
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }


def given(definition: ast.ClassDef) -> dict[str, str]:
    """Arguments that its constructor is given by name: parameter -> class."""
    for node in definition.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            every = [*node.args.args, *node.args.kwonlyargs]
            return {each.arg: each.annotation.id for each in every if isinstance(each.annotation, ast.Name)}
    return {}


def test_no_file_imports_one_that_imports_it():
    known = {name: imports(tree) for name, tree in TREES.items()}
    finished: set[str] = set()
    while ready := {name for name in known.keys() - finished if not known[name] & known.keys() - finished}:
        finished |= ready
    assert not known.keys() - finished, "a circle, or files that import one"


@pytest.mark.parametrize("name", sorted(TREES))
def test_what_is_private_is_reached_by_nobody_else(name):
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            assert isinstance(node.value, ast.Name) and node.value.id == "self", f"{name}.py:{node.lineno}: {ast.unparse(node)}"


def test_a_file_of_states_is_given_what_it_uses_and_uses_what_it_is_given():
    classes = rooms()
    for of, (name, definition) in classes.items():
        if not any(isinstance(node, ast.FunctionDef) and node.name == "states" for node in definition.body):
            continue
        parameters = {parameter: type_ for parameter, type_ in given(definition).items() if type_ in classes}
        text = [ast.unparse(node) for node in definition.body if not (isinstance(node, ast.FunctionDef) and node.name == "__init__")]
        uses = {
            node.attr
            for part in text
            for node in ast.walk(ast.parse(part))
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
        }
        for parameter in parameters:
            plain = parameter.rstrip("_")
            assert {plain, f"_{plain}"} & uses, f"{name}: {of} is given {parameter} and does not use it"
        assert "Engine" not in given(definition).values(), f"{name}: {of} knows the engine, and by it everything"


def jumps(tree: ast.Module) -> list[tuple[str, int]]:
    """States that are gone to by a string: ``m.next = ".."``, and where a subroutine goes back to."""
    found: list[tuple[str, int]] = []
    for node in ast.walk(tree):
        texts: list[ast.expr] = []
        if isinstance(node, ast.Assign) and any(isinstance(target, ast.Attribute) and target.attr == "next" for target in node.targets):
            texts = [node.value]
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Name) and node.args[0].id == "m":
            texts = [*node.args[1:], *(keyword.value for keyword in node.keywords if keyword.arg in ("back", "entry"))]
        found += [
            (each.value, node.lineno)
            for each in texts
            if isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value.isupper()
        ]
    return found


@pytest.mark.parametrize("name", sorted(set(STATES) - {"store"}))
def test_a_string_names_a_state_of_its_own_file(name):
    for state, line in jumps(TREES[name]):
        assert state in STATES[name], f"{name}.py:{line}: {state} is a state of another file: see places"


def test_every_place_is_one_state_and_gone_to_from_another_file():
    built = [place for name, states in STATES.items() for place in states if place in Place.__members__]
    assert sorted(built) == sorted(Place.__members__)
    for place in Place.__members__:
        (home,) = (name for name, states in STATES.items() if place in states)
        used = {
            name
            for name, tree in TREES.items()
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and node.attr == place and isinstance(node.value, ast.Name) and node.value.id == "Place"
        }
        assert used - {home}, f"{place} is a state of {home} alone"
