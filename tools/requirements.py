"""Writes requirements/*.txt: the exact version of each package that pyproject.toml's ranges lead to, and the SHA-256 of its every file.

    python -m tools.requirements                 keeps the versions that still fit pyproject.toml and adds or drops the others
    python -m tools.requirements --upgrade       takes the newest versions

uv resolves for every platform and for every Python that pyproject.toml allows. It asks the index that pip is set up to use.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "requirements"
SOURCE_ONLY = ("mutablerecords", "sockjs-tornado", "yattag")
"""Packages that come as source alone. pip builds them with the setuptools of requirements/run.txt."""


@dataclass(frozen=True)
class Group:
    """The content of one file: the packages of some extras that the file below it lacks."""

    purpose: str
    below: str | None
    """Name of the group with packages that are installed as well."""
    extras: tuple[str, ...] = ()
    build: bool = False
    """Whether what builds the checkout is in it."""
    alone: str = ""
    """A package that is installed without its requirements, instead of extras."""
    apart: bool = False
    """Whether its own packages may have other versions than in the other files. Its packages then have an environment of their own."""


GROUPS = {
    "base": Group("what the wheel `wattbell` needs", None),
    "run": Group("what `make demo` needs, and what builds the checkout", "base", ("gateware", "rig"), build=True),
    "dev": Group("what the tests and `make lint` need", "run", ("dev",)),
    "board": Group("what `make bitstream` and `make kintex7` need", "dev", ("board",)),
    "mutants": Group("what `make mutants` needs", "dev", ("mutants",)),
    "javascript": Group("what `make lint` runs the checkers of JavaScript with", "dev", ("javascript",)),
    "requirements": Group("what `make requirements` needs", "dev", ("requirements",)),
    "litex": Group("what `make litex` needs", "dev", ("litex",)),
    "hw": Group("the extra hw", "base", ("hw",)),
    "cluster": Group("the extra cluster", "base", ("cluster",)),
    "openhtf": Group("the extra openhtf", "base", ("openhtf",), apart=True),
    "perfetto": Group("the extra perfetto", "base", ("perfetto",)),
    "ppk2": Group("the extra ppk2", "base", ("ppk2",)),
    "quarch": Group("the extra quarch", "base", ("quarch",)),
    "robot": Group("the extra robot", "base", ("robot",)),
    "scpi": Group("the extra scpi", "base", ("scpi",)),
    "ibom": Group(
        "what `make board-files` runs in KiCad's Python, which has the packages that this one needs",
        None,
        alone="InteractiveHtmlBom>=2.12,<3",
    ),
}


def entries(text: str) -> dict[str, str]:
    """Return the requirements of a file in pip's format, by name; each unchanged, with its marker and its hashes.

    Raises ValueError if a package has two versions, for two Pythons: a file here has one for all.
    """
    found: dict[str, str] = {}
    for one in re.finditer(r"^([A-Za-z0-9][\w.-]*)==(?:.*\\\n)*.*$", text, re.MULTILINE):
        if found.setdefault(one[1], one[0]) != one[0]:
            raise ValueError(f"{one[1]} has two versions: narrow its range in pyproject.toml")
    return found


def pin(entry: str) -> str:
    """Return name and version of an entry, such as ``numpy==2.4.6``."""
    return entry.split(maxsplit=1)[0]


def resolve(groups: Sequence[Group], before: dict[str, str], upgrade: bool = False) -> dict[str, str]:
    """Everything that these groups lead to. A version of `before` stays, unless `upgrade` is set or the ranges forbid it."""
    with tempfile.TemporaryDirectory() as work:
        out = Path(work) / "out.txt"
        out.write_text("".join(f"{one}\n" for one in before.values()))
        listed = Path(work) / "more.in"
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())
        alone = [group.alone for group in groups if group.alone]
        listed.write_text("\n".join(alone or (project["build-system"]["requires"] if any(group.build for group in groups) else [])))
        command = ["uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes", "--no-header"]
        command += ["--fork-strategy", "fewest"]  # one version for every Python, even if newer Pythons could have a newer one
        command += ["--no-annotate", "--no-emit-index-url", "--output-file", str(out), str(listed)]
        extras = dict.fromkeys(extra for group in groups for extra in group.extras)
        command += ["--no-deps"] if alone else ["pyproject.toml", *(f"--extra={extra}" for extra in extras)]
        command += ["--upgrade"] if upgrade else []
        subprocess.run(command, cwd=ROOT, env=environment(), check=True)
        return entries(out.read_text())


def environment() -> dict[str, str]:
    """Variables for uv, which does not read pip's."""
    kept = dict(os.environ)
    for ours, pips in (("SSL_CERT_FILE", "PIP_CERT"), ("UV_DEFAULT_INDEX", "PIP_INDEX_URL")):
        if pips in kept:
            kept.setdefault(ours, kept[pips])
    return kept


def chain(name: str) -> list[Group]:
    """The group and those below it, from the lowest."""
    below = GROUPS[name].below
    return [*(chain(below) if below else []), GROUPS[name]]


def render(name: str, own: dict[str, str]) -> str:
    """Text of a group's file."""
    group = GROUPS[name]
    lines = [f"# {group.purpose[0].upper()}{group.purpose[1:]}. Made by `make requirements`."]
    lines += [f"-r {group.below}.txt"] if group.below else []
    # The file below comes first: its `--only-binary :all:` would undo a `--no-binary`.
    lines += ["--require-hashes", "--only-binary :all:", *(f"--no-binary {one}" for one in SOURCE_ONLY if one in own)]
    return "\n".join([*lines, *(own[one] for one in sorted(own))]) + "\n"


def main() -> int:
    """Write all files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--upgrade", action="store_true", help="newest versions instead of those in the files")
    upgrade = parser.parse_args().upgrade
    apart = {name for name, group in GROUPS.items() if group.apart}
    files = {file.stem: entries(file.read_text()) for file in FOLDER.glob("*.txt")}
    before = {name: one for stem, listed in files.items() if stem not in apart for name, one in listed.items()}
    try:
        texts = {name: render(name, resolve([group], before, upgrade)) for name, group in GROUPS.items() if group.alone}
        chosen = resolve([group for group in GROUPS.values() if not group.alone and not group.apart], before, upgrade)
        for name in GROUPS.keys() - texts.keys():
            *below, group = chain(name)
            there = resolve(below, chosen) if below else {}
            wanted = {**chosen, **files.get(name, {}), **there} if group.apart else chosen
            found = resolve([*below, group], wanted)
            if moved := [one for one in there if pin(found[one]) != pin(there[one])]:
                raise ValueError(f"{name} needs another {moved[0]} than {group.below}.txt has")
            # a package that the file below has for some platforms only may be wanted on all
            own = {one: text for one, text in found.items() if one not in there or (group.apart and text != there[one])}
            texts[name] = render(name, own)
    except ValueError as error:
        print(f"requirements: error: {error}", file=sys.stderr)
        return 1
    except FileNotFoundError:
        print("requirements: error: uv is missing: run `make requirements`", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:  # uv has said why
        return error.returncode
    for name, text in texts.items():
        (FOLDER / f"{name}.txt").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
