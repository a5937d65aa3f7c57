"""Power cuts on real file systems (ext4, btrfs), and the order in which a recorder writes, flushes, renames and removes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from wattbell.capture import open_capture
from wattbell.results import Store

from tests.faults import faultpower
from tests.faults.diskorder import order_of
from tests.host.results import samples

WATTBELL = Path(sys.executable).with_name("wattbell")


@pytest.mark.needs("mkfs.btrfs")
@pytest.mark.skipif(not faultpower.possible(), reason="needs root and loop devices: run in the bare root of CI, or as root")
@pytest.mark.long  # the short soak, which CI runs too, has each of these as a row
@pytest.mark.parametrize("kind, replace", [("ext4", True), ("btrfs", False)], ids=["ext4, replacing another", "btrfs, a new capture"])
def test_a_power_cut_takes_no_more_than_the_last_second(kind: str, replace: bool, tmp_path: Path) -> None:
    """``tools/soak.py`` cuts at more instants, on both file systems with and without another capture."""
    verdict = faultpower.cut_power(kind, np.random.default_rng(44), tmp_path, replace=replace)
    assert verdict.silent == []


WRITING = """
import sys, numpy as np
from wattbell.capture.writer import CaptureWriter
from tests.faults.faultstream import make
with CaptureWriter(sys.argv[1], overwrite=True, lba_size_bytes=512) as writer:
    writer.feed(make(np.random.default_rng(int(sys.argv[2]))))
    if sys.argv[3:]:
        writer.save_meta()
        import os
        os._exit(0)
"""
"""Program that records a stream; with a third argument it dies without an end."""


def record(place: Path, seed: int, *dies: str) -> list[str]:
    return [sys.executable, "-c", WRITING, str(place), str(seed), *dies]


def orderly(command: Sequence[str | Path], folder: Path) -> None:
    order = order_of(command, folder, folder.with_name("calls"), cwd=Path(__file__).parents[2])
    assert order.seen > 10 and order.faults == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make the observed folder; the log of the calls is beside it."""
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def run(command: Sequence[str | Path]) -> None:
    subprocess.run([*map(str, command)], check=True, capture_output=True, cwd=Path(__file__).parents[2])


@pytest.mark.needs("strace")
def test_a_recording_is_on_the_disk_before_its_journal_goes(folder: Path) -> None:
    orderly(record(folder / "capture", 1), folder)
    orderly(record(folder / "capture", 2), folder)  # replaces the other


@pytest.mark.needs("strace")
def test_a_rebuilt_capture_is_on_the_disk_before_it_says_so(folder: Path) -> None:
    run(record(folder / "capture", 3, "dies"))
    orderly([WATTBELL, "info", folder / "capture"], folder)
    assert open_capture(folder / "capture").state == "recovered"


@pytest.mark.needs("strace")
def test_a_repaired_capture_is_on_the_disk(folder: Path) -> None:
    run(record(folder / "capture", 4))
    os.truncate(folder / "capture/commands.parquet", 20)
    orderly([WATTBELL, "check", "--repair", folder / "capture"], folder)


@pytest.mark.needs("strace")
def test_an_import_is_on_the_disk(folder: Path) -> None:
    rows = "".join(f"{n / 1000},{0.1 + n % 7 / 100},3.3\n" for n in range(500))
    (folder / "scope.csv").write_text(f"time (s),current (A),voltage (V)\n{rows}")
    orderly([WATTBELL, "import", folder / "scope.csv", "--out", folder / "capture"], folder)


@pytest.mark.needs("strace")
@pytest.mark.parametrize("name", ["csv", "sigrok", "parquet", "jls", "perfetto", "vcd"])
def test_an_export_is_on_the_disk(name: str, folder: Path) -> None:
    run(record(folder / "capture", 5))
    orderly([WATTBELL, "export", name, folder / "capture", "--out", folder / "exported"], folder)


@pytest.mark.needs("strace")
def test_a_store_is_on_the_disk(folder: Path) -> None:
    store = folder / "new" / "results.sqlite"
    orderly([WATTBELL, "results", "import", samples.write_results(folder / "run"), "--store", store], folder)
    with Store(store) as opened:
        (entry,) = opened.entries()
    orderly([WATTBELL, "results", "delete", entry.id, "--store", store], folder)


@pytest.mark.needs("strace")
def test_a_page_is_on_the_disk(folder: Path) -> None:
    run(record(folder / "capture", 6))
    orderly([WATTBELL, "report", folder / "capture", "--out", folder / "report.html"], folder)
    results, other = samples.write_results(folder / "run"), samples.write_results(folder / "other", "crucial-p1-1tb")
    store = folder.with_name("results.sqlite")
    run([WATTBELL, "results", "import", results, "--store", store])
    orderly([WATTBELL, "compare", results, other, "--out", folder / "compared", "--no-plots", "--store", store], folder)


@pytest.mark.needs("strace")
@pytest.mark.parametrize("missing", ["flush of the contents", "flush of the names"])
def test_what_is_not_on_the_disk_is_seen(missing: str, folder: Path) -> None:
    """The rules detect a program without flushes."""
    flush = "" if missing == "flush of the contents" else "os.fsync(file.fileno())"
    program = f"""
import os, sys
folder = sys.argv[1] + "/"
with open(folder + "stream.wbs", "w") as file:
    file.write("stream")
with open(folder + "part", "w") as file:
    file.write("contents"); file.flush(); {flush}
os.rename(folder + "part", folder + "whole")
os.unlink(folder + "stream.wbs")
"""
    order = order_of([sys.executable, "-c", program, folder], folder, folder.with_name("calls"))
    found = " / ".join(order.faults)
    assert "stream.wbs is removed before the disk has" in found and "at the end the disk may not have" in found
    assert ("takes the name before the disk has the contents" in found) == (missing == "flush of the contents")
