"""A station: its drives and refusals, the verdicts that decide, and the same verdicts as `wattbell judge`."""

from __future__ import annotations

import importlib
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from wattbell.adapters.station import DriveStation, StationSetup, judge, load_requirements
from wattbell.cli.app import app
from wattbell.errors import DriveError, UsageError

from tests.host.adapters.made import ROOT, RULE, requirement, requirement_file
from tests.host.drive.lab import Lab
from tests.host.requirements.test_own_meter import Meter, recorded

MS, S = 1_000_000, 1_000_000_000
SUITE = '[[test]]\nid = "a"\nname = "A"\nkind = "idle"\nconditions = ["test-data"]\ntest_data = "1g"\nidle_s = 0.2\n'
INFORMATIVE = 'severity = "informative"\n'


@pytest.fixture
def capture(builder: Any) -> Path:
    """3 W throughout."""
    builder.levels.append((0, 3.0))
    builder.command(1 * MS, 1 * MS)
    path: Path = builder.write(end=1 * S).path
    return path


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A real drive's host, whose programs answer as fio and nvme-cli do."""
    made = Lab(tmp_path, monkeypatch)
    made.on_the_bench(monkeypatch)
    (tmp_path / "iops").write_text("[1000.0]")
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite/manifest.toml").write_text(SUITE)
    monkeypatch.chdir(tmp_path)
    return made


def test_the_drives_own_page_is_judged_as_the_command_does(builder: Any, tmp_path: Path) -> None:
    """A meter that reads 15 % too much fails with its page, and is not measured without."""
    path, page = recorded(builder).path, tmp_path / "log-25h.bin"
    page.write_bytes(Meter(gain=1.15).page())
    mine = judge([path], ["nvme"], power_log=page).row("nvme/POWER-MEASUREMENT")
    said = CliRunner().invoke(app, ["judge", str(path), "--requirements", "nvme", "--power-log", str(page), "--json"]).stdout
    (theirs,) = [row for one in json.loads(said)["drives"] for row in one["verdicts"] if row["id"] == "POWER-MEASUREMENT"]
    assert mine.verdict == theirs["verdict"] == "fail"
    assert judge([path], ["nvme"]).row("nvme/POWER-MEASUREMENT").verdict == "not measured"
    page.write_bytes(b"no page")
    with pytest.raises(UsageError, match="log-25h.bin is not a whole Power Measurement log page"):
        judge([path], ["nvme"], power_log=page)
    with pytest.raises(UsageError, match="not a latency monitor log page"):
        judge([path], ["nvme"], latency_log=page)
    page.write_bytes(bytes(512))
    row = judge([path], ["nvme"], health_logs=[page, page]).row("nvme/SMART-POWER")
    assert row.verdict == "not measured" and "2 pages are given" in row.why


# -- verdicts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "worst"),
    [
        ((4.0,), "pass"),
        ((4.0, 3.001), "conditional pass"),
        ((4.0, "parameter.cap"), "not measured"),
        ((2.999, "parameter.cap"), "conditional fail"),
        ((2.999, 2.5, 4.0), "fail"),
    ],
)
def test_the_worst_verdict_that_counts_decides(capture: Path, tmp_path: Path, limits: tuple[Any, ...], worst: str) -> None:
    texts = [requirement(f"R-{k}", limit) for k, limit in enumerate(limits)]
    file = requirement_file(tmp_path / "few.toml", *texts, requirement("I", 1.0, INFORMATIVE))
    sheet = judge([capture], [str(file)])
    assert (sheet.worst, len(sheet.rows), len(sheet.counted)) == (worst, len(limits) + 1, len(limits))
    assert sheet.row("few/I").verdict == "fail" and "MODEL" in sheet.warning


def test_a_line_has_figure_limit_reason_and_rule(capture: Path, tmp_path: Path) -> None:
    file = requirement_file(tmp_path / "few.toml", requirement("A", 2.5), requirement("B", "parameter.cap"))
    sheet = judge([capture], [str(file)])
    (failed,) = sheet.lines(["fail"])
    assert failed == f"few/A: fail: 3.0000(30) W, limit ≤ 2.5 W (1.2 times the limit). Decision rule: {RULE}"
    (unmeasured,) = sheet.lines(["not measured"])
    assert unmeasured == "few/B: not measured: parameter.cap is not given: give --set cap=VALUE"
    assert sheet.row("few/A").band == pytest.approx(0.003, rel=0.1)
    assert judge([capture], [str(file)], guard=2.0).row("few/A").band == pytest.approx(0.006, rel=0.1)


def test_the_verdicts_are_those_of_the_command(capture: Path) -> None:
    told = json.loads(CliRunner().invoke(app, ["judge", str(capture), "--json"]).stdout)
    assert judge([capture], ["declared", "ocp", "nvme"]).to_json() == told


@pytest.mark.parametrize(
    ("names", "only", "said"),
    [
        ([], None, "No set of requirements is named"),
        (["opc"], None, "Did you mean ocp?"),
        (["ocp"], "ocp/PCM1", "ocp has no requirement ocp/PCM1. Did you mean ocp/PCM-1?"),
    ],
)
def test_a_name_that_is_none(names: list[str], only: str | None, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_requirements(names, only)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_what_was_not_judged_and_what_no_limit_uses(capture: Path, tmp_path: Path) -> None:
    file = requirement_file(tmp_path / "few.toml", requirement("A", 4.0))
    sheet = judge([capture], [str(file)], only="few/A")
    with pytest.raises(UsageError, match=r"few/a was not judged\. Did you mean few/A\?"):
        sheet.row("few/a")
    with pytest.raises(UsageError, match="few/A was not judged for PS4; it was for the whole"):
        sheet.row("few/A", "PS4")
    with pytest.raises(UsageError, match="no limit of these requirements uses parameter.cap"):
        judge([capture], [str(file)], {"cap": 4.0})


# -- drives ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [{}, {"virtual": "intel-660p-1tb", "drive": "/dev/nvme0n1"}])
def test_a_station_has_one_drive(given: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="one of a virtual drive"):
        StationSetup(**given)  # type: ignore[arg-type]


def test_what_is_no_drive(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Did you mean intel-660p-1tb"):
        _ = DriveStation(StationSetup(virtual="intel-660p-1t"), tmp_path).drive
    with pytest.raises(DriveError):
        _ = DriveStation(StationSetup(drive="/dev/null"), tmp_path).drive
    assert not list(tmp_path.iterdir())


def test_a_real_drive_is_written_only_with_its_number_and_leave(lab: Lab) -> None:
    out, drive = lab.root / "out", "/dev/nvme9n2"
    with pytest.raises(DriveError, match="serial"):
        DriveStation(StationSetup(drive=drive, writes=True), out).run_suite("suite")
    with pytest.raises(UsageError, match=r"The suite writes to /dev/nvme9n2, .* allow writes if that is meant\."):
        DriveStation(StationSetup(drive=drive, serial="S"), out).run_suite("suite")
    assert not out.exists() and not lab.words("formats") and not lab.words("runs")


def test_a_suite_runs_on_a_real_drive_once(lab: Lab, tmp_path: Path) -> None:
    said: list[str] = []
    station = DriveStation(StationSetup(drive="/dev/nvme9n2", serial="S", writes=True), lab.root / "out", said.append)
    assert not station.virtual
    run = station.run_suite("suite")
    assert run.results["drive"]["serial"] == "S" and any("session 1 of 1" in line for line in said)
    assert station.run_suite("suite") is run and run.folder == lab.root / "out" / "suite"
    assert [Path(one).name for one in run.references][:1] == ["suite"] and len(run.references) == 2
    conformance = replace(run, results={**run.results, "suite": "conformance"})
    assert conformance.references == [str(run.folder)], "its captures are judged with it, each for its own figures"
    other = DriveStation(StationSetup(drive="/dev/nvme9n2", serial="S", writes=True), lab.root / "out")
    assert other.run_suite("suite").folder == lab.root / "out" / "suite-2", "nothing is written over"


# -- frameworks that are not there -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "library", "extra"), [("openhtf_phases", "openhtf", "openhtf"), ("robot_library", "robot.api", "robot")]
)
def test_a_missing_framework_is_one_line(monkeypatch: pytest.MonkeyPatch, module: str, library: str, extra: str) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"wattbell.adapters.{module}", raising=False)
    with pytest.raises(UsageError) as caught:
        importlib.import_module(f"wattbell.adapters.{module}")
    told = str(caught.value)
    assert "not installed: " in told and "\n" not in told
    assert re.search(rf"pip install (-r .*requirements/{extra}\.txt|.*\[{extra}\])", told)


def test_no_entry_point_puts_the_fixtures_into_every_pytest(pytestconfig: pytest.Config) -> None:
    assert "pytest11" not in (ROOT / "pyproject.toml").read_text()
    assert not any("wattbell.adapters" in name for name, _ in pytestconfig.pluginmanager.list_name_plugin())
