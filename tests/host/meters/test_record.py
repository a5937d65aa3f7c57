"""``wattbell record --meter`` as the user runs it, with a PowerSensor3 on a pty."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wattbell.capture import Capture, CaptureWriter, open_capture
from wattbell.cli import output
from wattbell.cli.meters import meters as list_meters
from wattbell.clocks import host as clock
from wattbell.errors import RigError, UsageError
from wattbell.meters import meter as meters
from wattbell.meters.meter import open_meter
from wattbell.meters.record import record as record_meter

from tests.host.meters.measuring import wait_for
from tests.host.meters.powersensor3_device import PowerSensor3Device
from tests.host.meters.ppk2_device import Ppk2Device
from tests.host.meters.scpi_device import Instrument, TcpInstrument
from tests.host.meters.test_file import Program

LEVEL_I, LEVEL_V = 700, 520
POWER_W = (3.3 * LEVEL_I / 1023 - 1.65) / 0.12 * (3.3 * LEVEL_V / 1023 / 0.5)


def wattbell(*arguments: str) -> subprocess.Popen[str]:
    command: Sequence[str] = (sys.executable, "-m", "wattbell", *arguments)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def device() -> PowerSensor3Device:
    return PowerSensor3Device(lambda index: (LEVEL_I, LEVEL_V))


def power_w(capture: Capture) -> np.ndarray[Any, Any]:
    return np.asarray(capture.rail.power())


def test_a_meter_is_recorded_and_told_as_any_capture(tmp_path: Path) -> None:
    out = tmp_path / "c"
    with device() as sensor:
        run = wattbell("record", "--meter", f"powersensor3:{sensor.port}", "--out", str(out), "--duration", "0.5", "--json")
        printed, told = run.communicate()
    assert run.returncode == 0, told
    found = json.loads(printed)
    assert found["state"] == "complete" and found["lossless"] and found["seconds"] >= 0.5 and found["ended"] == "0.5 s are over"
    capture = open_capture(out)
    assert power_w(capture)[: found["samples"]] == pytest.approx(POWER_W, rel=1e-5)
    assert capture.meta["rig"]["model"] == "PowerSensor3 MLX10 (M.2)" and capture.meta["conditions"]["virtual"] is False
    assert capture.meta["rig"]["error_model"]["gain"] == 0.02 and capture.meta["rail"]["interval_ticks"] == 50_000
    analysed = wattbell("analyze", str(out), "--json")
    figures = json.loads(analysed.communicate()[0])
    assert figures["power"]["mean_w"]["value"] == pytest.approx(POWER_W, rel=1e-5)
    assert figures["power"]["mean_w"]["u"] == pytest.approx(0.02 * POWER_W, rel=0.2)


def test_what_a_ppk2_cannot_have_measured_is_a_loss_from_the_first_sample_on(tmp_path: Path) -> None:
    over = [*range(700), *range(9000, 9002)]
    sensor = Ppk2Device(lambda index: (np.full(len(index), 4), np.where(np.isin(index, over), 8000, 500)))
    out = tmp_path / "c"
    with sensor:
        run = wattbell("record", "--meter", f"ppk2:{sensor.port},volts=3.3,volts_u=0.03", "--out", str(out), "--duration", "0.3")
        _, told = run.communicate()
    assert run.returncode == 0, told
    capture = open_capture(out)
    gaps = capture.gaps.sort("first_tick").collect().to_dicts()
    assert [(gap["first_tick"], gap["count"]) for gap in gaps[:2]] == [(0, 700), (9000 * 10_000, 2)]
    assert not capture.meta["loss"]["lossless"] and float(np.nanmax(power_w(capture))) < 3.3
    assert any("samples" in note and "beyond what a PPK2 can measure" in note for note in capture.meta["conditions"]["notes"])


def test_a_ppk2_that_is_unplugged_leaves_all_that_came(tmp_path: Path) -> None:
    sensor = Ppk2Device(lambda index: (np.full(len(index), 3), np.where(index % 1000 < 500, 2000, 2001)))
    sensor.ends = 60_000
    with sensor:
        run = wattbell("record", "--meter", f"ppk2:{sensor.port},volts=3.3,volts_u=0.03", "--out", str(tmp_path / "c"))
        _, told = run.communicate()
    assert run.returncode == 1 and told.count("error:") == 1 and "is gone" in told and "Traceback" not in told
    capture = open_capture(tmp_path / "c")
    assert capture.meta["state"] == "incomplete" and capture.meta["rail"]["samples"] == 60_000
    assert capture.meta["rig"]["model"] == "Nordic PPK2 (ampere)" and not capture.meta["rig"]["has_voltage"]
    low = 3.3 * (4 * 2000 - sensor.o[3]) * 1.8 / 163840 / sensor.r[3]
    assert power_w(capture)[:60_000].mean() == pytest.approx(low, rel=1e-3)


def test_a_recorder_that_is_killed_loses_nothing_that_had_come(tmp_path: Path) -> None:
    out = tmp_path / "c"
    with device() as sensor:
        run = wattbell("record", "--meter", f"powersensor3:{sensor.port}", "--out", str(out))
        journal = out / "rail.arrow"
        wait_for(lambda: journal.exists() and journal.stat().st_size > 200_000, 60)
        run.kill()
        run.communicate()
    capture = open_capture(out)
    samples = capture.meta["rail"]["samples"]
    assert samples > 2000, "a sample takes 8 bytes of it, and each piece some 600 more"
    assert power_w(capture)[:samples] == pytest.approx(POWER_W, rel=1e-5)
    assert capture.meta["state"] == "recovered" and capture.meta["rig"]["model"] == "PowerSensor3 MLX10 (M.2)"
    assert capture.meta["clock"]["utc_anchor"] is not None


def test_a_supply_that_speaks_scpi(tmp_path: Path) -> None:
    supply = Instrument({"MEAS:VOLT?": lambda: "3.28", "MEAS:CURR?": lambda: "0.75"})
    with TcpInstrument(supply) as server:
        address = f"scpi:{server.address},gain=0.003,offset=0.002,every=0.05"
        run = wattbell("record", "--meter", address, "--out", str(tmp_path / "c"), "--duration", "1", "--json")
        printed, told = run.communicate()
    assert run.returncode == 0, told
    capture = open_capture(tmp_path / "c")
    assert json.loads(printed)["samples"] >= 20 and power_w(capture)[0] == pytest.approx(3.28 * 0.75)
    assert capture.meta["conditions"]["alignment_u_s"] == 0.025 and capture.meta["rail"]["interval_ticks"] == 50_000_000
    assert any("asked every 0.05 s" in note for note in capture.meta["conditions"]["notes"])
    assert {name: capture.meta["rig"]["error_model"][name] for name in ("gain", "offset_a")} == {"gain": 0.003, "offset_a": 0.002}


def test_a_file_that_grows_until_it_is_deleted(tmp_path: Path) -> None:
    path = tmp_path / "live.csv"
    first = "time_s,voltage_v,current_ma\n" + "".join(f"{n * 0.001:.3f},3.3,500\n" for n in range(150))
    began = threading.Event()

    def rows() -> Iterator[str]:
        for n in itertools.count(150, 20):
            yield "".join(f"{m * 0.001:.3f},3.3,500\n" for m in range(n, n + 20))
            if began.is_set():
                path.unlink()
                return

    with Program(path, first, rows()) as program:
        program.go()
        run = wattbell("record", "--meter", f"file:{path},gain=0.01,offset=1e-5", "--out", str(tmp_path / "c"))
        wait_for((tmp_path / "c" / "rail.jls").exists, 60)
        time.sleep(0.5)
        began.set()
        _, told = run.communicate()
    assert run.returncode == 1 and "live.csv is gone" in " ".join(told.split()) and "Traceback" not in told
    capture = open_capture(tmp_path / "c")
    samples = capture.meta["rail"]["samples"]
    assert samples > 0 and power_w(capture)[:samples] == pytest.approx(1.65)
    assert capture.gaps.collect().to_dicts()[-1]["reason"] == "the meter was lost"


def test_a_meter_that_is_unplugged_leaves_all_that_came_and_one_error(tmp_path: Path) -> None:
    sensor = device()
    sensor.ends = 6000
    with sensor:
        run = wattbell("record", "--meter", f"powersensor3:{sensor.port}", "--out", str(tmp_path / "c"))
        _, told = run.communicate()
    assert run.returncode == 1 and told.count("error:") == 1 and "is gone" in told and "Traceback" not in told
    capture = open_capture(tmp_path / "c")
    assert capture.meta["state"] == "incomplete" and capture.meta["rail"]["samples"] == 6000
    assert power_w(capture)[:6000] == pytest.approx(POWER_W, rel=1e-5)
    (gap,) = capture.gaps.collect().to_dicts()
    assert gap["reason"] == "the meter was lost" and gap["count"] == -1


def test_a_computer_that_sleeps_ends_the_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with device() as sensor:
        monkeypatch.setattr(clock, "asleep_ns", lambda: 12_300_000_000 if sensor.index > 4000 else 0)
        with open_meter(f"powersensor3:{sensor.port}") as meter:
            writer = CaptureWriter(tmp_path / "c", rig=meter.about.rig(), journal=False, tick_ps=1000)
            with pytest.raises(RigError, match=r"suspended for 12.3 s .* is kept"):
                record_meter(meter, writer, 60.0)
            writer.close("incomplete")
    capture = open_capture(tmp_path / "c")
    assert capture.gaps.collect()["reason"].to_list() == ["the computer was suspended"] and not capture.meta["loss"]["lossless"]
    assert power_w(capture)[:3000] == pytest.approx(POWER_W, rel=1e-5)


def test_ctrl_c_completes_the_capture(tmp_path: Path) -> None:
    with device() as sensor:
        run = wattbell("record", "--meter", f"powersensor3:{sensor.port}", "--out", str(tmp_path / "c"), "--json")
        while not sensor.index > 4000:
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
        printed, _ = run.communicate()
    assert run.returncode == 0 and json.loads(printed)["ended"] == "stopped by the user"
    capture = open_capture(tmp_path / "c")
    assert capture.meta["state"] == "complete" and capture.meta["rail"]["samples"] > 4000
    wait_for(lambda: not sensor.stream_values)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("multimeter:/dev/x", "there is no meter of that name"),
        ("powersensor3:/dev/null,pairs=2", r"there is no option pairs; give powersensor3:PORT\[,pair=N\]"),
        ("powersensor3:/dev/null,pair=two", "pair=two cannot be read"),
        ("powersensor3:/dev/null,gain=nan", "gain=nan cannot be read"),
        ("powersensor3:", "give its port"),
    ],
)
def test_what_cannot_be_opened_is_said_in_a_line(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        meters.open_meter(text)


def test_a_meter_that_is_not_there_leaves_no_capture(tmp_path: Path) -> None:
    run = wattbell("record", "--out", str(tmp_path / "c"), "--meter", "powersensor3:/dev/nowhere")
    said = " ".join(run.communicate()[1].split())
    assert run.returncode == 1 and "/dev/nowhere cannot be opened" in said and "Traceback" not in said and not (tmp_path / "c").exists()


def test_a_library_that_is_not_installed_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    far = meters.MeterKind("far:PORT", "", lambda rest: pytest.fail(rest), "far", ("a_library_that_nobody_has",))
    monkeypatch.setitem(meters.KINDS.load(), "far", far)
    with pytest.raises(UsageError, match=r"pip install .*\[far\]"):
        meters.open_meter("far:/dev/null")


def test_meters_lists_every_one(capsys: pytest.CaptureFixture[str]) -> None:
    list_meters(json=True)
    printed = json.loads(capsys.readouterr().out)
    assert [kind["usage"] for kind in printed] == [kind.usage for kind in meters.KINDS.values()]


@pytest.mark.parametrize("width", [80, 120])
def test_each_meter_is_listed_as_it_is_given_in_no_more_than_the_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setattr(output, "out", output.PlainConsole(width=width, file=sys.stdout))
    list_meters()
    lines = [line for line in capsys.readouterr().out.splitlines() if " install " not in line]  # a command with a path stays whole
    assert max(map(len, lines)) <= width
    joined = "".join(line.strip() for line in lines)
    assert all(f"--meter {kind.usage}" in joined for kind in meters.KINDS.values())
