"""Exports, read back with other programs: sigrok-cli for sessions, Polars and csv for tables."""

import csv
import io
import subprocess
import zipfile

import numpy as np
import polars as pl
import pytest
from wattbell.analysis import analyze
from wattbell.capture import open_capture
from wattbell.errors import UsageError
from wattbell.export import export_csv, export_sigrok
from wattbell.export.csvs import flatten
from wattbell.export.sigrok import CHANNELS
from wattbell.wire.decode import Gap
from wattbell_spec.wire import BlockContent, CommandFlag, EventType

from tests.host.analysis.test_page import everything

MS = 1_000_000
needs_sigrok = pytest.mark.needs("sigrok-cli")


@pytest.fixture
def capture(builder):
    builder.power(0, 0.66)
    builder.power(10 * MS + 5_000, 1.32)
    builder.events += [(0, EventType.PERST, 1, 0), (0, EventType.CLKREQ, 0, 0), (4 * MS, EventType.CLKREQ, 1, 0)]
    builder.events += [(6 * MS, EventType.CLKREQ, 0, 0)]
    builder.command(12 * MS + 300, 80_000, blocks=8)
    builder.command(12 * MS + 300, 90_000, blocks=8)  # one doorbell, two commands
    builder.command(13 * MS, 100_500, opcode=1, blocks=256, first_data_tick=13 * MS + 20_000, last_data_tick=13 * MS + 90_001)
    builder.events += [(3 * MS, EventType.LINK, 1, 0), (15 * MS, EventType.LINK, 5, 0)]
    return builder.write(20 * MS)


def sigrok(*arguments):
    done = subprocess.run(["sigrok-cli", *map(str, arguments)], capture_output=True, text=True, check=True)
    return done.stdout


@needs_sigrok
def test_sigrok_cli_shows_the_session(capture, tmp_path):
    made = export_sigrok(capture, tmp_path / "x.sr")
    shown = sigrok("-i", made.path, "--show")
    assert "Samplerate: 1000000" in shown
    for name in ("CLKREQ#: logic", "PERST#: logic", "LINK2: logic", "DOORBELL: logic", "CQE: logic"):
        assert name in shown
    for name in ("voltage: analog", "current: analog", "power: analog"):
        assert name in shown
    assert f"Logic sample count: {made.samples}" in shown
    assert f"Analog sample count: {made.samples}" in shown


@needs_sigrok
def test_logic_as_sigrok_reads_it(capture, tmp_path):
    made = export_sigrok(capture, tmp_path / "x.sr")
    text = sigrok("-i", made.path, "-C", "CLKREQ#,PERST#,LINK0,LINK1,LINK2,DOORBELL,FETCH,DATA,CQE", "-O", "csv")
    rows = [line for line in text.splitlines() if line[:1] in "01"]
    levels = np.array([[int(v) for v in row.split(",")[:9]] for row in rows[: made.samples]])
    clkreq = levels[:, 0]
    assert np.flatnonzero(np.diff(clkreq)).tolist() == [3999, 5999], "released from 4 ms to 6 ms"
    assert levels[:, 1].all()
    # a strobe is in the first sample at or after its instant
    assert np.flatnonzero(levels[:, 5]).tolist() == [12_001, 13_000]
    assert np.flatnonzero(levels[:, 6]).tolist() == [12_001, 13_001], "one read fetched two commands"
    assert np.flatnonzero(levels[:, 7]).tolist() == list(range(13_020, 13_092))
    assert np.flatnonzero(levels[:, 8]).tolist() == [12_081, 12_091, 13_101]
    link = levels[:, 2] + 2 * levels[:, 3] + 4 * levels[:, 4]
    assert [(n, link[n]) for n in np.flatnonzero(np.diff(link, prepend=-1))] == [(0, 0), (3000, 1), (15_000, 5)]
    assert made.merged == 0


def level(path, channel):
    """Samples of a logic channel of a session, by index."""
    with zipfile.ZipFile(path) as archive:
        names = sorted((n for n in archive.namelist() if n.startswith("logic-1-")), key=lambda n: int(n.split("-")[2]))
        words = np.frombuffer(b"".join(archive.read(n) for n in names), "<u2")
    return words >> channel & 1


def test_busy_is_high_while_a_command_is_in_flight(builder, tmp_path):
    builder.power(0, 0.66)
    builder.command(1 * MS, 20 * MS, qid=0, opcode=0x0C)  # an AER stays pending
    builder.command(2 * MS, 500_000)
    builder.command(2 * MS + 200_000, 800_000)
    builder.command(5 * MS, 2 * MS, doorbell_tick=None, fetch_tick=5 * MS + 600_000)  # in flight since its fetch at the latest
    builder.gaps.append(Gap(BlockContent.COMMANDS, 10 * MS, 12 * MS, -1, "test"))
    made = export_sigrok(builder.write(25 * MS), tmp_path / "x.sr", samplerate_hz=100_000)
    busy = level(made.path, 9)
    assert np.flatnonzero(np.diff(busy, prepend=0)).tolist() == [200, 300, 560, 700, 1000, 1201]
    assert not level(export_sigrok(open_capture(builder.path), tmp_path / "y.sr", start_s=0.0031, stop_s=0.0055).path, 9).any()


@needs_sigrok
def test_analog_as_sigrok_reads_and_writes_it(capture, tmp_path):
    made = export_sigrok(capture, tmp_path / "x.sr", start_s=0.005, stop_s=0.015, samplerate_hz=200_000)
    sigrok("-i", made.path, "-O", "srzip", "-o", tmp_path / "y.sr")
    with zipfile.ZipFile(tmp_path / "y.sr") as archive:
        names = [n for n in archive.namelist() if n.startswith(f"analog-1-{len(CHANNELS) + 3}-")]
        names.sort(key=lambda n: int(n.split("-")[3]))
        power = np.frombuffer(b"".join(archive.read(n) for n in names), "<f4")
    assert len(power) == made.samples == 2001
    assert power[:1000] == pytest.approx(0.66, rel=1e-5)
    assert power[1010:] == pytest.approx(1.32, rel=1e-5)
    assert made.start_s == pytest.approx(0.005)


def test_analog_is_nan_where_the_rail_is_missing_and_where_it_is_over(builder, tmp_path):
    builder.power(0, 0.66)
    builder.hole = 6 * MS, 9 * MS
    builder.events += [(0, EventType.CLKREQ, 0, 0), (30 * MS, EventType.CLKREQ, 1, 0)]
    made = export_sigrok(builder.write(20 * MS), tmp_path / "x.sr", samplerate_hz=100_000)
    with zipfile.ZipFile(made.path) as archive:
        for channel, value in ((1, 3.3), (2, 0.2), (3, 0.66)):
            values = np.frombuffer(archive.read(f"analog-1-{len(CHANNELS) + channel}-1"), "<f4")
            assert len(values) == made.samples > 2900
            assert np.flatnonzero(np.isnan(values)).tolist() == [*range(600, 900), *range(2000, len(values))]
            assert values[~np.isnan(values)] == pytest.approx(value, rel=1e-5)


def test_strobes_that_cannot_be_told_apart_are_counted(capture, tmp_path):
    made = export_sigrok(capture, tmp_path / "x.sr", samplerate_hz=1000)
    assert made.merged == 2, "CQEs at 12.08 and 12.09 ms, doorbells at 12.0003 and 13.0 ms"


@needs_sigrok
def test_an_aborted_command_has_a_doorbell_and_no_cqe(builder, tmp_path):
    builder.power(0, 0.66)
    builder.command(2 * MS, 3 * MS, flags=int(CommandFlag.ABORTED))
    builder.command(7 * MS, 1 * MS)
    made = export_sigrok(builder.write(20 * MS), tmp_path / "x.sr")
    rows = [row.split(",") for row in sigrok("-i", made.path, "-C", "DOORBELL,CQE", "-O", "csv").splitlines()]
    doorbell, cqe = np.array([[int(a), int(b)] for a, b in (row[:2] for row in rows if len(row) >= 2 and row[0] in "01")]).T
    assert np.flatnonzero(doorbell).tolist() == [2000, 7000]
    assert np.flatnonzero(cqe).tolist() == [8000]


def test_a_window_that_is_too_long_or_empty_is_refused(capture, tmp_path, monkeypatch):
    monkeypatch.setattr("wattbell.export.sigrok.MAX_SAMPLES", 10_000)
    with pytest.raises(UsageError, match="shorter window"):
        export_sigrok(capture, tmp_path / "x.sr")
    with pytest.raises(UsageError, match="Nothing lies"):
        export_sigrok(capture, tmp_path / "x.sr", start_s=5.0)
    with pytest.raises(UsageError, match="sample rate"):
        export_sigrok(capture, tmp_path / "x.sr", samplerate_hz=0)


def test_commands_csv_has_every_command_with_its_times(capture, tmp_path):
    export_csv(capture, tmp_path / "csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "csv" / "commands.csv").read_text())))
    assert [r["command"] for r in rows] == ["read", "read", "write"]
    assert [int(r["bytes"]) for r in rows] == [4096, 4096, 131072]
    assert float(rows[2]["latency_s"]) == pytest.approx(100.5e-6)
    assert int(rows[0]["doorbell_tick"]) == 12 * MS + 300
    assert float(rows[0]["doorbell_s"]) == pytest.approx(0.0120003)
    assert rows[0]["first_data_s"] == ""


def test_commands_csv_has_a_logical_block_only_where_there_is_one(builder, tmp_path):
    """CDW10 and CDW11 of Copy, or of an admin command, are no place on the drive."""
    builder.power(0, 0.66)
    builder.command(12 * MS, 80_000, slba=7, blocks=8)
    builder.command(13 * MS, 80_000, opcode=0x19, slba=7, blocks=8)
    builder.command(14 * MS, 80_000, qid=0, opcode=2, slba=7, blocks=8)
    export_csv(builder.write(20 * MS), tmp_path / "csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "csv" / "commands.csv").read_text())))
    assert [(r["slba"], r["blocks"]) for r in rows] == [("7", "8"), ("", ""), ("", "")]


def test_queue_depth_csv_is_the_step_function(capture, tmp_path):
    export_csv(capture, tmp_path / "csv", start_s=0.01205)
    frame = pl.read_csv(tmp_path / "csv" / "queue-depth.csv")
    assert frame["depth"].to_list() == [2, 1, 0, 1, 0]
    assert frame["tick"].to_list()[1:] == [12 * MS + 80_300, 12 * MS + 90_300, 13 * MS, 13 * MS + 100_500]


def test_rail_csv_is_thinned_by_means(capture, tmp_path):
    export_csv(capture, tmp_path / "csv", rail_every=7, start_s=0.009, stop_s=0.012)
    frame = pl.read_csv(tmp_path / "csv" / "rail.csv")
    assert len(frame) == -(-300 // 7)
    assert frame["power_w"][0] == pytest.approx(0.66, rel=1e-5)
    assert frame["power_w"][-1] == pytest.approx(1.32, rel=1e-5)
    # 9.00 .. 9.06 ms: the middle is 9.03 ms
    assert frame["time_s"][0] == pytest.approx(0.00903, abs=1e-9)
    every = pl.read_csv(export_csv(capture, tmp_path / "all", start_s=0.009, stop_s=0.012)[3])
    assert float(every["power_w"].mean()) == pytest.approx(float((frame["power_w"] * pl.Series([7] * 42 + [6])).sum()) / 300, rel=1e-6)


def test_figures_csv_carries_uncertainty_and_loss(capture, tmp_path):
    result = analyze(capture)
    export_csv(capture, tmp_path / "csv", result=result)
    rows = {r["figure"]: r for r in csv.DictReader(io.StringIO((tmp_path / "csv" / "figures.csv").read_text()))}
    mean = rows["power.mean_w"]
    assert float(mean["value"]) == pytest.approx(result["power"]["mean_w"]["value"])
    assert float(mean["u_k2"]) > 0
    assert (mean["unit"], mean["lost"]) == ("W", "0")
    assert rows["commands.read.count"]["value"] == "2"


def test_figures_have_states_lone_commands_ways_into_sleep_and_what_is_owed(builder):
    result = analyze(everything(builder))
    rows = {(phase, name): (value, u, unit) for phase, name, value, u, unit, _ in flatten(result)}
    assert len(rows) == sum(1 for _ in flatten(result)), "no figure twice"

    owed = result["phases"][2]["owed"]["energy_j"]
    assert rows["mixed", "owed.energy_j"] == (owed["value"], owed["u"], "J")
    assert ("mixed", "owed.j_per_gb") in rows and ("reads", "owed.energy_j") not in rows
    assert rows["", "alone.read 4 KiB.count"][0] == 2 and rows["", "alone.read 4 KiB.mean_j"] == (None, None, "J")
    assert rows["", "power_states.PS3.time"] == (pytest.approx(2.0, abs=1e-3), None, "s")
    assert rows["", "power_states.PS3.mean_w"][0] == pytest.approx(0.03, rel=1e-4)
    assert rows["", "power_states.PS3.max_power_w.declared"] == (0.03, None, "W")
    (way,) = result["wakeup"]["transitions"]
    assert rows["", "transitions.PS3.read 4 KiB.exit_j"] == (way["exit_j"]["value"], way["exit_j"]["u"], "J")
    assert rows["", "transitions.PS3.read 4 KiB.clkreq.s"][0] == pytest.approx(80e-6)
