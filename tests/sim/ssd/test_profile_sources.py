"""Figures that a profile cites from our own pages exist there, with equal values."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/methodology.md").read_text()
PROFILES = sorted(path for path in (ROOT / "sim/profiles").glob("*.toml") if "methodology.md" in path.read_text())
DRIVES = {
    "crucial-p1-1tb": "Crucial P1 1TB",
    "phison-e12-ref": "Phison E12 reference",
    "samsung-960": "Samsung 960",
    "samsung-970-evo-plus": "Samsung 970 EVO Plus",
    "samsung-980-pro": "Samsung 980 PRO",
    "sm2262en-ref-2tb": "SM2262EN reference",
    "toshiba-rc100": "Toshiba RC100",
    "toshiba-xg6": "Toshiba XG6",
    "wd-sn550": "WD SN550",
    "wd-sn750": "WD SN750",
}
CITED = re.compile("(declared|measured): methodology.md, (.*)")


def entries(value: Any) -> list[dict[str, Any]]:
    """Return every figure of a profile with its source."""
    if isinstance(value, dict):
        return [value] if "source" in value else [e for item in value.values() for e in entries(item)]
    return [e for item in value for e in entries(item)] if isinstance(value, list) else []


def published(drive: str) -> list[tuple[float, float, float]]:
    """Return (W, entry in ms, exit in ms) of its states, 0 without a given time."""
    (row,) = re.findall(rf"^\| {re.escape(drive)} \| (\S+) \|(.*)\|$", PAGE, re.MULTILINE)
    states = [(float(watt), 0.0, 0.0) for watt in row[0].split("/")]
    states += [(float(mw) / 1e3, float(entry), float(leave)) for mw, entry, leave in re.findall(r"([\d.]+) \(([\d.]+)/([\d.]+)\)", row[1])]
    return states


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_what_is_cited_is_there(path: Path) -> None:
    for entry in entries(tomllib.loads(path.read_text())):
        cited = CITED.match(entry["source"])
        if cited and cited[2] != "power state table":
            assert cited[2] in PAGE, entry


@pytest.mark.parametrize("name", DRIVES)
def test_declared_power_states_are_those_of_the_table(name: str) -> None:
    states = tomllib.loads((ROOT / f"sim/profiles/{name}.toml").read_text())["power_state"]
    table = published(DRIVES[name])
    assert len(states) == len(table)
    for state, (watt, entry_ms, exit_ms) in zip(states, table, strict=True):
        for key, value in (("max_w", watt), ("entry_us", entry_ms * 1e3), ("exit_us", exit_ms * 1e3)):
            if "methodology.md" in state[key]["source"]:
                assert state[key]["value"] == pytest.approx(value), (key, state)


def test_every_profile_that_cites_the_table_is_held_to_it() -> None:
    assert {path.stem for path in PROFILES if "power state table" in path.read_text()} == set(DRIVES)
