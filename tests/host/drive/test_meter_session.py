"""Sessions with a meter's rail and the host's log of commands: two clocks, one capture."""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from wattbell.analysis import analyze
from wattbell.capture import open_capture
from wattbell.capture.logbook import Logbook
from wattbell.capture.marking import BY_FEATURE
from wattbell.capture.schema import SeenBy
from wattbell.clocks import host as clock
from wattbell.clocks.host import host_ns
from wattbell.clocks.map import ClockMap
from wattbell.clocks.pattern import schedule
from wattbell.drive import logged, pattern, recording
from wattbell.errors import ClockError, DriveError, RigError
from wattbell.measure.source import Source
from wattbell.suites.power import settled_power

from tests.host.drive.lab import Lab
from tests.host.drive.meterlab import LabLog, LabMeter
from tests.host.meters.measuring import wait_for

LOAD = "[a]\nfilename=${WATTBELL_DRIVE}\nrw=randread\nbs=4k\n"
WORK = {"name": "w", "fio": "j.fio"}
IDLE = {"name": "i", "idle_s": 0.3}
SETTLE = {"name": "i-settle", "settle": {"window_s": 2.0, "range_share": 0.05, "longest_s": 30.0}, "measured": False}


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return lab_in(tmp_path, monkeypatch)


def lab_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    folder.mkdir(exist_ok=True)
    made = Lab(folder, monkeypatch)
    (folder / "iops").write_text("[1000.0]")
    (folder / "plans/j.fio").write_text(LOAD)
    return made


UNITS_S = (0.1, 0.4, 1.6)
"""Units of a pattern of load. On a busy machine a burst of 50 ms may run into the next and is not found: then it is played more slowly."""


def captured(lab: Lab) -> Any:
    return open_capture(lab.root / "capture")


def test_phases_and_commands_of_the_hosts_log_lie_on_the_meters_clock(lab: Lab) -> None:
    meter = LabMeter(lab)
    meter.swing_ns = 500_000_000
    log = LabLog(lab)
    phases = lab.run(WORK, IDLE, meter=meter, log=log)
    capture = captured(lab)
    assert capture.meta["state"] == "complete" and capture.meta["clock"]["tick_ps"] == 1_000_000
    found = Source(capture).phases
    assert [phase["name"] for phase in phases] == list(found) == ["w", "i"]
    bound = capture.meta["conditions"]["alignment_u_s"]
    assert 0 < bound < 0.02
    edges = [phase["edge_u_s"] for phase in capture.meta["workload"]["phases"]]
    assert edges == pytest.approx([bound + 5e-6] * 2), "the log's markers take 5 us"
    about = json.loads(json.dumps(analyze(capture)))
    work, idle = about["phases"]
    assert work["commands"]["all"]["count"] == 100 and idle["commands"]["all"]["count"] == 0
    # the drive's power between two instants of the host's clock is known, whatever the meter's clock says
    begin, end = ((ns - meter.began_ns) * 1e-9 for ns in log.marks[3:5])
    turn = 2 * math.pi / (meter.swing_ns * 1e-9)
    truth_j = end - begin + 0.8 * (math.cos(turn * begin) - math.cos(turn * end)) / turn
    energy = idle["power"]["energy_j"]
    assert energy["value"] == pytest.approx(truth_j, abs=energy["u"] + 0.002)  # a sample is 1 ms
    assert energy["conditions"]["edge_u_s"] == pytest.approx(edges[1])
    assert capture.meta["conditions"]["host_log"]["clock_map"]["bound_s"] == pytest.approx(bound)
    assert not (lab.root / "capture/host_commands.parquet").exists() and not list(lab.root.glob("plans/results/*.parquet"))


def test_an_idle_time_begins_when_the_meters_rail_is_at_rest(lab: Lab) -> None:
    lab.power = lambda t: 1.5 - 0.4 * min(t, 2.5)
    settle, _ = lab.run(SETTLE, IDLE, meter=LabMeter(lab), log=LabLog(lab))
    assert settle["settling"]["settled"] and 3.5 <= settle["settling"]["after_s"] < 20
    assert settle["settling"]["mean_w"] == pytest.approx(0.5, rel=1e-3)


def test_the_settled_power_of_an_idle_time_has_nothing_of_the_marker_that_wakes_the_drive(lab: Lab) -> None:
    """Nor does its uncertainty, though nobody knows when in the time that it took the marker was at the drive."""
    lab.power = lambda t: 2.0 if 0 < t < 0.06 else 0.1
    log = LabLog(lab)
    log.waking_ns = 60_000_000
    meter = LabMeter(lab)
    meter.about = replace(meter.about, placement_u_s=0.01)
    lab.run({"name": "i", "idle_s": 1.0}, meter=meter, log=log)
    source = Source(captured(lab))
    (phase,) = source.phases.values()
    assert 0.07 < phase.edge_u_s < 0.08, "when in 60 ms the marker was at the drive nobody knows"
    settled = settled_power(source, phase)
    assert settled.value == pytest.approx(0.1, abs=1e-4) and settled.u is not None and settled.u < 0.002
    _, whole = source.energy(phase.last_tick - 500_000, phase.last_tick, edge_u_s=phase.edge_u_s)
    assert whole.u is not None and whole.u > 0.01, "up to the edge it would be as uncertain as the clocks"


class Drive:
    """A file to read. Its readers draw power from the meter while they read."""

    def __init__(self, lab: Lab, meter: LabMeter, monkeypatch: pytest.MonkeyPatch, unit_s: float = UNITS_S[0]) -> None:
        path = lab.root / "drive"
        path.write_bytes(bytes(1 << 20))
        lab.device = replace(lab.device, path=str(path), capacity_bytes=1 << 20)
        guard = threading.Lock()
        reading = [0]

        def read(descriptor: int, block: mmap.mmap, place: int) -> tuple[int, int]:
            begin = host_ns()
            with guard:
                reading[0] += 1
                if not meter.bursts or begin - meter.bursts[-1][1] > 5_000_000:
                    meter.bursts.append((begin, math.inf))
                meter.bursts[-1] = (meter.bursts[-1][0], math.inf)
            os.preadv(descriptor, [block], place)
            time.sleep(0.001)
            with guard:
                reading[0] -= 1
                end = host_ns()
                meter.bursts[-1] = (meter.bursts[-1][0], math.inf if reading[0] else end)
            return begin, end

        monkeypatch.setattr(pattern, "timed_read", read)
        monkeypatch.setattr(pattern, "schedule", partial(schedule, unit_s=unit_s))


def test_a_meter_that_cannot_be_asked_is_placed_by_a_pattern_of_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for unit_s in UNITS_S:
        lab = lab_in(tmp_path / f"{unit_s}", monkeypatch)
        meter = LabMeter(lab, asked=False)
        Drive(lab, meter, monkeypatch, unit_s)
        lab.run(WORK, IDLE, meter=meter, log=LabLog(lab))
        capture = captured(lab)
        told = capture.meta["conditions"]["host_log"]["clock_map"]
        if "edges of 2 load patterns" in told["method"]:
            break
    assert "edges of 2 load patterns" in told["method"]
    assert 0.001 < told["bound_s"] < 0.02 and capture.meta["conditions"]["alignment_u_s"] == told["bound_s"]
    clock = ClockMap(**told)
    for ns in (meter.bursts[0][0], meter.bursts[-1][1]):  # what the meter's clock really was
        assert abs(int(clock.to_reference(int(ns))) - meter._tick(int(ns)) * 1000) <= told["bound_s"] * 1e9
    assert list(Source(capture).phases) == ["clocks-begin", "w", "i", "clocks-end"]
    assert [phase["measured"] for phase in capture.meta["workload"]["phases"]] == [False, True, True, False]


def test_a_meter_whose_first_answer_is_late_needs_no_pattern(lab: Lab) -> None:
    """Samples are there half a second before it."""
    meter = LabMeter(lab)
    meter.answers_from = 500
    lab.run(WORK, IDLE, meter=meter, log=LabLog(lab))
    assert list(Source(captured(lab)).phases) == ["w", "i"]
    assert "round trips" in captured(lab).meta["conditions"]["host_log"]["clock_map"]["method"]


def test_a_virtual_rig_that_is_behind_catches_up_first(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_CATCHING_UP_S", 0.3)
    meter = LabMeter(lab)
    meter.follows(6.0)
    Drive(lab, meter, monkeypatch)
    lab.run(WORK, IDLE, meter=meter, log=LabLog(lab))
    told = captured(lab).meta["conditions"]["host_log"]["clock_map"]
    assert "edges of 2 load patterns" in told["method"], "its counter is not asked"
    clock, ns = ClockMap(**told), int(meter.bursts[-1][1])
    assert abs(int(clock.to_reference(ns)) - meter._tick(ns) * 1000) <= told["bound_s"] * 1e9
    assert list(Source(captured(lab)).phases) == ["clocks-begin", "w", "i", "clocks-end"]


def killed_when(lab: Lab, said: str, journalled: Callable[[Logbook], bool]) -> Path:
    """Copy the capture as a killed session would leave it; the copy's place.

    The copy is made when the session prints `said`, or as soon as the journal has the phases until then and `journalled` holds.
    """
    copy = lab.root / "killed"

    def ready(book: Logbook) -> bool:
        phases = book.workload["phases"] if book.workload else []
        return len(phases) == int(said[0]) - 1 and not any("broke off" in phase["name"] for phase in phases) and journalled(book)

    def say(text: str) -> None:
        if text == said:
            wait_for(lambda: ready(Logbook.journalled(lab.root / "capture", BY_FEATURE)))
            shutil.copytree(lab.root / "capture", copy)

    lab.said = type("Said", (list,), {"append": lambda self, text: say(text)})()
    return copy


def test_a_killed_session_whose_meter_cannot_be_asked_is_placed_by_the_patterns_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for unit_s in UNITS_S:
        lab = lab_in(tmp_path / f"{unit_s}", monkeypatch)
        meter = LabMeter(lab, asked=False)
        Drive(lab, meter, monkeypatch, unit_s)
        copy = killed_when(lab, "4: clocks-end", lambda book: book.rows >= 104 and len(book.patterns) == 1)
        with contextlib.suppress(ClockError):  # how the session itself ends is not what is looked at
            lab.run(WORK, IDLE, meter=meter, log=LabLog(lab))
        capture = open_capture(copy)
        if capture.meta["conditions"]["host_log"]["clock_map"] is not None:
            break
    assert capture.meta["state"] == "recovered" and not list(copy.glob("host_commands*"))
    told = capture.meta["conditions"]["host_log"]["clock_map"]
    assert "edges of 1 load pattern" in told["method"] and told["bound_s"] < 0.02
    clock, ns = ClockMap(**told), int(meter.bursts[0][0])
    assert abs(int(clock.to_reference(ns)) - meter._tick(ns) * 1000) <= told["bound_s"] * 1e9
    assert list(Source(capture).phases) == ["clocks-begin", "w", "i"]
    work = Source(capture).phases["w"]
    assert work.edge_u_s == pytest.approx(told["bound_s"] + 5e-6) == pytest.approx(capture.meta["conditions"]["alignment_u_s"], abs=1e-5)
    assert capture.commands.filter(pl.col("opcode") == 2).collect().height == 100


def test_what_the_kernel_lost_is_counted_after_a_kill_too(lab: Lab) -> None:
    log = LabLog(lab)
    log.overran = 7
    copy = killed_when(lab, "2: i", lambda book: book.lost and book.rows >= 103)
    lab.run(WORK, IDLE, meter=LabMeter(lab), log=log)
    gaps = open_capture(copy).gaps.filter(pl.col("kind") == "COMMANDS").collect()
    assert gaps.filter(pl.col("count") == 7)["reason"].to_list() == ["the kernel's trace buffer overran (CPU 0)"]
    assert gaps.filter(pl.col("count") == -1)["reason"].to_list() == ["the recorder ended without completing the capture"]


def test_a_killed_session_before_any_pattern_keeps_its_commands_on_the_hosts_clock(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    meter = LabMeter(lab, asked=False)
    Drive(lab, meter, monkeypatch)
    copy = killed_when(lab, "2: w", lambda book: book.late_ns is not None and book.rows > 0)
    monkeypatch.setattr(logged, "to_json", lambda _: [])
    lab.run(WORK, meter=meter, log=LabLog(lab))
    capture = open_capture(copy)
    assert capture.meta["state"] == "recovered" and len(pl.read_parquet(copy / "host_commands.parquet")) > 0
    assert any("nobody can say when the commands were on the meter's clock" in note for note in capture.meta["conditions"]["notes"])
    reasons = capture.gaps.filter(pl.col("kind") == "COMMANDS").collect()["reason"].to_list()
    assert "the host's log is in host_commands.parquet, on its own clock" in reasons


def test_a_killed_session_with_a_tap_keeps_the_hosts_log_beside_it(lab: Lab) -> None:
    log = LabLog(lab)
    copy = killed_when(lab, "2: i", lambda book: book.rows >= 103)
    lab.run(WORK, IDLE, log=log)
    capture = open_capture(copy)
    assert capture.meta["state"] == "recovered"
    beside = pl.read_parquet(copy / "host_commands.parquet")
    assert beside.filter(pl.col("opcode") == 2).height == 100
    about = capture.meta["conditions"]["host_log"]
    assert about["beside_tap"] is True and about["commands"] == len(beside)
    assert [gap["reason"] for gap in about["lost"]] == ["the recorder ended without completing the capture"]
    assert "host_commands.parquet" in capture.meta["files"]
    assert [phase["name"] for phase in capture.meta["workload"]["phases"]] == ["w"], "the tap saw the markers, the journal has the names"


@pytest.mark.parametrize("source", [SeenBy.BLKTRACE, SeenBy.FIO_LOG])
def test_a_killed_session_whose_log_has_no_markers_has_the_phases(lab: Lab, source: SeenBy) -> None:
    """The instants at which markers were sent tell the phases."""
    log = LabLog(lab)
    log.source = source
    copy = killed_when(lab, "2: i", lambda book: book.rows >= 103 and len(book.markers) == 3)
    lab.run(WORK, IDLE, meter=LabMeter(lab), log=log)
    capture = open_capture(copy)
    assert list(Source(capture).phases) == ["w"]
    whole = open_capture(lab.root / "capture")
    assert list(Source(whole).phases) == ["w", "i"]
    edges = [Source(one).phases["w"].first_tick for one in (capture, whole)]
    assert abs(edges[0] - edges[1]) < 5000, "within the bounds of the two maps"


def test_a_waveform_that_does_not_show_the_pattern(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The meter is in another drive's supply."""
    meter = LabMeter(lab, asked=False)
    Drive(lab, LabMeter(lab), monkeypatch)
    with pytest.raises(ClockError, match=r"waveform.*host_commands.parquet"):
        lab.run(WORK, meter=meter, log=LabLog(lab))
    assert (lab.root / "capture/host_commands.parquet").is_file() and captured(lab).meta["rail"]["samples"] > 100


def test_a_rigs_tap_stays_the_captures_and_the_log_lies_beside_it(lab: Lab) -> None:
    log = LabLog(lab)
    lab.run(WORK, IDLE, log=log)
    capture = captured(lab)
    assert list(Source(capture).phases) == ["w", "i"]
    host = capture.meta["conditions"]["host_log"]
    assert host["commands"] == 105 and log.ended
    assert "alignment_u_s" not in capture.meta["conditions"]
    assert (lab.root / "capture/host_commands.parquet").is_file() and "host_commands.parquet" in capture.meta["files"]


def test_a_meter_that_goes_leaves_what_it_sent_and_the_commands(lab: Lab) -> None:
    meter, log = LabMeter(lab), LabLog(lab)
    meter.gone = lambda: "2: i" in lab.said and meter.sent >= 400
    with pytest.raises(RigError, match="The meter is gone"):
        lab.run(WORK, {"name": "i", "idle_s": 0.8}, {"name": "never", "idle_s": 0.1}, meter=meter, log=log)
    assert not (lab.root / "restore.json").exists() and log.ended
    capture = captured(lab)
    assert capture.meta["state"] == "incomplete" and capture.meta["rail"]["samples"] >= 400
    assert capture.commands.collect().height >= 102, "fio's commands are there"
    assert "the meter was lost" in " ".join(capture.gaps.collect()["reason"])
    assert not capture.meta["loss"]["lossless"]


def test_a_meter_that_changes_its_rate_ends_the_session(lab: Lab) -> None:
    meter = LabMeter(lab)
    meter.other_rate_after = 300
    with pytest.raises(RigError, match=r"changed its sample interval from 1000 to 500 ticks"):
        lab.run({"name": "i", "idle_s": 0.8}, {"name": "j", "idle_s": 0.1}, meter=meter, log=LabLog(lab))
    assert captured(lab).meta["rail"]["samples"] >= 200


def test_a_meter_that_falls_silent_ends_the_session(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_STALLED_S", 1.0)
    meter = LabMeter(lab)
    taken = meter.read

    def read(timeout_s: float) -> list[Any]:
        return taken(timeout_s) if meter.sent < 200 else []

    meter.read = read  # type: ignore[method-assign]
    with pytest.raises(DriveError, match=r"The meter \(fake\) has sent nothing for"):
        lab.run(SETTLE, meter=meter, log=LabLog(lab))


def test_a_log_that_does_not_show_a_marker_ends_the_session(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the meter goes on: it must not be waited for for ever."""
    monkeypatch.setattr(recording, "_STALLED_S", 2.0)
    log = LabLog(lab)
    monkeypatch.setattr(log, "_look", lambda *_: (0, 0))
    with pytest.raises(DriveError, match="does not show marker"):
        lab.run(IDLE, meter=LabMeter(lab), log=log)
    assert captured(lab).meta["rail"]["samples"] > 100


def test_a_log_that_breaks_ends_a_session_that_has_no_other(lab: Lab) -> None:
    log = LabLog(lab)
    log.breaks_after = 1
    with pytest.raises(DriveError, match="cannot be read any more"):
        lab.run(WORK, {"name": "i", "idle_s": 1.5}, {"name": "j", "idle_s": 0.1}, meter=LabMeter(lab), log=log)
    assert captured(lab).commands.collect().height >= 102
    assert any("broke off" in note for note in captured(lab).meta["conditions"]["notes"])


def test_events_that_the_kernel_lost_are_counted_in_the_figures(lab: Lab) -> None:
    log = LabLog(lab)
    log.overran = 7
    lab.run(WORK, meter=LabMeter(lab), log=log)
    capture = captured(lab)
    gaps = capture.gaps.collect()
    assert gaps.filter(gaps["count"] == 7)["reason"].to_list() == ["the kernel's trace buffer overran (CPU 0)"]
    assert not capture.meta["loss"]["lossless"]
    (work,) = json.loads(json.dumps(analyze(capture)))["phases"]
    assert work["loss_here"]["commands"] == 7


def test_a_computer_that_sleeps_ends_the_session(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    asleep = [0]
    monkeypatch.setattr(clock, "asleep_ns", lambda: asleep[0])

    def say(text: str) -> None:
        if text == "1: w":
            asleep[0] = 12_300_000_000

    lab.said = type("Said", (list,), {"append": lambda self, text: say(text)})()
    with pytest.raises(DriveError, match=r"suspended for 12.3 s"):
        lab.run(WORK, IDLE, meter=LabMeter(lab), log=LabLog(lab))
    assert list(Source(captured(lab)).phases) == ["w"] and not (lab.root / "restore.json").exists()


def test_a_step_of_the_time_of_day_changes_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """NTP sets and slews CLOCK_REALTIME (and slews CLOCK_MONOTONIC): nothing here goes by them."""
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + (3600 * 10**9 if lab.words("runs") else 0))
    lab.run(WORK, IDLE, meter=LabMeter(lab), log=LabLog(lab))
    capture = captured(lab)
    assert capture.meta["state"] == "complete" and capture.meta["conditions"]["alignment_u_s"] < 0.02
    assert list(Source(capture).phases) == ["w", "i"]


def test_clocks_that_part_leave_the_commands_on_the_hosts(lab: Lab) -> None:
    meter = LabMeter(lab)
    told = meter.clock_pairs
    meter.clock_pairs = lambda: [  # type: ignore[method-assign]
        type(p)(p.before_ns, p.after_ns, p.tick + (400_000 if k > 20 else 0)) for k, p in enumerate(told())
    ]
    with pytest.raises(ClockError, match=r"do not run along one line.*host_commands.parquet"):
        lab.run(WORK, IDLE, meter=meter, log=LabLog(lab))
    capture = captured(lab)
    assert (lab.root / "capture/host_commands.parquet").is_file() and capture.meta["state"] == "incomplete"
    assert capture.meta["rail"]["samples"] > 100 and not capture.meta["loss"]["lossless"]
