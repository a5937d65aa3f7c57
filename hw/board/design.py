"""All sheets, the design they make, and the files that KiCad opens."""

from __future__ import annotations

import importlib
import json
import pkgutil
from functools import cache
from pathlib import Path

from . import sheets as sheet_modules
from .layout import rules
from .library.footprints import footprint_files
from .library.symbols import library_text
from .netlist import Design
from .schematic.sheet import Point, Sheet
from .schematic.write import PROJECT, files, net_names

__all__ = ["KICAD", "TITLE", "design", "project_files", "sheets"]

KICAD = Path(__file__).parent / "kicad"
"""Folder of the files that ``python -m board --write`` makes."""
TITLE = "Wattbell M.2 interposer"
NOTES = ("Python is the source (hw/board). Never built: see hw/README.md",)


def sheets() -> list[Sheet]:
    """Return every sheet by its number: each module of ``sheets`` has one."""
    made = [importlib.import_module(f"{sheet_modules.__name__}.{m.name}").sheet() for m in pkgutil.iter_modules(sheet_modules.__path__)]
    return sorted(made, key=lambda page: page.number)


@cache
def design() -> Design:
    """Return parts and nets of all sheets. Raises DesignError if they contradict each other."""
    pages = sheets()
    netclasses = {net: name for page in pages for net, name in page.netclasses.items()}
    return Design.of((part for page in pages for part in page.parts()), netclasses)


def _blocks(pages: list[Sheet]) -> dict[str, tuple[Point, Point]]:
    """Return the places of the sheets on the first page, in rows of four."""
    return {page.name: ((12 + 34 * (n % 4), 22 + 20 * (n // 4)), (26, 11)) for n, page in enumerate(pages)}


def project_files() -> dict[Path, str]:
    """Return every generated file of ``kicad/`` by its path there, except the board."""
    pages = sheets()
    made = files(pages, TITLE, _blocks(pages), NOTES, [(NOTES[0], (12, 14), 2.0)])
    made[Path("lib/wattbell.kicad_sym")] = library_text()
    made |= footprint_files()
    made[Path(f"{PROJECT}.kicad_pro")] = _project(pages)
    made[Path(f"{PROJECT}.kicad_dru")] = rules.dru()
    return made


def _project(pages: list[Sheet]) -> str:
    """Return the project file: rules of the schematic's check and of the board's check, net classes."""
    schematic = {"lib_symbol_mismatch": "ignore"}
    project = {
        "meta": {"filename": f"{PROJECT}.kicad_pro", "version": 3},
        "board": rules.board_settings(),
        "erc": {"rule_severities": schematic},
        "net_settings": rules.net_settings(design(), net_names(pages)),
    }
    return json.dumps(project, indent=2) + "\n"
