"""Writes a script for player.cpp: NVMe traffic of tests/gateware/nvme (packed by cocotbext-pcie), registers, sidebands.

    python -m tests.gateware.instrument.scripted WIDTH TICKS SEED SCRIPT EXPECTED [PACE]

The link carries WIDTH bits in PACE ticks (default: TICKS). EXPECTED gets, as JSON, the command records and tracker events that the
traffic model expects, and the ticks of the plan.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

width, ticks, seed = map(int, sys.argv[1:4])
os.environ["WIDTH"], os.environ["TICKS"], os.environ["SEED"] = map(str, (width, int([*sys.argv, ticks][6]), seed))

from tests.gateware.nvme.scenario import boot, make, workload  # noqa: E402

STATUS_PERIOD = 1 << 27
BASE = STATUS_PERIOD - 2_000_000
CONTROL, COMMAND, MARKER, ADC_PERIOD, DECIMATION, DECIM_MUL, DECIM_SHIFT, V_OFFSET = 3, 4, 8, 0x10, 0x11, 0x12, 0x13, 0x14

rng = random.Random(seed)
clock, link, model = make(seed)
clock.now = BASE + 100_000
boot(model, 4, sizes=(4, 200))
workload(model, 400)


def noise() -> None:
    if clock._queue:
        link.unrelated(rng.randrange(2))
        clock.after(rng.randrange(500, 9000), noise)


clock.after(100, noise)
clock.run()
last = max(s.tick for s in link.sent)
# Long enough for every command still waiting for its CQ head doorbell to be given up on (24-bit ages end after 16.8 ms).
stop = max(last + 18_000_000, BASE + 20_000_000)
lines = [
    (0, f"jump {BASE}"),
    (BASE + 4000, f"side {BASE + 4000} 1 0 1"),
    (BASE + 20_000, f"reg {BASE + 20_000} {CONTROL} 1"),
    (stop, f"reg {stop} {CONTROL} 0"),
    (stop + 3_000_000, f"end {stop + 3_000_000}"),
]
lines += [(s.tick, f"tlp {s.tick} {s.direction} {s.raw.hex()} {int(s.error)}") for s in link.sent]
sides = [[1, 0, 1]]
edges = []
for tick in sorted(rng.sample(range(BASE + 60_000, stop - 100_000), 60)):
    level = list(sides[-1])
    level[rng.choice((1, 2))] = rng.randrange(2)
    sides.append(level)
    edges.append((tick, *level))
    lines.append((tick, f"side {tick} {level[0]} {level[1]} {level[2]}"))
markers = []
for tick in sorted(rng.sample(range(BASE + 100_000, stop - 100_000), 10)):
    markers.append((tick, rng.getrandbits(32)))
    lines.append((tick, f"reg {tick} {MARKER} {markers[-1][1]}"))
# The rail settings change twice: R = 5 (shift 7, mul from docs/registers.md), then another period and R = 1.
for tick, registers in (
    (BASE + 5_000_003, ((DECIMATION, 5), (DECIM_SHIFT, 7), (DECIM_MUL, round(2**30 / 125)))),
    (BASE + 9_000_001, ((ADC_PERIOD, 2000 // ticks), (DECIMATION, 1), (DECIM_SHIFT, 0), (DECIM_MUL, 1 << 23))),
):
    for k, (address, value) in enumerate((*registers, (V_OFFSET, 100), (COMMAND, 4))):
        lines.append((tick + 40 * k, f"reg {tick + 40 * k} {address} {value}"))
# The transport stalls: short stalls lose nothing, one of 6 ms does.
for tick, length in ((BASE + 500_000, 40_000), (BASE + 1_200_000, 200_000), (BASE + 12_000_000, 6_000_000)):
    lines += [(tick, f"ready {tick} 0"), (tick + length, f"ready {tick + length} 1")]
Path(sys.argv[4]).write_text("".join(text + "\n" for _, text in sorted(lines, key=lambda entry: entry[0])))
Path(sys.argv[5]).write_text(
    json.dumps(
        {
            "records": model.records,
            "perhaps_partial": sorted(model.perhaps_partial),
            "events": model.events,
            "edges": edges,
            "markers": markers,
            "start": BASE + 20_000,
            "stop": stop,
            "tlps_down": sum(s.direction == 0 for s in link.sent),
            "tlps_up": sum(s.direction == 1 for s in link.sent),
            "bar0": model.bar0,
        }
    )
)
