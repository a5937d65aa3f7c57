"""Speed of virtual drives in fast fidelity, as JSON: commands a second of one core, memory, time of a suite.

``python -m tests.bench.model [--commands N] [--runs R] [--suite]``. Needs ``make sim``. Random reads of 4 KiB on the Intel 660p, at
queue depths 1 and 32. Rates are by processor time (user and system) of the programs concerned, with what a run of hardly
any command takes subtracted; of several runs, the best and the worst.

- ``model``: ``wattbell-ssd`` alone, its trace dropped.
- ``chain``: model, instrument and recorder as a suite runs them, into a capture; the processor time of all three together
  (``recorder``: of it, the recorder's).
- ``scoring``: rate, latency and power of a phase out of that capture.
- ``memory``: ``wattbell-ssd`` that writes the whole drive, once.
- ``suite`` (only with ``--suite``): wall time of ``wattbell run anandtech-2018``, unscaled.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROFILE = "intel-660p-1tb"
AIM = 3e6
FEW = 1000
"""Commands of the run that is subtracted as overhead."""
JOB = """[reads]
rw=randread
bs=4k
direct=1
iodepth={depth}
number_ios={count}
"""
FILL = """condition = "empty"
[[step]]
name = "fill"
fill = { span = 1.0, bs = "128k" }
"""
INTERVAL_S = "1e-5"


class BenchError(Exception):
    """Something the benchmark needs is missing or failed."""


def program(name: str) -> Path:
    """A program of sim/."""
    path = Path(os.environ.get("WATTBELL_SIM_BIN", ROOT / "sim/target/release")) / name
    if not path.exists():
        raise BenchError(f"{path} is missing: run `make sim`")
    return path


def spent(*command: object) -> resource.struct_rusage:
    """Resources used by a command and the processes it waited for."""
    return asked(*command)[0]


def asked(*command: object) -> tuple[resource.struct_rusage, str]:
    """The same, and its output."""
    with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as output:
        process = subprocess.Popen([str(part) for part in command], stdout=output, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            raise BenchError(errors.read().decode(errors="replace").strip() or f"{command[0]} failed")
        output.seek(0)
        return usage, output.read().decode(errors="replace")


def cpu_s(usage: resource.struct_rusage) -> float:
    """Processor time."""
    return usage.ru_utime + usage.ru_stime


def rates(count: int, runs: list[float], few: float) -> dict[str, float]:
    """Best and worst rate of runs of `count` commands, less a run of FEW."""
    found = sorted((count - FEW) / (run - few) for run in runs)
    return {"commands_per_core_s": found[-1], "worst_commands_per_core_s": found[0]}


def job(folder: Path, depth: int, count: int) -> Path:
    """A job file."""
    path = folder / f"qd{depth}-{count}.fio"
    path.write_text(JOB.format(depth=depth, count=count))
    return path


def depth_figures(folder: Path, depth: int, count: int, runs: int) -> dict[str, Any]:
    """Model, instrument, chain and scoring at one queue depth."""
    few, many = job(folder, depth, FEW), job(folder, depth, count)
    model = (program("wattbell-ssd"), "run", "--profile", PROFILE, "--summaries", "--job")
    base = cpu_s(spent(*model, few, "--trace", "/dev/null"))
    alone = rates(count, [cpu_s(spent(*model, many, "--trace", "/dev/null")) for _ in range(runs)], base)
    chain = (sys.executable, __file__, "--chain")
    chain_base = chained(*chain, few, folder / "capture")
    whole = [chained(*chain, many, folder / "capture") for _ in range(runs)]
    score = (sys.executable, __file__, "--score", folder / "capture")
    scored = [spent(*score) for _ in range(runs)]
    spent(*chain, few, folder / "capture")
    base = cpu_s(spent(*score))
    scoring = rates(count, [cpu_s(usage) for usage in scored], base)
    parts = {name: rates(count, [run[index] for run in whole], chain_base[index]) for index, name in enumerate(("chain", "recorder"))}
    return {"model": {**alone, "aim": AIM}, **parts, "scoring": scoring}


def chained(*command: object) -> tuple[float, float]:
    """Processor time of a chain, and the recorder's part."""
    usage, told = asked(*command)
    return cpu_s(usage), float(told)


def run_chain(path: Path, capture: Path) -> None:
    """One run of model, instrument and recorder, as a suite does it."""
    from wattbell.cli import output
    from wattbell.virtual.fidelity import Fidelity
    from wattbell.virtual.model import ModelRun, run_model
    from wattbell.virtual.profiles import find_profile

    few = {"interval_s": float(INTERVAL_S), "decimation": 100, "overwrite": True, "truth": False}
    reason = run_model(ModelRun(path, find_profile(PROFILE), capture, fidelity=Fidelity.fast, **few), output)
    if reason != "the rig stopped":
        raise BenchError(f"the recording ended early: {reason}")
    print(cpu_s(resource.getrusage(resource.RUSAGE_SELF)))


def run_score(path: Path) -> None:
    """The figures of the capture's phase."""
    from wattbell.capture import open_capture
    from wattbell.measure.phase import measure
    from wattbell.measure.source import Source

    source = Source(open_capture(path))
    for phase in source.phases.values():
        measure(source, phase).point({})


def filled(folder: Path) -> dict[str, float]:
    """The drive, written once from end to end: memory and time."""
    plan = folder / "fill.toml"
    plan.write_text(FILL)
    usage = spent(program("wattbell-ssd"), "run", "--profile", PROFILE, "--summaries", "--plan", plan, "--trace", "/dev/null")
    return {"filled_drive_gib": usage.ru_maxrss / 2**20, "aim_gib": 4, "cpu_s": cpu_s(usage)}


def suite(folder: Path) -> dict[str, float]:
    """An unscaled suite."""
    start = time.monotonic()
    options = ("--virtual", PROFILE, "--fidelity", "fast", "--discard-captures", "--no-store", "--out", folder / "suite")
    usage = spent(sys.executable, "-m", "wattbell", "run", "anandtech-2018", *options)
    return {"wall_s": time.monotonic() - start, "cpu_s": cpu_s(usage)}


def measured(count: int, runs: int, with_suite: bool) -> dict[str, Any]:
    """Every figure."""
    with tempfile.TemporaryDirectory(prefix="wattbell-bench-") as name:
        folder = Path(name)
        found: dict[str, Any] = {f"QD{depth}": depth_figures(folder, depth, count, runs) for depth in (1, 32)}
        found["memory"] = filled(folder)
        if with_suite:
            found["suite"] = suite(folder)
    return found


def main() -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--commands", type=int, default=1_000_000, help="of a run (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="of each measurement (default: %(default)s)")
    parser.add_argument("--suite", action="store_true", help="time the unscaled suite as well")
    parser.add_argument("--chain", nargs=2, type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--score", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    try:
        if arguments.chain:
            run_chain(*arguments.chain)
        elif arguments.score:
            run_score(arguments.score)
        else:
            print(json.dumps(measured(arguments.commands, arguments.runs, arguments.suite), indent=2))
    except BenchError as error:
        print(f"tests/bench/model.py: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
