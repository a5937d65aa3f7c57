"""``python -m tests.traffic``: random legal traffic through the fast twin, or the RTL, against the truth of every command.

Exit status 1: a fault is silent, or more than 0.1 % of the commands of supported kinds are flagged.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.traffic.generate import Traffic, generate
from tests.traffic.judge import Verdict
from tests.traffic.kinds import KINDS, Setup, draw
from tests.traffic.record import Record
from tests.traffic.rig import FIDELITIES
from tests.traffic.session import Draw, Table, pace, run, verdict_of
from tests.traffic.shrink import explain, shrink

MOST_FLAGGED = 0.001
"""Share of the commands of supported kinds that may be flagged."""


def main(arguments: list[str] | None = None) -> int:
    """Run the program; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.traffic", description=__doc__)
    parser.add_argument("--commands", type=int, default=20_000, metavar="N", help="commands to draw at least [%(default)s]")
    parser.add_argument("--seed", type=int, metavar="S", help="first seed [by chance; printed]")
    parser.add_argument("--kinds", default="", metavar="A,B", help="kinds to draw from [all]; a+b: both at once; `--list` names them")
    parser.add_argument("--size", type=int, default=0, metavar="N", help="I/O commands of a trace [100 to 1000, drawn]")
    parser.add_argument("--fidelity", choices=FIDELITIES, default="fast", help="the fast twin or the RTL [%(default)s]")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes [%(default)s]")
    parser.add_argument(
        "--record", type=Path, metavar="FOLDER", help="keep finished blocks there, and go on from them if the same draw ended early"
    )
    parser.add_argument("--smallest", type=Path, metavar="FILE", help="write the smallest failing trace found, with its truth beside it")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print so many silent faults of a trace of each kind")
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
    plan = Draw(seed, kinds, options.fidelity, options.size)
    record = Record(options.record, plan, options.seed) if options.record else None
    if record is not None:
        plan = replace(plan, seed=record.seed)
    print(f"seed {plan.seed}", flush=True)
    begun = time.monotonic()
    counted = Table()

    def count(number: int, block: Table) -> None:
        if record is not None:
            record.count(number, block)
        counted.merge(block)
        for name, seeds in block.failed.items():
            print(f"{name}: silent faults, seeds {', '.join(map(str, seeds))}", flush=True)

    if record is not None and record.done:
        print(f"{record.path}: {sum(block.commands for block in record.done.values())} commands are done", flush=True)
    table = run(options.commands, plan, options.jobs, record.done if record is not None else {}, count)
    print("\n".join(table.lines()))
    print(pace(counted, begun), flush=True)
    if table.overloads:
        print(f"{table.overloads} traces: the fast twin says that the gateware may differ from it (an overload)")
    again = partial(_again, kinds=kinds, size=options.size, fidelity=options.fidelity)
    if options.show:
        for seeds in table.failed.values():
            _, verdict, setup = again(seeds[0])
            for fault in verdict.faults[: options.show]:
                print(f"seed {setup.seed}, {'+'.join(setup.kinds)}: {explain(fault)}")
    if options.smallest and table.failed:
        traffic = min((again(seeds[0])[0] for seeds in table.failed.values()), key=lambda one: len(one.deeds))
        small = shrink(traffic, options.fidelity)
        small.write(options.smallest)
        print(f"{options.smallest}: {len(small.deeds)} commands, {len(small.records)} TLPs, of seed {small.setup.seed}")
    print(f"flagged on traffic of the supported kinds: {table.flagged_share():.3%} of {table.supported.commands} commands")
    for name, seeds in table.failed.items():
        print(f"{name} has silent faults: seeds {', '.join(map(str, seeds[:10]))}", file=sys.stderr)
    return 1 if table.failed or table.flagged_share() > MOST_FLAGGED else 0


def _again(seed: int, kinds: tuple[str, ...], size: int, fidelity: str) -> tuple[Traffic, Verdict, Setup]:
    """Draw the trace of a seed, and judge it."""
    setup = draw(seed, kinds, size)
    traffic = generate(setup)
    with tempfile.TemporaryDirectory(prefix="wattbell-traffic-") as name:
        return traffic, verdict_of(traffic, Path(name), fidelity), setup


if __name__ == "__main__":
    sys.exit(main())
