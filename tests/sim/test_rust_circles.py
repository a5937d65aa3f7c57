"""No cycle among the modules of a Rust crate: no module uses, even indirectly, a module that uses it.

A file is a module. It uses the modules that its `use` lines and other paths name. A name that another module only re-exports (`pub
use`) counts for the module it comes from. `mod child;` is no use: a folder's file may list children that add methods to its types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SIM = Path(__file__).parents[2] / "sim"
CRATES = sorted(path.parent.parent.name for path in SIM.glob("*/src/lib.rs"))
Module = tuple[str, ...]

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
TESTS = re.compile(r"#\[cfg\(test\)\]\s*(?:pub(?:\(\w+\))? )?mod (\w+)(;| \{.*)", re.S)
CHILD = re.compile(r"^(?:pub(?:\([^)]*\))? )?mod (\w+);", re.M)
USE = re.compile(r"^\s*(pub(?:\([^)]*\))? )?use ([^;]+);", re.M)
PATH = re.compile(r"\b(?:crate|super)(?:::\w+)+")


def leaves(tree: str) -> Iterator[str]:
    """Yield the paths of a use tree: ``a::{b, c::d as e}`` gives ``a::b`` and ``a::c::d``."""
    head, brace, rest = tree.partition("{")
    if not brace:
        yield re.sub(r"\s+as \w+", "", tree).strip()
        return
    depth, item = 0, ""
    for sign in rest[: rest.rindex("}")] + ",":
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            if item.strip():
                yield from (head.strip() + leaf for leaf in leaves(item.strip()))
            item = ""
        else:
            item += sign


def modules(source: Path) -> dict[Module, str]:
    """Return the modules below `source` without their tests: the text of each, comments removed."""
    found: dict[Module, str] = {}
    tests: set[Module] = set()
    for path in sorted(source.rglob("*.rs")):
        parts = path.relative_to(source).with_suffix("").parts
        if parts[0] in ("main", "bin"):
            continue
        name = () if parts == ("lib",) else parts[:-1] if parts[-1] == "mod" else parts
        text = COMMENT.sub("", path.read_text(encoding="utf-8"))
        tests |= {(*name, match[1]) for match in TESTS.finditer(text) if match[2] == ";"}
        found[name] = TESTS.sub(lambda match: "", text)
    return {name: text for name, text in found.items() if not any(name[: len(test)] == test for test in tests)}


def paths(name: Module, text: str) -> Iterator[tuple[Module, bool]]:
    """Yield the paths that a module names, from the crate's root, and whether it only re-exports the name."""
    children = set(CHILD.findall(text))

    def absolute(path: str) -> Module | None:
        first, *rest = path.replace("self::", "", 1).split("::")
        if first == "crate":
            return tuple(rest)
        if first == "super":
            ups = 1 + next((i for i, part in enumerate(rest) if part != "super"), len(rest))
            return (*name[: len(name) - ups], *rest[ups - 1 :])
        return (*name, first, *rest) if first in children else None

    for public, tree in USE.findall(text):
        for leaf in leaves(tree):
            if target := absolute(leaf.removesuffix("::self")):
                yield target, bool(public)
    for path in PATH.findall(USE.sub("", text)):
        if target := absolute(path):
            yield target, False
    for child in children:
        if re.search(rf"(?<![:\w]){child}::", USE.sub("", text)):
            yield (*name, child), False


def uses(texts: dict[Module, str]) -> dict[Module, set[Module]]:
    """Return the modules that each module uses."""
    named = {name: list(paths(name, text)) for name, text in texts.items()}
    passed = {(*name, path[-1]): path for name, found in named.items() for path, public in found if public and path not in texts}

    def owner(path: Module) -> Module:
        while path in passed and passed[path] != path:
            path = passed[path]
        while path not in texts:
            path = path[:-1]
        return path

    return {name: {owner(path) for path, public in found if not public} - {name, ()} for name, found in named.items()}


def circle(graph: dict[Module, set[Module]]) -> list[str]:
    """Return a cycle, if there is one: the modules along it, with the first one again at the end."""
    done: set[Module] = set()

    def visit(name: Module, way: list[Module]) -> list[Module]:
        if name in way:
            return [*way[way.index(name) :], name]
        if name in done:
            return []
        found = next((found for used in sorted(graph[name]) if (found := visit(used, [*way, name]))), [])
        done.add(name)
        return found

    found = next((found for name in sorted(graph) if (found := visit(name, []))), [])
    return ["::".join(name) for name in found]


def rooms(graph: dict[Module, set[Module]]) -> dict[Module, set[Module]]:
    """Return the same for the crate's top modules, each including everything in it."""
    whole: dict[Module, set[Module]] = {name[:1]: set() for name in graph}
    for name, used in graph.items():
        whole[name[:1]] |= {other[:1] for other in used} - {name[:1]}
    return whole


@pytest.mark.parametrize("crate", CRATES)
def test_no_circle_among_modules(crate: str) -> None:
    graph = uses(modules(SIM / crate / "src"))
    assert not (found := circle(rooms(graph))), f"rooms: {' -> '.join(found)}"
    assert not (found := circle(graph)), " -> ".join(found)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"lib": "mod a;\nmod b;\n", "a": "use crate::b::B;", "b": "use crate::a;"}, ["a", "b", "a"]),
        ({"a": "fn f() { crate::b::f() }", "b": "use super::{c::{self, C}, d};", "c": "use crate::a::*;", "d": ""}, ["a", "b", "c", "a"]),
        ({"a": "use crate::b::X;", "b": "pub use crate::c::X;\n", "c": "use crate::a::A;"}, ["a", "c", "a"]),
        ({"a/mod": "mod b;\nuse b::B;", "a/b": "use super::A;"}, ["a", "a::b", "a"]),
        ({"a/mod": "pub mod b;\npub use b::B;", "a/b": "use super::A;"}, []),
        ({"a": "use crate::b;", "b": "// crate::a\n#[cfg(test)]\nmod tests {\n use crate::a;\n}"}, []),
        ({"a/mod": "mod x;", "a/x": "use crate::b::B;", "b/mod": "mod y;", "b/y": "use crate::a::A;"}, ["a", "b", "a"]),
    ],
)
def test_circles_are_found(files: dict[str, str], expected: list[str], tmp_path: Path) -> None:
    for name, text in {"lib": "", **files}.items():
        path = tmp_path / f"{name}.rs"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    graph = uses(modules(tmp_path))
    assert (circle(rooms(graph)) or circle(graph)) == expected
