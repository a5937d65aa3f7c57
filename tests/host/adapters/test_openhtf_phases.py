"""Phases of OpenHTF in OpenHTF itself, in an environment of its own; what is read is the JSON record that OpenHTF writes."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.host.adapters.made import EXAMPLES, OPENHTF, PROFILE, RULE, built, called, material, requirement, requirement_file, tightened

JUDGED = Path(__file__).with_name("openhtf_judged.py")
pytestmark = pytest.mark.needs_built(OPENHTF.is_file, "make openhtf")


def record(path: Path) -> dict[str, Any]:
    """Return OpenHTF's record of a test."""
    read: dict[str, Any] = json.loads(path.read_text())
    return read


def measured(path: Path) -> dict[str, dict[str, Any]]:
    """Return the measurements of the phase `judge` by name."""
    (phase,) = [phase for phase in record(path)["phases"] if phase["name"] == "judge"]
    found: dict[str, dict[str, Any]] = phase["measurements"]
    return found


def run(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    return called(folder, JUDGED, folder, *words, python=OPENHTF)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record for each file of requirements, on a capture of 3 W."""
    made = tmp_path_factory.mktemp("openhtf")
    capture = material(made)
    requirement_file(made / "least.toml", requirement("R-0", 2.999, 'side = "at least"\n'), requirement("R-1", 2.9, 'side = "at least"\n'))
    requirement_file(
        made / "informative.toml",
        requirement("R-0", 4.0),
        *(requirement(f"R-{k}", limit, 'severity = "informative"\n') for k, limit in enumerate((2.5, "parameter.cap"), start=1)),
    )
    names = ("pass", "marginal", "near", "fail", "unmeasured", "none", "least", "informative")
    done = run(made, capture, *(made / f"{name}.toml" for name in names))
    assert all((made / f"{name}.json").is_file() for name in names), done.stdout + done.stderr
    return made


@pytest.mark.parametrize(
    ("name", "test", "outcomes", "marginal"),
    [
        ("pass", "PASS", ["PASS"], False),
        ("marginal", "PASS", ["PASS"], True),
        ("near", "FAIL", ["FAIL"], None),
        ("fail", "FAIL", ["PASS", "FAIL"], None),
        ("unmeasured", "FAIL", ["PASS", "UNSET"], None),
        ("none", "ERROR", [], None),
        ("least", "PASS", ["PASS", "PASS"], True),
        ("informative", "PASS", ["PASS", "FAIL"], False),
    ],
)
def test_a_verdict_is_a_measurement(folder: Path, name: str, test: str, outcomes: list[str], marginal: bool | None) -> None:
    read = record(folder / f"{name}.json")
    assert read["outcome"] == test and bool(read["marginal"]) is bool(marginal)
    assert [one["outcome"] for one in measured(folder / f"{name}.json").values()] == outcomes


def test_limits_are_those_of_the_requirement_and_its_guard_band(folder: Path) -> None:
    """3 W with 3 mW of uncertainty, by the rail's error model (docs/accuracy.md)."""
    (one,) = measured(folder / "marginal.json").values()
    assert one["measured_value"] == pytest.approx(3.0, rel=1e-3) and one["units"]["suffix"] == "W"
    (shown,) = one["validators"]
    found = re.fullmatch(r"x <= Marginal:(\S+) <= 3\.001; (.*)", shown)
    assert found and float(found[1]) == pytest.approx(3.001 - 0.003, abs=3e-4) and found[2] == RULE
    assert "marginal/R-0: conditional pass" in one["docstring"]
    first, second = measured(folder / "least.json").values()
    assert re.fullmatch(r"2\.999 <= Marginal:3\.00\d+ <= x; .*", first["validators"][0])
    assert re.fullmatch(r"2\.9 <= Marginal:2\.90\d+ <= x; .*", second["validators"][0])


def test_every_verdict_is_attached(folder: Path) -> None:
    (phase,) = [phase for phase in record(folder / "fail.json")["phases"] if phase["name"] == "judge"]
    assert set(phase["attachments"]) == {"wattbell-verdicts.json"}
    log = " ".join(one["message"] for one in record(folder / "fail.json")["log_records"])
    assert f"Decision rule: {RULE}" in log and "MODEL: computed on the virtual rig, not measured" in log


def test_openhtf_may_allow_what_was_not_measured(folder: Path, tmp_path: Path) -> None:
    run(tmp_path, folder / "capture", folder / "unmeasured.toml", "--allow_unset_measurements")
    assert record(tmp_path / "unmeasured.json")["outcome"] == "PASS"


def test_a_set_that_is_none_ends_before_the_test(folder: Path, tmp_path: Path) -> None:
    done = run(tmp_path, folder / "capture", "opc")
    assert done.returncode and "Did you mean ocp?" in done.stderr.splitlines()[-1] and not (tmp_path / "opc.json").exists()


@pytest.mark.needs_built(built, "make sim rtl")
@pytest.mark.xdist_group("virtual-rig")
def test_the_example_passes_on_the_virtual_rig(tmp_path: Path) -> None:
    done = called(tmp_path, EXAMPLES / "openhtf_station.py", PROFILE, "records", python=OPENHTF)
    assert done.returncode == 0, done.stdout + done.stderr
    file = tmp_path / "records" / f"{PROFILE}.json"
    read = record(file)
    assert (read["outcome"], read["dut_id"], [phase["name"] for phase in read["phases"]]) == (
        "PASS",
        PROFILE,
        ["trigger_phase", "run quick", "judge"],
    )
    found = measured(file)
    assert {name: one["outcome"] for name, one in found.items()} == dict.fromkeys(
        ["lab/L-1", "lab/L-2 Idle", "lab/L-2 PS0", "lab/L-2 PS4"], "PASS"
    )
    (results,) = (tmp_path / "records").glob("runs/*/results.json")
    scores = [s for test in json.loads(results.read_text())["tests"] if test["test"] == "idle" for s in test["scores"] if s["unit"] == "W"]
    assert found["lab/L-2 Idle"]["measured_value"] in [score["value"]["value"] for score in scores]


@pytest.mark.needs_built(built, "make sim rtl")
@pytest.mark.xdist_group("virtual-rig")
def test_the_example_fails_at_a_limit_that_the_model_exceeds(tmp_path: Path) -> None:
    copy = tightened(tmp_path)
    done = called(tmp_path, copy / "openhtf_station.py", PROFILE, "records", python=OPENHTF)
    assert done.returncode == 1, done.stdout + done.stderr
    file = tmp_path / "records" / f"{PROFILE}.json"
    assert record(file)["outcome"] == "FAIL"
    found = measured(file)
    assert [name for name, one in found.items() if one["outcome"] != "PASS"] == ["lab/L-1"]
    assert 1.2 < found["lab/L-1"]["measured_value"] < 1.3
