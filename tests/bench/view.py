"""Speed of `wattbell view` at the server, beside its libraries.

    python -m tests.bench.view [--json] [--hours H] [--rate HZ] [--commands N] [--steps N] [--capture DIR] [--urgent]

Makes a capture (``view_capture.py``: nothing an instrument sends takes part, so that a day takes minutes), unless one is given, and shows
it with `wattbell view` in a process of its own, asked over HTTP as the page asks.

First picture: capture, rail, load, commands, levels and gaps over all of it, in a new process, with its files not in the page cache,
from the moment the server listens. Zoom step: rail, load, commands, levels and gaps of a span of any length (equally likely by its
logarithm, 10 us to everything), 1000 points. ``processor_ms`` is the mean time of a core; the others are wall-clock, and on a busy
machine mostly waiting. Memory: the most that the server's process had. Beside it, on the same file: ``fsr_statistics`` of pyjls for the
rail of all of it, and a scan of the commands by Polars that makes the same bins of load.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import polars as pl
import pyjls

from tests.bench.view_capture import make

POINTS = 1000
PICTURE = ("rail", "load", "commands", "levels", "gaps")
AIMS = {"first_picture_ms": 300, "zoom_step_p95_ms": 50, "memory_mb": 500, "pyramid_share": 0.05}


class Server:
    """`wattbell view` of a capture."""

    def __init__(self, capture: Path, first: tuple[str, ...] = ()) -> None:
        begin = time.perf_counter()
        command = [*first, sys.executable, "-m", "wattbell", "view", str(capture), "--no-browser"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._process.stdout is not None
        self._url = urlsplit(self._process.stdout.readline().strip())
        self.start_s = time.perf_counter() - begin
        self._line = http.client.HTTPConnection(str(self._url.netloc), timeout=600)

    def ask(self, name: str, **parameters: float) -> tuple[float, bytes]:
        """(ms, answer)."""
        query = "&".join(f"{key}={value}" for key, value in parameters.items())
        begin = time.perf_counter()
        self._line.request("GET", f"{self._url.path}api/0/{name}?{query}")
        answer = self._line.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        return (time.perf_counter() - begin) * 1e3, body

    def memory_mb(self) -> dict[str, float]:
        """``most``: resident, files mapped into memory included; ``own``: without them, now."""
        lines = dict(line.split(":", 1) for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines())
        return {name: int(lines[key].split()[0]) / 1e3 for name, key in (("most", "VmHWM"), ("own", "RssAnon"))}

    def processor_s(self) -> float:
        """Processor time of its process so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


def forget(capture: Path) -> None:
    """Take the files out of the page cache."""
    os.sync()
    for path in capture.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def best_ms(work: Callable[[], object], runs: int = 3) -> float:
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        work()
        times.append((time.perf_counter() - begin) * 1e3)
    return min(times)


def beside(capture: Path) -> dict[str, float]:
    """Measure the time of pyjls and Polars for a picture of everything."""
    with pyjls.Reader(str(capture / "rail.jls")) as reader:
        samples = min(int(signal.length) for signal in reader.signals.values() if signal.name in ("voltage", "current", "power"))
        increment = max(1, samples // POINTS)
        jls_ms = best_ms(lambda: [reader.fsr_statistics(signal, 0, increment, samples // increment) for signal in (1, 2, 3)])
    frame = pl.scan_parquet(capture / "commands.parquet")
    last = int(frame.select(pl.col("cqe_tick").max()).collect().item())
    width = max(1, last // POINTS)
    moved = pl.col("blocks").cast(pl.Int64).sum()
    bins = frame.filter(pl.col("qid") > 0).group_by(pl.col("cqe_tick") // width, "opcode").agg(pl.len(), moved)
    return {"pyjls_fsr_statistics_ms": jls_ms, "polars_scan_ms": best_ms(lambda: bins.collect(), 2)}


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def steps(server: Server, end: int, count: int) -> dict[str, object]:
    """Zoom steps at random places."""
    noise = random.Random(1)
    times: dict[str, list[float]] = {name: [] for name in (*PICTURE, "all")}
    before = server.processor_s()
    for _ in range(count):
        length = max(10_000, int(end * 10 ** noise.uniform(-9.9, 0)))
        begin = noise.randint(0, max(0, end - length))
        took = {name: server.ask(name, begin=begin, end=begin + length, points=POINTS, limit=2000)[0] for name in PICTURE}
        for name, ms in took.items():
            times[name].append(ms)
        times["all"].append(sum(took.values()))
    return {
        "zoom_step_p50_ms": percentile(times["all"], 0.5),
        "zoom_step_p95_ms": percentile(times["all"], 0.95),
        "zoom_step_processor_ms": (server.processor_s() - before) / count * 1e3,
        "zoom_step_worst_ms": max(times["all"]),
        "p95_ms": {name: percentile(times[name], 0.95) for name in PICTURE},
    }


def measure(capture: Path, count: int, first_of_all: tuple[str, ...]) -> dict[str, object]:
    size = sum(path.stat().st_size for path in capture.rglob("*") if path.is_file() and path.suffix != ".pyramid")
    (capture / "commands.pyramid").unlink(missing_ok=True)
    maker = Server(capture, first_of_all)
    made = {"with_pyramid_made_s": maker.start_s, "most_mb": maker.memory_mb()["most"]}
    maker.close()
    forget(capture)
    if first_of_all:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))  # this process takes a part of each step, too
    server = Server(capture, first_of_all)
    first = {name: server.ask(name, points=POINTS, limit=2000)[0] for name in ("capture", *PICTURE)}
    about = json.loads(server.ask("capture")[1])
    stepped = steps(server, int(about["end"]), count)
    span_ms = server.ask("span")[0]
    memory = server.memory_mb()
    server.close()
    pyramid = capture / "commands.pyramid"
    pyramid_bytes = pyramid.stat().st_size if pyramid.exists() else 0
    commands_bytes = (capture / "commands.parquet").stat().st_size
    other = beside(capture)
    return {
        "capture": {
            "bytes": size,
            "hours": about["end"] * about["tick_s"] / 3600,
            "samples": about["rail"]["samples"],
            "commands": about["commands"],
        },
        "start_s": server.start_s,
        "first_start": made,
        "first_picture_ms": sum(first.values()),
        "first_picture": first,
        **stepped,
        "span_of_everything_ms": span_ms,
        "memory_mb": memory["most"],
        "memory_own_mb": memory["own"],
        "pyramid_bytes": pyramid_bytes,
        "pyramid_share": pyramid_bytes / size,
        "pyramid_share_of_commands": pyramid_bytes / commands_bytes,
        "beside": {
            **other,
            "rail_to_pyjls": first["rail"] / other["pyjls_fsr_statistics_ms"],
            "polars_to_load": other["polars_scan_ms"] / first["load"],
        },
        "aims": AIMS,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--rate", type=float, default=10_000, help="samples of the rail a second")
    parser.add_argument("--commands", type=float, default=4e6)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--capture", type=Path, help="look at this one")
    parser.add_argument("--urgent", action="store_true", help="the server before everything else on the machine (root)")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="wattbell-bench-"))
    try:
        capture = arguments.capture
        if capture is None:
            capture = folder / "capture"
            make(capture, arguments.hours * 3600, arguments.rate, int(arguments.commands))
        result = measure(capture, arguments.steps, ("chrt", "--rr", "1") if arguments.urgent else ())
    finally:
        shutil.rmtree(folder)
    print(json.dumps(result, indent=None if arguments.json else 1))


if __name__ == "__main__":
    main()
