"""Commands that install the libraries of an extra.

The package index has no ``wattbell`` of ours: anybody who registers that name there would run code on our users' machines. So the commands
install a file or a checkout, or the libraries by their own names; never the package by its bare name.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path
from urllib.parse import unquote, urlsplit

_PACKAGE = "wattbell"


def install_command(extra: str) -> str:
    """Return a shell command that installs the libraries of an extra, such as ``pip install -r /home/me/wattbell/requirements/ppk2.txt``.

    In a checkout that has a list of the extra's packages with their hashes, the command installs this list. Otherwise the command names the
    checkout or the wheel that this package was installed from. If that is gone, it names the libraries themselves with their version
    ranges. For ``pip`` in front, see :func:`_pip`.
    """
    records = list(distributions(name=_PACKAGE))
    for record in records:  # in a checkout its egg-info stands before the record of the installation
        if (source := _source(record)) is not None:
            path, options = source
            return _of_checkout(path, options, extra)
    if not records:  # run from its sources, as by PYTHONPATH
        return _of_checkout(Path(__file__).resolve().parents[2], ["-e"], extra)
    return " ".join([_pip(), "install", *map(shlex.quote, _libraries(records[0], extra))])


def _of_checkout(path: Path, options: list[str], extra: str) -> str:
    """Command for a checkout's folder, or for a wheel's file, which has no lists."""
    hashed = path / "requirements" / f"{extra}.txt"
    if hashed.is_file():
        return f"{_pip()} install -r {shlex.quote(str(hashed))}"  # the list itself asks for hashes
    return " ".join([_pip(), "install", *options, shlex.quote(f"{path}[{extra}]")])


def _source(record: Distribution) -> tuple[Path, list[str]] | None:
    """Return the source that pip was given, and pip's options for it (``-e`` if editable); None if it came over a network or is gone.

    The source is a checkout's folder or a wheel's file, from ``direct_url.json`` (PyPA, "Recording the Direct URL Origin of installed
    distributions").
    """
    try:
        origin = json.loads(record.read_text("direct_url.json") or "{}")
        url = urlsplit(origin["url"])
        editable = bool(origin.get("dir_info", {}).get("editable"))
    except (ValueError, LookupError, AttributeError, TypeError):
        return None
    path = Path(unquote(url.path))
    if url.scheme != "file" or not (path.is_file() or (path / "pyproject.toml").is_file()):
        return None
    return path, ["-e"] if editable else []


def _libraries(record: Distribution, extra: str) -> list[str]:
    """Requirements of an extra by the package's metadata, such as ``ppk2-api<1,>=0.9.2``."""
    found = []
    for requirement in record.requires or []:
        library, _, marker = requirement.partition(";")
        if re.search(rf"""extra == (["']){re.escape(extra)}\1""", marker):
            found.append(library.strip())
    return found


def _pip() -> str:
    """Return ``pip`` if the shell finds this Python's pip; else this Python's own, by its path."""
    found = shutil.which("pip")
    if found is not None and Path(found).parent == Path(sys.executable).parent:
        return "pip"
    return f"{shlex.quote(sys.executable)} -m pip"
