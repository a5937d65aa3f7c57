"""``python -m board.production [FOLDER]``: makes every file for the board's maker from the committed drawing, into
build/board-files.

The files are not committed: they are megabytes that one command makes again. ``manufacture/files.tsv`` has a digest of each file's
content, without dates and the program's version. ``make board`` compares the files with these digests (``checks/production.py``).
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

from .bom import BUILDS, MANUFACTURE, NOT_BOUGHT
from .design import KICAD, design
from .kicadcli import KicadError, filled, kicad
from .layout.board import FILE
from .layout.frame import COPPER
from .netlist import Design
from .schematic.symbols import CHECKOUT
from .schematic.write import PROJECT

__all__ = ["FILES", "LAYERS", "OUT", "committed", "content", "digests", "keep", "make", "positions", "text_of"]

OUT = CHECKOUT / "build" / "board-files"
FILES = MANUFACTURE / "files.tsv"
LAYERS = (*COPPER, "F.Mask", "B.Mask", "F.Paste", "B.Paste", "F.SilkS", "B.SilkS", "Edge.Cuts")
IBOM = CHECKOUT / "requirements" / "ibom.txt"
COMPARED = (".gbr", ".gbrjob", ".drl", ".ipc", ".csv")
"""Kinds of file with the same content each time. Drawings, STEP and pages carry dates, and a renderer rounds differently."""
_CHANGES = re.compile(r"CreationDate|GenerationSoftware|\"(Vendor|Application|Version)\"|DRILL file \{|^G04 Created by KiCad")


def make(folder: Path, pictures: bool = True) -> dict[str, Path]:
    """Make all files in a folder, which is emptied first; return them by name.

    Without ``pictures`` there are no renders and no interactive lists, which take a minute. Raises KicadError.
    """
    shutil.rmtree(folder, ignore_errors=True)
    gerbers, drawings = folder / "gerbers", folder / "drawings"
    for one in (gerbers, drawings):
        one.mkdir(parents=True)
    board = filled(FILE)
    pcb = ["kicad-cli", "pcb"]
    kicad([*pcb, "export", "gerbers", "--no-protel-ext", "--subtract-soldermask", "-l", ",".join(LAYERS), "-o", f"{gerbers}/", board])
    kicad([*pcb, "export", "drill", "--excellon-separate-th", "--excellon-units", "mm", "-o", f"{gerbers}/", board])
    kicad([*pcb, "export", "ipcd356", "-o", folder / f"{PROJECT}.ipc", board])
    every = folder / "positions.csv"
    kicad([*pcb, "export", "pos", "--format", "csv", "--units", "mm", "--side", "both", "-o", every, board])
    for build in BUILDS:
        (folder / f"positions-{build}.csv").write_text(positions(every.read_text(), design(), build))
    every.unlink()
    shutil.copy(MANUFACTURE / "bom.csv", folder)
    for side, mirrored in (("F", []), ("B", ["-m"])):
        name = drawings / f"assembly-{'top' if side == 'F' else 'bottom'}.pdf"
        kicad([*pcb, "export", "pdf", "--mode-single", *mirrored, "--ev", "--ibt", "-l", f"{side}.Fab,Edge.Cuts", "-o", name, board])
    kicad([*pcb, "export", "pdf", "--mode-single", "--ibt", "-l", "Dwgs.User,Edge.Cuts", "-o", drawings / "fabrication.pdf", board])
    kicad(["kicad-cli", "sch", "export", "pdf", "-o", drawings / "schematic.pdf", KICAD / f"{PROJECT}.kicad_sch"])
    kicad([*pcb, "export", "step", "-f", "-o", folder / f"{PROJECT}.step", board])
    if pictures:
        for side in ("top", "bottom"):
            kicad([*pcb, "render", "--side", side, "-w", "1200", "-h", "1800", "-o", drawings / f"{side}.png", board])
        for build in BUILDS:
            _interactive_bom(board, folder, build)
    with zipfile.ZipFile(folder / "gerbers.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(gerbers.iterdir()):
            packed.write(path, path.name)
    return {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}


def _interactive_bom(board: Path, folder: Path, build: str) -> None:
    """Make a page that shows the place of each line of the bill of materials, with a third-party program in KiCad's own Python."""
    where = CHECKOUT / "build" / "kicad" / "ibom"
    if not where.is_dir():
        command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--require-hashes", "--no-deps"]
        done = subprocess.run([*command, "--target", str(where), "-r", str(IBOM)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise KicadError(f"pip could not install {IBOM}: {done.stderr.strip().splitlines()[-1:]}")
    command = ["python3", "-m", "InteractiveHtmlBom.generate_interactive_bom", "--no-browser", "--dest-dir", str(folder)]
    command += ["--name-format", f"interactive-bom-{build}", "--variant-field", "Builds", "--variants-whitelist", f"TP,{build}"]
    command += ["--extra-fields", "Builds,BOM", "--group-fields", "BOM", "--show-fields", "Value,Footprint,BOM", "--blacklist", "TP*"]
    kicad(["env", f"PYTHONPATH={where}", "INTERACTIVE_HTML_BOM_NO_DISPLAY=1", *command, board])


def positions(text: str, ours: Design, build: str) -> str:
    """Return KiCad's table of places, without parts that a build lacks and without copper-only parts."""
    rows = list(csv.reader(io.StringIO(text)))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(rows[0])
    for row in rows[1:]:
        part = ours.parts.get(row[0])
        if part is not None and build in part.builds and part.bom != NOT_BOUGHT:
            writer.writerow(row)
    return out.getvalue()


def text_of(path: Path) -> str:
    """Return a file's text without the parts that change from one run to the next."""
    return "\n".join(line for line in path.read_text().splitlines() if not _CHANGES.search(line)) + "\n"


def content(path: Path) -> str:
    """Return a digest of a file's content."""
    return hashlib.sha256(text_of(path).encode()).hexdigest()[:16]


def digests(made: Mapping[str, Path]) -> dict[str, str]:
    """Return the digests of files with comparable content."""
    return {name: content(path) for name, path in made.items() if path.suffix in COMPARED}


def committed() -> dict[str, str]:
    """Read ``manufacture/files.tsv``."""
    if not FILES.is_file():
        return {}
    return {row[0]: row[1] for row in (line.split("\t") for line in FILES.read_text().splitlines()[1:])}


def keep(made: Mapping[str, Path]) -> None:
    """Write ``manufacture/files.tsv``."""
    FILES.write_text("".join(["file\tdigest\n", *(f"{name}\t{digest}\n" for name, digest in digests(made).items())]))


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="board.production", description="Files for who makes the board.")
    parser.add_argument("folder", nargs="?", type=Path, default=OUT)
    folder = parser.parse_args().folder
    try:
        made = make(folder.resolve())
    except KicadError as error:
        print(f"board.production: error: {error}", file=sys.stderr)
        return 1
    for name, path in made.items():
        print(f"{path.stat().st_size:9d}  {name}")
    print(f"in {folder}. Never built: read hw/README.md before ordering")
    return 0


if __name__ == "__main__":
    sys.exit(main())
