"""Faults that cargo-mutants makes in the truth of the SSD model, for tools/mutants.py."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

AREA = "ssd-truth"
PACKAGE = "wattbell-ssd"
FILES = ("ssd/src/power/*.rs", "ssd/src/driver/truth.rs", "ssd/src/flash/*.rs", "ssd/src/io/media.rs", "ssd/src/pcie/port.rs")
"""Files, below ``sim`` as cargo-mutants names them, that make the joules, times and states behind all claims about energy."""
NOT_MADE = ("ssd/src/flash/tests.rs", "ssd/src/flash/tests/*.rs")
QUICK = (
    "export CARGO_PROFILE_RELEASE_OPT_LEVEL=2 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_INCREMENTAL=true"
    " CARGO_PROFILE_RELEASE_DEBUG=none"
)
"""A build of seconds, not of half a minute: most faults are found by tests that take less."""
BUILDS = f"{QUICK} && cd sim && cargo test --release --quiet --no-run -p {PACKAGE}"
"""Fails on a fault that is no Rust."""
TESTS = (
    f"{QUICK} && cd sim && cargo test --release --quiet -p {PACKAGE}",
    f"{QUICK} && cd sim && cargo build --release --quiet -p {PACKAGE} -p wattbell-bus --bins"
    " && cd .. && python -m pytest -qx -p no:cacheprovider tests/sim/ssd",
)
"""Quickest first: the tests of the crate, then those that run its programs."""
VERSION = "27.1.0"
OPERATOR = "cargo-mutants"


class Missing(Exception):
    """cargo-mutants is not installed."""


@dataclass(frozen=True)
class RustPlace:
    """A fault of cargo-mutants. ``text``: the whole file with the fault; ``what``: the line, and the tool's own words for the change."""

    file: str
    line: int
    occurrence: int
    what: str
    text: str
    key: str
    area: str = AREA
    operator: str = OPERATOR

    def draw(self, seed: int) -> bytes:
        """Random key: a sample with the same seed stays the same where the code does."""
        return hashlib.sha256(f"{seed} {self.file} {self.what} {self.occurrence}".encode()).digest()


def program() -> str:
    """Path of cargo-mutants. Raises Missing."""
    own = Path(__file__).parents[1] / "build/cargo-tools/bin/cargo-mutants"
    found = str(own) if own.exists() else shutil.which("cargo-mutants")
    if found is None:
        raise Missing(f"cargo-mutants is missing: cargo install cargo-mutants@{VERSION} --locked --root build/cargo-tools, or make mutants")
    return found


def rust_places(tree: Path, arrow: str) -> list[RustPlace]:
    """Every fault that cargo-mutants can make in FILES of ``tree``; ``arrow`` separates before and after in ``what``. Raises Missing."""
    chosen = [word for name in FILES for word in ("--file", name)] + [word for name in NOT_MADE for word in ("--exclude", name)]
    command = [program(), "mutants", "--list", "--json", "--package", PACKAGE, *chosen]
    done = subprocess.run(command, cwd=tree / "sim", capture_output=True, text=True, check=True, env={**os.environ, "MAKEFLAGS": ""})
    found: list[RustPlace] = []
    same: Counter[tuple[str, str]] = Counter()
    for entry in json.loads(done.stdout):
        file, line = f"sim/{entry['file']}", entry["span"]["start"]["line"]
        source = (tree / file).read_text(encoding="utf-8")
        what = f"{source.splitlines()[line - 1].strip()}{arrow}{entry['name'].partition(': ')[2]}"
        key = hashlib.sha256("\0".join((file, entry["name"], source)).encode()).hexdigest()[:16]
        found.append(RustPlace(file, line, same[file, what], what, replaced(source, entry["span"], entry["replacement"]), key))
        same[file, what] += 1
    return found


def replaced(source: str, span: dict[str, dict[str, int]], by: str) -> str:
    """``source`` with the text of a span replaced; lines and columns count from 1, and the end is not part of the span."""
    lines = source.splitlines(keepends=True)

    def at(place: dict[str, int]) -> int:
        return sum(len(line) for line in lines[: place["line"] - 1]) + place["column"] - 1

    return source[: at(span["start"])] + by + source[at(span["end"]) :]
