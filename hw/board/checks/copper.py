"""The rail's copper: drop against M.2's allowance, current in contacts, warming."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..check import Check
from ..signal import copper
from ..signal.stackup import Stackup, load

__all__ = ["PARTS", "Rail", "drops", "quick", "rail"]

PARTS = ("host", "switched", "drive")
CURRENTS_A = (3.0, 4.0)


@dataclass(frozen=True)
class Rail:
    """Resistances in ohm from the host's contacts to the drive's, and what the current does at its narrowest."""

    copper: dict[str, float]
    contacts: float
    """Of the drive's socket, 3.3 V pins in parallel and ground pins in parallel."""
    parts: float
    """Load switch and shunt."""
    worst_pin: float
    """Largest share of the current in one pin, with good contacts."""
    hottest_k: float
    """At 3 A, IPC-2221."""

    @property
    def total(self) -> float:
        return sum(self.copper.values()) + self.contacts + self.parts


def rail(stack: Stackup, data: dict[str, Any]) -> Rail:
    """All three stretches."""
    figures = {key: f["value"] for key, f in data["figures"].items()}
    found = {part: copper.rail(stack, data, part) for part in PARTS}
    hottest = 0.0
    for solution in found.values():
        for key, shares in solution.row_current.items():
            layer = stack.layer(key.replace("_", "."))
            for share, width in zip(shares, solution.row_width[key]):
                if width > 0 and share > 0.01:
                    warm = copper.rise(CURRENTS_A[0] * min(share, 1.0), width * layer.thickness * 1e3, key.startswith("In"))
                    hottest = max(hottest, warm)
    contacts = figures["contact_ohm"] * (1 / len(copper.PINS) + 1 / figures["ground_pins"])
    return Rail(
        {part: s.resistance for part, s in found.items()},
        contacts,
        figures["load_switch_ohm"] + figures["shunt_ohm"],
        max(share for part in ("host", "drive") for share in copper.rail(stack, data, part, figures["contact_even_ohm"]).pad_shares),
        hottest,
    )


def quick() -> Iterator[Check]:
    """Needs no KiCad: the copper is what ``copper.toml`` intends."""
    data = copper.load()
    yield from drops(rail(load(), data), data)


def drops(found: Rail, data: dict[str, Any]) -> Iterator[Check]:
    """Rows of one rail."""
    figures = {key: f["value"] for key, f in data["figures"].items()}
    allowed = figures["allowance_v"]
    detail = ", ".join(f"{part} {ohm * 1e3:.2f} mohm" for part, ohm in found.copper.items())
    for current in CURRENTS_A:
        drop = current * found.total
        name = f"rail, drop at {current:.0f} A (intended copper)"
        yield Check(name, f"{drop * 1e3:.0f} mV", f"{allowed * 1e3:.0f} mV", drop < allowed, detail)
    each, most = CURRENTS_A[0] * found.worst_pin, figures["contact_a"]
    yield Check("rail, fullest contact at 3 A", f"{each:.2f} A", f"{most} A", each <= most, "contacts of 20 mohm")
    warm, limit = found.hottest_k, figures["rise_k"]
    yield Check("rail, warmest copper at 3 A", f"{warm:.1f} K", f"{limit:.0f} K", warm <= limit, "IPC-2221")
