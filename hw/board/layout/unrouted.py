"""Connections without a track: the committed number by net, and the paragraph of hw/README.md about them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from ..kicadcli import DrcReport

__all__ = ["OPEN", "README", "by_net", "committed", "keep", "paragraph", "with_paragraph"]

OPEN = Path(__file__).with_name("unrouted.tsv")
README = Path(__file__).parents[2] / "README.md"
_BLOCK = re.compile(r"(<!-- generated: python -m board --write -->\n).*?(\n<!-- end of generated -->)", re.DOTALL)


def by_net(report: DrcReport) -> Counter[str]:
    """Return the number of KiCad's missing connections by its name of the net."""
    return Counter(where.partition("[")[2].partition("]")[0] for _, _, where in report.unconnected)


def committed() -> dict[str, int]:
    """Read the committed numbers."""
    if not OPEN.is_file():
        return {}
    return {net: int(count) for net, count in (line.split("\t") for line in OPEN.read_text().splitlines()[1:])}


def paragraph(nets: Mapping[str, int], count: int) -> str:
    """Return the README's paragraph. ``count``: nets of the design."""
    if not nets:
        return f"**All connections of the board's {count} nets are routed.**"
    named = ", ".join(
        f"`{net.rsplit('/', 1)[-1]}` {nets[net]}" for net in sorted(nets, key=lambda net: (-nets[net], net.rsplit("/", 1)[-1]))
    )
    return f"**{sum(nets.values())} connections in {len(nets)} of the board's {count} nets are not routed**: {named}."


def with_paragraph(text: str, said: str) -> str:
    """Return the README with that paragraph. Raises ValueError if it has no place for it."""
    made, places = _BLOCK.subn(lambda found: found[1] + said + found[2], text)
    if places != 1:
        raise ValueError(f"{README}: no paragraph between the marks of 'python -m board --write'")
    return made


def keep(report: DrcReport, count: int) -> None:
    """Write file and paragraph."""
    nets = by_net(report)
    OPEN.write_text("".join(["net\tconnections\n", *(f"{net}\t{nets[net]}\n" for net in sorted(nets))]))
    README.write_text(with_paragraph(README.read_text(), paragraph(nets, count)))
