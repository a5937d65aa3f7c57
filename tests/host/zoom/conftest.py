"""A capture of commands in bursts and drips, with all that is odd about commands, and constants small enough for a pyramid."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from wattbell.capture import Capture, CaptureWriter, open_capture, tables
from wattbell.zoom import Zoom, build, histogram, pyramid, span, table

LEAST_SECONDS = 1_000_000_000
ROWS = 30_000


def rows(count: int = ROWS, seed: int = 3) -> dict[str, list[int | None]]:
    """Columns of commands: dense bursts, a sparse drip, commands that time out, requests that wait, instants that were not seen."""
    noise = np.random.default_rng(seed)
    gaps = np.where(noise.random(count) < 0.002, noise.integers(10**7, 10**8, count), noise.integers(1, 4_000, count))
    gaps[count // 3 : count // 3 + 300] = noise.integers(10**6, 3 * 10**7, 300)
    cqe = np.cumsum(gaps) - 2_000_000  # some before tick 0
    latency = noise.lognormal(11, 1.2, count).astype(np.int64)
    latency[noise.integers(0, count, 12)] = noise.integers(LEAST_SECONDS + 1, 4 * LEAST_SECONDS, 12)
    doorbell: list[int | None] = (cqe - latency).tolist()
    opcode = noise.choice([1, 2, 2, 2, 0, 9], count).tolist()
    qid = noise.integers(1, 4, count).tolist()
    flags, status = [0] * count, [0] * count
    fetch: list[int | None] = [None if d is None else d + 50 for d in doorbell]
    for i in noise.integers(0, count, 400).tolist():
        doorbell[i] = None
    for i in noise.integers(0, count, 100).tolist():
        doorbell[i] = fetch[i] = None
    for i in noise.integers(0, count, 60).tolist():
        status[i] = 0x281
    for i in noise.integers(0, count, 20).tolist():
        flags[i] = 0x08  # aborted
    for i in noise.integers(0, count, 20).tolist():
        flags[i] = 0x10  # without SQE
    for i in noise.integers(0, count, 40).tolist():
        qid[i], opcode[i] = 0, 6
    for i in noise.integers(0, count, 5).tolist():
        qid[i], opcode[i] = 0, 12  # an Asynchronous Event Request
    order = np.arange(count)
    order[100:110] = order[100:110][::-1]  # nearly, not strictly, in the order of CQEs
    made = {
        "cqe_tick": cqe.tolist(),
        "doorbell_tick": doorbell,
        "fetch_tick": fetch,
        "opcode": opcode,
        "qid": qid,
        "cid": noise.integers(0, 1 << 16, count).tolist(),
        "status": status,
        "flags": flags,
        "slba": noise.integers(0, 1 << 40, count).tolist(),
        "blocks": noise.integers(1, 257, count).tolist(),
        "nsid": [1] * count,
    }
    return {name: [values[i] for i in order] for name, values in made.items()}


def write(path: Path, columns: dict[str, list[int | None]]) -> Capture:
    """A capture with these commands, in row groups of 4000 rows."""
    with CaptureWriter(path, journal=False, lba_size_bytes=512, conditions={"virtual": True}) as writer:
        count = len(columns["cqe_tick"])
        for first in range(0, count, 4000):
            writer.add_rows("commands", {name: values[first : first + 4000] for name, values in columns.items()})
    return open_capture(path)


@pytest.fixture(scope="module")
def small() -> Iterator[None]:
    """A pyramid is worth it, and has several levels, for 30 000 commands; statistics of more than a tenth are not read row by row."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "_ROW_GROUP", 4000)
        patch.setattr(build, "LEAST_LOAD", 1)
        patch.setattr(build, "LEAST_DENSITY", 4)
        patch.setattr(build, "ZONE", 128)
        for module in (build, table):
            patch.setattr(module, "SEGMENT_ROWS", 1024)
        for module in (span, histogram):
            patch.setattr(module, "EXACT_ROWS", 3000)
        patch.setattr(pyramid, "SMALL", 1000)
        yield


@pytest.fixture(scope="module")
def busy(small: None, tmp_path_factory: pytest.TempPathFactory) -> Zoom:
    """Table of such commands."""
    return Zoom(write(tmp_path_factory.mktemp("busy") / "capture", rows()))


def truth(zoom: Zoom) -> pl.DataFrame:
    """The commands straight from the file, with ``start``, ``end``, ``io``, ``good``, ``moved``, in the order of the file."""
    start = pl.coalesce("doorbell_tick", "fetch_tick", "cqe_tick")
    known = (pl.col("flags") & 0x10) == 0
    good = (pl.col("status") == 0) & ((pl.col("flags") & 0x08) == 0)
    frame = pl.read_parquet(zoom.capture.path / "commands.parquet").with_row_index("index")
    return frame.with_columns(
        start.alias("start"),
        pl.max_horizontal(start, "cqe_tick").alias("end"),
        ((pl.col("qid") > 0) & known).alias("io"),
        good.alias("good"),
        pl.when(good & known & (pl.col("qid") > 0) & pl.col("opcode").is_in([1, 2]))
        .then(pl.col("blocks").cast(pl.Int64) * 512)
        .otherwise(0)
        .alias("moved"),
        pl.coalesce("doorbell_tick", "fetch_tick").is_not_null().alias("timed"),
    )


def spans(zoom: Zoom, count: int, seed: int = 5) -> list[tuple[int, int]]:
    """Spans of all lengths; a few reach beyond the capture."""
    noise = np.random.default_rng(seed)
    first, last = zoom.bounds
    whole = last - first
    made = [(first, last), (first - whole // 3, last + whole // 3)]
    for _ in range(count):
        length = int(np.exp(noise.uniform(np.log(10), np.log(whole))))
        begin = int(noise.integers(first - length // 2, last - length // 2))
        made.append((begin, begin + length))
    return made
