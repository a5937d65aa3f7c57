"""Runs KiCad in its own root (tools/kicad.sh) and reads its output."""

from __future__ import annotations

import json
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .netlist import Part
from .schematic.symbols import CHECKOUT, KICAD_SHARE

__all__ = ["WORK", "DrcReport", "KicadError", "components", "drc", "erc", "filled", "kicad", "netlist", "there"]

WORK = CHECKOUT / "build" / "kicad" / "work"


class KicadError(RuntimeError):
    """Reports that KiCad failed; the message has its output."""


def there() -> bool:
    """Return whether KiCad's root has been made."""
    return KICAD_SHARE.is_dir()


def kicad(arguments: Sequence[str | Path], cwd: Path | None = None) -> str:
    """Run a command in KiCad's root and return what it printed. Raises KicadError."""
    done = subprocess.run(
        [str(CHECKOUT / "tools" / "kicad.sh"), *map(str, arguments)], cwd=cwd or CHECKOUT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-10:])
        raise KicadError(f"{' '.join(map(str, arguments[:4]))} ended with {done.returncode}:\n{tail}")
    return done.stdout


def erc(schematic: Path) -> list[tuple[str, str, str]]:
    """Return KiCad's electrical rule violations of a schematic: (severity, kind, where)."""
    report = _work(schematic) / "erc.json"
    kicad(["kicad-cli", "sch", "erc", "--severity-all", "--format", "json", "-o", report, schematic])
    found: list[tuple[str, str, str]] = []
    for page in json.loads(report.read_text())["sheets"]:
        for violation in page["violations"]:
            items = "; ".join(item["description"] for item in violation["items"])
            found.append((violation["severity"], violation["type"], f"{page['path']} {items}"))
    return found


@dataclass(frozen=True)
class DrcReport:
    """KiCad's design rule violations of a board: (severity, kind, where)."""

    violations: list[tuple[str, str, str]]
    unconnected: list[tuple[str, str, str]]
    parity: list[tuple[str, str, str]]


def filled(board: Path) -> Path:
    """Copy a board's whole project below build/ and fill the planes; return the board's path. Raises KicadError."""
    folder = _work(board) / "filled"
    shutil.copytree(board.parent, folder)
    copy = folder / board.name
    kicad(["python3", Path(__file__).with_name("layout") / "fill.py", board, copy])
    return copy


def drc(board: Path) -> DrcReport:
    """Check design rules, missing connections, and the board against the schematic beside it.

    The board has to be a copy with filled planes (``filled``), because planes join the pads they touch. Raises KicadError, also if
    the schematic is missing.
    """
    if not board.with_suffix(".kicad_sch").is_file():
        raise KicadError(f"{board.with_suffix('.kicad_sch')} is not there: KiCad would compare the board with nothing and say nothing")
    report = board.parent / "drc.json"
    kicad(["kicad-cli", "pcb", "drc", "--schematic-parity", "--severity-all", "--format", "json", "-o", report, board])
    found = json.loads(report.read_text())

    def lines(key: str) -> list[tuple[str, str, str]]:
        made = []
        for entry in found[key]:
            items = "; ".join(item["description"] for item in entry["items"])
            made.append((entry["severity"], entry["type"], f"{entry['description']} {items}"))
        return made

    return DrcReport(lines("violations"), lines("unconnected_items"), lines("schematic_parity"))


def netlist(schematic: Path) -> dict[str, frozenset[tuple[str, str]]]:
    """Return the nets of a schematic as KiCad reads it: name (a local name without its sheet) -> (reference, pin).

    Pins on no net are left out. Raises KicadError for two nets of different sheets with one local name.
    """
    nets: dict[str, frozenset[tuple[str, str]]] = {}
    for net in _exported(schematic).iter("net"):
        name = net.attrib["name"]
        if name.startswith("unconnected-"):
            continue
        name = name.rsplit("/", 1)[-1]
        if name in nets:
            raise KicadError(f"two nets are called {name}")
        nets[name] = frozenset((node.attrib["ref"], node.attrib["pin"]) for node in net.iter("node"))
    return nets


def components(schematic: Path) -> dict[str, Part]:
    """Return the parts of a schematic as KiCad reads it, by reference: symbol, value, footprint, sheet, notes, and each pin's net."""
    root = _exported(schematic)
    pins: dict[str, dict[str, str]] = {}
    for net in root.iter("net"):
        name = net.attrib["name"]
        for node in net.iter("node"):
            pins.setdefault(node.attrib["ref"], {})[node.attrib["pin"]] = "" if name.startswith("unconnected-") else name.rsplit("/", 1)[-1]
    found: dict[str, Part] = {}
    for component in root.iter("comp"):
        ref, source = component.attrib["ref"], component.find("libsource")
        assert source is not None
        fields = {field.attrib["name"]: field.text or "" for field in component.iter("field")}
        sheet = next((p.attrib["value"] for p in component.iter("property") if p.attrib["name"] == "Sheetname"), "")
        found[ref] = Part(
            ref,
            f"{source.attrib['lib']}:{source.attrib['part']}",
            fields["Footprint"],
            component.findtext("value") or "",
            fields["BOM"],
            sheet,
            pins.get(ref, {}),
            fields["Builds"].replace("none", ""),
            fields["Description"],
        )
    return found


def _exported(schematic: Path) -> ET.Element:
    """Return KiCad's own netlist of a schematic."""
    exported = _work(schematic) / "netlist.xml"
    kicad(["kicad-cli", "sch", "export", "netlist", "--format", "kicadxml", "-o", exported, schematic])
    return ET.parse(exported).getroot()


def _work(schematic: Path) -> Path:
    folder = WORK / schematic.stem / schematic.resolve().parent.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
