"""Material of the tests of adapters: requirement files, captures, and programs as their users call them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from wattbell.errors import SimError
from wattbell.virtual import simulator

from tests.host.conftest import Builder

MS, S = 1_000_000, 1_000_000_000

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples" / "adapters"
OPENHTF = ROOT / "build" / "openhtf" / "bin" / "python"
"""Python of the environment with OpenHTF (tools/setup-beside.sh)."""
PROFILE = "intel-660p-1tb"
RULE = "guard band w = U on both sides, k = 2 (ILAC-G8:09/2019, 4.2.3)"

REQUIREMENT = """
[[requirement]]
id = "{id}"
clause = "1"
text = "Power over {window} s."
measurand = "largest-mean-power"
window_s = {window}
limit = {limit}
unit = "W"
"""


LIMITS: dict[str, list[float | str]] = {
    "pass": [4.0],
    "marginal": [3.001],
    "near": [2.999],
    "fail": [4.0, 2.5],
    "unmeasured": [4.0, "parameter.cap"],
    "mixed": [4.0, 2.5, "parameter.cap"],
}
"""Limits of the requirements R-0, R-1, ... by file: a number of watts, or an expression."""


def material(folder: Path) -> Path:
    """Write a capture of 3 W throughout, a file of requirements for each of LIMITS, and one that never applies. Return the capture."""
    builder = Builder(folder / "capture")
    builder.levels.append((0, 3.0))
    builder.command(1 * MS, 1 * MS)
    builder.write(end=1 * S)
    for name, limits in LIMITS.items():
        requirement_file(folder / f"{name}.toml", *(requirement(f"R-{k}", limit) for k, limit in enumerate(limits)))
    requirement_file(folder / "none.toml", requirement("R-0", 4.0, 'applies = "0 > 1"\n'))
    return folder / "capture"


def built() -> bool:
    """Whether the virtual rig is there."""
    try:
        return all(simulator.find_program(name) for name in ("wattbell-rig", "wattbell-ssd"))
    except SimError:
        return False


def requirement(id: str, limit: float | str, more: str = "", window: float = 1e-4) -> str:
    """Text of a requirement on the largest mean power. ``limit``: in W, or an expression; ``more``: further lines."""
    text = f'"{limit}"' if isinstance(limit, str) else repr(limit)
    return REQUIREMENT.format(id=id, limit=text, window=repr(window)) + more


def requirement_file(path: Path, *requirements: str) -> Path:
    """Write a file of requirements whose name is that of the path."""
    path.write_text(f'name = "{path.stem}"\ntitle = "Ours"\nsource = "LAB-7"\n' + "".join(requirements))
    return path


def tightened(folder: Path) -> Path:
    """Return a copy of the examples whose limit of peak power is 1 W, which every drive exceeds."""
    copy = folder / "tight"
    shutil.copytree(EXAMPLES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    file = copy / "lab.toml"
    text = file.read_text()
    assert text.count("limit = 6\n") == 1
    file.write_text(text.replace("limit = 6\n", "limit = 1\n"))
    return copy


def called(folder: Path, *words: object, python: Path | str = sys.executable) -> subprocess.CompletedProcess[str]:
    """Run a program of Python in a folder, as a user does. ``words``: the arguments of ``python``."""
    return subprocess.run([str(python), *map(str, words)], cwd=folder, capture_output=True, text=True)
