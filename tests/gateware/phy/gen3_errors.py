"""A link with bit errors through the receiver: what must come, and what must not."""

from __future__ import annotations

import random
from typing import NamedTuple

import gen3_bench as b
import transmitter as t


class Outcome(NamedTuple):
    hit: int
    """Wrong bits."""
    damaged: int
    """TLPs with one or more."""
    repaired: int
    """Of these, those that came whole all the same: the bit was of a token or of idle."""
    missing: int
    """TLPs without a wrong bit that did not come."""


async def play_with_errors(bench, link, tlps, *, rate: float, seed: int, safe_blocks: int = 8) -> Outcome:
    """Plays `link` with independent bit errors; the first `safe_blocks` blocks are spared.

    Everything good that comes was sent, comes once, in order and at its tick.
    """
    wires, starts = link.bits(), link.starts()
    safe = starts[safe_blocks]
    bits = set()
    for lane, wire in enumerate(wires):
        clean = wire[:safe]
        wires[lane], places = t.damaged(wire, rate, random.Random(f"{seed} {lane}"))
        wires[lane][:safe] = clean
        bits |= {(lane, p) for p in places if p >= safe}
    damaged = set()
    for n, (tlp, _, place) in enumerate(tlps):
        for symbol in range(place.symbol, place.symbol + (len(tlp) + 8 + link.lanes - 1) // link.lanes):
            at = starts[place.block + symbol // 16] + 8 * (symbol % 16)  # a TLP may run on over any number of data blocks
            if any((lane, at + bit) in bits for lane in range(link.lanes) for bit in range(8)):
                damaged.add(n)
                break
    await bench.play(wires)
    want = [b.Frame(tlp, sequence, at) for (tlp, sequence, place), at in zip(tlps, ticks(link, tlps))]
    number = {frame: n for n, frame in enumerate(want)}
    assert len(number) == len(want)
    came = [number.get(frame) for frame in bench.good]
    assert None not in came, "a TLP that was never sent, or at another tick"
    assert came == sorted(set(came)), "twice, or out of order"
    missing = set(range(len(want))) - damaged - set(came)
    return Outcome(len(bits), len(damaged), len(damaged & set(came)), len(missing))


def ticks(link, tlps):
    starts = link.starts()
    return [(starts[place.block] + 8 * place.symbol) // 8 for _, _, place in tlps]
