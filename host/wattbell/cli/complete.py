"""Shell completion for values that Typer does not know: suites, tests, drive models, captures.

A shell calls the program at each press of the key. So nothing here imports heavy packages, and only the requested values are read. Names
that a shell would have to quote are left out. If nothing fits, the shell offers its own names of files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import typer

Offers = list[tuple[str, str]]
"""Each value with a few words on its meaning, which some shells show. Typer leaves out values that do not begin with the typed text."""
_CAPTURE, _RESULTS = "meta.json", "results.json"
"""The file that makes a folder a capture, and the one that makes it a suite's results."""
_DEPTH, _MOST_FOLDERS = 4, 1000
"""How far below the folder that was typed, and at how many folders, is looked: a suite's captures are ``RUNS/OUT/captures/NAME``."""
_PLAIN = re.compile(r"[\w@%+=:,./~-]+")
_WORK = (".toml", ".fio", ".iolog")


def suites(incomplete: str) -> Offers:
    """The suites of the package."""
    from ..suites.listing import suite_names, title

    return [(name, title(name)) for name in suite_names() if name.startswith(incomplete)]


def work(incomplete: str) -> Offers:
    """Return completions for ``wattbell run``: suites, and files of work by the ends of their names."""
    folder, start = os.path.split(incomplete)
    try:
        names = sorted(os.listdir(os.path.expanduser(folder) or "."))
    except OSError:
        names = []
    files = [os.path.join(folder, name) for name in names if name.startswith(start) and name.endswith(_WORK)]
    return suites(incomplete) + [(file, "file of work") for file in files if _PLAIN.fullmatch(file)]


def profiles(incomplete: str) -> Offers:
    """The drives that have a model."""
    from ..virtual.simulator import profile_files

    return [(file.stem, "drive model") for file in profile_files() if file.stem.startswith(incomplete)]


def tests(ctx: typer.Context, incomplete: str) -> Offers:
    """Tests of the suite that stands on the command line, each once; several are separated by commas."""
    from ..suites.listing import test_names

    suite = ctx.params.get("what")
    before, comma, start = incomplete.rpartition(",")
    given = set(before.split(","))
    known = test_names(suite) if suite else {}
    return [(f"{before}{comma}{test}", name) for test, name in known.items() if test.startswith(start) and test not in given]


def traces(incomplete: str) -> Offers:
    """Return the names of traces with known statistics."""
    from ..suites.traces.composition import COMPOSITIONS

    return [(name, "statistics of this trace") for name in COMPOSITIONS if name.startswith(incomplete)]


def requirement_sets(incomplete: str) -> Offers:
    """Return the package's sets of requirements; several are separated by commas."""
    from ..requirements.files import load, set_names

    before, comma, start = incomplete.rpartition(",")
    given = set(before.split(","))
    return [(f"{before}{comma}{name}", load(name).title) for name in set_names() if name.startswith(start) and name not in given]


def captures(incomplete: str) -> Offers:
    """Folders that hold a capture."""
    return [(path, "capture") for path, _ in _folders(incomplete, (_CAPTURE,))]


def results(incomplete: str) -> Offers:
    """Folders that hold a suite's results."""
    return [(path, "suite's results") for path, _ in _folders(incomplete, (_RESULTS,))]


def captures_and_results(incomplete: str) -> Offers:
    """Folders that hold one or the other."""
    about = {_CAPTURE: "capture", _RESULTS: "suite's results"}
    return [(path, about[mark]) for path, mark in _folders(incomplete, tuple(about))]


def _folders(incomplete: str, marks: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Folders that begin as typed and hold a file of that name, with the name; the nearest first, and none inside a capture."""
    above, start = os.path.split(incomplete)
    level, looked = [above], 0
    for depth in range(_DEPTH):
        below = []
        for folder in level:
            for name in _below(folder, start if depth == 0 else ""):
                looked += 1
                if looked > _MOST_FOLDERS:
                    return
                path = os.path.join(folder, name)
                found = next((mark for mark in marks if os.path.isfile(os.path.join(os.path.expanduser(path), mark))), None)
                if found is not None and _PLAIN.fullmatch(path):
                    yield path, found
                if found != _CAPTURE:
                    below.append(path)
        level = below


def _below(folder: str, start: str) -> list[str]:
    """Names of the folders in one that begin in this way; a hidden one only where its dot was typed."""
    try:
        with os.scandir(os.path.expanduser(folder) or ".") as entries:
            names = [entry.name for entry in entries if entry.name.startswith(start) and entry.is_dir()]
    except OSError:
        return []
    return sorted(name for name in names if start or not name.startswith("."))
