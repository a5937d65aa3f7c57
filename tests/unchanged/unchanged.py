"""Whether a refactoring changed a result: fingerprints of the product's measurements (`python tests/unchanged/unchanged.py`).

Each case is run by the command line and reduced to SHA-256 sums: of the wire stream, of each table's rows, of the figures that
`wattbell analyze` prints, of `results.json`. What differs from run to run is left out: versions and hashes of programs, times of day,
paths, process numbers, the random number of a run and the CRCs it changes. `--write` stores the sums in fingerprints.json, which goes
with the change that is meant to alter them; without it they are compared, and each that differs is named.

Not a part of `make test`: it takes some minutes, and any change of model or gateware alters it with good reason.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
from polars import selectors

ROOT = Path(__file__).resolve().parents[2]
STORE = Path(__file__).with_name("fingerprints.json")
DRIVES = ("intel-660p-1tb", "samsung-970-evo-plus", "toshiba-rc100")
VOLATILE = {"versions", "profile_hash", "suite_hash", "wall_s", "path", "capture", "file", "serial", "data_port", "control_port"}
"""JSON keys that differ between two runs of the same programs, or between versions."""
HEADER = struct.Struct("<4sBBHIIQI")
"""Header of a block, from docs/wire-format.md: magic, version, kind, length, sequence, dropped, tick, run."""


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def stream_sum(path: Path) -> str:
    """SHA-256 of a wire stream without the run's random number and the CRCs, which depend on it."""
    data, total, at = path.read_bytes(), hashlib.sha256(), 0
    while at < len(data):
        magic, version, kind, length, sequence, dropped, tick, _ = HEADER.unpack_from(data, at)
        assert magic == b"WBEL", f"{path}: no block at byte {at}"
        total.update(struct.pack("<BBHIIQ", version, kind, length, sequence, dropped, tick))
        total.update(data[at + HEADER.size : at + HEADER.size + length])
        at += HEADER.size + length + 4
    return total.hexdigest()


def table_sum(path: Path) -> str:
    """SHA-256 of a table's rows, however the file stores them."""
    frame = pl.read_parquet(path).with_columns(selectors.binary().bin.encode("hex"))
    return sha256(json.dumps([frame.schema.names(), [str(t) for t in frame.schema.dtypes()]]).encode() + frame.write_csv().encode())


def plain(value: Any, folder: str) -> Any:
    """JSON without volatile keys."""
    if isinstance(value, dict):
        return {k: plain(v, folder) for k, v in sorted(value.items()) if k not in VOLATILE and not k.endswith(("utc", "utc_ns"))}
    if isinstance(value, list):
        return [plain(v, folder) for v in value]
    return value.replace(folder, "") if isinstance(value, str) else value


def json_sum(text: str, folder: Path) -> str:
    return sha256(json.dumps(plain(json.loads(text), str(folder))).encode())


def wattbell(*words: object) -> str:
    done = subprocess.run([sys.executable, "-m", "wattbell", *map(str, words)], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"unchanged: wattbell {' '.join(map(str, words))} failed ({done.returncode}):\n{done.stderr}{done.stdout}")
    return done.stdout


def of_capture(path: Path) -> Iterator[tuple[str, str]]:
    yield "stream", stream_sum(path / "stream.wbs")
    for table in sorted(path.glob("*.parquet")):
        yield table.stem, table_sum(table)
    yield "figures", json_sum(wattbell("analyze", path, "--json"), path)


def demo(folder: Path) -> Iterator[tuple[str, str]]:
    """The plan of `make demo` through the Verilated gateware."""
    wattbell("run", "sim/plans/demo.toml", "--virtual", DRIVES[0], "--keep-stream", "--out", folder / "demo")
    yield from of_capture(folder / "demo")


def quick(drive: str) -> Callable[[Path], Iterator[tuple[str, str]]]:
    """The suite `quick` in fast fidelity."""

    def run(folder: Path) -> Iterator[tuple[str, str]]:
        out = folder / drive
        options = ("--fidelity", "fast", "--keep-stream", "--no-store", "--no-page")
        wattbell("run", "quick", "--virtual", drive, *options, "--out", out)
        yield "results", json_sum((out / "results.json").read_text(), out)
        for capture in sorted((out / "captures").iterdir()):
            yield from ((f"{capture.name}/{name}", value) for name, value in of_capture(capture))

    return run


def qemu(folder: Path) -> Iterator[tuple[str, str]]:
    """A log of Linux' driver at QEMU's drive."""
    log = folder / "qemu.log"
    with gzip.open(ROOT / "tests/sim/guest/data/fio-11.1.log.gz") as source, log.open("wb") as out:
        shutil.copyfileobj(source, out)
    wattbell("sim", "replay", "--qemu-log", log, "--fidelity", "fast", "--keep-stream", "--out", folder / "qemu")
    yield from of_capture(folder / "qemu")


def calibrate(folder: Path) -> Iterator[tuple[str, str]]:
    """Two random boards, as `make calibrate BOARDS=2`."""
    boards = folder / "boards.jsonl"
    environment = {**os.environ, "WATTBELL_BOARDS": "2", "WATTBELL_BOARDS_FILE": str(boards)}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/sim/rig/test_calibrate.py", "-k", "goals"]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"unchanged: calibrating two boards failed:\n{done.stdout[-2000:]}")
    for line in sorted(boards.read_text().splitlines()):
        yield f"board {json.loads(line)['seed']}", sha256(line.encode())


CASES: dict[str, Callable[[Path], Iterator[tuple[str, str]]]] = {
    **{f"quick {drive}": quick(drive) for drive in DRIVES},
    "qemu": qemu,
    "calibrate": calibrate,
    "demo": demo,
}


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="store the sums instead of comparing them")
    parser.add_argument("--only", default="", help="cases whose name matches this expression")
    chosen = parser.parse_args()
    stored: dict[str, dict[str, str]] = json.loads(STORE.read_text()) if STORE.is_file() else {}
    different = 0
    for name, case in CASES.items():
        if not re.search(chosen.only, name):
            continue
        with tempfile.TemporaryDirectory(prefix="unchanged-") as folder:
            sums = dict(case(Path(folder)))
        if chosen.write:
            stored[name] = sums
            STORE.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        wrong = sorted(key for key in sums.keys() | stored.get(name, {}).keys() if sums.get(key) != stored.get(name, {}).get(key))
        different += len(wrong)
        print(f"{name}: {'stored' if chosen.write else 'as it was' if not wrong else 'DIFFERENT: ' + ', '.join(wrong)}", flush=True)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
