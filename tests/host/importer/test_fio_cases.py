"""The shared cases of fio's files and of blkparse's: each gives what its README says, or the one error that it asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from wattbell.analysis import analyze
from wattbell.capture import open_capture
from wattbell.errors import CaptureError
from wattbell.importer.align import Align
from wattbell.importer.build import ImportOrder, import_files

from tests.host.sharedcases import unpacked_cases

MIB = 1 << 20


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked_cases(tmp_path_factory.mktemp("cases"), "fio-", "blk-")


Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(cases: Path, tmp_path: Path) -> Run:
    """The analysis of an import: files of a case by name, with the common waveform or its own."""

    def made(case: str, fio: Sequence[str] = (), logs: Sequence[str] = (), align: Align | None = None, wave: str = "") -> dict[str, Any]:
        folder = cases / case
        order = ImportOrder(
            [folder / wave if wave else cases / "_base/wave.csv"],
            fio=[folder / name for name in fio],
            logs=[folder / name for name in logs],
            align=align or Align(),
        )
        out = tmp_path / "c"
        import_files(order, out, overwrite=True)
        return dict(analyze(open_capture(out)))

    return made


def joules(result: dict[str, Any]) -> float:
    (phase,) = result["phases"]
    energy = phase["power"]["energy_j"]
    assert abs(energy["value"] - 9.9) <= energy["u"], "3 s of 3.3 W"
    return float(energy["value"])


@pytest.mark.parametrize("case", ["_base", "fio-brace", "fio-client", "fio-dupkeys", "fio-errlines", "fio-group", "fio-json-normal"])
def test_one_phase_of_300_mib(run: Run, case: str) -> None:
    result = run(case, ["fio.json"])
    joules(result)
    (account,) = result["fio_account"]
    assert account["mb_per_s"]["value"] == pytest.approx(300 * MIB / 3 / 1e6, rel=1e-3)
    assert account["mb_per_j"]["value"] == pytest.approx(300 * MIB / 1e6 / 9.9, rel=3e-3)


def test_two_processes_at_once(run: Run) -> None:
    """300 MiB in 3 s at 3.3 W, half by each process."""
    result = run("fio-cbt", ["a.json", "b.json"])
    joules(result)
    (account,) = result["fio_account"]
    assert account["mb_per_s"]["value"] == pytest.approx(104.8576, rel=1e-3)
    assert account["mb_per_j"]["value"] == pytest.approx(31.775, rel=3e-3)


def test_two_processes_at_once_against_the_kernels_log(run: Run) -> None:
    result = run("fio-cbt-trace", ["a.json", "b.json"], ["trace.txt"])
    joules(result)
    ((row,),) = [section["rows"] for section in result["fio"]["sections"]]
    assert (row["wire_count"], row["fio_count"], row["equal"]) == (6000, 6000, True) and result["fio"]["equal"] is True


def test_a_job_with_an_error_has_power_and_no_figures_of_fios(run: Run) -> None:
    result = run("fio-error5", ["fio.json"])
    joules(result)
    (account,) = result["fio_account"]
    for name in ("mb_per_s", "iops", "mean_latency_s", "mb_per_j", "iops_per_w", "j_per_gb"):
        assert account[name]["value"] is None, name
    assert [warning for warning in result["warnings"] if "error 5 (Input/output error)" in warning and "void" in warning]


def test_fio_before_3_36_is_one_error(run: Run) -> None:
    with pytest.raises(CaptureError, match=r"fio\.json does not say when its jobs began: fio does since 3\.36"):
        run("fio-333", ["fio.json"])


@pytest.mark.parametrize(
    ("case", "logs", "microseconds"),
    [
        ("fio-7col", ["run_clat.1.log"], 80),
        ("fio-lat-and-clat", ["run_clat.1.log", "run_lat.1.log"], 85),
        ("fio-lat-and-clat", ["run_lat.1.log", "run_clat.1.log"], 85),
    ],
)
def test_3000_reads_once(run: Run, case: str, logs: list[str], microseconds: int) -> None:
    (reads,) = run(case, logs=logs)["commands"]["by_opcode"].values()
    assert (reads["count"], reads["bytes"]) == (3000, 3000 * 4096)
    assert reads["latency_s"]["mean"] == pytest.approx(microseconds * 1e-6, abs=2e-9)


@pytest.mark.parametrize("align", [Align(), Align("utc", 0.01)])
def test_a_log_with_times_of_day(run: Run, align: Align) -> None:
    result = run("fio-unixepoch", logs=["run_lat.1.log"], wave="wave.csv", align=align)
    (reads,) = result["commands"]["by_opcode"].values()
    assert (reads["count"], reads["bytes"]) == (3000, 3000 * 4096)


def test_logs_that_begin_with_their_own_jobs(run: Run, cases: Path) -> None:
    result = run("fio-lat-stonewall", ["fio.json"], ["j_lat.1.log", "j_lat.2.log"])
    assert [phase["commands"]["by_opcode"]["read"]["count"] for phase in result["phases"]] == [1500, 1500]
    one, two = result["phases"]
    tick_s = one["duration_s"] / (one["last_tick"] - one["first_tick"])
    assert (two["first_tick"] - one["first_tick"]) * tick_s == pytest.approx(1.5, abs=0.003)
    assert all(abs(phase["power"]["energy_j"]["value"] - 4.95) < phase["power"]["energy_j"]["u"] for phase in (one, two))
    with pytest.raises(CaptureError, match=r"j_lat\.1\.log and .*j_lat\.2\.log count from the begin of their own jobs.*log_unix_epoch=1"):
        run("fio-lat-stonewall", logs=["j_lat.1.log", "j_lat.2.log"])


@pytest.mark.parametrize("name", ["run_bw.1.log", "run_bw.1.log.node1"])
def test_a_log_of_bandwidth_is_none_of_latencies(run: Run, name: str) -> None:
    with pytest.raises(CaptureError, match=r"is fio's log of bw \(KiB/s\)"):
        run("fio-bw-hostname", logs=[name])


def test_an_averaged_log(run: Run) -> None:
    with pytest.raises(CaptureError, match="averaged"):
        run("fio-avg", logs=["run_lat.1.log"])


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("blk-base", {"read": (2000, 2000 * 4096, 100)}),
        ("blk-fwfs", {"write": (1000, 1000 * 4096, 100), "flush": (1000, 0, 48)}),
        ("blk-merge", {"write": (1000, 1000 * 8192, 100)}),
        ("blk-partial", {"read": (1000, 1000 * 8192, 300)}),
        ("blk-requeue", {"read": (1000, 1000 * 4096, 100)}),
        ("blk-split", {"write": (2000, 1000 * MIB, 501)}),
    ],
)
def test_requests_of_the_block_layer(run: Run, case: str, expected: dict[str, tuple[int, int, int]]) -> None:
    found = run(case, logs=["blk.txt"], align=Align("offset", 0.01, 3.0))["commands"]["by_opcode"]
    assert {name: (of["count"], of["bytes"], round(of["latency_s"]["mean"] * 1e6)) for name, of in found.items()} == expected
