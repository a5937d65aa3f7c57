"""Streams for the recorder's tests, from the hand-written encoder."""

from __future__ import annotations

from tests.host.wire import encoder

SAMPLES_A_BLOCK = 100
COMMANDS_A_BLOCK = 10


def stream(blocks: int, *, first: int = 0, stop: bool = True) -> list[bytes]:
    """Return `blocks` rounds of a COMMANDS and a RAIL block at 1 MSPS, framed by STATUS run 1 and RUN events."""
    e, made, sequence = encoder, [], first
    interval = 1000
    made.append(e.status(sequence, 500, run=1))
    made.append(e.events(sequence + 1, 500, [(500, 15, 1, 0, 0)]))
    sequence += 2
    for k in range(blocks):
        tick = 1000 + k * SAMPLES_A_BLOCK * interval
        records = [
            e.Command(tick + 1000 * i + 900, 800, 700, 600, 200, 40, 90, cid=i, slba=k * 80 + i * 8) for i in range(COMMANDS_A_BLOCK)
        ]
        made.append(e.commands(sequence, tick, records))
        samples = [(165_000 + k % 7, 1000 + k % 500)] * SAMPLES_A_BLOCK
        made.append(e.rail(sequence + 1, tick, samples, interval=interval, adc_index=(k + 1) * SAMPLES_A_BLOCK))
        sequence += 2
    if stop:
        tick = 1000 + blocks * SAMPLES_A_BLOCK * interval
        made.append(e.events(sequence, tick, [(tick, 15, 0, 0, 0)]))
        made.append(e.status(sequence + 1, tick, run=0, commands=blocks * COMMANDS_A_BLOCK))
    return made
