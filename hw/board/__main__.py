"""``python -m board [--quick] [--write]``: runs every check of the board and prints a table; exit code 1 if one fails."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from . import bringup, checks, production
from .bom import MANUFACTURE, manufacture_files
from .check import Check
from .design import KICAD, design, project_files
from .kicadcli import WORK, KicadError, drc, filled, there
from .netlist import DesignError
from .powertree import Tree, load
from .schematic.symbols import SymbolError


def run(quick: bool) -> Iterator[Check]:
    """Run every module's checks, in the order of their names."""
    for module in pkgutil.iter_modules(checks.__path__):
        found = importlib.import_module(f"{checks.__name__}.{module.name}")
        for name in ("quick",) if quick else ("quick", "slow"):
            if hasattr(found, name):
                yield from getattr(found, name)()


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="board", description="Checks of the board.")
    parser.add_argument("--quick", action="store_true", help="only what needs no KiCad")
    parser.add_argument(
        "--write", action="store_true", help="write KiCad's files, the bill of materials, the fab's files' digests anew first"
    )
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 140)
    try:
        if options.write:
            made = project_files()
            if there():
                from .layout.board import board_file, keep_places  # is slow, and needs KiCad's footprints

                made |= board_file()
                keep_places()
            else:
                print("board: no KiCad here, so the board's own file stays as it is (tools/kicad.sh true makes its root)", file=sys.stderr)
            for path, text in made.items():
                (KICAD / path).parent.mkdir(parents=True, exist_ok=True)
                (KICAD / path).write_text(text)
            bringup.PAGE.write_text(bringup.page(bringup.PAGE.read_text(), Tree(design(), load())))
            if there():
                from .layout.board import FILE
                from .layout.unrouted import keep

                keep(drc(filled(FILE)), len(design().nets))
            MANUFACTURE.mkdir(exist_ok=True)
            for path, text in manufacture_files(design()).items():
                (MANUFACTURE / path).write_text(text)
            if there():
                production.keep(production.make(WORK / "board-files", pictures=False))
        rows = list(run(options.quick))
    except (DesignError, SymbolError, KicadError) as error:
        print(f"board: error: {error}", file=sys.stderr)
        return 1
    table = Table(title="Board", title_justify="left")
    for column in ("check", "figure", "limit", ""):
        table.add_column(column)
    for row in rows:
        table.add_row(row.name, row.figure, row.limit, "pass" if row.passed else "[bold red]FAIL[/]")
    console.print(table)
    failed = [row for row in rows if not row.passed]
    for row in failed:
        console.print(f"{row.name}:", row.detail, markup=False)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
