"""The table of readings in docs/bring-up.md, out of the power tree: the reading of a meter at every test point of a rail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .netlist import Design, DesignError
from .powertree import ToleranceRange, Tree

__all__ = ["BEGIN", "END", "PAGE", "page", "rails"]

PAGE = Path(__file__).parents[2] / "docs" / "bring-up.md"
BEGIN, END = "<!-- generated: python -m board --write -->", "<!-- end of generated -->"


def points(ours: Design) -> dict[str, str]:
    """Test point of each rail."""
    found: dict[str, str] = {}
    for part in ours.parts.values():
        if part.symbol == "Connector:TestPoint" and (net := part.pins["1"]) != "GND":
            if net in found:
                raise DesignError(f"{net} has two test points: {found[net]} and {part.ref}")
            found[net] = part.ref
    return found


def rails(tree: Tree) -> Iterator[tuple[str, str, ToleranceRange, float, str, str, float]]:
    """Yield (test point, rail, V with its sign, typical A, source, predecessor, W at most), in the order in which the rails come up."""
    where = points(tree.ours)
    waits = dict(tree.table["after"])

    def rank(net: str) -> int:
        """How many others come before."""
        link = tree.links.get(net)
        before = [waits[net]] if net in waits else []
        before += [link.input] if link and link.input in tree.links else []
        return 1 + max((rank(other) for other in before), default=0)

    for net in sorted((net for net in tree.links if net in where), key=lambda one: (rank(one), list(tree.links).index(one))):
        link, span = tree.links[net], tree.voltage(net)
        if net.startswith("-"):
            span = ToleranceRange(-span.low, -span.nominal, -span.high)
        by = f"{link.part.ref} ({link.part.value}) from `{link.input}`"
        yield where[net], net, span, tree.current(net)[0], by, f"`{waits[net]}`" if net in waits else "", tree.loss(link)


def table(tree: Tree) -> str:
    """Markdown."""
    lines = ["| test point | rail | least | | most | taken, typical | made by | waits for | heat in that part, at most |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for point, net, span, ampere, by, before, watt in rails(tree):
        volts = " | ".join(f"{v:.3f} V" if abs(v) < 10 else f"{v:.2f} V" for v in (span.low, span.nominal, span.high))
        lines.append(f"| {point} | `{net}` | {volts} | {ampere * 1e3:.0f} mA | {by} | {before} | {watt:.2f} W |")
    typical, most = tree.current(tree.usb_input)
    low, high = tree.figure("usb", "low_v"), tree.figure("usb", "high_v")
    lines += ["", f"From USB all of it takes {typical:.2f} A, at most {most:.2f} A, at {low} to {high} V; before configuration less."]
    outside = tree.table["outside"]
    shown = ", ".join(f"`{net}` {span['low']:.3f} to {span['high']:.3f} V" for net, span in outside.items())
    lines += ["", f"The drive's rail comes from the slot and not from USB: {shown}."]
    return "\n".join(lines)


def page(text: str, tree: Tree) -> str:
    """The page with the table made anew. Raises DesignError where its marks are missing."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise DesignError(f"{PAGE.name}: the marks of the generated part are missing")
    return f"{head}{BEGIN}\n\n{table(tree)}\n\n{END}{tail}"
