"""Jobs of one file that end, wait for and share with each other, on the model.

The reference is fio itself if it can do the same without a drive. Otherwise it is the times of the model's own commands, checked by
hand or by other arithmetic. Figures in ``ENDED`` are from fio 3.33 (engine null); if fio is installed, the first test makes them
again.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from studies.fio_examples import count

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "sim/target/release/wattbell-ssd"
EXAMPLES = Path(os.environ.get("WATTBELL_FIO_EXAMPLES", "/nowhere"))
"""`examples` of the fio commit that docs/ssd-model.md names."""
PATHS = pytest.mark.parametrize("fidelity", [("--summaries",), ()], ids=["lean", "tlps"])
TOGETHER = """
[a]
rw=read
rate_iops=1000
number_ios=300
exit_what={what}
[b]
rw=read
rate_iops=100
[c]
new_group
rw=read
rate_iops=100
runtime=1
time_based
[d]
stonewall
rw=read
number_ios=500
exit_what=all
[e]
stonewall
rw=read
number_ios=10
"""
ENDED = {
    "group": [("a", 0, 300), ("b", 0, 30), ("c", 1, 100), ("d", 2, 500), ("e", 3, 0)],
    "stonewall": [("a", 0, 300), ("b", 0, 30), ("c", 1, 30), ("d", 2, 500), ("e", 3, 0)],
    "all": [("a", 0, 300), ("b", 0, 30), ("c", 1, 30), ("d", 2, 0), ("e", 3, 0)],
}
"""Job, group and number of I/Os, by the option that ends the jobs together with job a."""


def run(folder: Path, text: str, *options: str) -> list[dict[str, Any]]:
    """Return the jobs of the model's fio.json; c.csv and phases.json are left in the folder."""
    (folder / "j.fio").write_text("[global]\nioengine=libaio\ndirect=1\nsize=1g\n" + text)
    outputs = ["--fio-json", "fio.json", "--phases", "phases.json", "--truth-commands", "c.csv", "--trace", "/dev/null"]
    subprocess.run([PROGRAM, "run", "--job", "j.fio", *outputs, *options], cwd=folder, check=True, capture_output=True)
    jobs: list[dict[str, Any]] = json.loads((folder / "fio.json").read_text())["jobs"]
    return jobs


def commands(folder: Path, opcode: int = 2) -> list[dict[str, float]]:
    """Return doorbell, completion (seconds), slba and blocks of the I/O commands of an opcode."""
    with (folder / "c.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if int(row["qid"]) > 0 and int(row["opcode"]) == opcode]
    return [{name: float(value) * (1e-12 if name.endswith("_ps") else 1) for name, value in row.items() if value} for row in rows]


def counts(jobs: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    return [(job["jobname"], job["groupid"], job["read"]["total_ios"]) for job in jobs]


def near(found: list[tuple[str, int, int]], wanted: list[tuple[str, int, int]]) -> bool:
    return [f[:2] for f in found] == [w[:2] for w in wanted] and all(abs(f[2] - w[2]) <= 3 for f, w in zip(found, wanted, strict=True))


@pytest.mark.needs("fio")
@pytest.mark.parametrize("what", ENDED)
def test_the_recorded_ends_are_those_of_fio(what: str, tmp_path: Path) -> None:
    text = "[global]\nioengine=null\nfilename=/dev/zero\nsize=1g\nthread\nexitall\n"
    (tmp_path / "f.fio").write_text(text + TOGETHER.format(what=what))
    said = subprocess.run(["fio", "--output-format=json", "f.fio"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    found = counts(json.loads(said[said.index("{") :])["jobs"])
    assert [f[:2] for f in found] == [w[:2] for w in ENDED[what]]
    # a busy machine delays fio, which does not change whether a job ran to its end, was cut or never ran
    full = {"a": 300, "b": 10**9, "c": 100, "d": 500, "e": 10}
    assert [_how(f, full) for f in found] == [_how(w, full) for w in ENDED[what]]


def _how(job: tuple[str, int, int], full: dict[str, int]) -> str:
    return "never" if job[2] == 0 else "whole" if job[2] >= 0.97 * full[job[0]] else "cut"


@PATHS
@pytest.mark.parametrize("what", ENDED)
def test_a_job_that_is_done_ends_what_it_ends_in_fio(what: str, fidelity: tuple[str, ...], tmp_path: Path) -> None:
    found = counts(run(tmp_path, "exitall\n" + TOGETHER.format(what=what), *fidelity))
    assert near(found, ENDED[what])
    never = [job for job, _, ios in ENDED[what] if ios == 0]
    assert json.loads((tmp_path / "phases.json").read_text())[-1]["never_ran"] == never


def test_without_exitall_nothing_ends_early(tmp_path: Path) -> None:
    jobs = run(tmp_path, "[a]\nrw=read\nnumber_ios=10\nexit_what=all\n[b]\nrw=read\nnumber_ios=500\n", "--summaries")
    assert counts(jobs) == [("a", 0, 10), ("b", 0, 500)]


def test_what_an_ended_job_wrote_is_still_flushed(tmp_path: Path) -> None:
    run(tmp_path, "exitall\n[a]\nrw=read\nnumber_ios=10\n[b]\nrw=write\nend_fsync=1\n", "--summaries")
    (phase,) = json.loads((tmp_path / "phases.json").read_text())
    writes, (flush,) = commands(tmp_path, 1), commands(tmp_path, 0)
    assert phase["jobs"] == ["a", "b"] and 0 < len(writes) < 1000
    assert flush["doorbell_ps"] > max(w["doorbell_ps"] for w in writes)


@PATHS
def test_a_job_waits_for_the_one_that_it_names(fidelity: tuple[str, ...], tmp_path: Path) -> None:
    text = "[a]\nrw=write\nnumber_ios=50\nnumjobs=2\n[b]\nwait_for=a\nrw=read\nnumber_ios=20\n[c]\nrw=trim\nnumber_ios=3\nwait_for=b\n"
    jobs = run(tmp_path, text, *fidelity)
    assert [job["jobname"] for job in jobs] == ["a", "a", "b", "c"]
    write, read = commands(tmp_path, 1), commands(tmp_path, 2)
    trim = [row for row in commands(tmp_path, 9) if row["blocks"] == 8]
    assert (len(write), len(read), len(trim)) == (100, 20, 3)
    assert max(w["cqe_ps"] for w in write) < min(r["doorbell_ps"] for r in read)
    assert max(r["cqe_ps"] for r in read) < min(t["doorbell_ps"] for t in trim)


FLOW = "iodepth=16\nrw=randread\ntime_based\nruntime=100ms\n{more}\n[a]\nflow=1\n[b]\nflow=8\n[c]\nflow=3\nflow_id=1\n"


@pytest.mark.needs("fio")
def test_fio_shares_a_flow_by_weight(tmp_path: Path) -> None:
    text = "[global]\nioengine=null\nfilename=/dev/zero\nsize=1g\nthread\n" + FLOW.format(more="").replace("100ms", "1")
    (tmp_path / "f.fio").write_text(text)
    shares = []
    for _ in range(10):  # other programs may take the processor from one of fio's threads, and its share is then smaller for a while
        said = subprocess.run(["fio", "--output-format=json", "f.fio"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
        a, b, _ = (job["read"]["total_ios"] for job in json.loads(said[said.index("{") :])["jobs"])
        shares.append(b / a)
        if shares[-1] == pytest.approx(8, rel=0.05):
            return
    pytest.fail(f"shares of a flow of 1 to 8: {shares}")


@PATHS
@pytest.mark.parametrize("more", ["", "flow_sleep=1000"])
def test_jobs_of_a_flow_share_it_by_weight(more: str, fidelity: tuple[str, ...], tmp_path: Path) -> None:
    a, b, c = (job["read"]["total_ios"] for job in run(tmp_path, FLOW.format(more=more), *fidelity))
    assert b / a == pytest.approx(8, rel=0.02)
    assert c >= b, "the other flow is its own"


def test_a_job_alone_in_its_flow_is_not_held_back(tmp_path: Path) -> None:
    text = "rw=read\nnumber_ios={}\n[a]\nflow=1\n[b]\nflow=1\nnumber_ios=3000\n"
    assert [job["read"]["total_ios"] for job in run(tmp_path, text.format(20), "--summaries")] == [20, 3000]


def test_a_sleeping_flow_waits_for_what_is_in_flight_and_then_sleeps(tmp_path: Path) -> None:
    run(tmp_path, "rw=read\nnumber_ios=40\n[a]\nflow=1\nflow_sleep=5000\n[b]\nflow=1\nrate_iops=1000\noffset=512m\nsize=512m\n")
    mine = sorted((r for r in commands(tmp_path) if r["slba"] < 1 << 20), key=lambda r: r["doorbell_ps"])
    gaps = [after["doorbell_ps"] - before["cqe_ps"] for before, after in pairwise(mine)]
    # Job a is back at its own pace, and at every hold it sleeps whole 5 ms (b's I/Os are 1 ms apart).
    held = [gap for gap in gaps if gap > 1e-3]
    assert held and all(gap % 5e-3 < 0.2e-3 for gap in held)


def _target(text: str, folder: Path) -> dict[str, Any]:
    (job,) = run(folder, f"[a]\nrw=randread\nbs=4k\niodepth=64\nlatency_window=50000\n{text}\n", "--summaries")
    return job


@pytest.mark.parametrize(("target_us", "percentile"), [(200, 90.0), (150, 90.0), (120, 99.0)])
def test_the_depth_found_meets_the_target_and_the_next_does_not(target_us: int, percentile: float, tmp_path: Path) -> None:
    """The reference is runs at fixed depths, with the share of fast reads counted command by command."""
    depth = _target(f"latency_target={target_us}\nlatency_percentile={percentile}", tmp_path)["latency_depth"]
    assert 1 < depth < 64

    def fast(depth: int) -> float:
        run(tmp_path, f"[a]\nrw=randread\nbs=4k\niodepth={depth}\ntime_based\nruntime=200ms\n", "--summaries")
        # from doorbell to CQE; the host adds 0.9 us before, and at least 1.55 us after
        taken = [row["cqe_ps"] - row["doorbell_ps"] for row in commands(tmp_path)]
        return 100 * sum(t < target_us * 1e-6 - 2.5e-6 for t in taken) / len(taken)

    assert fast(depth) >= percentile - 2
    assert fast(depth + 1) < percentile + 2


def test_figures_of_a_search_are_those_of_its_last_window(tmp_path: Path) -> None:
    job = _target("latency_target=20000", tmp_path)
    assert job["latency_depth"] == 64 and job["job_runtime"] == pytest.approx(50, abs=3)
    (phase,) = json.loads((tmp_path / "phases.json").read_text())
    assert len(commands(tmp_path)) > 2 * job["read"]["total_ios"], "the windows before are on the bus, and in no figure"
    assert phase["name"] == "j"


def test_a_target_that_no_depth_meets_is_an_error_at_100_percent(tmp_path: Path) -> None:
    job = _target("latency_target=5", tmp_path)
    assert (job["error"], job["read"]["total_ios"]) == (110, 1)  # ETIMEDOUT, as in fio


STEADY = "[a]\niodepth=8\nrw=randwrite\nbs=64k\nsize=20g\nrate_iops={rate}\ntime_based\nruntime=40\n{options}\n"


@PATHS
def test_a_job_ends_when_its_figures_are_steady(fidelity: tuple[str, ...], tmp_path: Path) -> None:
    """A rate makes the first window steady: two seconds of ramp, one more check, and the window of three."""
    options = "ss=iops:2%\nss_dur=3\nss_ramp=2"
    (job,) = run(tmp_path, STEADY.format(rate=200, options=options), *fidelity)
    assert job["steadystate"]["attained"] == 1 and job["steadystate"]["attained_s"] == 5
    assert job["write"]["total_ios"] == pytest.approx(1000, abs=3)


@pytest.mark.parametrize(("ss", "limit"), [("iops:{}%", 1.0), ("iops_slope:{}%", 0.3), ("bw:{}%", 1.0), ("lat:{}%", 2.0)])
def test_the_end_is_the_first_check_that_is_steady(ss: str, limit: float, tmp_path: Path) -> None:
    """The reference is separate arithmetic, over the completions of a run without an end."""
    job_text = "[a]\niodepth=4\nrw=randrw\nrwmixread=70\nrate_process=poisson\nrate_iops=60,60\nbs=4k\ntime_based\nruntime={}\n"
    run(tmp_path, job_text.format(60), "--summaries")
    rows = sorted((row for opcode in (1, 2) for row in commands(tmp_path, opcode)), key=lambda row: row["cqe_ps"])
    start = min(row["doorbell_ps"] for row in rows)
    found = None
    values = []
    limit *= 8  # a Poisson rate of 120/s scatters by a tenth
    for second in range(60):
        inside = [row for row in rows if second <= row["cqe_ps"] - start < second + 1]
        took = [row["cqe_ps"] - row["doorbell_ps"] for row in inside]
        values.append(sum(took) / len(took) if ss.startswith("lat") else float(len(inside)))
        window = values[-4:]
        if len(window) < 4:
            continue
        mean = sum(window) / 4
        slope = sum((i - 1.5) * v for i, v in enumerate(window)) / 5
        value = abs(slope) if "slope" in ss else max(abs(v - mean) for v in window)
        if 100 * value / mean < limit:
            found = second + 1
            break
    (job,) = run(tmp_path, job_text.format(60) + f"ss={ss.format(limit)}\nss_dur=4\n", "--summaries")
    assert found is not None and job["steadystate"]["attained_s"] == found


def test_jobs_of_a_reporting_group_are_steady_together(tmp_path: Path) -> None:
    text = "group_reporting\nsteadystate=bw:1%\nsteadystate_duration=2\ntime_based\nruntime=20\nrw=read\n"
    (job,) = run(tmp_path, text + "[a]\nrate_iops=100\n[b]\nrate_iops=300\n", "--summaries")
    assert job["steadystate"]["attained_s"] == 2
    assert job["steadystate"]["data"]["iops"] == pytest.approx([400, 400], abs=2)
    assert job["read"]["total_ios"] == pytest.approx(800, abs=3)


def test_a_steady_state_that_is_not_reached_is_said(tmp_path: Path) -> None:
    text = "[a]\nrw=read\nrate_iops=100\nrate_process=poisson\ntime_based\nruntime=6\nss=iops:0.01%\nss_dur=3\n"
    (job,) = run(tmp_path, text, "--summaries")
    assert job["steadystate"]["attained"] == 0 and job["steadystate"]["criterion"] > 0.01
    assert job["job_runtime"] == pytest.approx(6000, abs=30)


def test_a_trim_of_several_ranges_is_one_command(tmp_path: Path) -> None:
    (job,) = run(tmp_path, "[a]\nrw=randtrim\nbs=4k\nsize=10m\niodepth=4\nnum_range=8\n")
    trims = [row["blocks"] for row in commands(tmp_path, 9) if row["blocks"] < 1000]
    # 10 MiB are 2560 blocks of 4 KiB (8 sectors); 8 of them a command
    assert trims == [64] * 320
    assert (job["trim"]["total_ios"], job["trim"]["io_bytes"]) == (320, 10 << 20)


def test_the_last_trim_has_the_ranges_that_are_left(tmp_path: Path) -> None:
    run(tmp_path, "[a]\nrw=trim\nbs=4k\nsize=40k\nnum_range=8\n")
    assert [(row["slba"], row["blocks"]) for row in commands(tmp_path, 9) if row["blocks"] < 1000] == [(0, 64), (64, 16)]


@pytest.mark.skipif(not EXAMPLES.is_dir(), reason="fio's examples are not here: WATTBELL_FIO_EXAMPLES=FOLDER")
def test_the_page_says_how_many_of_fios_examples_run() -> None:
    found = count(EXAMPLES)
    page = (ROOT / "docs/ssd-model.md").read_text(encoding="utf-8")
    numbers = [(len(which), len(which & found.as_they_are), len(which & found.as_direct)) for which in (found.named, found.unnamed)]
    assert f"{numbers[0][0]} name a modelled engine. {numbers[0][1]} run as they are; {numbers[0][2]} with `--as-direct`" in page
    assert f"{numbers[1][0]} files name no engine: {numbers[1][1]} run as they are, {numbers[1][2]} with `--as-direct`" in page


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("[a]\nwait_for=b\n[b]\nrw=read\n", 6, "no job before this one has that name"),
        ("[a]\nrw=read\n[b]\nrw=read\nwait_for=b\n", 9, "no job before this one has that name"),
        ("[a]\nflow=1\n[b]\nstonewall\nflow=2\n", 9, "on both sides of a stonewall"),
        ("[a]\nexit_what=some\n", 6, "none of group, stonewall, all"),
        ("[a]\nss=iops:2%\nss_dur=500ms\n", 7, "multiple of steadystate_check_interval"),
        ("[a]\nss=speed:2%\n", 6, "none of iops"),
        ("[a]\nnum_range=4\nrw=read\n", 6, "rw=trim"),
        ("[a]\nrw=trim\nnum_range=257\n", 7, "1 to 256"),
        ("group_reporting\n[a]\nss=iops:2%\nss_dur=4\n[b]\nrw=read\n", 9, "same steadystate options"),
    ],
)
def test_what_cannot_be_met_is_refused_with_its_line(text: str, line: int, says: str, tmp_path: Path) -> None:
    (tmp_path / "x.fio").write_text("[global]\nioengine=libaio\ndirect=1\nsize=1g\n" + text)
    found = subprocess.run([PROGRAM, "check", "x.fio"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 1 and found.stderr.count("\n") == 1
    assert found.stderr.startswith(f"wattbell-ssd: x.fio:{line}: ") and says in found.stderr
