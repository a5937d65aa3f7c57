"""Every package that pip fetches for this repository has a hash in requirements/, and pip is never called without them.

A separate parser reads the lists. Their required content comes from pyproject.toml and from the metadata of the installed packages.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
import tree_sitter
import tree_sitter_bash
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.requirements import entries

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "requirements"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
OURS = {"run": ["gateware", "rig"], "base": [], "ibom": []}
"""Extras of a list with another name than its extra."""
ALONE = "ibom"
"""List without the requirements of its package."""
APART = {"openhtf": {"tornado"}}
"""Lists whose packages have an environment of their own, and the packages that have another version there."""
NO_CALLS = {"tests/tools/test_requirements.py": "this file", "tests/host/test_extras.py": "reads what users are told"}
FETCHES = {"install", "download", "wheel"}


def logical_lines(file: Path) -> list[str]:
    return [line for line in file.read_text().replace("\\\n", " ").splitlines() if line and not line.startswith("#")]


def packages(file: Path) -> dict[str, str]:
    """Return the lines of packages by name, without the file below."""
    lines = [line for line in logical_lines(file) if not line.startswith("-")]
    return {canonicalize_name(re.split("==", line, maxsplit=1)[0]): line for line in lines}


def installed_by(file: Path) -> dict[str, Requirement]:
    """Return everything that `pip install -r` of this file installs here."""
    found: dict[str, Requirement] = {}
    for line in logical_lines(file):
        if below := re.fullmatch(r"-r (\S+)", line):
            found |= installed_by(file.parent / below[1])
        elif not line.startswith("-"):
            one = Requirement(line.partition("--hash")[0])
            if one.marker is None or one.marker.evaluate():
                found[canonicalize_name(one.name)] = one
    return found


LISTS = sorted(FOLDER.glob("*.txt"))


def test_there_is_a_list_for_every_extra() -> None:
    covered = {extra for file in LISTS for extra in OURS.get(file.stem, [file.stem])}
    assert covered == EXTRAS.keys()


@pytest.mark.parametrize("file", LISTS, ids=lambda file: file.stem)
def test_every_package_is_pinned_and_has_hashes(file: Path) -> None:
    lines = logical_lines(file)
    own = [line for line in lines if not line.startswith("-")]
    assert own and {"--require-hashes", "--only-binary :all:"} <= set(lines)
    for line in own:
        assert re.fullmatch(r"[a-z0-9.-]+==[\w.+!]+ *(;[^#]*?)?( +--hash=sha256:[0-9a-f]{64})+ *", line), line
    allowed = r"--require-hashes|--only-binary :all:|--no-binary [a-z-]+|-r [a-z]+\.txt"
    assert all(re.fullmatch(allowed, line) for line in lines if line.startswith("-"))
    assert "://" not in file.read_text()


def test_a_package_with_a_version_for_each_python_is_refused() -> None:
    """pip on the other Python would not find its version in the file."""
    one, other = "a==1 ; python_full_version < '3.12' \\\n    --hash=sha256:0\n", "a==2 \\\n    --hash=sha256:1\n"
    assert entries(one + "b==2\n").keys() == {"a", "b"}
    with pytest.raises(ValueError, match="^a has two versions"):
        entries(one + other)


def test_a_package_of_several_lists_is_the_same_in_each() -> None:
    seen: dict[str, str] = {}
    for file in LISTS:
        if file.stem not in APART:
            for name, line in packages(file).items():
                assert seen.setdefault(name, line) == line, f"{file}: {name}"
    assert len(seen) > 150


@pytest.mark.parametrize("stem", APART)
def test_a_list_apart_differs_where_it_must(stem: str) -> None:
    """pip takes the list together with the one below it: a package of both has one version."""
    others = {name: one for file in LISTS if file.stem not in APART for name, one in installed_by(file).items()}
    below, own = installed_by(FOLDER / "base.txt"), packages(FOLDER / f"{stem}.txt")
    pins = {name: Requirement(line.partition("--hash")[0]).specifier for name, line in own.items()}
    assert {name for name, pin in pins.items() if name in others and pin != others[name].specifier} == APART[stem]
    assert not APART[stem] & below.keys()


@pytest.mark.parametrize("file", [one for one in LISTS if one.stem != ALONE], ids=lambda file: file.stem)
def test_the_versions_are_in_the_ranges_of_pyproject(file: Path) -> None:
    asked = list(PROJECT["project"]["dependencies"])
    stem = file.stem
    while stem != "base":
        asked += [one for extra in OURS.get(stem, [stem]) for one in EXTRAS[extra] if not one.startswith("wattbell[")]
        if stem == "run":
            asked += PROJECT["build-system"]["requires"]
        (stem,) = re.findall(r"^-r (\w+)\.txt$", (FOLDER / f"{stem}.txt").read_text(), re.MULTILINE)
    there = installed_by(file)
    for one in map(Requirement, asked):
        (pin,) = there[canonicalize_name(one.name)].specifier
        assert one.specifier.contains(pin.version), f"{one} in {file}"


def test_what_is_installed_here_is_what_the_list_says_and_nothing_else_is_needed() -> None:
    """The reference is the packages' own metadata: their requirements, and these packages' requirements."""
    listed = installed_by(FOLDER / "dev.txt")
    todo = [(name, frozenset(one.extras)) for name, one in listed.items()]
    seen: set[tuple[str, frozenset[str]]] = set()
    while todo:
        name, extras = todo.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        assert name in listed, f"{name} is not in requirements/dev.txt"
        found = distribution(name)
        (pin,) = listed[name].specifier
        assert found.version == pin.version, name
        for one in map(Requirement, found.requires or []):
            if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                todo.append((canonicalize_name(one.name), frozenset(one.extras)))
    assert len(seen) > 120


# --- pip's calls -------------------------------------------------------------------------------------------------------


def safe(words: set[str]) -> bool:
    """Return whether pip checks its downloads, or downloads nothing."""
    return "--require-hashes" in words or {"--no-index", "--no-deps"} <= words


def shell_calls(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the calls of pip that fetch, and whether they are safe."""
    tree = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language())).parse(text.encode())
    todo = [tree.root_node]
    while todo:
        node = todo.pop()
        todo += node.children
        if node.type == "command":
            words = [(child.text or b"").decode() for child in node.children]
            if any(re.search(r"(^|/)pip3?$", word) for word in words) and FETCHES & set(words):
                yield " ".join(words), safe(set(words))
            assert not {"uv", "pipx", "easy_install"} & set(words), words


def python_calls(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the same for functions and classes with the word pip and a word for fetching among their texts."""
    for node in ast.parse(text).body:
        words = {one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)}
        if "pip" in words and FETCHES & words:
            yield getattr(node, "name", f"line {node.lineno}"), safe(words)


def calls(name: str) -> list[tuple[str, bool]]:
    text = (ROOT / name).read_text()
    if name.endswith(".py"):
        return list(python_calls(text))
    if name == "Makefile" or name.endswith("/Makefile"):
        text = "\n".join(line.lstrip("\t@-").replace("$(", "${").replace(")", "}") for line in text.splitlines() if line.startswith("\t"))
    return list(shell_calls(text))


def test_pip_is_never_called_without_hashes() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    read = [name for name in listed if name.endswith((".sh", ".py", "Makefile")) or name == ".ci/run"]
    found = {name: made for name in read if name not in NO_CALLS and (made := calls(name))}
    assert {
        "hw/board/production.py",
        "tools/install.sh",
        "tools/setup-beside.sh",
        "tools/setup.sh",
        "tools/try-wheels.sh",
        "tools/wheels.py",
        "tests/e2e/test_wheel.py",
    } <= found.keys()
    unsafe = {name: call for name, made in found.items() for call, good in made if not good}
    assert not unsafe, "use tools/install.sh, or give pip --require-hashes"


def test_the_search_finds_a_call_without_hashes() -> None:
    assert list(shell_calls("a && .venv/bin/pip install -q x || exit 1\npip freeze\n")) == [(".venv/bin/pip install -q x", False)]
    assert list(python_calls("def f():\n    run([python, '-m', 'pip', 'install', name])\n")) == [("f", False)]
    assert [good for _, good in shell_calls("timed x pip install --require-hashes -r y")] == [True]


# --- pip itself --------------------------------------------------------------------------------------------------------


def wheel(folder: Path, name: str, requires: str = "") -> str:
    """Write a wheel with an empty module; return its SHA-256."""
    path = folder / f"{name}-1-py3-none-any.whl"
    info = f"{name}-1.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", "")
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n" + (f"Requires-Dist: {requires}\n" if requires else "")
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def install(work: Path, lines: str) -> subprocess.CompletedProcess[str]:
    """Run tools/install.sh itself, in a tree with this list, beside an index of the wheels in `work`/index."""
    for folder in ("tools", "requirements", ".venv/bin"):
        (work / folder).mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "tools" / "install.sh", work / "tools")
    pip = work / ".venv" / "bin" / "pip"
    pip.write_text(f'#!/bin/sh\nexec {sys.executable} -m pip "$@"\n')
    pip.chmod(0o755)
    (work / "requirements" / "few.txt").write_text(lines)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    kept |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(work / "index"), "PIP_TARGET": str(work / "got"), "PIP_CONFIG_FILE": os.devnull}
    return subprocess.run([work / "tools" / "install.sh", "few"], env=kept, capture_output=True, text=True)


def test_a_file_with_another_hash_is_refused(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    right = wheel(tmp_path / "index", "first")
    wrong = ("0" if right[0] != "0" else "1") + right[1:]
    done = install(tmp_path, f"first==1 --hash=sha256:{wrong}\n")
    assert done.returncode != 0 and "DO NOT MATCH THE HASHES" in done.stderr and not (tmp_path / "got" / "first.py").exists()
    done = install(tmp_path, f"first==1 --hash=sha256:{wrong} --hash=sha256:{right}\n")
    assert done.returncode == 0 and (tmp_path / "got" / "first.py").exists(), done.stderr


@pytest.mark.parametrize("lines", ["first==1\n", "second==1 --hash=sha256:{second}\n"], ids=["a line", "a requirement of a package"])
def test_a_package_without_a_hash_is_refused(tmp_path: Path, lines: str) -> None:
    (tmp_path / "index").mkdir()
    wheel(tmp_path / "index", "first")
    done = install(tmp_path, lines.format(second=wheel(tmp_path / "index", "second", requires="first")))
    assert done.returncode != 0 and "--require-hashes" in done.stderr, done.stderr


def test_a_list_that_is_not_there(tmp_path: Path) -> None:
    done = subprocess.run([ROOT / "tools" / "install.sh", "nothing"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "install: error: there is no requirements/nothing.txt\n")
