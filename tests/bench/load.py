"""How many commands a second the gateware sustains from lane words to records before it loses one, as JSON.

``python -m tests.bench.load [--milliseconds N]``. Needs Verilator. Every rate runs on a model of two receivers at 8 GT/s x4 and
the instrument (tests/gateware/lanes), with the stream taken at 42 MB/s (USB 2.0) or at once. Loss is any record that is missing,
marked or dropped.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from tests.gateware.lanes import lane_player, load

SUSTAINED = 830_000
"""The project's target in commands per second: 4 KiB reads at the full rate of 8 GT/s x4."""
STEP = 1.03


def first_loss(at: Callable[[float], load.Outcome], low: float, high: float) -> dict[str, object]:
    """The highest rate without loss between `low` and `high`, to 3 percent, and the outcome of the lowest rate with loss."""
    if not at(low).lossless:
        return {"lossless_commands_per_s": None, "with_loss": asdict(at(low))}
    lost = at(high)
    if lost.lossless:
        return {"lossless_commands_per_s": high, "with_loss": None}
    while high > low * STEP:
        middle = (low * high) ** 0.5
        outcome = at(middle)
        if outcome.lossless:
            low = middle
        else:
            high, lost = middle, outcome
    return {"lossless_commands_per_s": round(low), "with_loss": asdict(lost)}


def main() -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--milliseconds", type=float, default=1.0, help="of traffic for each rate (default: %(default)s)")
    arguments = parser.parse_args()
    player = lane_player.build()
    with tempfile.TemporaryDirectory() as name:
        folder, long = Path(name), arguments.milliseconds

        def at(rate: float, milliseconds: float = long, **how) -> load.Outcome:
            outcome = load.play(player, rate, milliseconds, folder, **how)
            print(f"{rate:.0f} commands/s, {milliseconds} ms, {how}: {outcome}", file=sys.stderr, flush=True)
            return outcome

        sustained = {"no data, 42 MB/s": at(SUSTAINED, 3 * long), "4 KiB reads, 42 MB/s": at(SUSTAINED, long, data_bytes=4096)}
        found = {
            **{name: asdict(outcome) for name, outcome in sustained.items()},
            "first loss, no data, 42 MB/s": first_loss(lambda rate: at(rate, 3 * long), SUSTAINED, 2 * SUSTAINED),
            "first loss, no data, stream taken at once": first_loss(lambda rate: at(rate, usb=False), SUSTAINED, 8 * SUSTAINED),
            "first loss, no data, stream taken at once, TLPs past the lanes": first_loss(
                lambda rate: at(rate, usb=False, speed=None), SUSTAINED, 8 * SUSTAINED
            ),
            # Of 4096 bytes what limits is the instrument's port, 128 bits a clock: 0.9 million/s.
            "first loss, reads of 512 bytes, stream taken at once, TLPs past the lanes": first_loss(
                lambda rate: at(rate, long / 2, usb=False, speed=None, data_bytes=512), SUSTAINED, 8 * SUSTAINED
            ),
        }
    print(json.dumps(found, indent=2))
    if bad := [name for name, outcome in sustained.items() if not outcome.lossless]:
        print(f"error: {SUSTAINED} commands/s are not taken without loss: {', '.join(bad)}. The outcomes above say where.", file=sys.stderr)
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
