"""Runs ngspice in batch mode on the decks of ``decks/``, with parameters from here."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from .parts import FOLDER

__all__ = ["SpiceError", "run"]

DECKS = FOLDER / "decks"
_FAILED = re.compile(r"^Error\b|checkvalid|no such vector|aborted", re.MULTILINE)
_PRINTED = re.compile(r"^(\w+) = ([-+]?\d\.\d+e[-+]\d+)\s*$", re.MULTILINE)


class SpiceError(Exception):
    """Reports that ngspice is missing, or failed on a deck. The message has its last lines."""


def run(
    deck: str, parameters: Mapping[str, float], body: str | None = None, circuit: str | None = None
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Run ``decks/<deck>.cir`` (or the text ``body``), which includes ``params.inc`` made from ``parameters``.

    ``circuit`` replaces ``frontend.lib``, with its subcircuits.

    Returns the values that the deck printed with ``print name``, and the tables that it wrote with ``wrdata <name>.txt``. There is
    one array for each file: a column for each vector, the scale of the first vector in column 0. Further scales are left out.
    """
    if shutil.which("ngspice") is None:
        raise SpiceError("ngspice is missing: apt-get install ngspice")
    with tempfile.TemporaryDirectory(prefix="wattbell-afe-") as name:
        folder = Path(name)
        for library in DECKS.glob("*.lib"):
            shutil.copy(library, folder)
        if circuit is not None:
            (folder / "frontend.lib").write_text(circuit)
        text = (DECKS / f"{deck}.cir").read_text() if body is None else body
        (folder / "deck.cir").write_text(text)
        lines = [f".param {key}={value!r}" for key, value in parameters.items()]
        (folder / "params.inc").write_text("\n".join([*lines, ""]))
        done = subprocess.run(["ngspice", "-b", "deck.cir"], cwd=folder, capture_output=True, text=True, timeout=600, check=False)
        said = done.stdout + done.stderr
        printed = {key: float(value) for key, value in _PRINTED.findall(done.stdout)}
        tables = {path.stem: _table(path) for path in folder.glob("*.txt")}
        if done.returncode != 0 or _FAILED.search(said) or not (printed or tables):
            raise SpiceError(f"{deck}: ngspice ended with status {done.returncode}:\n" + "\n".join(said.splitlines()[-25:]))
        return printed, tables


def _table(path: Path) -> np.ndarray:
    columns = np.loadtxt(path, ndmin=2)
    return np.column_stack([columns[:, 0], columns[:, 1::2]])
