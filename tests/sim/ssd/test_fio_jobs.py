"""Job files on the model beside fio itself: block sizes, places and order of the I/Os.

``FIO`` holds fio 3.33's results for the same job (engine null, ``--write_iolog``). If fio is installed, the first test makes these
figures again. Offsets and sizes of the model come from its truth of each command.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from wattbell.suites.jobs import DRIVE, NOT_ON_A_MODEL, OPTIONS

SIM = Path(__file__).resolve().parents[3] / "sim"
COUNT = 20_000
AREA = "64m"
MIXES = {
    "split": "rw=randread\nnorandommap\nbssplit=4k/60:64k/30:128k/10",
    "split by direction": "rw=randrw\nnorandommap\nbssplit=4k/20:8k/80,16k/50:32k",
    "range": "rw=randread\nnorandommap\nbsrange=4k-32k",
    "range of odd blocks": "rw=randread\nnorandommap\nbsrange=1536-8k",
    "split with a map": "rw=randread\nbssplit=512/10:4k/60:64k/30\nsize=1g",
}
PLACES = {
    "zipf:1.2": "random_distribution=zipf:1.2",
    "zipf:0.8": "random_distribution=zipf:0.8",
    "zipf": "random_distribution=zipf",
    "pareto:0.2": "random_distribution=pareto:0.2",
    "normal:10": "random_distribution=normal:10",
    "zoned": "random_distribution=zoned:50/5:30/15:20/80",
    "zoned to the end": "random_distribution=zoned:50/5:30/15:20/",
    "zoned_abs": "random_distribution=zoned_abs:60/1m:40/63m",
    "uniform": "norandommap",
}
TOP = (1, 10, 100, 1000)
"""Numbers of the most used blocks of 4 KiB; their shares of the I/Os are compared."""
FIO: dict[str, dict[str, list[float]]] = json.loads((Path(__file__).parent / "fio_figures.json").read_text())


class Io(NamedTuple):
    """An I/O in bytes; ``what``: read, write or trim."""

    what: str
    offset: int
    size: int


def by_fio(folder: Path, job: str) -> list[Io]:
    (folder / "fio.fio").write_text(f"[global]\nioengine=null\nfilename=/dev/zero\nfilesize=1g\nthread\nrandseed=1\n[a]\n{job}\n")
    log = folder / "iolog"
    log.unlink(missing_ok=True)
    subprocess.run(["fio", f"--write_iolog={log}", folder / "fio.fio"], check=True, capture_output=True, cwd=folder)
    words = [line.split() for line in log.read_text().splitlines()]
    return [Io(w[-3], int(w[-2]), int(w[-1])) for w in words if len(w) >= 4 and w[-3] in {"read", "write", "trim"}][:COUNT]


def by_model(folder: Path, job: str, **environment: str) -> list[Io]:
    rows = commands(folder, f"[global]\ndirect=1\nioengine=libaio\n[a]\n{job}\n", **environment)
    names = {1: "write", 2: "read", 9: "trim"}
    return [Io(names[int(r["opcode"])], 512 * int(r["slba"]), 512 * int(r["blocks"])) for r in rows if int(r["opcode"]) in names]


def commands(folder: Path, text: str, **environment: str) -> list[dict[str, str]]:
    (folder / "job.fio").write_text(text)
    program = SIM / "target" / "release" / "wattbell-ssd"
    outputs = [
        "--trace=/dev/null",
        f"--truth-commands={folder / 'c.csv'}",
        f"--phases={folder / 'phases.json'}",
        f"--fio-json={folder / 'fio.json'}",
    ]
    subprocess.run(
        [program, "run", "--summaries", "--job", folder / "job.fio", *outputs], check=True, env=os.environ | environment, cwd=folder
    )
    with (folder / "c.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if int(row["qid"]) > 0]
    return sorted(rows, key=lambda row: (int(row["doorbell_ps"]), int(row["fetch_ps"])))


def mix(ios: list[Io]) -> dict[str, float]:
    """Return the share of each direction's I/Os with each size, for sizes of more than a hundredth."""
    of = Counter(io.what for io in ios)
    counts = Counter((io.what, io.size) for io in ios)
    return {f"{what} {size}": n / of[what] for (what, size), n in sorted(counts.items()) if n > of[what] / 100}


def heat(ios: list[Io]) -> list[float]:
    """Return the shares of the ``TOP`` blocks, and of the first twentieth, fifth and half of the area."""
    blocks = Counter(io.offset // 4096 for io in ios)
    ranked = [n for _, n in blocks.most_common()]
    area = 64 << 20
    return [sum(ranked[:top]) / len(ios) for top in TOP] + [sum(io.offset < area * s for io in ios) / len(ios) for s in (0.05, 0.2, 0.5)]


def mix_job(name: str) -> str:
    return f"size={AREA}\n{MIXES[name]}\nnumber_ios={COUNT}\nio_size=100g"


def place_job(name: str) -> str:
    return f"size={AREA}\nbs=4k\nrw=randread\n{PLACES[name]}\nnumber_ios={COUNT}\nio_size=100g"


@pytest.mark.needs("fio")
@pytest.mark.parametrize("name", [*MIXES, *PLACES])
def test_the_recorded_figures_are_those_of_fio(name: str, tmp_path: Path) -> None:
    if name in MIXES:
        found = mix(by_fio(tmp_path, mix_job(name)))
        assert found == pytest.approx(FIO["mixes"][name], abs=0.02)
    else:
        hot = 4 if name.startswith(("zipf", "pareto", "normal")) else 7  # fio chooses the place of the hottest block
        assert heat(by_fio(tmp_path, place_job(name)))[:hot] == pytest.approx(FIO["places"][name][:hot], abs=0.02)


@pytest.mark.parametrize("name", MIXES)
def test_block_sizes_come_as_often_as_in_fio(name: str, tmp_path: Path) -> None:
    found = mix(by_model(tmp_path, mix_job(name)))
    # twice the standard error of two shares of 10 000 each is 0.014
    assert found == pytest.approx(FIO["mixes"][name], abs=0.02)


@pytest.mark.parametrize("name", PLACES)
def test_hot_blocks_are_as_hot_as_in_fio(name: str, tmp_path: Path) -> None:
    hot = 4 if name.startswith(("zipf", "pareto", "normal")) else 7
    assert heat(by_model(tmp_path, place_job(name)))[:hot] == pytest.approx(FIO["places"][name][:hot], abs=0.02)


@pytest.mark.parametrize(
    ("job", "sectors"),
    [
        ("rw=read:8k", "r0 r24 r48 r72 r96 r120"),
        ("rw=read:-8k", "r0 r112 r104 r96 r88 r80 r72 r64 r56 r48 r40 r32 r24 r16 r8 r0"),
        ("rw=read\nzonemode=strided\nzonesize=8k\nzoneskip=16k", "r0 r8 r48 r56 r96 r104 r0 r8 r48 r56 r96 r104 r0 r8 r48 r56"),
        ("rw=trimwrite\nsize=16k", "t0 w0 t8 w8 t16 w16 t24 w24"),
        ("rw=write\nverify=crc32c\nsize=16k", "w0 w8 w16 w24 r0 r8 r16 r24"),
        ("rw=write\nverify=crc32c\ndo_verify=0\nsize=16k", "w0 w8 w16 w24"),
        ("rw=read\nverify=crc32c\nsize=16k", "r0 r8 r16 r24"),
        (
            "rw=write\nverify=md5\nsize=40k\nverify_backlog=4",
            "w0 w8 w16 w24 r0 r8 r16 r24 w32 w40 w48 w56 r32 r40 r48 r56 w64 w72 r64 r72",
        ),
        (
            "rw=write\nverify=md5\nsize=40k\nverify_backlog=4\nverify_backlog_batch=2",
            "w0 w8 w16 w24 r0 r8 w32 w40 r16 r24 w48 w56 r32 r40 w64 w72 r48 r56 r64 r72",
        ),
        (
            "rw=write\nverify=md5\nsize=40k\nverify_backlog=3\nverify_backlog_batch=6",
            "w0 w8 w16 r0 r8 r16 w24 r24 w32 r32 w40 r40 w48 w56 w64 r48 r56 r64 w72 r72",
        ),
        ("rw=read\nio_size=10k", "r0 r8 r16"),
        ("rw=read\nsize=10k", "r0 r8"),
        ("rw=read\nsize=16k\noffset=32k\noffset_increment=64k\nnumjobs=2", "r64 r72 r80 r88 r192 r200 r208 r216"),
    ],
)
def test_order_is_that_of_fio(job: str, sectors: str, tmp_path: Path) -> None:
    """The sectors are from fio's iolog of the same job (3.33), written by hand for two jobs at a time."""
    found = [f"{io.what[0]}{io.offset // 512}" for io in by_model(tmp_path, f"bs=4k\nsize=64k\n{job}")]
    if "numjobs" in job:
        found.sort(key=lambda text: int(text[1:]))
    assert found == sectors.split()


def test_random_writes_are_read_again_in_their_order_or_by_offset(tmp_path: Path) -> None:
    ios = by_model(tmp_path, "rw=randwrite\nbs=4k\nsize=64k\nverify=md5")
    assert [io.offset for io in ios[16:]] == [io.offset for io in ios[:16]]
    assert [io.what for io in ios] == ["write"] * 16 + ["read"] * 16
    ios = by_model(tmp_path, "rw=randwrite\nbs=4k\nsize=64k\nverify=md5\nnorandommap")
    assert [io.offset for io in ios[16:]] == sorted({io.offset for io in ios[:16]})


def test_a_poisson_rate_has_exponential_gaps(tmp_path: Path) -> None:
    rows = commands(
        tmp_path,
        "[a]\ndirect=1\nrw=randread\nsize=64m\nrate_iops=1000\nrate_process=poisson\nnumber_ios=4000\nioengine=libaio\niodepth=32\n",
    )
    bells = [int(row["doorbell_ps"]) * 1e-12 for row in rows]
    gaps = [b - a for a, b in pairwise(bells)]
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(1e-3, rel=0.06)
    # exponential distribution: one in e is longer than the mean, one in e^3 longer than three means
    assert sum(g > mean for g in gaps) / len(gaps) == pytest.approx(0.3679, abs=0.03)
    assert sum(g > 3 * mean for g in gaps) / len(gaps) == pytest.approx(0.0498, abs=0.015)


def test_the_ramp_is_in_no_figure_of_fio_but_in_the_phase(tmp_path: Path) -> None:
    rows = commands(tmp_path, "[a]\ndirect=1\nrw=read\nbs=4k\nsize=1g\nrate_iops=1000\nramp_time=1\nruntime=2\ntime_based\n")
    (job,) = json.loads((tmp_path / "fio.json").read_text())["jobs"]
    (phase,) = json.loads((tmp_path / "phases.json").read_text())
    truth = [row for row in rows if row["opcode"] == "2"]
    assert len(truth) == 3000
    assert job["read"]["total_ios"] == pytest.approx(2000, abs=2)
    assert job["read"]["runtime"] == pytest.approx(2000, abs=2)
    assert phase["ramp_s"] == 1


def test_values_come_from_the_environment_and_from_included_files(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "more.fio").write_text("bs=$pagesize*2 ; two pages\nsize=${SIZE}\n")
    ios = by_model(tmp_path, "include jobs/more.fio\nrw=read", SIZE="32k")
    assert ios == [Io("read", at, 8192) for at in range(0, 32768, 8192)]


def test_options_without_effect_are_read_past_and_told(tmp_path: Path) -> None:
    quiet, fitted = (
        by_model(tmp_path, f"rw=randread\nbs=4k\nsize=1m\n{more}") for more in ("", "fixedbufs\nregisterfiles=1\nlog_avg_msec=500\nhipri")
    )
    assert quiet == fitted
    (phase,) = json.loads((tmp_path / "phases.json").read_text())
    assert phase["options_without_effect"] == ["fixedbufs", "hipri", "log_avg_msec", "registerfiles"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("iodepth_batch=8", "one by one"),
        ("ioengine=sg", "engine `sg`"),
        ("size=${NOWHERE}", "NOWHERE is not set"),
        ("bssplit=4k/50:8k/20", "70, not 100"),
        ("magic=1", "not one this model knows"),
        ("include missing.fio", "missing.fio"),
        ("direct=0", "page cache"),
    ],
)
def test_what_cannot_be_done_is_named_with_its_line(line: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "x.fio").write_text(f"[a]\nrw=read\nsize=1m\ndirect=1\n{line}\n")
    found = subprocess.run(
        [SIM / "target" / "release" / "wattbell-ssd", "check", "x.fio"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert found.returncode == 1
    assert found.stderr.startswith("wattbell-ssd: x.fio:5: ") and says in found.stderr
    assert found.stderr.count("\n") == 1


SAMPLES = ("2", "1", "4k", "randrw", "libaio", "2s", DRIVE)
"""Values that cover the form of every option that a suite may set."""


@pytest.mark.parametrize("option", sorted(OPTIONS))
def test_the_model_does_what_a_suite_may_set_but_for_the_options_that_are_named(option: str, tmp_path: Path) -> None:
    def allowed(value: str) -> bool:
        try:
            OPTIONS[option](value)
        except ValueError:
            return False
        return True

    value = next(sample for sample in SAMPLES if allowed(sample))
    (tmp_path / "x.fio").write_text(f"[a]\ndirect=1\nruntime=2\niodepth=8\nsize=1m\nbs=512\n{option}={value}\n")
    program = SIM / "target" / "release" / "wattbell-ssd"
    environment = os.environ | {"WATTBELL_DRIVE": "/dev/nvme0n1"}
    found = subprocess.run([program, "check", "x.fio"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    if option in NOT_ON_A_MODEL:
        assert found.stderr.startswith(f"wattbell-ssd: x.fio:7: option `{option}`: cannot be modelled: "), found.stderr
    else:
        assert "option" not in found.stderr, found.stderr


def test_a_job_through_the_page_cache_runs_as_direct_only_when_asked(tmp_path: Path) -> None:
    (tmp_path / "x.fio").write_text("[a]\nrw=read\nsize=1m\ndirect=0\nioengine=psync\n")
    command = [
        SIM / "target" / "release" / "wattbell-ssd",
        "run",
        "--job",
        "x.fio",
        "--trace",
        "/dev/null",
        "--phases",
        "p.json",
        "--as-direct",
    ]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "warning: x.fio: runs as with direct=1" in found.stderr
    assert json.loads((tmp_path / "p.json").read_text())[0]["departures"] == ["runs as with direct=1: the model has no page cache"]
