"""Speed and memory of a whole `analyze`, energy per class of command included.

    python -m tests.bench.analysis [--json] [--commands 10000000] [--capture DIR]

Makes a capture with the recorder's own writer (nothing an instrument sends takes part), unless one is given: six phases, each 5 s at a
depth of 8, with 2 s of idle between them; reads of 4 KiB and writes of 128 KiB, alone and in three mixes; a rail of 100 kS/s, whose power
follows the counts. Then analyses it in a new process of one thread. ``processor_s`` is time of a core, with the imports;
``commands_per_s`` follows from that time; ``memory_gib`` is the most that the process had.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from wattbell.capture import CaptureWriter
from wattbell.capture.schema import COMMANDS

AIMS = {"commands_per_s": 1e6, "memory_gib": 2.0}
LOAD_S, IDLE_S, DEPTH = 5.0, 2.0, 8
WRITES = (0.0, 1.0, 0.3, 0.6, 0.1, 0.0)
"""Part of the commands of each phase that are writes."""
READ_J, WRITE_J, CONTROLLER_W, IDLE_W = 4e-6, 12e-6, 0.8, 0.3
_AT_ONCE = 1 << 19
_RAIL_STEP_TICKS = 10_000
_RAIL_BLOCK = 10_000

_ANALYSE = """
import json, resource, sys
from pathlib import Path
from wattbell.analysis import analyze
from wattbell.capture import open_capture
result = analyze(open_capture(Path(sys.argv[1])))
methods = {phase["energy_per_command"]["method"].split()[0] for phase in result["phases"] if phase["kind"] == "fio"}
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"processor_s": used.ru_utime + used.ru_stime, "memory_gib": used.ru_maxrss / 2**20, "methods": sorted(methods)}))
"""


def make(path: Path, commands: int) -> None:
    """Write the capture."""
    each = commands // len(WRITES)
    with CaptureWriter(path, journal=False, lba_size_bytes=512, conditions={"virtual": True, "timing": "made"}) as writer:
        markers, phases = [], []
        for index, writes in enumerate(WRITES):
            begin = round((IDLE_S + index * (IDLE_S + LOAD_S)) * 1e9)
            _load(writer, begin, each, writes, index)
            edges = (begin - 1000, begin + round(LOAD_S * 1e9) + 1_000_000)
            markers += [(tick, (index + 1) << 8 | side) for side, tick in enumerate(edges, start=1)]
            phases.append({"phase": index + 1, "name": f"{writes:g} writes", "kind": "fio"})
        _rail(writer, each)
        writer.add_markers(markers)
        writer.meta["workload"] = {"source": "fio", "phases": phases}


def _load(writer: CaptureWriter, begin: int, count: int, writes: float, seed: int) -> None:
    noise = np.random.default_rng(seed)
    step = LOAD_S * 1e9 / count
    for first in range(0, count, _AT_ONCE):
        index = np.arange(first, min(first + _AT_ONCE, count))
        n = len(index)
        cqe = begin + ((index + 1 + DEPTH) * step).astype(np.int64)
        doorbell = cqe - (DEPTH * step * noise.uniform(0.7, 1.0, n)).astype(np.int64)
        write = noise.random(n) < writes
        columns = {
            "cqe_tick": cqe,
            "doorbell_tick": doorbell,
            "fetch_tick": doorbell + 300,
            "first_data_tick": doorbell + 900,
            "last_data_tick": cqe - 300,
            "msix_tick": cqe + 300,
            "cq_head_tick": cqe + 2000,
            "opcode": np.where(write, 1, 2).astype(np.uint8),
            "qid": (1 + index % 4).astype(np.uint8),
            "cid": (index & 0xFF).astype(np.uint16),
            "nsid": np.ones(n, np.uint32),
            "slba": noise.integers(0, 1 << 31, n).astype(np.uint64),
            "blocks": np.where(write, 256, 8).astype(np.uint32),
        }
        arrays = [pa.array(columns.get(f.name, np.zeros(n, np.int64)), type=f.type) for f in COMMANDS]
        writer._tables["commands"].add(pa.table(arrays, schema=COMMANDS))


def _rail(writer: CaptureWriter, each: int) -> None:
    noise = np.random.default_rng(99)
    samples = round((IDLE_S + len(WRITES) * (IDLE_S + LOAD_S)) * 1e9) // _RAIL_STEP_TICKS
    watts = np.array([CONTROLLER_W + each / LOAD_S * ((1 - part) * READ_J + part * WRITE_J) for part in WRITES])
    for first in range(0, samples, _RAIL_BLOCK):
        n = min(_RAIL_BLOCK, samples - first)
        at_s = (first + np.arange(n)) * (_RAIL_STEP_TICKS * 1e-9)
        phase, within_s = np.divmod(at_s - IDLE_S, IDLE_S + LOAD_S)
        busy = (at_s >= IDLE_S) & (within_s < LOAD_S) & (phase < len(WRITES))
        power = IDLE_W + np.where(busy, watts[np.clip(phase, 0, len(WRITES) - 1).astype(int)], 0.0) + noise.normal(0, 0.005, n)
        writer.add_rail(first * _RAIL_STEP_TICKS, _RAIL_STEP_TICKS, np.full(n, 3.3, np.float32), (power / 3.3).astype(np.float32))


def measure(capture: Path, commands: int) -> dict[str, object]:
    """Analyse it in a new process."""
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", _ANALYSE, str(capture)], stdout=subprocess.PIPE, check=True, env=one_thread)
    found: dict[str, object] = json.loads(done.stdout)
    return {"commands": commands, **found, "commands_per_s": commands / float(str(found["processor_s"])), "aims": AIMS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--commands", type=int, default=10_000_000)
    parser.add_argument("--capture", type=Path, help="one that this made before")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wattbell-bench-") as folder:
        capture = given.capture or Path(folder) / "capture"
        if not capture.exists():
            make(capture, given.commands)
        found = measure(capture, given.commands)
    print(json.dumps(found) if given.json else "\n".join(f"{name}: {value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
