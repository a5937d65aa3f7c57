"""fio's files of every form: their content, the sum of several of one run, and refusals with their advice.

``fio-3.42.tar.gz``: what fio 3.42 wrote on Linux, on a file of its own. The other files are written here, by hand.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from wattbell.analysis import analyze
from wattbell.capture import open_capture
from wattbell.errors import CaptureError
from wattbell.hostlog.files import read_log
from wattbell.hostlog.fiolog import FioLogName, name_of
from wattbell.importer.align import Align
from wattbell.importer.build import ImportOrder, import_files
from wattbell.importer.fiophases import read_fio
from wattbell.importer.hostlogs import HostLog, host_log, settled
from wattbell.measure.fiojson import load_processes

HERE = Path(__file__).parent
T0_MS = 1_700_000_000_000
NOTHING = {"io_bytes": 0, "runtime": 0, "total_ios": 0, "lat_ns": {"min": 0, "max": 0, "mean": 0.0}}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fio-3.42")
    with tarfile.open(HERE / "fio-3.42.tar.gz") as archive:
        for member in archive.getmembers():  # by hand: Python 3.11.2 of Debian 12 has no extractall(filter=)
            content = archive.extractfile(member)
            if content is not None:
                (folder / member.name).parent.mkdir(parents=True, exist_ok=True)
                (folder / member.name).write_bytes(content.read())
    return folder


def side(ios: int, ms: int, size: int = 4096) -> dict[str, Any]:
    return {"io_bytes": ios * size, "runtime": ms, "total_ios": ios, "lat_ns": {"min": 50_000, "max": 200_000, "mean": 80_000.0}}


def job(name: str, start_ms: int, ran_ms: int, ios: int = 1000, group: int = 0, **more: Any) -> dict[str, Any]:
    """An entry of ``jobs``: reads."""
    options = {"name": name, **more.pop("options", {})}
    return {
        "jobname": name,
        "groupid": group,
        "job_start": T0_MS + start_ms,
        "error": 0,
        "elapsed": 1 + ran_ms // 1000,
        "job options": options,
        "read": side(ios, ran_ms),
        "write": NOTHING,
        "trim": NOTHING,
        "job_runtime": ran_ms,
        **more,
    }


def document(*jobs: dict[str, Any], ended_ms: int = 60_000, **more: Any) -> dict[str, Any]:
    return {"fio version": "fio-3.38", "timestamp_ms": T0_MS + ended_ms, "global options": {"bs": "4k"}, "jobs": list(jobs), **more}


def written(path: Path, *parts: dict[str, Any] | str) -> Path:
    path.write_text("\n".join(part if isinstance(part, str) else json.dumps(part, indent=1) for part in parts))
    return path


def lines(path: Path, count: int, *, first_ms: int = 0, every_ms: int = 1, ns: int = 80_000, last: str = ", {at}, 0") -> Path:
    """A log of fio's: reads of 4 KiB, one after the other."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{first_ms + every_ms * n}, {ns}, 0, 4096{last.format(at=4096 * n)}\n" for n in range(count)))
    return path


def wave(path: Path, *loads: tuple[float, float], seconds: float = 10.0, first_s: float = 0.0) -> Path:
    """1 kHz, 0.5 W, and 3 W from a second to another."""
    with open(path, "w") as out:
        out.write("time_s,voltage_v,current_a\n")
        for n in range(round(seconds * 1000)):
            t = n / 1000
            watt = 3.0 if any(a <= t < b for a, b in loads) else 0.5
            out.write(f"{first_s + t:.3f},3.3,{watt / 3.3:.9f}\n")
    return path


def analysis(out: Path, csv: Path, fio: Sequence[Path] = (), logs: Sequence[Path] = (), align: Align | None = None) -> dict[str, Any]:
    import_files(ImportOrder([csv], fio=fio, logs=logs, align=align or Align()), out)
    return dict(analyze(open_capture(out)))


def notes(out: Path) -> str:
    return "\n".join(open_capture(out).meta["conditions"]["notes"])


def spans(paths: Sequence[Path]) -> list[tuple[str, float, float]]:
    run = read_fio(paths, [path.name for path in paths])
    return [(phase.name, phase.first_ns / 1e6 - T0_MS, phase.last_ns / 1e6 - T0_MS) for phase in run.phases]


# -- documents ---------------------------------------------------------------------------------------------------------

AROUND: dict[str, Callable[[str], str]] = {
    "warnings before it": lambda text: "fio: pid=901, err=5/file:io_u.c:1896, func=io_u error\nfio: a {brace}\n" + text,
    "output for people behind it": lambda text: (
        text + "\nread: (groupid=0, jobs=1): err= 0: pid=900\n  read: IOPS=25.6k\nRun status group 0 {}"
    ),
    "terse output before it": lambda text: "3;fio-3.42;m;0;0;400;399\n" + text,
    "JSON lines of a wrapper": lambda text: '{"level": "info", "msg": "started"}\n' + text + '\n{"level": "info", "jobs_done": 1}\n',
    "within a line": lambda text: "12:00:01 host fio: " + text,
    "carriage returns of the progress": lambda text: "Jobs: 1 (f=1): [r(1)][50.0%]\rJobs: 1\r" + text,
    "a mark of UTF-8": lambda text: "\ufeff" + text,
}


@pytest.mark.parametrize("around", AROUND)
def test_the_json_is_found_wherever_it_stands(tmp_path: Path, around: str) -> None:
    path = written(tmp_path / "f.json", AROUND[around](json.dumps(document(job("a", 0, 1000)), indent=2)))
    assert spans([path]) == [("a", 0.5, 1000.0)]


def test_a_figure_that_c_could_not_print_as_a_number(tmp_path: Path) -> None:
    """``%f`` of 0/0. Unused data do no harm; used data are named."""
    text = json.dumps(document(job("a", 0, 1000)), indent=1)
    unused = text.replace('"jobname"', '"iops_stddev" : -nan,\n"jobname"')
    assert "-nan" in unused and spans([written(tmp_path / "f.json", unused)]) == [("a", 0.5, 1000.0)]
    with pytest.raises(CaptureError, match=r"lat_ns\.mean"):
        spans([written(tmp_path / "g.json", text.replace('"mean": 80000.0', '"mean": nan'))])


def test_json_of_a_shell_that_writes_utf_16(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    path.write_bytes(json.dumps(document(job("a", 0, 1000))).encode("utf-16"))
    assert spans([path]) == [("a", 0.5, 1000.0)]


def test_what_other_outputs_of_fio_did_not_hide(real: Path) -> None:
    """fio's own line for people, of the same run: io=256KiB (262kB), run=330-330msec."""
    assert "io=256KiB (262kB), run=330-330msec" in (real / "normal.txt").read_text()
    ((entry,),) = [process.jobs for process in load_processes(real / "normal.txt")]
    assert (entry.jobname, sum(each.io_bytes for each in entry.data), entry.ran_ms) == ("m", 256 * 1024, 330)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", r"is not fio JSON \(it is empty\)"),
        ('{"fio version": "fio-3.38", "jobs": [{"jobname": "a",', "breaks off in line 1: was fio stopped"),
        ('{\n"fio version": "fio-3.38",\n"jobs": [{"jobname": x}]}', r"\(line 3: Expecting value\)"),
        ("3;fio-3.42;m;0;0;400", "terse output.*--output-format=json"),
        ("m: (g=0): rw=randread, bs=(R) 4096B-4096B\nfio-3.42\n", "output for people.*--output-format=json"),
        ("[global]\nbs=4k\n[a]\nrw=read\n", "is a job file"),
        ("; of ours\n[a]\nrw=read\n", "is a job file"),
        ("0, 80000, 0, 4096, 0\n1, 80000, 0, 4096, 0\n", "one of fio's logs of each I/O. Give it as --trace"),
        ('{"mn": "SOME DRIVE", "sn": "1"}', r"is JSON, but has no jobs \(it has: mn, sn\)"),
    ],
)
def test_what_is_no_json_of_fio_is_named(tmp_path: Path, content: str, says: str) -> None:
    path = written(tmp_path / "f.json", content)
    with pytest.raises(CaptureError, match=says) as told:
        load_processes(path)
    assert str(path) in str(told.value)
    if '"fio version"' in content:  # who gives JSON need not be told to
        assert "--output-format" not in str(told.value)


# -- several reports, several runs -------------------------------------------------------------------------------------


def test_of_the_reports_of_one_run_the_last_counts(real: Path) -> None:
    """Two jobs of 2 s and 1 s at 60 IOPS, reported each second."""
    assert (real / "status.json").read_text().count('"fio version"') == 4
    (process,) = load_processes(real / "status.json")
    assert process.interim == 3 and [(each.jobname, each.data[0].total_ios) for each in process.jobs] == [("a", 120), ("b", 60)]
    run = read_fio([real / "status.json"], ["fio.json"])
    assert [phase.name for phase in run.phases] == ["a", "b"] and "of 4 reports of one run" in "\n".join(run.notes)


def test_runs_behind_one_another_in_a_file_are_all_there(tmp_path: Path) -> None:
    """The same job file twice, appended (``fio ... >> all.json``)."""
    path = written(tmp_path / "f.json", document(job("a", 0, 1000), ended_ms=1100), document(job("a", 5000, 1000, 2000), ended_ms=6100))
    assert spans([path]) == [("a", 0.5, 1000.0), ("a #2", 5000.5, 6000.0)]
    result = analysis(tmp_path / "c", wave(tmp_path / "w.csv", (2, 3), (7, 8)), [path])
    assert [round(each["iops"]["value"]) for each in result["fio_account"]] == pytest.approx([1000, 2000], abs=3)


def test_a_ramp_that_ends_between_two_reports_is_no_other_run(tmp_path: Path) -> None:
    first = document(job("a", 0, 1500, elapsed=2), ended_ms=1500)
    path = written(tmp_path / "f.json", first, document(job("a", 2000, 3000, elapsed=5), ended_ms=5000))
    assert spans([path]) == [("a", 2000.5, 5000.0)]


def test_a_report_that_breaks_off_is_told(tmp_path: Path) -> None:
    whole = document(job("a", 0, 1000), ended_ms=1000)
    path = written(tmp_path / "f.json", whole, json.dumps(document(job("a", 0, 2000, 2000), ended_ms=2000), indent=1)[:500])
    run = read_fio([path], ["fio.json"])
    assert [phase.last_ns / 1e6 - T0_MS for phase in run.phases] == [1000.0]
    assert "breaks off" in "\n".join(run.notes)


def test_one_run_in_two_files_is_refused(tmp_path: Path) -> None:
    one, two = (written(tmp_path / name, document(job("a", 0, 1000))) for name in ("1.json", "2.json"))
    with pytest.raises(CaptureError, match=r"2\.json and .*1\.json tell of the same run"):
        read_fio([one, two], ["fio-1.json", "fio-2.json"])


# -- processes, jobs and groups ----------------------------------------------------------------------------------------


def test_processes_at_once_count_together_in_the_phase_in_which_they_ran(tmp_path: Path) -> None:
    """a's first job beside b; a's second alone. 1000 + 500 reads of 4 KiB in 2 s, then 300 in 1 s."""
    one = written(tmp_path / "1.json", document(job("x", 0, 2000, 1000), job("y", 4000, 1000, 300, group=1)))
    two = written(tmp_path / "2.json", document(job("x", 1, 2000, 500)))
    result = analysis(tmp_path / "c", wave(tmp_path / "w.csv", (3, 5), (7, 8)), [one, two])
    found = [(each["name"], each["iops"]["value"], each["mb_per_s"]["value"]) for each in result["fio_account"]]
    assert [name for name, _, _ in found] == ["x", "y"]
    assert [iops for _, iops, _ in found] == pytest.approx([750, 300], rel=2e-3)
    assert [rate for _, _, rate in found] == pytest.approx([3.072, 1.2288], rel=2e-3)


def test_jobs_of_one_group_that_did_not_overlap_are_two_phases(tmp_path: Path) -> None:
    path = written(tmp_path / "f.json", document(job("a", 0, 1000), job("b", 3000, 1000)))
    assert spans([path]) == [("a", 0.5, 1000.0), ("b", 3000.5, 4000.0)]


def test_verifying_reads_run_behind_the_writes(tmp_path: Path) -> None:
    """fio's run time of each direction is its own: 1 s of writes, then 0.8 s of reads."""
    entry = job("v", 0, 1000, read=side(200, 800), write=side(200, 1000), job_runtime=1800, options={"verify": "crc32c"})
    assert spans([written(tmp_path / "f.json", document(entry))]) == [("v", 0.5, 1800.0)]
    mixed = job("m", 0, 1000, read=side(200, 1000), write=side(200, 1000), job_runtime=1001)
    assert spans([written(tmp_path / "g.json", document(mixed))]) == [("m", 0.5, 1000.0)]


def test_a_group_whose_members_began_apart_says_so(tmp_path: Path) -> None:
    entry = job("g", 0, 1000, options={"group_reporting": "", "startdelay": "2"})
    (note,) = read_fio([written(tmp_path / "f.json", document(entry))], ["fio.json"]).notes
    assert "startdelay: the end of its phase may be too early" in note


def test_a_server_of_fio_client_is_a_run_and_two_are_refused(tmp_path: Path, real: Path) -> None:
    """fio lists the sum over all clients as a last entry; it is no job."""
    (process,) = load_processes(real / "client.json")
    assert [(each.jobname, each.hostname, each.data[0].total_ios) for each in process.jobs] == [
        ("c", "127.0.0.1", 16),
        ("d", "127.0.0.1", 16),
    ]
    assert process.jobs[0].option("rate_iops", "") == "40", "a global option of the server's"
    two = {"fio version": "fio-3.38", "client_stats": [job("a", 0, 1000, hostname="n1"), job("a", 3, 1000, hostname="n2")]}
    with pytest.raises(CaptureError, match=r"fio --client with 2 servers \(n1, n2\)"):
        read_fio([written(tmp_path / "f.json", two)], ["fio.json"])


# -- sums of directions, and errors ------------------------------------------------------------------------------------


def test_a_sum_of_directions_is_all_data(real: Path, tmp_path: Path) -> None:
    """60 reads and writes of 4 KiB, as fio's job asks, without saying how many of each."""
    text = (real / "mixed.json").read_text()
    assert '"mixed"' in text and '"read" :' not in text
    ((entry,),) = [process.jobs for process in load_processes(real / "mixed.json")]
    assert entry.is_unified and [(each.total_ios, each.io_bytes) for each in entry.data] == [(60, 60 * 4096)]
    unified = {"read": None, "write": None, "trim": None, "mixed": side(3000, 3000), "options": {"rw": "randrw"}}
    path = written(tmp_path / "f.json", document(job("m", 0, 3000, **unified)))
    csv = wave(tmp_path / "w.csv", (3, 6))
    (account,) = analysis(tmp_path / "c", csv, [path])["fio_account"]
    assert account["mb_per_s"]["value"] == pytest.approx(4.096, rel=2e-3) and account["iops"]["value"] == pytest.approx(1000, rel=2e-3)
    trims = written(tmp_path / "t.json", document(job("m", 0, 3000, **{**unified, "options": {"rw": "randtrimwrite"}})))
    (account,) = analysis(tmp_path / "d", csv, [trims])["fio_account"]
    assert account["mb_per_s"]["value"] is None and "trims" in account["mb_per_s"]["conditions"]["absent"]
    assert account["iops"]["value"] == pytest.approx(1000, rel=2e-3)


@pytest.mark.parametrize(("rw", "opcode"), [("randrw", "mixed"), ("randread", "read")])
def test_a_sum_is_compared_with_the_sum_of_the_log(tmp_path: Path, rw: str, opcode: str) -> None:
    """blkparse: 200 reads and 100 writes of 4 KiB in 3 s, or 300 reads."""
    events = []
    for n in range(300):
        rwbs = "W" if rw == "randrw" and n % 3 == 0 else "R"
        events += [(0.01 * n, "D", rwbs, 8 * n), (0.01 * n + 0.001, "C", rwbs, 8 * n)]
    text = "".join(f"259,0 0 {n + 1} {at:.9f} 7 {what} {rwbs} {sector} + 8 [fio]\n" for n, (at, what, rwbs, sector) in enumerate(events))
    (tmp_path / "blk.txt").write_text(text)
    unified = {"read": None, "write": None, "trim": None, "mixed": side(300, 3000), "options": {"rw": rw}}
    path = written(tmp_path / "f.json", document(job("m", 0, 3000, **unified)))
    result = analysis(tmp_path / "c", wave(tmp_path / "w.csv", (3, 6)), [path], [tmp_path / "blk.txt"], Align("offset", 0.01, 3.001))
    ((row,),) = [section["rows"] for section in result["fio"]["sections"]]
    assert (row["opcode"], row["wire_count"], row["fio_count"], row["wire_bytes"], row["equal"]) == (opcode, 300, 300, 300 * 4096, True)


def test_what_fio_wrote_of_a_job_with_an_error(real: Path) -> None:
    """fio 3.42 on a file that was cut while it ran."""
    run = read_fio([real / "error.txt"], ["fio.json"])
    assert "error 5 (Input/output error): fio's figures of its phase are void" in "\n".join(run.notes)


def test_an_error_voids_the_comparison_with_a_log_too(tmp_path: Path) -> None:
    path = written(tmp_path / "f.json", document(job("a", 0, 3000, 1000, error=5), job("b", 5000, 1000, 1000, group=1)))
    logs = [
        lines(tmp_path / f"run_lat.{n}.log", 1000, first_ms=T0_MS + begin, every_ms=every) for n, begin, every in ((1, 0, 3), (2, 5000, 1))
    ]
    result = analysis(tmp_path / "c", wave(tmp_path / "w.csv", (1, 4), (6, 7)), [path], logs)
    failed, whole = ([row["equal"] for row in section["rows"]] for section in result["fio"]["sections"])
    assert (failed, whole) == ([None], [True]) and result["fio"]["equal"] is None
    assert any("a: fio's job a had error 5" in warning for warning in result["warnings"])


def test_a_job_with_an_error_has_no_account(tmp_path: Path) -> None:
    """Beside one without; together they have no account, since nobody knows the work of the first one."""
    together = document(job("a", 0, 3000, 1000, error=5), job("b", 5, 3000, 1000), job("c", 5000, 1000, 1000, group=1))
    path = written(tmp_path / "f.json", together)
    failed, whole = analysis(tmp_path / "c", wave(tmp_path / "w.csv", (1, 4), (6, 7)), [path])["fio_account"]
    assert failed["name"] == "a + b" and "error 5" in failed["void"]
    assert [failed[name]["value"] for name in ("mb_per_s", "iops", "mean_latency_s", "mb_per_j", "j_per_gb")] == [None] * 5
    assert "void" not in whole and whole["iops"]["value"] == pytest.approx(1000, rel=2e-3)


def test_jobs_that_failed_at_once_are_named(tmp_path: Path) -> None:
    entry = job("a", 0, 0, 0, error=13)
    with pytest.raises(CaptureError, match=r"no job in it did any I/O \(fio's job a had error 13 \(Permission denied\)\)"):
        read_fio([written(tmp_path / "f.json", document(entry))], ["fio.json"])


# -- which log it is ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("run_lat.1.log", FioLogName("run", "lat", 1)),
        ("run_clat.12.log", FioLogName("run", "clat", 12)),
        ("run_lat.log", FioLogName("run", "lat")),
        ("my_bw_test_lat.3.log", FioLogName("my_bw_test", "lat", 3)),
        ("run_bw.1.log.node1", FioLogName("run", "bw", 1, "node1")),
        ("run_lat.1.log.10.0.0.7", FioLogName("run", "lat", 1, "10.0.0.7")),
        ("run_clat_hist.1.log", FioLogName("run", "hist", 1)),
        ("run_iops.log.lat-host", FioLogName("run", "iops", None, "lat-host")),
        ("run_bw.1 (copy).log", FioLogName("run_bw.1 (copy).log", "bw")),
        ("run_lat.1.txt", FioLogName("run_lat.1.txt", "lat")),
        ("fio-latency.csv", FioLogName("fio-latency.csv", "lat")),
        ("BW-and-lat.txt", FioLogName("BW-and-lat.txt", "bw")),
        ("flat.log", FioLogName("flat.log", "")),
    ],
)
def test_a_name_in_parts(name: str, expected: FioLogName) -> None:
    assert name_of(Path(name)) == expected


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("run_bw.1.log.node1", "0, 102400, 0, 4096, 0\n", r"fio's log of bw \(KiB/s\)"),
        ("run_iops.1.log.node1", "0, 1, 0, 4096, 0\n", "fio's log of iops"),
        ("run_slat.1.log", "0, 900, 0, 4096, 0\n", "fio's log of slat"),
        ("node1-bw.txt", "0, 102400, 0, 4096, 0\n", "fio's log of bw"),
        ("run_lat.1.log", "0, 1, 0, 4096, 0\n1, 1, 0, 4096, 0\n", "every I/O took 1 ns, so this is fio's log of iops"),
        ("fio.log", "0, 102400, 0, 4096, 0\n", r"does not say which of fio's logs.*run_lat\.1\.log"),
        ("run_lat.1.log", "1000, 81234, 99000, 0, 0, 0\n", "averaged.*log_window_value=both"),
        ("run_clat_hist.1.log", "1000, 0, 4096" + ", 1" * 40 + "\n", "fio's log of hist"),
        (
            "run_lat.1.log",
            "0, 9, 0, 4096\n1, 9, 0, 4096\n900, 9, 0, 4096\n0, 9, 0, 4096\n",
            "line 4: the times begin again.*log_unix_epoch=1",
        ),
        ("run_lat.1.log", f"0, 9, 0, 4096\n{T0_MS}, 9, 0, 4096\n", "line 2: from here on the times are of another clock"),
        ("run_lat.1.log.fz", "\x78\x9c\x01\x02", "fio --inflate-log="),
        ("fio.json", '{\n "fio version": "fio-3.38"}', "give it as --fio"),
    ],
)
def test_what_is_no_log_of_latencies(tmp_path: Path, name: str, content: str, says: str) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(CaptureError, match=says) as told:
        read_log(path)
    assert name in str(told.value)


def test_a_log_with_a_host_behind_its_name_is_read(tmp_path: Path) -> None:
    found = read_log(lines(tmp_path / "run_lat.1.log.node1", 5))
    assert len(found) == 5 and found.clock == "fio"


def test_a_priority_of_1_is_no_offset(tmp_path: Path) -> None:
    found = read_log(lines(tmp_path / "run_lat.1.log", 3, last=", 1"), 1)
    assert found.table["slba"].to_pylist() == [0, 0, 0] and any("no offsets" in note for note in found.notes)


# -- when it was -------------------------------------------------------------------------------------------------------


def read(*paths: Path) -> list[HostLog]:
    return [host_log(path, read_log(path)) for path in paths]


def ends(logs: Sequence[HostLog]) -> list[list[int]]:
    return [sorted(log.commands.table["cqe_tick"].to_pylist()) for log in logs]


def test_a_jobs_begin_is_the_zero_of_its_log(real: Path, tmp_path: Path) -> None:
    """The job has fio 3.42 log the time of day. Less its job's begin, a log is what fio writes without that; put on the clock of the JSON
    by the import, it must be the same again."""
    starts = {1: 1_795_832_137_893, 2: 1_795_832_139_102}  # as they stand in two.json
    paths = []
    for number, start in starts.items():
        rows = [line.split(",") for line in (real / f"two_lat.{number}.log").read_text().splitlines()]
        assert 0 <= int(rows[0][0]) - start < 25, "the first I/O ends soon after the begin"
        paths.append(tmp_path / f"two_lat.{number}.log")
        paths[-1].write_text("".join(",".join([str(int(row[0]) - start), *row[1:]]) + "\n" for row in rows))
    text = (real / "two.json").read_text()
    json_ = written(tmp_path / "two.json", text.replace('"log_unix_epoch"', '"x"').replace('"log_alternate_epoch"', '"y"'))
    run = read_fio([json_], ["fio.json"])
    by_day, _ = settled(read(real / "two_lat.1.log", real / "two_lat.2.log"), None)
    moved, _ = settled(read(*paths), run)
    assert ends(moved) == ends(by_day) and [len(each) for each in ends(moved)] == [60, 30]
    assert {log.commands.clock for log in [*moved, *by_day]} == {"utc"} and run.clock == "utc"


def test_logs_of_one_group_report_that_began_together(real: Path) -> None:
    run = read_fio([real / "group.json"], ["fio.json"])
    logs, _ = settled(read(real / "grp_lat.1.log", real / "grp_lat.2.log"), run)
    assert [len(each) for each in ends(logs)] == [50, 50]
    assert all(log.commands.table["cqe_tick"].to_numpy().min() >= 1_795_832_141_514 * 10**6 for log in logs)


def test_logs_of_a_server_lack_lines_and_say_so(real: Path) -> None:
    """fio --client 3.42 wrote 13 lines of 16 I/Os of each job: it cuts a log with offsets short."""
    assert [len((real / f"cl_lat.{n}.log.127.0.0.1").read_text().splitlines()) for n in (1, 2)] == [13, 13]
    run = read_fio([real / "client.json"], ["fio.json"])
    logs, _ = settled(read(real / "cl_lat.1.log.127.0.0.1", real / "cl_lat.2.log.127.0.0.1"), run)
    assert [gap.count for log in logs for gap in log.commands.lost] == [3, 3]
    told = "\n".join(note for log in logs for note in log.commands.notes)
    assert "3 of the 16 I/Os that fio counts in c " in told and "3 of the 16 I/Os that fio counts in d " in told
    assert max(ends(logs)[0]) < min(ends(logs)[1])


def test_a_log_that_lacks_ios_marks_the_figures(tmp_path: Path) -> None:
    path = written(tmp_path / "f.json", document(job("a", 0, 3000, 1500)))
    log = lines(tmp_path / "run_lat.1.log", 1000, every_ms=2)
    result = analysis(tmp_path / "c", wave(tmp_path / "w.csv", (3, 6)), [path], [log])
    (phase,) = result["phases"]
    assert phase["rates"]["mb_per_s"]["lost"] >= 500 and "500 of the 1500 I/Os" in notes(tmp_path / "c")


def test_a_job_without_a_log_marks_the_phase_that_it_shares(tmp_path: Path) -> None:
    """One of two jobs at once has a log; a third, alone, has its own."""
    path = written(tmp_path / "f.json", document(job("a", 0, 3000, 3000), job("b", 2, 3000, 700), job("c", 5000, 1000, 1000, group=1)))
    logs = [lines(tmp_path / f"run_lat.{n}.log", count) for n, count in ((1, 3000), (3, 1000))]
    result = analysis(tmp_path / "c", wave(tmp_path / "w.csv", (1, 4), (6, 7)), [path], logs)
    assert [phase["rates"]["mb_per_s"]["lost"] for phase in result["phases"]] == [700, 0]
    whole = [*logs, lines(tmp_path / "run_lat.2.log", 700, every_ms=4)]
    result = analysis(tmp_path / "d", wave(tmp_path / "w.csv", (1, 4), (6, 7)), [path], whole)
    assert [phase["rates"]["mb_per_s"]["lost"] for phase in result["phases"]] == [0, 0]


@pytest.mark.parametrize(
    ("jobs", "logs", "says"),
    [
        # stonewall without the JSON
        (None, [("j_lat.1.log", 500), ("j_lat.2.log", 500)], "count from the begin of their own jobs.*--fio.*log_unix_epoch=1"),
        # of another run: too many I/Os, too long, no such job, another name
        ([job("a", 0, 3000, 100)], [("j_lat.1.log", 500)], "fits no job"),
        ([job("a", 0, 300, 500)], [("j_lat.1.log", 500)], "fits no job"),
        ([job("a", 0, 3000)], [("j_lat.2.log", 500)], "fits no job"),
        ([job("a", 0, 3000, options={"write_lat_log": "other"})], [("j_lat.1.log", 500)], "fits no job"),
        ([job("a", 0, 3000, options={"log_unix_epoch": "1"})], [("j_lat.1.log", 500)], "fits no job"),
        # one log of several jobs, or an entry of several
        ([job("a", 0, 1000), job("b", 1500, 1000)], [("j_lat.log", 500)], r"several jobs \(a, b\).*log_unix_epoch=1"),
        ([job("a", 0, 1000, options={"group_reporting": "", "startdelay": "1"})], [("j_lat.1.log", 500)], "several jobs.*log_unix_epoch=1"),
        # two of one job
        ([job("a", 0, 3000)], [("j_lat.1.log", 500), ("k_lat.1.log", 500)], r"are of one job \(a\)"),
    ],
)
def test_logs_that_cannot_be_told_apart(tmp_path: Path, jobs: list[Any] | None, logs: list[tuple[str, int]], says: str) -> None:
    run = None if jobs is None else read_fio([written(tmp_path / "f.json", document(*jobs))], ["fio.json"])
    with pytest.raises(CaptureError, match=says) as told:
        settled(read(*(lines(tmp_path / name, count) for name, count in logs)), run)
    if jobs is not None:
        assert "--fio" not in str(told.value), "who gave it need not be told to"


def test_the_log_of_a_process_is_the_one_beside_its_json(tmp_path: Path) -> None:
    files, logs = [], []
    for name, begin in (("a", 0), ("b", 4000)):
        logs.append(lines(tmp_path / name / "run_lat.1.log", 900))
        files.append(written(tmp_path / name / "fio.json", document(job(name, begin, 1000, 900))))
    found, _ = settled(read(*logs), read_fio(files, ["fio-1.json", "fio-2.json"]))
    assert [first // 10**6 - T0_MS for first, *_ in ends(found)] == [1, 4001]


def test_a_log_on_the_clock_that_fio_was_told(tmp_path: Path) -> None:
    options = {"log_alternate_epoch": "1", "log_alternate_epoch_clock_id": "4"}
    run = read_fio([written(tmp_path / "f.json", document(job("a", 0, 3000, options=options)))], ["fio.json"])
    (log,), _ = settled(read(lines(tmp_path / "j_lat.1.log", 100, first_ms=86_400_000)), run)
    assert log.commands.clock == "mono_raw" and ends([log])[0][0] == 86_400_001 * 10**6


def test_ios_that_a_log_on_another_clock_lacks_are_counted(tmp_path: Path) -> None:
    """The logs have 900 and 500 of 1000 and 500 I/Os; the clock of the logs does not tell the phase."""
    options = {"log_alternate_epoch": "1", "log_alternate_epoch_clock_id": "4"}
    jobs = [job("a", 0, 3000, options=options), job("b", 4000, 3000, 500, group=1, options=options)]
    run = read_fio([written(tmp_path / "f.json", document(*jobs))], ["fio.json"])
    paths = [lines(tmp_path / f"j_lat.{n}.log", count, first_ms=first) for n, count, first in ((1, 900, 86_400_000), (2, 500, 86_404_000))]
    logs, _ = settled(read(*paths), run)
    assert [gap.count for log in logs for gap in log.commands.lost] == [100]
    (gap,) = logs[0].commands.lost
    assert (gap.first_tick, gap.last_tick) == (ends(logs)[0][0] - 80_000, ends(logs)[0][-1])
    assert (
        "100 of the 1500 I/Os that fio counts are not in its logs; of which phase is not known, for the logs have another clock"
        in " ".join(logs[0].commands.notes)
    )
    paths[0] = lines(tmp_path / "j_lat.1.log", 1000, first_ms=86_400_000)
    assert not [gap for log in settled(read(*paths), run)[0] for gap in log.commands.lost], "all of them"


# -- values ------------------------------------------------------------------------------------------------------------


def bandwidths(path: Path, count: int, ns: int = 80_000, size: int = 4096) -> Path:
    """fio's log of bandwidth: KiB/s of each I/O, which it works out of its time."""
    return lines(path, count, ns=size * 10**9 // ns // 1024)


@pytest.mark.parametrize("options", [{}, {"group_reporting": ""}])
@pytest.mark.parametrize("count", [1000, 400])
def test_a_log_of_bandwidth_with_the_name_of_latencies_is_refused(tmp_path: Path, count: int, options: dict[str, str]) -> None:
    """4 KiB in 80 us are 50 000 KiB/s, which would be 50 us: within what fio states. In 40 us, 100 000 KiB/s: 100 us."""
    run = read_fio([written(tmp_path / "f.json", document(job("a", 0, 3000, options=options)))], ["fio.json"])
    slow = bandwidths(tmp_path / "j_lat.1.log", count, ns=80_000 * 5)
    with pytest.raises(CaptureError, match=rf"j_lat\.1\.log is no log of .* of job a: of its {count} values for read, {count} lie"):
        settled(read(slow), run)
    same = bandwidths(tmp_path / "j_lat.1.log", count)
    if count == 1000 and not options:
        with pytest.raises(CaptureError, match="Read as KiB/s they fit: this is fio's log of bandwidth. Leave it out"):
            settled(read(same), run)


def test_a_log_of_another_run_is_no_bandwidth(tmp_path: Path) -> None:
    run = read_fio([written(tmp_path / "f.json", document(job("a", 0, 3000)))], ["fio.json"])
    with pytest.raises(CaptureError, match="and their mean is 120000. Give the latency log of this run, or the JSON of the run that wrote"):
        settled(read(lines(tmp_path / "j_lat.1.log", 1000, ns=120_000)), run)


@pytest.mark.parametrize(
    ("ns", "options"),
    [(80_000, {}), (80_700, {}), (120_000, {"ramp_time": "2"}), (120_000, {"verify": "md5"}), (120_000, {"group_reporting": ""})],
)
def test_latencies_of_the_run_are_read(tmp_path: Path, ns: int, options: dict[str, str]) -> None:
    """Figures of fio over other I/Os than the log's are not held against it."""
    run = read_fio([written(tmp_path / "f.json", document(job("a", 0, 3000, options=options)))], ["fio.json"])
    (log,), _ = settled(read(lines(tmp_path / "j_lat.1.log", 1000, ns=ns)), run)
    assert len(log.commands) == 1000


# -- once --------------------------------------------------------------------------------------------------------------


def trace(path: Path, count: int, *, first_s: float = 100.0, every_ms: int = 1) -> Path:
    """The kernel's text: reads of 4 KiB, 70 us each."""
    text = ["# tracer: nop"]
    for n in range(count):
        at = first_s + n * every_ms * 1e-3
        text.append(
            f" fio-7 [000] ..... {at:.6f}: nvme_setup_cmd: nvme0: disk=nvme0n1, qid=1, cmdid={n % 4096}, nsid=1, flags=0x0, meta=0x0, "
            f"cmd=(nvme_cmd_read slba={8 * n}, len=7, ctrl=0x0, dsmgmt=0, reftag=0)"
        )
        text.append(
            f" <idle>-0 [000] d.h1. {at + 70e-6:.6f}: nvme_complete_rq: nvme0: disk=nvme0n1, qid=1, cmdid={n % 4096}, res=0x0, retries=0, "
            "flags=0x0, status=0x0"
        )
    path.write_text("\n".join(text) + "\n")
    return path


def test_fios_log_beside_the_kernels_counts_once(tmp_path: Path) -> None:
    csv = wave(tmp_path / "w.csv", (3, 6))
    logs = [lines(tmp_path / "run_lat.1.log", 3000), trace(tmp_path / "trace.txt", 3000)]
    for number, order in enumerate((logs, logs[::-1])):
        (reads,) = analysis(tmp_path / f"c{number}", csv, logs=order)["commands"]["by_opcode"].values()
        assert reads["count"] == 3000 and reads["latency_s"]["mean"] == pytest.approx(70e-6, abs=2e-6), "the kernel's are kept"
        assert "run_lat.1.log was left out, with 3000 commands: trace.txt is of the same time" in notes(tmp_path / f"c{number}")


def test_an_iolog_beside_a_log_of_latencies_counts_once(tmp_path: Path) -> None:
    iolog = tmp_path / "f.iolog"
    iolog.write_text("fio version 3 iolog\n0 f add\n0 f open\n" + "".join(f"{1000 * n} f read {4096 * n} 4096\n" for n in range(3000)))
    logs = [lines(tmp_path / "run_lat.1.log", 3000), iolog]
    (reads,) = analysis(tmp_path / "c", wave(tmp_path / "w.csv", (3, 6)), logs=logs, align=Align("offset", 0.01, 3.0))["commands"][
        "by_opcode"
    ].values()
    assert reads["count"] == 3000 and reads["latency_s"]["mean"] == pytest.approx(80e-6, abs=1e-8)


def test_logs_that_share_a_part_of_their_time_are_refused_and_others_both_count(tmp_path: Path) -> None:
    csv = wave(tmp_path / "w.csv", (1, 4), (6, 8))
    fio = lines(tmp_path / "run_lat.1.log", 5000, first_ms=T0_MS)
    path = written(tmp_path / "f.json", document(job("a", 0, 3000, 3000), job("b", 5000, 2000, 2000, group=1)))
    kernel = trace(tmp_path / "trace.txt", 3000)
    with pytest.raises(CaptureError, match=r"trace\.txt and .*run_lat\.1\.log are of the same time in a part only"):
        analysis(tmp_path / "c", csv, [path], [fio, kernel], Align("offset", 0.01, 1.0))
    assert not (tmp_path / "c").exists()
    two = lines(tmp_path / "run_lat.2.log", 2000, first_ms=T0_MS + 5000)
    short = trace(tmp_path / "short.txt", 3000)
    (reads,) = analysis(tmp_path / "d", csv, [path], [two, short], Align("offset", 0.01, 1.0))["commands"]["by_opcode"].values()
    assert reads["count"] == 5000


@pytest.mark.parametrize("at_utc", [False, True])
@pytest.mark.parametrize("swapped", [False, True])
def test_lat_and_clat_are_of_the_same_ios(tmp_path: Path, swapped: bool, at_utc: bool) -> None:
    first = T0_MS if at_utc else 0
    logs = [lines(tmp_path / f"run_{what}.1.log", 50, first_ms=first, ns=ns) for what, ns in (("lat", 90_000), ("clat", 80_000))]
    found, said = settled(read(*(logs[::-1] if swapped else logs)), None)
    assert [log.path.name for log in found] == ["run_lat.1.log"] and "run_clat.1.log was left out" in said[0]


def test_lat_and_clat_of_different_runs_are_refused(tmp_path: Path) -> None:
    logs = [lines(tmp_path / "run_lat.1.log", 50), lines(tmp_path / "run_clat.1.log", 40)]
    with pytest.raises(CaptureError, match="of different runs"):
        settled(read(*logs), None)


def test_the_same_log_twice_is_refused(tmp_path: Path) -> None:
    one = lines(tmp_path / "run_lat.1.log", 50, first_ms=T0_MS)
    copy = tmp_path / "sub/run_lat.1.log"
    copy.parent.mkdir()
    copy.write_bytes(one.read_bytes())
    with pytest.raises(CaptureError, match="is given twice"):
        settled(read(one, one), None)
    with pytest.raises(CaptureError, match="50 commands in common"):
        settled(read(one, copy), None)
    kernel = [trace(tmp_path / f"{n}.txt", 40) for n in (1, 2)]
    with pytest.raises(CaptureError, match="40 commands in common"):
        settled(read(*kernel), None)
    parts = [trace(tmp_path / "first.txt", 40), trace(tmp_path / "second.txt", 40, first_s=200.0)]
    assert len(settled(read(*parts), None)[0]) == 2


def test_logs_that_each_count_from_their_first_entry_are_refused(tmp_path: Path) -> None:
    blk = []
    for n in (1, 2):
        blk.append(tmp_path / f"blk{n}.txt")
        blk[-1].write_text("259,0 0 1 0.000000001 7 D R 8 + 8 [fio]\n259,0 0 2 0.000100001 7 C R 8 + 8 [0]\n")
    with pytest.raises(CaptureError, match=r"blk1\.txt and .*blk2\.txt: each blkparse text counts from its own first entry.*blkparse -i"):
        settled(read(*blk), None)


def test_logs_of_one_clock_are_aligned_together(tmp_path: Path) -> None:
    """Neither log alone fits the power, which has the steps of both."""
    logs = [lines(tmp_path / f"run_lat.{n}.log", count, first_ms=T0_MS + at) for n, count, at in ((1, 1000, 0), (2, 2000, 1500))]
    done = import_files(ImportOrder([wave(tmp_path / "w.csv", (2, 3), (3.5, 5.5))], logs=logs), tmp_path / "c")
    (aligned,) = done.alignments
    assert aligned.begin_s == pytest.approx(2.0, abs=aligned.clock.bound_s)
    commands = open_capture(tmp_path / "c").commands.select("cqe_tick").collect()["cqe_tick"].to_numpy()
    assert len(commands) == 3000 and np.diff(np.sort(commands)).max() * open_capture(tmp_path / "c").tick_ps * 1e-12 == pytest.approx(
        0.5, abs=0.003
    )


# -- requests of the block layer ---------------------------------------------------------------------------------------


def requests(path: Path, *events: tuple[float, str, int, int]) -> pl.DataFrame:
    """(us, action, sector, sectors) of reads; rows (begin, end in us, sector, sectors)."""
    path.write_text(
        "".join(f"259,0 0 {n} {us * 1e-6:.9f} 7 {what} R {at} + {count} [0]\n" for n, (us, what, at, count) in enumerate(events))
    )
    found = pl.DataFrame(pl.from_arrow(read_log(path).table))
    return found.select(pl.col("doorbell_tick", "cqe_tick") // 1000, "slba", "blocks").sort("doorbell_tick")


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        # in three parts, another request of the same begin between
        (
            [(0, "D", 0, 24), (10, "C", 0, 8), (15, "D", 0, 8), (20, "C", 0, 8), (25, "C", 8, 8), (30, "C", 16, 8)],
            [(0, 30, 0, 24), (15, 20, 0, 8)],
        ),
        # the rest is put back and issued again: two commands
        ([(0, "D", 0, 16), (10, "C", 0, 8), (12, "R", 8, 8), (20, "D", 8, 8), (30, "C", 8, 8)], [(0, 10, 0, 8), (20, 30, 8, 8)]),
        # two of one place, the longer first: the completion of the shorter is its own
        ([(0, "D", 0, 16), (1, "D", 0, 8), (10, "C", 0, 8), (20, "C", 0, 16)], [(0, 20, 0, 16), (1, 10, 0, 8)]),
    ],
)
def test_a_request_ends_with_its_last_part(tmp_path: Path, events: list[Any], expected: list[Any]) -> None:
    assert requests(tmp_path / "b.txt", *events).rows() == expected
