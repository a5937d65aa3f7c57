"""Speed of the RTL simulation, as JSON: clocks evaluated and simulated a second, and virtual to wall time.

``python -m tests.bench.rtl [--seconds S]``. Needs ``make sim rtl``. Five scenes: a sleeping drive at 10 kSPS and at 1 MSPS
with the ADC words handed in, at 1 MSPS with the ADCs' serial pins simulated, a sleeping drive with every clock
evaluated, and 20 000 random reads of 4 KiB a second from the SSD model at 10 kSPS.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
GOALS = {"idle, 10 kSPS": 10.0, "idle, 1 MSPS": 0.2}
"""The project's target in virtual seconds per second of wall time."""
JOB = """[reads]
rw=randread
bs=4k
direct=1
iodepth=4
size=64m
rate_iops=20000
time_based=1
runtime={milliseconds}ms
"""


class BenchError(Exception):
    """Something the benchmark needs is missing or failed."""


def program(name: str) -> Path:
    """A program of sim/."""
    path = Path(os.environ.get("WATTBELL_SIM_BIN", ROOT / "sim/target/release")) / name
    if not path.exists():
        raise BenchError(f"{path} is missing: run `make sim rtl`")
    return path


def run(*command: object) -> str:
    """Runs a command and returns its output."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(done.stderr.strip() or f"{command[0]} failed")
    return done.stdout


def bench(*options: object) -> dict[str, Any]:
    """One scene."""
    result: dict[str, Any] = json.loads(run(program("wattbell-rig"), "bench", *options))
    return result


def measure(seconds: float) -> dict[str, Any]:
    """All scenes, by name; `seconds` scales how much virtual time each simulates."""
    scenes = {
        "idle, 10 kSPS": bench("--seconds", 20 * seconds, "--interval", 1e-4),
        "idle, 1 MSPS": bench("--seconds", 0.5 * seconds),
        "idle, 1 MSPS, serial ADC pins": bench("--seconds", 0.02 * seconds, "--adc", "serial"),
        "idle, every clock evaluated": bench("--seconds", 0.005 * seconds, "--no-skip"),
    }
    with tempfile.TemporaryDirectory() as folder:
        job, trace = Path(folder, "reads.fio"), Path(folder, "reads.wbt")
        scenes["20 000 commands/s, 10 kSPS"] = commands(job, trace, seconds)
    for name, goal in GOALS.items():
        scenes[name]["goal_simulated_to_wall"] = goal
    return scenes


def commands(job: Path, trace: Path, seconds: float) -> dict[str, Any]:
    """The scene with traffic, less the drive's power-on and set-up, which are in the trace too and measured alone."""
    parts = []
    for milliseconds in (1, 1 + round(200 * seconds)):
        job.write_text(JOB.format(milliseconds=milliseconds))
        run(program("wattbell-ssd"), "run", "--job", job, "--trace", trace)
        parts.append(bench("--trace", trace, "--seconds", 3600, "--interval", 1e-4))
    setup, both = parts
    found = {key: both[key] - setup[key] for key in ("wall_s", "cpu_s", "simulated_s", "clocks_evaluated", "commands")}
    return {
        **{key: both[key] for key in ("adc", "skip", "interval_s")},
        **found,
        "simulated_to_wall": found["simulated_s"] / found["wall_s"],
        "simulated_to_cpu": found["simulated_s"] / found["cpu_s"],
        "clocks_evaluated_per_s": found["clocks_evaluated"] / found["wall_s"],
        "clocks_simulated_per_s": found["simulated_s"] / 4e-9 / found["wall_s"],
        "commands_per_simulated_s": found["commands"] / found["simulated_s"],
        "commands_per_wall_s": found["commands"] / found["wall_s"],
    }


def main() -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="rough length of a scene (default: %(default)s)")
    arguments = parser.parse_args()
    try:
        print(json.dumps(measure(arguments.seconds), indent=2))
    except BenchError as error:
        print(f"tests/bench/rtl.py: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
