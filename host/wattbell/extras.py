"""How the libraries of an extra come to this installation.

The package index has no ``wattbell`` of ours: whoever registers that name there would run code on our users' machines. So what is
installed is a file or a checkout, or the libraries by their own names; never the package by its bare name.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

_PACKAGE = "wattbell"


def install_command(extra: str) -> str:
    """Shell command that installs the libraries of an extra, such as ``pip install -e '/home/me/wattbell[ppk2]'``.

    It names the checkout or the wheel that this package was installed from; where that is not there any more, the libraries themselves
    with their version ranges. For ``pip`` in front, see :func:`_pip`.
    """
    try:
        installed = distribution(_PACKAGE)
    except PackageNotFoundError:  # run from its sources, as by PYTHONPATH
        return f"{_pip()} install -e {shlex.quote(f'{Path(__file__).resolve().parents[2]}[{extra}]')}"
    source = _source(installed)
    what = _libraries(installed, extra) if source is None else [f"{source[1]}[{extra}]"]
    return " ".join([_pip(), "install", *(["-e"] if source and source[0] else []), *map(shlex.quote, what)])


def _source(installed: Distribution) -> tuple[bool, Path] | None:
    """Whether it is editable, and the checkout or the wheel's file; None where it came over a network or is not there any more.

    Source: ``direct_url.json`` (PyPA, "Recording the Direct URL Origin of installed distributions").
    """
    try:
        origin = json.loads(installed.read_text("direct_url.json") or "{}")
        url = urlsplit(origin["url"])
        editable = bool(origin.get("dir_info", {}).get("editable"))
    except (ValueError, LookupError, AttributeError, TypeError):
        return None
    path = Path(unquote(url.path))
    if url.scheme != "file" or not (path.is_file() or (path / "pyproject.toml").is_file()):
        return None
    return editable, path


def _libraries(installed: Distribution, extra: str) -> list[str]:
    """Requirements of an extra by the package's metadata, such as ``ppk2-api<1,>=0.9.2``."""
    found = []
    for requirement in installed.requires or []:
        library, _, marker = requirement.partition(";")
        if re.search(rf"""extra == (["']){re.escape(extra)}\1""", marker):
            found.append(library.strip())
    return found


def _pip() -> str:
    """``pip`` where the shell finds that of this Python; else this Python's own, by its path."""
    found = shutil.which("pip")
    if found is not None and Path(found).parent == Path(sys.executable).parent:
        return "pip"
    return f"{shlex.quote(sys.executable)} -m pip"
