"""`wattbell run --drive` as on a bench: Linux, fio, nvme-cli, lspci and a serial line in one guest, two drives behind QEMU's root
ports.

The first drive is our model, with the virtual rig at its connector. The second is QEMU's own, with two namespaces and no rig. The
kernel, fio, lspci and the second drive's image files give the expected values. The guest boots once; bench_guest.py is its session.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import wattbell.cli  # compiled here, where that is quicker than in the guest
from wattbell.capture import Capture, open_capture
from wattbell.capture.schema import SeenBy

from tools.jobfile import at_the_drive

ROOT = Path(__file__).resolve().parents[2]
FIRST, SECOND = "WATTBELL660P0001", "SECOND"
MIB = 1 << 20
IMAGE_MIB = 64
MANIFEST = """
name = "box"
title = "What the bench is tried with"
session = "box"

[[test]]
id = "random-read"
name = "Random read"
kind = "queue-depths"
conditions = ["test-data"]
test_data = "16m"
jobs = "read.fio"
score_over = [1, 4]

[[test]]
id = "wake-up"
name = "Wake-up"
kind = "wake"
conditions = ["test-data"]
test_data = "16m"
repeat = 1
idle_s = 2.0
apst = true
aspm = "l1.2"
"""
JOB = at_the_drive("""\
rw=randread
bs=4k
size=16m
io_size=512k
stonewall
[qd1]
iodepth=1
[qd4]
iodepth=4
""")
# QEMU's UART carries a hundred reads a second beside the rail on a busy machine; the next session reads the rest.
LONG = at_the_drive("""\
rw=randread
bs=4k
size=16m
runtime=60
time_based
rate_iops=100
[a]
[b]
stonewall
""")
PLAN = """
[[step]]
idle_s = 3.0
apst = true
aspm = "l1.2"

[[step]]
wake = { idle_s = 2.0, slba = 4096 }
apst = true
aspm = "l1.2"
"""
READS = [(1 << 20, 4096), (5 << 20, 131_072), (1 << 20, 4096), (9 << 20, 16_384), (3 << 20, 65_536)]
"""Reads of a trace: first byte, number of bytes."""

pytestmark = [pytest.mark.xdist_group("real-drive"), pytest.mark.long]
assert wattbell.cli


def trace() -> str:
    """Return fio's iolog, in us: the third read comes 300 s after the second."""
    stamps = (5, 900, 300_000_900, 300_003_000, 300_003_500)
    rows = [f"{stamp} /dev/sdx read {at} {size}" for stamp, (at, size) in zip(stamps, READS, strict=True)]
    return "\n".join(["fio version 3 iolog", "0 /dev/sdx add", "0 /dev/sdx open", *rows, "300010000 /dev/sdx close", ""])


def second_drive(images: list[Path]) -> list[str]:
    """Return QEMU's arguments for a drive with a namespace for each image."""
    words = ["-device", "pcie-root-port,id=above2,bus=pcie.0,chassis=2,slot=2,x-speed=8,x-width=4"]
    words += ["-device", f"nvme,id=second,serial={SECOND},bus=above2"]
    for number, image in enumerate(images, start=1):
        words += ["-drive", f"if=none,id=ns{number},format=raw,cache=unsafe,discard=unmap,file={image}"]
        words += ["-device", f"nvme-ns,drive=ns{number},bus=second,nsid={number}"]
    return words


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bench")
    (out / "suite").mkdir()
    (out / "suite/manifest.toml").write_text(MANIFEST)
    (out / "suite/read.fio").write_text(JOB)
    (out / "long.fio").write_text(LONG)
    (out / "asleep.toml").write_text(PLAN)
    (out / "reads.iolog").write_text(trace())
    shutil.copy(Path(__file__).with_name("bench_guest.py"), out)
    images = [out / f"namespace-{number}.raw" for number in (1, 2)]
    for image in images:
        image.write_bytes(bytes([0xA5]) * (IMAGE_MIB * MIB))
    words = ["--slot", "16x4", "--rig-arg=--fidelity", "--rig-arg=fast", "--out", str(out)]
    words += [f"--qemu-arg={word}" for word in second_drive(images)]
    command = [sys.executable, str(ROOT / "sim/guest/box.py"), *words, "--script", f"python bench_guest.py {FIRST} {SECOND}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return out


def text(box: Path, name: str) -> str:
    return (box / name).read_text()


def figures(folder: Path) -> dict[str, Any]:
    """Return the output of `wattbell analyze --json` for a capture."""
    command = [sys.executable, "-m", "wattbell", "analyze", str(folder), "--json"]
    found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


def results(box: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text(box, "first/results.json"))
    return found


def capture(box: Path) -> Capture:
    (folder,) = (box / "first/captures").iterdir()
    return open_capture(folder)


@pytest.fixture(scope="module")
def analysis(box: Path) -> dict[str, Any]:
    return figures(capture(box).path)


# -- refusals -----------------------------------------------------------------------------------------------------------


def test_refusals_are_one_line_and_make_nothing(box: Path) -> None:
    for name, reason in (
        ("wrong", f"with serial number {FIRST}, not NOT-THIS-ONE. Nothing was written."),
        ("mounted", f"{text(box, 'namespaces.txt').split()[0]} is in use (mounted on /mnt/data). Nothing was written; free it first."),
    ):
        assert text(box, f"{name}.code") == "1"
        said = text(box, f"{name}.txt").splitlines()
        assert len(said) == 1 and said[0].startswith("error: ") and said[0].endswith(reason)
    assert not (box / "refused").exists()


def test_nothing_is_written_unasked(box: Path) -> None:
    """Without a terminal the program cannot ask anybody."""
    assert text(box, "unasked.code") == "2"
    said = text(box, "unasked.txt")
    assert said.startswith("error: This writes 33.6 MB ") and "add --yes" in said


def test_a_rig_at_another_drive_is_noticed_before_anything_is_written(box: Path) -> None:
    assert text(box, "elsewhere.code") == "1"
    assert "is this rig at this drive? Nothing was written, and nothing changed." in text(box, "elsewhere.txt")
    assert text(box, "elsewhere-after.txt") == text(box, "before.txt")


# -- namespace 2 of the second drive, interrupted ----------------------------------------------------------------------


def test_the_namespace_under_test_is_purged_and_the_other_kept(box: Path) -> None:
    assert text(box, "kept.txt") == "kept\n", "the file system on namespace 1"
    images = [(box / f"namespace-{number}.raw").read_bytes() for number in (1, 2)]
    assert [len(image) for image in images] == [IMAGE_MIB * MIB] * 2
    kept, purged = images[0][32 * MIB :] == bytes([0xA5]) * (32 * MIB), images[1][32 * MIB :] == bytes(32 * MIB)
    assert kept, "behind the file system"
    assert purged, "behind the test's data"


def test_ctrl_c_puts_every_setting_back(box: Path) -> None:
    before, during = text(box, "before.txt"), text(box, "during.txt")
    tested = text(box, "namespaces.txt").split()[1]
    for name, then, now in ((f"{tested}/queue/nomerges", "0", "2"), ("link/l0s_aspm", "1", "0")):
        assert re.search(rf"{name}: {then}$", before, re.MULTILINE), before
        assert re.search(rf"{name}: {now}$", during, re.MULTILINE), "the run had changed nothing: the test proves nothing"
    assert text(box, "after.txt") == before
    assert text(box, "interrupted.code") == "130"
    assert "interrupted; what was recorded is in second/captures/box-test-data-interrupted" in text(box, "interrupted.txt")
    assert not list(box.rglob("restore.json"))
    kept = open_capture(box / "second/captures/box-test-data-interrupted")
    assert kept.meta["rig"]["serial"] == "BOX1"


# -- the first drive, with the rig -------------------------------------------------------------------------------------


def test_a_suite_ends_and_settings_are_put_back(box: Path) -> None:
    assert text(box, "whole.code") == "0", text(box, "whole.txt")
    assert text(box, "whole-after.txt") == text(box, "whole-before.txt")
    found = results(box)
    assert [test["test"] for test in found["tests"]] == ["random-read", "wake-up"]
    assert found["scaled"] is False and found["drive"]["serial"] == FIRST
    assert not any(found["lost"].values())
    assert capture(box).state == "complete"


def test_the_rig_and_fio_count_the_same(analysis: dict[str, Any]) -> None:
    found = analysis["fio"]
    assert found["equal"] is True and found["latency_ok"] is True
    rows = [row for section in found["sections"] for row in section["rows"]]
    assert [row["fio_count"] for row in rows][1:] == [128, 128], "each job reads 512 KiB"


def test_the_drive_sleeps_and_wakes(box: Path, analysis: dict[str, Any]) -> None:
    """APST's table is the kernel's own. The host's clock saw the waking read, and saw it later than the connector did."""
    wake = next(phase for phase in analysis["phases"] if phase["kind"] == "wake")
    latency_s = wake["commands"]["all"]["latency_s"]["max"]
    assert 0.04 < latency_s < wake["described"]["host_latency_s"]
    (score,) = [
        s for t in results(box)["tests"] if t["test"] == "wake-up" for s in t["scores"] if s["name"].startswith("longest, doorbell")
    ]
    assert score["value"]["value"] == pytest.approx(latency_s, rel=1e-9)
    asleep = min(level["mean_w"]["value"] for level in analysis["idle"]["levels"])
    assert asleep == pytest.approx(0.13 + 0.01, rel=0.02), "a link in L0 (the profile's 0.13 W) and the review's 10 mW"
    notes = next(test["notes"] for test in results(box)["tests"] if test["test"] == "wake-up")
    assert any(note.startswith("at rest before the idle time") for note in notes)


def test_both_ends_of_the_link_are_as_lspci_has_them(box: Path) -> None:
    link = results(box)["conditions"]["link"]
    for name, end in (("slot", link["port"]), ("drive", link["drive"])):
        said = re.sub(r"\s+", " ", text(box, f"lspci-{name}.txt"))
        assert f"Speed {end['max_speed_gt_s']:g}GT/s, Width x{end['max_width']}, ASPM {end['aspm_offered']}," in said
        assert f"LnkSta: Speed {end['speed_gt_s']:g}GT/s, Width x{end['width']}" in said
        assert f"Target Link Speed: {end['target_gt_s']:g}GT/s" in said
        assert f"MaxPayload {end['mps_bytes']} bytes, MaxReadReq {end['mrrs_bytes']} bytes" in said
        assert (end["aspm"], "LnkCtl: ASPM Disabled" in said) == ("off", True)
    assert link["port"]["kind"] == "root port" and link["port"]["max_speed_gt_s"] == 16


def test_aspm_is_not_claimed_where_the_ends_offer_nothing_in_common(box: Path, analysis: dict[str, Any]) -> None:
    """QEMU's port offers L0s, the drive L1: the kernel has no file for either, and the rig saw the link stay in L0."""
    assert results(box)["conditions"]["settings"]["aspm"] == ["off", "off: the link has no L1"]
    notes = {test["test"]: test["notes"] for test in results(box)["tests"]}
    refused = "ASPM L1.2 was asked for and not in force: off: the link has no L1"
    assert refused in notes["wake-up"] and refused not in notes["random-read"]
    assert all(level["link"] == {"L0": 1.0} for level in analysis["idle"]["levels"])


# -- any work ----------------------------------------------------------------------------------------------------------


def test_a_job_file_that_reads_needs_no_serial_number(box: Path) -> None:
    assert text(box, "job.code") == "0", text(box, "job.txt")
    rows = [row for section in figures(box / "job")["fio"]["sections"] for row in section["rows"]]
    assert [(row["opcode"], row["wire_count"], row["fio_count"], row["wire_bytes"]) for row in rows] == [("read", 128, 128, 512 << 10)] * 2
    assert (box / "job/stream.wbs").stat().st_size > 0, "--keep-stream"


def test_fios_log_beside_the_tap_has_the_same_reads(box: Path) -> None:
    capture = open_capture(box / "job")
    beside = pl.read_parquet(capture.path / "host_commands.parquet")
    assert set(beside["source"]) == {int(SeenBy.FIO_LOG)} and set(beside["blocks"]) == {8}
    reads = capture.commands.filter((pl.col("qid") > 0) & (pl.col("blocks") == 8)).collect()
    assert len(beside) == 256 and sorted(beside["slba"]) == sorted(reads["slba"])
    about = capture.meta["conditions"]["host_log"]
    assert about["beside_tap"] is True and about["lost"] == []


def test_a_plan_that_only_reads_needs_no_serial_number(box: Path) -> None:
    """The drive falls asleep in both steps. The host's clock measured a longer waking read than the connector."""
    assert text(box, "plan.code") == "0", text(box, "plan.txt")
    capture = open_capture(box / "plan")
    assert capture.state == "complete" and len(capture.meta["drive"]["power_states"]) == 5
    idle, wake = figures(capture.path)["phases"]
    assert (idle["kind"], wake["kind"]) == ("idle", "wake") and idle["duration_s"] > 2.9
    assert 0.04 < wake["commands"]["all"]["latency_s"]["max"] < wake["described"]["host_latency_s"]
    assert min(idle["power"]["mean_w"]["value"], wake["power"]["mean_w"]["value"]) < 0.5, "asleep it draws 0.14 W, awake 0.57 W"


def test_a_trace_is_replayed_with_its_long_pause_cut(box: Path) -> None:
    assert text(box, "trace.code") == "0", text(box, "trace.txt")
    capture = open_capture(box / "trace")
    (phase,) = figures(capture.path)["phases"]
    in_it = (pl.col("qid") > 0) & (pl.col("doorbell_tick") >= phase["first_tick"]) & (pl.col("cqe_tick") <= phase["last_tick"])
    reads = capture.commands.filter(in_it & (pl.col("opcode") == 2)).sort("doorbell_tick").collect()
    assert list(zip(reads["slba"] * 512, reads["blocks"] * 512)) == READS
    assert phase["kind"] == "trace" and phase["duration_s"] < 300


def test_a_command_is_recorded_and_its_exit_code_is_ours(box: Path) -> None:
    """dd makes eight reads of 64 KiB, past the page cache, and reads the drive's real content."""
    assert text(box, "command.code") == "7"
    assert "524288 bytes" in text(box, "command.txt") and "sh ended with exit code 7" in text(box, "command.txt")
    assert (box / "copy.bin").read_bytes() == (box / "expected.bin").read_bytes()
    found = figures(box / "command")
    (phase,) = found["phases"]
    assert (phase["name"], phase["kind"]) == ("sh", "command")
    assert {name: (of["count"], of["bytes"]) for name, of in phase["commands"]["by_opcode"].items()} == {"read": (8, 512 << 10)}
    assert open_capture(box / "command").state == "complete"


# -- a recorder that is killed ------------------------------------------------------------------------------------------


def test_kill_9_keeps_the_kernels_log_of_commands(box: Path) -> None:
    """The tap saw the same reads, one in flight at a time. As far as both were kept, none is missing, none is extra, and the order
    is equal.

    Either may be ahead of the other when it ends: the log is written twice a second, and the rig's line has a queue.
    """
    assert text(box, "killed.code") == "-9"
    kept = open_capture(box / "killed")
    about = kept.meta["conditions"]["host_log"]
    assert kept.state == "recovered" and about["beside_tap"] is True and about["clock_map"] is not None
    (gap,) = about["lost"]
    assert gap["count"] == -1 and gap["reason"] == "the recorder ended without completing the capture"
    beside = pl.read_parquet(kept.path / "host_commands.parquet").filter((pl.col("qid") > 0) & (pl.col("blocks") == 8))
    reads = kept.commands.filter((pl.col("qid") > 0) & (pl.col("blocks") == 8)).sort("cqe_tick").collect()
    both = min(len(beside), len(reads))
    assert both >= 20  # on a busy machine the line of the rig is far behind
    assert beside["slba"].to_list()[:both] == reads["slba"].to_list()[:both]
    assert [phase["name"] for phase in kept.meta["workload"]["phases"]] == ["long/a (broke off)"]


# -- a drive that drops off the bus ------------------------------------------------------------------------------------


def test_a_drive_that_goes_ends_the_run_and_what_was_recorded_is_kept(box: Path) -> None:
    assert text(box, "gone.code") == "1"
    said = text(box, "gone.txt").splitlines()
    assert [line for line in said if line[:1].isdigit()] == ["1: long/a"], "the second job is not begun"
    error = next((line for line in said if line.startswith("error: ")), "")
    assert error, "\n".join(said)
    assert f"serial number {FIRST}) has gone: this computer does not see it any more" in error
    assert "Traceback" not in text(box, "gone.txt") and "bug:" not in text(box, "gone.txt")
    kept = open_capture(box / "gone")
    assert kept.commands.filter((pl.col("qid") > 0) & (pl.col("blocks") == 8)).collect().height >= 200
    assert [phase["name"] for phase in kept.meta["workload"]["phases"]] == ["long/a (broke off)"]
    assert any("the session broke off" in note for note in kept.meta["conditions"]["notes"])


def test_no_file_takes_its_place_and_the_slot_is_as_it_was(box: Path) -> None:
    """fio would make a file with the drive's name, in memory, and measure that file."""
    assert text(box, "gone-nodes.txt") == "" and text(box, "gone-slot.txt") == "the same"
    assert [path.name for path in box.rglob("*restore.json")] == ["killed.restore.json"], "that of a killed run is for the next one"
