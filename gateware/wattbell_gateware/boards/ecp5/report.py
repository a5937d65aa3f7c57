"""Evaluation of nextpnr's reports, seed by seed: clocks, cells, and whether they suffice."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from ... import toolchain
from ...toolchain import NAME, ROOT, BuildError

__all__ = ["DOCS", "FULL", "SLACK", "ClockReport", "Placement", "asked", "clock_names", "read_report", "table", "verdict", "write_docs"]

DOCS = ROOT / "docs" / "bitstream.md"
COMMAND = "python -m wattbell_gateware.build --board ecp5 --controller {}"
BEGIN = f"<!-- generated: {COMMAND} -->"
SLACK, FULL = 0.10, 0.60
"""Aims of the build: spare frequency of every clock, and greatest used part of the device."""
CELLS = {"TRELLIS_COMB": "LUT4", "TRELLIS_FF": "FF", "DP16KD": "block RAM", "MULT18X18D": "DSP", "DCUA": "DCU", "EHXPLLL": "PLL"}

UNCONSTRAINED_MHZ = 12.0
"""nextpnr's frequency for clocks without a constraint."""


@dataclass(frozen=True)
class ClockReport:
    """A clock of one placement, in MHz."""

    achieved: float
    wanted: float

    @property
    def spare(self) -> float:
        """Fraction by which the clock could be faster than wanted."""
        return self.achieved / self.wanted - 1


@dataclass(frozen=True)
class Placement:
    """nextpnr's report for one seed."""

    seed: int
    clocks: dict[str, ClockReport]
    used: dict[str, tuple[int, int]]
    """Kind of cell -> number used, number available."""

    @property
    def spare(self) -> float:
        """Spare fraction of the worst clock."""
        return min(clock.spare for clock in self.clocks.values())


def asked(constraints: str) -> dict[str, float]:
    """Return domain -> frequency in MHz, for domains with a constrained net in an LPF text."""
    found = re.findall(r'^FREQUENCY NET "[^"]*clock_(\w+)" ([\d.]+) HZ', constraints, re.MULTILINE)
    return {domain: float(hz) / 1e6 for domain, hz in found}


def clock_names(netlist: dict) -> dict[str, str]:
    """Return net -> domain for every clock. A net has many names, and nextpnr reports one of them."""
    by_bit: dict[object, list[str]] = {}
    for name, net in netlist["modules"][NAME]["netnames"].items():
        if len(net["bits"]) == 1:
            by_bit.setdefault(net["bits"][0], []).append(name)
    domains: dict[str, str] = {}
    for names in by_bit.values():
        for name in names:
            # Names of a domain's clock: DOMAIN_clk by Amaranth, async_ff_clk in its reset's synchroniser, clock_DOMAIN where it
            # gets its frequency.
            found = re.fullmatch(r"(?:.*\.)?(?:clock_(\w+)|(\w+)_reset\.async_ff_clk|(?!async_ff)(\w+)_clk)", name)
            if found:
                domains |= dict.fromkeys(names, found[1] or found[2] or found[3])
                break
    return domains


def read_report(seed: int, report: dict, names: dict[str, str], wanted: dict[str, float]) -> Placement:
    """Read nextpnr's ``--report``, with clocks by domain (:func:`clock_names`). Frequencies in ``wanted`` (MHz) override the
    report's.
    """
    clocks = {}
    for name, clock in report["fmax"].items():
        net = name.removeprefix("$glbnet$")
        domain = names.get(net, net)
        clocks[domain] = ClockReport(clock["achieved"], wanted.get(domain, clock["constraint"]))
    used = {CELLS[kind]: (cells["used"], cells["available"]) for kind, cells in report["utilization"].items() if kind in CELLS}
    if not clocks or not used:
        raise BuildError("nextpnr's report names no clocks or no cells: is this its version? See boards/ecp5/build.py.")
    without = [name for name, clock in clocks.items() if clock.wanted == UNCONSTRAINED_MHZ]
    if without:
        raise BuildError(f"no frequency is given for: {', '.join(without)}. See boards/ecp5/clocks.py.")
    return Placement(seed, clocks, used)


def table(placements: list[Placement], controller: str, tools: str) -> str:
    """Return the generated part of docs/bitstream.md. `tools`: names and versions."""
    first = placements[0]
    seeds = [f"seed {placement.seed}" for placement in placements]
    command = f"{COMMAND.format(controller)} --seeds {','.join(str(placement.seed) for placement in placements)} --docs"
    lines = [
        f"Made by `{command}` with {tools}.",
        "",
        "| clock | wanted, MHz | " + " | ".join(f"{seed}, MHz" for seed in seeds) + " | least slack |",
        "|---|---|" + "---|" * (len(seeds) + 1),
    ]
    for name in sorted(first.clocks):
        of = [placement.clocks[name] for placement in placements]
        achieved = " | ".join(f"{clock.achieved:.1f}" for clock in of)
        lines.append(f"| `{name}` | {of[0].wanted:.1f} | {achieved} | {min(clock.spare for clock in of) * 100:+.0f} % |")
    lines += ["", "| cells | used | of | |", "|---|---|---|---|"]
    lines += [f"| {kind} | {used} | {there} | {used / there * 100:.1f} % |" for kind, (used, there) in first.used.items()]
    return "\n".join(lines)


def write_docs(text: str, controller: str, path: Path = DOCS) -> None:
    """Put the table of the build with this controller between its marks."""
    toolchain.write_docs(path, BEGIN.format(controller), text)


def verdict(placements: list[Placement], *, strict: bool) -> int:
    """Return the exit status; print each shortfall."""
    for placement in placements:
        for name, clock in placement.clocks.items():
            if clock.spare < 0:
                print(f"error: seed {placement.seed}: {name} reaches {clock.achieved:.1f} of {clock.wanted:.1f} MHz", file=sys.stderr)
    if any(placement.spare < 0 for placement in placements):
        return 1
    full = max(used / there for kind, (used, there) in placements[0].used.items() if kind not in ("DCU", "PLL"))
    short = min(placement.spare for placement in placements)
    if strict and (short < SLACK or full > FULL):
        print(f"error: least slack {short:.0%} (aim {SLACK:.0%}), fullest {full:.0%} (aim {FULL:.0%})", file=sys.stderr)
        return 2
    return 0
