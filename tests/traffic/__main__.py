"""``python -m tests.traffic``: random legal traffic through the fast twin, or the RTL, against the truth of every command.

Exit status 1: a kind that is listed as understood has a silent fault.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

from tests.traffic.generate import Traffic
from tests.traffic.judge import Verdict
from tests.traffic.kinds import KINDS, Setup
from tests.traffic.rig import FIDELITIES
from tests.traffic.session import pace, run
from tests.traffic.shrink import explain, shrink


def main(arguments: list[str] | None = None) -> int:
    """Run the program; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.traffic", description=__doc__)
    parser.add_argument("--commands", type=int, default=20_000, metavar="N", help="commands to draw at least [%(default)s]")
    parser.add_argument("--seed", type=int, metavar="S", help="first seed [by chance; printed]")
    parser.add_argument("--kinds", default="", metavar="A,B", help="kinds to draw from [all]; a+b: both at once; `--list` names them")
    parser.add_argument("--size", type=int, default=0, metavar="N", help="I/O commands of a trace [100 to 1000, drawn]")
    parser.add_argument("--fidelity", choices=FIDELITIES, default="fast", help="the fast twin or the RTL [%(default)s]")
    parser.add_argument("--smallest", type=Path, metavar="FILE", help="write the smallest failing trace found, with its truth beside it")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print so many silent faults of each kind")
    parser.add_argument("--list", action="store_true", help="list the kinds and end")
    options = parser.parse_args(arguments)
    if options.list:
        print("\n".join(f"{name:16} {what}" for name, what in KINDS.items()))
        return 0
    kinds = tuple(name for name in options.kinds.split(",") if name)
    unknown = [name for unit in kinds for name in unit.split("+") if name not in KINDS]
    if unknown:
        parser.error(f"no such kind: {', '.join(unknown)}; --list names them")
    seed = random.SystemRandom().randrange(1 << 40) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    failing: list[Traffic] = []
    shown: dict[str, int] = {}

    def each(setup: Setup, traffic: Traffic, verdict: Verdict) -> None:
        if verdict.silent:
            if not failing or len(traffic.deeds) < len(failing[0].deeds):
                failing[:] = [traffic]
            name = "+".join(setup.kinds)
            for fault in verdict.faults[: options.show - shown.get(name, 0)]:
                print(f"seed {setup.seed}, {name}: {explain(fault)}")
                shown[name] = shown.get(name, 0) + 1

    begun = time.monotonic()
    table = run(options.commands, seed, kinds, options.fidelity, each, options.size)
    print("\n".join(table.lines()))
    print(pace(table, begun), flush=True)
    if table.overloads:
        print(f"{table.overloads} traces: the fast twin says that the gateware may differ from it (an overload)")
    if options.smallest and failing:
        small = shrink(failing[0], options.fidelity)
        small.write(options.smallest)
        print(f"{options.smallest}: {len(small.deeds)} commands, {len(small.records)} TLPs, of seed {small.setup.seed}")
    broken = table.broken()
    for name, seeds in broken.items():
        print(f"{name} is listed as understood, but has silent faults: seeds {', '.join(map(str, seeds[:10]))}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
