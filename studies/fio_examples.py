"""How many of fio's own example jobs the drive model runs.

python studies/fio_examples.py FOLDER      FOLDER: fio's `examples`; without it, the folder of Debian's package

Counts the files that name a modelled engine, or no engine. They run unchanged, run with --as-direct, or are refused, each with the
reason.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGED = Path("/usr/share/doc/fio/examples")
PROGRAM = Path(__file__).resolve().parents[1] / "sim/target/release/wattbell-ssd"
ASKED_FOR = {"FIO_BS": "4k", "FIO_IODEPTH": "8", "FIO_RW": "randread"}
"""Variables that the heads of some example files ask the user to set."""
_OTHER_ENGINE = re.compile(r"engine `[^`]*` is not modelled")
_ENGINE = re.compile(r"^\s*ioengine\s*=\s*([^\s;#]+)", re.MULTILINE)


@dataclass(frozen=True)
class Count:
    """Names of files."""

    files: tuple[str, ...]
    """All of the folder."""
    named: frozenset[str]
    """Those that name an engine that is modelled."""
    unnamed: frozenset[str]
    """Those that name no engine."""
    as_they_are: frozenset[str]
    as_direct: frozenset[str]
    refused: Mapping[str, str]
    """Why, of the named and the unnamed."""


def count(folder: Path) -> Count:
    """Asks the model about every job file of a folder."""
    files = sorted(folder.glob("*.fio"))
    engines = {path: _engines(path) for path in files}
    modelled = _modelled(set().union(*engines.values()))
    named = frozenset(path.name for path in files if engines[path] & modelled)
    unnamed = frozenset(path.name for path in files if not engines[path])
    mine = [path for path in files if path.name in named | unnamed]
    said = {path.name: _check(path, "--as-direct") for path in mine}
    return Count(
        tuple(path.name for path in files),
        named,
        unnamed,
        frozenset(path.name for path in mine if _check(path) is None),
        frozenset(name for name, words in said.items() if words is None),
        {name: words for name, words in said.items() if words is not None},
    )


def _engines(path: Path) -> set[str]:
    return set(_ENGINE.findall(path.read_text(encoding="utf-8", errors="replace")))


def _modelled(engines: Iterable[str]) -> set[str]:
    """Those that the model itself takes."""
    return {engine for engine in engines if not _OTHER_ENGINE.search(_check_text(f"[a]\nioengine={engine}\n") or "")}


def _check_text(text: str) -> str | None:
    return _check(Path("/dev/stdin"), text=text)


def _check(path: Path, *options: str, text: str = "") -> str | None:
    """Return the model's objection to a file; None without one."""
    command = [str(PROGRAM), "check", *options, str(path)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, env={**os.environ, **ASKED_FOR})
    return None if done.returncode == 0 else done.stderr.strip()


def main() -> int:
    """See the head of this file."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGED
    if not list(folder.glob("*.fio")):
        print(f"error: {folder} has no job files: give fio's folder `examples`", file=sys.stderr)
        return 1
    found = count(folder)
    for name, words in found.refused.items():
        print(f"{name}: {words}")
    print(f"{len(found.files)} files.")
    for which, words in ((found.named, "name a modelled engine"), (found.unnamed, "name no engine")):
        runs, direct = len(which & found.as_they_are), len(which & found.as_direct)
        print(f"{len(which)} {words}: {runs} run as they are, {direct} with --as-direct.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
