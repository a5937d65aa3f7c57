"""The importer's own files: fio's JSON, nvme-cli's Identify data, their data in a capture, and refusals."""

from __future__ import annotations

import json
import resource
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner
from wattbell.analysis import analyze
from wattbell.capture import open_capture
from wattbell.capture.hostcommands import HostCommands, command_table
from wattbell.capture.schema import SeenBy
from wattbell.cli.app import app
from wattbell.errors import CaptureError, UsageError, WattbellError
from wattbell.formats import Volts, WaveformOptions
from wattbell.importer.align import Align
from wattbell.importer.build import ImportOrder, import_files
from wattbell.importer.fiophases import read_fio
from wattbell.importer.identity import read_identity
from wattbell.importer.load import load_of_log

from tests.host.fuzzing import examples

HERE = Path(__file__).parent
UTC_MS = 1_795_561_000_000
F64 = npt.NDArray[np.float64]


def fio(path: Path, *jobs: tuple[str, int, int | None, int]) -> Path:
    """fio's JSON with jobs (name, group, start in ms since UTC_MS, run time in ms), in the form of a real one."""
    document = json.loads((HERE / "fio-3.39-read.json").read_text())
    (pattern,) = document["jobs"]
    document["jobs"] = []
    for name, group, start, runtime in jobs:
        job = {**pattern, "jobname": name, "groupid": group, "job_start": None if start is None else UTC_MS + start}
        if start is None:
            del job["job_start"]
        document["jobs"].append({**job, "read": {**pattern["read"], "runtime": runtime, "io_bytes": 10_000_000, "total_ios": 2500}})
    path.write_text(json.dumps(document))
    return path


def waveform(path: Path, power: F64, *, every_ms: float = 1.0, lost: range = range(0), first_s: float = 0.0) -> Path:
    """A plain CSV at 3.3 V."""
    with open(path, "w") as out:
        out.write("time_s,voltage_v,current_a\n")
        for n, watt in enumerate(power):
            if n not in lost:
                out.write(f"{first_s + n * every_ms * 1e-3:.6f},3.3,{watt / 3.3:.9f}\n")
    return path


def steps(seconds: float, *loads: tuple[float, float, float], every_ms: float = 1.0) -> F64:
    """0.5 W, and W from a second to another."""
    time = np.arange(round(seconds * 1e3 / every_ms)) * every_ms * 1e-3
    power = np.full(len(time), 0.5)
    for first, last, watt in loads:
        power[(time >= first) & (time < last)] = watt
    return power + np.random.default_rng(1).normal(0, 1e-3, len(time))


# -- fio -----------------------------------------------------------------------------------------------------------------


def test_what_fio_itself_wrote_is_read() -> None:
    """Files of fio 3.39 under Linux in the guest: a job of reads, and one of trims (with its run time under trim alone)."""
    for name, start_ms in (("read", 1_795_561_317_581), ("trim", 1_795_561_320_719)):
        document = json.loads((HERE / f"fio-3.39-{name}.json").read_text())
        ran = max(document["jobs"][0][side]["runtime"] for side in ("read", "write", "trim"))
        run = read_fio([HERE / f"fio-3.39-{name}.json"], ["fio.json"])
        (phase,) = run.phases
        assert run.clock == "utc" and ran > 0
        assert phase.first_ns - phase.edge_u_ns < start_ms * 10**6 <= phase.first_ns
        assert phase.last_ns == (start_ms + ran) * 10**6


def test_fio_before_3_36_tells_no_start() -> None:
    with pytest.raises(CaptureError, match=r"3\.36.*--trace"):
        read_fio([HERE / "fio-3.33-two-groups.json"], ["fio.json"])


def test_groups_are_phases_and_those_that_overlap_are_one(tmp_path: Path) -> None:
    path = fio(tmp_path / "f.json", ("a", 0, 0, 1000), ("a", 0, 500, 1000), ("b", 1, 1499, 300), ("c", 2, 3000, 500), ("a", 3, 3200, 500))
    run = read_fio([path], ["fio.json"])
    spans = [(phase.name, (phase.first_ns - UTC_MS * 10**6) / 1e6, (phase.last_ns - UTC_MS * 10**6) / 1e6) for phase in run.phases]
    # a ends at 1500 and b begins at 1499.5: within the roundings, cut in the middle; c and the second a ran together
    assert spans == [("a", 0.5, 1499.75), ("b", 1499.75, 1799.0), ("c + a", 3000.5, 3700.0)]
    assert [phase.about.get("fio_group") for phase in run.phases] == [0, 1, None]
    assert "one phase" in run.notes[0]


def test_several_runs_of_fio_and_a_foreign_clock(tmp_path: Path) -> None:
    one, two = fio(tmp_path / "1.json", ("a", 0, 5000, 100)), fio(tmp_path / "2.json", ("a", 0, 1000, 100))
    run = read_fio([one, two], ["fio-1.json", "fio-2.json"])
    assert [(phase.name, phase.about["fio"]) for phase in run.phases] == [("a", "fio-2.json"), ("a #2", "fio-1.json")]
    document = json.loads(two.read_text())
    document["jobs"][0]["job options"]["job_start_clock_id"] = "4"
    two.write_text(json.dumps(document))
    assert read_fio([two], ["fio.json"]).clock == "mono_raw"
    with pytest.raises(CaptureError, match="different clocks"):
        read_fio([one, two], ["1", "2"])


KEYS = st.sampled_from(["jobs", "jobname", "groupid", "job_start", "read", "write", "trim", "runtime", "job options", "job_start_clock_id"])
LEAVES = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5)
TREES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=20)


@examples(150)
@given(jobs=st.lists(st.dictionaries(KEYS, TREES, max_size=6), max_size=3))
def test_any_jobs_are_phases_or_an_error(tmp_path: Path, jobs: list[Any]) -> None:
    path = tmp_path / "f.json"
    path.write_text(json.dumps({"jobs": jobs}))
    try:
        run = read_fio([path], ["fio.json"])
    except CaptureError as error:
        assert str(path) in str(error)
        return
    assert run.phases and all(phase.first_ns < phase.last_ns for phase in run.phases)
    assert all(a.last_ns <= b.first_ns for a, b in zip(run.phases, run.phases[1:]))


# -- Identify -------------------------------------------------------------------------------------------------------------


def test_what_nvme_cli_wrote_is_read() -> None:
    """nvme-cli 2.13 in the guest; the drive is the model of a 660p (docs/methodology.md)."""
    drive = read_identity([HERE / "nvme-cli-2.13-id-ctrl.json"])
    assert (drive["model"], drive["firmware"], drive["nvme_version"], drive["apst"]) == ("INTEL SSDPEKNW010T8", "NHF034C", "1.3.0", True)
    declared = [(s["max_power_w"], s["non_operational"], s["entry_latency_s"], s["exit_latency_s"]) for s in drive["power_states"]]
    assert declared == [(4.0, False, 0, 0), (3.0, False, 0, 0), (2.2, False, 0, 0), (0.03, True, 5e-3, 5e-3), (0.004, True, 5e-3, 9e-3)]
    assert drive["warning_temperature_c"] == 77 and drive["power_states"][0]["idle_power_w"] is None


def test_power_states_of_older_nvme_cli_have_flags(tmp_path: Path) -> None:
    document = json.loads((HERE / "nvme-cli-2.13-id-ctrl.json").read_text())
    document["psds"][2].update(max_power=22000, max_power_scale=1)
    for state in document["psds"]:
        state["flags"] = state.pop("max_power_scale") | state.pop("non-operational_state") << 1
    document["psds"][0].update(idle_power=63, idle_scale=2, active_power=350, active_scale=2, active_power_work=2)
    (tmp_path / "id.json").write_text(json.dumps(document))
    states = read_identity([tmp_path / "id.json"])["power_states"]
    assert (states[4]["max_power_w"], states[4]["non_operational"]) == (0.004, True)
    assert (states[2]["max_power_w"], states[2]["non_operational"]) == (2.2, False)
    assert (states[0]["idle_power_w"], states[0]["active_power_w"], states[0]["active_power_workload"]) == (0.63, 3.5, 2)


def test_raw_identify_data(tmp_path: Path) -> None:
    controller, space = bytearray(4096), bytearray(4096)
    controller[4:72] = b"S1".ljust(20) + b"SOME DRIVE".ljust(40) + b"1.0".ljust(8)
    controller[263] = 0
    controller[2048:2050] = (850).to_bytes(2, "little")  # in units of 10 mW
    space[0:8] = (1000).to_bytes(8, "little")
    space[26], space[130] = 0, 12  # LBA format 0: 2^12 bytes
    for name, data in (("c", controller), ("n", space)):
        (tmp_path / name).write_bytes(data)
    drive = read_identity([tmp_path / "n", tmp_path / "c"])
    assert (drive["model"], drive["power_states"][0]["max_power_w"], drive["namespaces"][0]["lba_size_bytes"]) == ("SOME DRIVE", 8.5, 4096)
    for wrong in (bytes(4096), bytes(controller[:-1]), b"{}", b"not JSON"):
        (tmp_path / "w").write_bytes(wrong)
        with pytest.raises(CaptureError, match=str(tmp_path / "w")):
            read_identity([tmp_path / "w"])


IDENTIFY_KEYS = st.sampled_from(
    ["mn", "sn", "fr", "npss", "psds", "max_power", "entry_lat", "exit_lat", "lbafs", "nsze", "ncap", "flbas", "ds"]
)


@examples(150)
@given(tree=st.dictionaries(IDENTIFY_KEYS, TREES, max_size=8) | st.binary(max_size=60))
def test_any_identify_data_are_read_or_an_error(tmp_path: Path, tree: Any) -> None:
    path = tmp_path / "id"
    path.write_bytes(tree if isinstance(tree, bytes) else json.dumps(tree).encode())
    try:
        read_identity([path])
    except CaptureError as error:
        assert str(path) in str(error)


# -- a capture ------------------------------------------------------------------------------------------------------------


def test_phases_by_a_stated_offset_and_missing_rows_are_gaps(tmp_path: Path) -> None:
    csv = waveform(tmp_path / "w.csv", steps(4, (1, 2, 3.0), (2.5, 3.5, 2.0)), lost=range(1200, 1300))
    json_ = fio(tmp_path / "f.json", ("[bold]a[/]", 0, 0, 1000), ("b", 1, 1500, 1000))
    order = ImportOrder([csv], fio=[json_], align=Align("offset", 0.002, 1.0), accuracy={"gain": 1e-3, "offset_a": 0.0, "timebase": 0.0})
    import_files(order, tmp_path / "c")
    capture = open_capture(tmp_path / "c")
    (gap,) = capture.gaps.collect().to_dicts()
    assert (gap["kind"], gap["count"], gap["reason"]) == ("RAIL", 100, "missing in the file")
    assert capture.meta["rail"]["missing_samples"] == 100 and not capture.meta["loss"]["lossless"]
    result = analyze(capture)
    first, second = (phase["power"] for phase in result["phases"])
    assert first["mean_w"]["value"] == pytest.approx(3.0, abs=0.01) and first["energy_j"]["lost"] == 100 and first["energy_j"]["u"] is None
    energy = second["energy_j"]
    assert abs(energy["value"] - 2.0) < energy["u"] < 0.05 and energy["lost"] == 0
    assert energy["u"] > 2 * 2.0 * 0.0035  # both edges by 2 ms as stated and 1.5 ms of fio's
    assert result["phases"][0]["name"] == "[bold]a[/]"
    shown = CliRunner().invoke(app, ["info", str(tmp_path / "c")])
    assert "[bold]a[/]" in shown.output


def test_impossible_samples_are_gaps_that_figures_know_of(tmp_path: Path) -> None:
    csv = waveform(tmp_path / "w.csv", steps(4, (1, 2, 3.0)))
    lines = csv.read_text().splitlines()
    for n, value in ((1, "OVLD"), (2, "9.91E37"), (1501, "933333333"), (1502, "-1e9"), (3000, "inf")):
        lines[n] = f"{lines[n].rpartition(',')[0]},{value}"
    csv.write_text("\n".join(lines) + "\n")
    json_ = fio(tmp_path / "f.json", ("a", 0, 0, 1000))
    import_files(ImportOrder([csv], fio=[json_], align=Align("offset", 0.002, 1.0)), tmp_path / "c")
    capture = open_capture(tmp_path / "c")
    gaps = capture.gaps.sort("first_tick").collect()
    assert gaps["count"].to_list() == [2, 2, 1] and set(gaps["reason"]) == {"missing in the file"}
    assert not capture.meta["loss"]["lossless"]
    notes = capture.meta["conditions"]["notes"]
    assert any(note.startswith("3 samples had no number") for note in notes)
    assert any(note.startswith("2 samples (-1e+09 A) beyond what the rail of an SSD can have") for note in notes)
    (phase,) = analyze(capture)["phases"]
    assert phase["power"]["energy_j"]["lost"] == 2 and phase["power"]["mean_w"]["value"] == pytest.approx(3.0, abs=0.02)


def test_a_log_of_commands_gives_rates_of_its_own(tmp_path: Path) -> None:
    """fio's latency log of the same run, real, and power that rises with it."""
    entries = [(ms, 200_000 + ms) for ms in [*range(5, 1000, 5), *range(1500, 2600, 5)]]
    log = tmp_path / "x_lat.1.log"
    log.write_text("".join(f"{ms}, {ns}, 0, 4096, {4096 * n}, 0\n" for n, (ms, ns) in enumerate(entries)))
    csv = waveform(tmp_path / "w.csv", steps(5, (1.3, 2.3, 3.0), (2.8, 3.9, 2.0)))
    done = import_files(ImportOrder([csv], logs=[log]), tmp_path / "c")
    (aligned,) = done.alignments
    assert abs(aligned.begin_s - 1.3) <= aligned.clock.bound_s
    result = analyze(open_capture(tmp_path / "c"))
    assert result["commands"]["by_opcode"]["read"]["count"] == len(entries) and result["phases"] == []
    assert open_capture(tmp_path / "c").meta["conditions"]["alignment_u_s"] >= aligned.clock.bound_s
    assert result["efficiency"]["mb_per_j"]["value"] > 0


def test_bursts_of_a_log_end_with_the_last_of_several_commands_in_flight() -> None:
    ms = 1_000_000
    columns = {
        "doorbell_tick": np.array([0, 1, 2, 100, 300]) * ms,
        "cqe_tick": np.array([50, 5, 6, 130, 301]) * ms,  # the first outlives those behind it; the last does not show in the power
        "opcode": np.full(5, 2),
    }
    load = load_of_log(HostCommands(command_table(columns, SeenBy.TRACEPOINT, 500), clock="mono_raw"), "log")
    assert load is not None and (load.windows / ms).tolist() == [[0, 50], [100, 130]]
    assert (load.edge_u_ns, load.clock, load.what) == (500, "mono_raw", "log")
    assert load.apart(0.06) == [(0, 130 * ms)] and load.apart(0.01) == [(0, 50 * ms), (100 * ms, 130 * ms)]


def test_times_of_day_align_where_the_user_says_how_well(tmp_path: Path) -> None:
    csv = waveform(tmp_path / "w.csv", steps(3, (1, 2, 3.0)), first_s=UTC_MS / 1e3)
    json_ = fio(tmp_path / "f.json", ("a", 0, 1000, 1000))
    done = import_files(ImportOrder([csv], fio=[json_], align=Align("utc", 0.01)), tmp_path / "c")
    (aligned,) = done.alignments
    assert aligned.begin_s == pytest.approx(1.0005, abs=1e-5) and 0.01 <= aligned.clock.bound_s < 0.012
    with pytest.raises(UsageError, match="--align-u"):
        import_files(ImportOrder([csv], fio=[json_], align=Align("utc")), tmp_path / "d")
    early = fio(tmp_path / "g.json", ("a", 0, -9000, 1000))
    with pytest.raises(CaptureError, match="no time in common"):
        import_files(ImportOrder([csv], fio=[early], align=Align("utc", 0.01)), tmp_path / "d")
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("power", "jobs", "said"),
    [
        (steps(6, (1, 1.5, 3.0), (3, 3.5, 3.0)), [("a", 0, 0, 500)], "several places"),
        (steps(4), [("a", 0, 0, 500)], "does not show"),
        (np.full(3000, 0.5), [("a", 0, 0, 500)], "the same everywhere"),
    ],
)
def test_work_that_fits_nowhere_or_at_two_places_is_an_error(tmp_path: Path, power: F64, jobs: Any, said: str) -> None:
    csv, json_ = waveform(tmp_path / "w.csv", power), fio(tmp_path / "f.json", *jobs)
    with pytest.raises(CaptureError, match=f"{said}.*--offset"):
        import_files(ImportOrder([csv], fio=[json_]), tmp_path / "c")
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"time_s,voltage_v,current_a\n", "0 rows"),
        (b"", "is empty"),
        (b"time_s,voltage_v,current_a\n0,000,3,3,0,1\n0,001,3,3,0,1\n", "6 fields under 3 names.*decimal commas"),
        (b"time_s;voltage_v;current_a\n0,000;3,3;0,1\n0,001;3,3;0,1\n0,002;3.3;0,1\n", "line 2.*decimal comma"),
        (b"time_s,voltage_v,current_a\n0,3.3,0.1\n0.001,3.3,0.1\n0.002,3.3,0,1\n", "line 4"),
        ("time_s,voltage_v,current_a\n0,3.3,0.1\n0.001,3.3,x\n".encode("utf-16"), "line 3: x is not a number"),
        (b"time_s,voltage_v,current_mah\n0,3.3,0.1\n", "line 1"),
        (b"time_s,voltage_v,current_a\n0,3.3,nan\n0.001,nan,0.1\n", "no sample"),
        (b"[bold]\x1b[31mred[/]\n1,2\n", "line 1"),
    ],
)
def test_a_foreign_encoding_locale_unit_or_a_cut_file_is_one_error(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "x[red].csv"
    path.write_bytes(content)
    with pytest.raises(CaptureError, match=said) as caught:
        import_files(ImportOrder([path]), tmp_path / "c")
    assert "x[red].csv" in str(caught.value) and "\x1b" not in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "c").exists()


def test_two_waveforms_of_different_instruments(tmp_path: Path) -> None:
    one, two = waveform(tmp_path / "1.csv", steps(1)), tmp_path / "2.csv"
    two.write_text("Timestamp(ms),Current(uA)\n0,1\n1,1\n")
    with pytest.raises(UsageError, match="no channels of one recording"):
        import_files(ImportOrder([one, two]), tmp_path / "c")
    with pytest.raises(UsageError, match="all channels in one file"):
        import_files(ImportOrder([one, one]), tmp_path / "c")


def test_a_stated_voltage_is_part_of_the_uncertainty(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("Timestamp(ms),Current(uA)\n" + "".join(f"{n},{100000.0}\n" for n in range(1000)))
    import_files(
        ImportOrder([path], WaveformOptions(volts=Volts(3.3, 0.33)), accuracy={"gain": 0.01, "offset_a": 0.0, "timebase": 0.0}),
        tmp_path / "c",
    )
    mean = analyze(open_capture(tmp_path / "c"))["power"]["mean_w"]
    assert mean["value"] == pytest.approx(0.33, rel=1e-6) and mean["u"] == pytest.approx(0.33 * np.hypot(0.1, 0.01), rel=1e-3)
    import_files(ImportOrder([path], WaveformOptions(volts=Volts(3.3, 0.0))), tmp_path / "d")
    told = analyze(open_capture(tmp_path / "d"))["uncertainty"]
    assert told["gain"] == 0.15 and "Nordic" in told["source"] and "3.3 V within 0 V" in told["source"]  # its maker's figure


def test_a_disk_that_is_full_leaves_nothing_and_keeps_what_was_there(tmp_path: Path) -> None:
    csv = waveform(tmp_path / "w.csv", steps(20, every_ms=0.1), every_ms=0.1)
    small = waveform(tmp_path / "s.csv", steps(1))
    import_files(ImportOrder([small]), tmp_path / "c")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, before[1]))
    try:
        for out, overwrite in ((tmp_path / "c", True), (tmp_path / "d", False)):
            with pytest.raises(CaptureError, match="cannot be written") as caught:
                import_files(ImportOrder([csv]), out, overwrite=overwrite)
            assert "What was recorded" not in str(caught.value)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert open_capture(tmp_path / "c").meta["rail"]["samples"] == 1000  # as it was
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "s.csv", "w.csv"]


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """25 times the rows, and no more memory than one block of text and its numbers."""
    peaks = []
    for copies in (4, 100):
        path = tmp_path / f"{copies}.csv"
        with open(path, "w") as out:
            out.write("time_s,voltage_v,current_a\n")
            for n in range(copies):
                out.writelines(f"{(n * 10_000 + k) * 1e-4:.4f},3.300000000000,0.100000000000\n" for k in range(10_000))
        tracemalloc.start()
        import_files(ImportOrder([path]), tmp_path / f"c{copies}")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 120e6, peaks


@pytest.mark.parametrize(
    "arguments",
    [
        ["--volts", "x"],
        ["--volts", "3.3,-1"],
        ["--volts", "0"],
        ["--offset", "nan"],
        ["--offset", "1"],
        ["--offset", "1,2,3"],
        ["--align", "moon"],
        ["--align-u", "0.1"],
        ["--offset", "1,0.1", "--align", "utc"],
        ["--column", "current"],
        ["--column", "power=x=y:furlong"],
        ["--accuracy", "gain=2"],
        ["--accuracy", "gain"],
        ["--format", "[bold]"],
        ["--interval", "nan"],
        ["--volts", "3.3"],
        ["--rail", "3V3"],
        ["--interval", "1ms"],
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, arguments: list[str]) -> None:
    csv, json_ = waveform(tmp_path / "w.csv", steps(1)), fio(tmp_path / "f.json", ("a", 0, 0, 500))
    done = CliRunner().invoke(app, ["import", str(csv), "--fio", str(json_), "--out", str(tmp_path / "c"), *arguments])
    assert isinstance(done.exception, WattbellError), (done.output, done.exception)
    assert not (tmp_path / "c").exists()
