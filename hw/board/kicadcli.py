"""Runs KiCad in its own root (tools/kicad.sh) and reads what it makes."""

from __future__ import annotations

import json
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

from .schematic.symbols import CHECKOUT, KICAD_SHARE

__all__ = ["KicadError", "erc", "kicad", "netlist", "there"]

WORK = CHECKOUT / "build" / "kicad" / "work"


class KicadError(RuntimeError):
    """KiCad could not do it; says what it said."""


def there() -> bool:
    """Whether KiCad's root has been made."""
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
    """What KiCad's electrical rules check has against a schematic: (severity, kind, where)."""
    report = _work(schematic) / "erc.json"
    kicad(["kicad-cli", "sch", "erc", "--severity-all", "--format", "json", "-o", report, schematic])
    found: list[tuple[str, str, str]] = []
    for page in json.loads(report.read_text())["sheets"]:
        for violation in page["violations"]:
            items = "; ".join(item["description"] for item in violation["items"])
            found.append((violation["severity"], violation["type"], f"{page['path']} {items}"))
    return found


def netlist(schematic: Path) -> dict[str, frozenset[tuple[str, str]]]:
    """Nets of a schematic as KiCad reads it: name (a local one without its sheet) -> (reference, pin). Pins on no net are left out.

    Raises KicadError for two nets of different sheets that have one local name.
    """
    exported = _work(schematic) / "netlist.xml"
    kicad(["kicad-cli", "sch", "export", "netlist", "--format", "kicadxml", "-o", exported, schematic])
    nets: dict[str, frozenset[tuple[str, str]]] = {}
    for net in ET.parse(exported).getroot().iter("net"):
        name = net.attrib["name"]
        if name.startswith("unconnected-"):
            continue
        name = name.rsplit("/", 1)[-1]
        if name in nets:
            raise KicadError(f"two nets are called {name}")
        nets[name] = frozenset((node.attrib["ref"], node.attrib["pin"]) for node in net.iter("node"))
    return nets


def _work(schematic: Path) -> Path:
    folder = WORK / schematic.stem / schematic.resolve().parent.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
