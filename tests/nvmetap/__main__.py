"""``python -m tests.nvmetap``: random legal traffic of another author through the monitor, against the truth of every command.

Exit status 1: a record is silently wrong, absent or invented, or a rule fired on legal traffic.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import time

from tests.nvmetap.other_author import run
from tests.traffic.kinds import KINDS


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.nvmetap", description=__doc__)
    parser.add_argument("--commands", type=int, default=20_000, metavar="N", help="commands to draw at least [%(default)s]")
    parser.add_argument("--seed", type=int, metavar="S", help="first seed [by chance; printed]")
    parser.add_argument("--kinds", default="", metavar="A,B", help="kinds to draw from [all]; a+b: both at once")
    parser.add_argument("--size", type=int, default=0, metavar="N", help="I/O commands of a trace [100 to 1000, drawn]")
    parser.add_argument("--jobs", type=int, default=1, metavar="J", help="processes [%(default)s]")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print so many faults of each kind")
    options = parser.parse_args(arguments)
    kinds = tuple(name for name in options.kinds.split(",") if name)
    unknown = [name for unit in kinds for name in unit.split("+") if name not in KINDS]
    if unknown:
        parser.error(f"no such kind: {', '.join(unknown)}")
    seed = random.SystemRandom().randrange(1 << 40) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    logging.getLogger("cocotbext.nvmetap").setLevel(logging.CRITICAL)
    begun = time.monotonic()
    table = run(options.commands, seed, kinds, options.size, options.jobs)
    print("\n".join(table.lines()))
    for row in table.rows.values():
        for fault in row.faults[: options.show]:
            print(fault)
    took = time.monotonic() - begun
    print(f"{table.total.commands} commands in {took:.0f} s")
    return 0 if table.total.clean else 1


if __name__ == "__main__":
    sys.exit(main())
