"""The suites as shipped: every test of the published table, with its numbers; job files that fio itself accepts."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from wattbell.errors import SimError, UsageError
from wattbell.suites.jobs import scaled, sections
from wattbell.suites.listing import DATA, suite_names
from wattbell.suites.manifest import load_suite, parse_manifest
from wattbell.suites.units import size_bytes
from wattbell.virtual import simulator

from tests import needs

GIB = 1 << 30
# The published table (docs/methodology.md): block, depths, write shares, span, sections, amount each, run time.
TABLE = {
    "burst-random-read": ("4k", {1}, {0.0}, 16 * GIB, 32, "32m", None),
    "burst-random-write": ("4k", {1}, {1.0}, 16 * GIB, 32, "4m", None),
    "burst-sequential-read": ("128k", {1}, {0.0}, None, 8, None, None),
    "burst-sequential-write": ("128k", {1}, {1.0}, None, 8, None, None),
    "sustained-random-read": ("4k", {1, 2, 4, 8, 16, 32}, {0.0}, 64 * GIB, 6, "32g", "60"),
    "sustained-random-write": ("4k", {1, 2, 4, 8, 16, 32}, {1.0}, 64 * GIB, 6, "32g", "60"),
    "sustained-sequential-read": ("128k", {1, 2, 4, 8, 16, 32}, {0.0}, 64 * GIB, 6, "32g", "60"),
    "sustained-sequential-write": ("128k", {1, 2, 4, 8, 16, 32}, {1.0}, 64 * GIB, 6, "32g", "60"),
    "mixed-random": ("4k", {4}, {k / 10 for k in range(11)}, 64 * GIB, 11, "32g", "60"),
    "mixed-sequential": ("128k", {1}, {k / 10 for k in range(11)}, 64 * GIB, 11, "32g", "60"),
}


@pytest.mark.parametrize("test_id", TABLE)
def test_job_files_say_what_the_table_says(test_id: str) -> None:
    suite = load_suite("anandtech-2018")
    test = suite.test(test_id)
    block, depths, shares, span, count, amount, runtime = TABLE[test_id]
    jobs = sections((suite.folder / test.jobs).read_text())
    assert len(jobs) == count
    assert {j.options["bs"] for j in jobs} == {block}
    assert {j.depth for j in jobs} == depths
    assert {round(j.write_share, 9) for j in jobs} == shares
    assert {("rand" in j.options["rw"]) for j in jobs} == {"random" in test_id}
    if span:
        assert {size_bytes(j.options["size"]) for j in jobs} == {span}
        assert {j.options["io_size"] for j in jobs} == {amount}
    else:  # a sequential burst writes its own 128 MiB, inside 16 GiB
        assert {size_bytes(j.options["size"]) for j in jobs} == {128 << 20}
        assert max(size_bytes(j.options["offset"]) for j in jobs) + (128 << 20) <= 16 * GIB
    assert {j.options.get("runtime") for j in jobs} == {runtime}
    assert set(test.conditions) == {"test-data", "full"}
    assert test.duty == (0.2 if test_id.startswith("burst") else 0.5)


def test_the_client_suite_has_every_row() -> None:
    ids = {t.id for t in load_suite("anandtech-2018").tests}
    assert ids == {*TABLE, "sustained-sequential-read-after-random-write", "whole-drive-fill", "active-idle", "idle"} | {
        "fill-of-a-90-percent-full-drive",
        "fill-of-a-full-drive",
        "idle-wake-up",
        "atsb-destroyer-like",
        "atsb-heavy-like",
        "atsb-light-like",
    }


def test_consistency_suites_limit_the_lbas_both_ways() -> None:
    for year, seconds in (("2014", "2000"), ("2016", "3600")):
        suite = load_suite(f"consistency-{year}")
        spans = {}
        for test in suite.tests:
            (job,) = sections((suite.folder / test.jobs).read_text())
            assert (job.options["runtime"], job.depth, job.options["bs"]) == (seconds, 32, "4k")
            assert job.options["refill_buffers"] == "1"
            assert test.fill is not None
            spans[test.id] = (job.options["size"], test.fill.span)
        assert spans == {
            "random-write": ("100%", 1.0),
            "random-write-op75": ("75%", 0.75),
            "random-write-op80": ("80%", 0.80),
        }
        assert [t.id for t in suite.tests if t.default] == ["random-write", "random-write-op75"]


def test_snia_iops_round_is_the_whole_matrix() -> None:
    jobs = sections((DATA / "snia-pts" / "iops-round.fio").read_text())
    cells = {(int(j.options["rwmixread"]), size_bytes(j.options["bs"])) for j in jobs}
    reads, blocks = (100, 95, 65, 50, 35, 5, 0), (1024, 128, 64, 32, 16, 8, 4, 0.5)
    assert cells == {(r, int(b * 1024)) for r in reads for b in blocks}
    assert {j.options["runtime"] for j in jobs} == {"60"}


ALL_JOBS = [path for name in suite_names() for path in sorted((DATA / name).glob("*.fio"))]


def test_fio_itself_takes_every_job_file(tmp_path: Path) -> None:
    fio = needs.program("fio")
    drive = tmp_path / "drive"
    with drive.open("wb") as stream:
        stream.truncate(1_024_209_543_168)
    copies = []
    for path in ALL_JOBS:
        copies.append(tmp_path / f"{path.parent.name}-{path.name}")
        copies[-1].write_text(scaled(path.read_text(), 0.001, 1_024_209_543_168))
    environment = {**os.environ, "WATTBELL_DRIVE": str(drive)}
    told = subprocess.run([fio, "--parse-only", *ALL_JOBS, *copies], env=environment, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr + told.stdout


def test_the_drive_model_takes_every_job_file() -> None:
    try:
        program = simulator.find_program("wattbell-ssd")
    except SimError:
        needs.built(False, "make sim")
    told = subprocess.run([program, "check", *ALL_JOBS], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr


def test_wrong_manifests_are_told_by_test_and_key(tmp_path: Path) -> None:
    good = {"id": "a", "name": "A", "kind": "idle", "conditions": ["empty"], "idle_s": 1.0}
    assert parse_manifest({"name": "x", "test": [good]}, _folder(tmp_path)).tests[0].session == "a"
    for change, says in (
        ({"kind": "nap"}, "kind nap"),
        ({"conditions": ["warm"]}, "conditions"),
        ({"duty": 0}, "duty"),
        ({"aspm": "l2"}, "aspm l2"),
        ({"kind": "burst"}, "jobs"),
        ({"kind": "trace"}, "trace"),
        ({"jobs": "none.fio", "kind": "burst"}, "none.fio"),
        ({"fill": {"span": 2.0}}, "fill.span"),
        ({"test_data": "many"}, "many"),
        ({"colour": "red"}, "colour"),
    ):
        with pytest.raises(UsageError, match=says):
            parse_manifest({"test": [{**good, **change}]}, _folder(tmp_path))
    with pytest.raises(UsageError, match="two tests"):
        parse_manifest({"test": [good, good]}, _folder(tmp_path))
    with pytest.raises(UsageError, match="known: anandtech-2018"):
        load_suite("anandtech-2019")


def _folder(path: Path) -> Path:
    (path / "manifest.toml").write_text("")
    return path


def test_the_digest_is_of_every_file(tmp_path: Path) -> None:
    shutil.copytree(DATA / "quick", tmp_path / "quick")
    before = load_suite(tmp_path / "quick").digest
    assert before == load_suite("quick").digest
    with (tmp_path / "quick" / "mixed-random.fio").open("a") as stream:
        stream.write("; a comment\n")
    assert load_suite(tmp_path / "quick").digest != before
