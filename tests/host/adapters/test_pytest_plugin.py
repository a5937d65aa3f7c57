"""The plugin of pytest in a pytest of its own; junitparser, which is not ours, reads its report."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from junitparser import Error, Failure, JUnitXml, Properties, Skipped

from tests.host.adapters.made import EXAMPLES, PROFILE, RULE, built, called, material, tightened

CASES = """
import pytest

def test_pass(judge):
    assert judge(CAPTURE, requirements="pass.toml").worst == "pass"

@pytest.mark.parametrize("name", ["marginal", "near", "fail", "unmeasured", "none"])
def test_one(judge, name):
    judge(CAPTURE, requirements=name + ".toml")

def test_verdicts_alone_fail_nothing(judge):
    assert judge.verdicts(CAPTURE, requirements="fail.toml").worst == "fail"

@pytest.mark.each_requirement("mixed.toml")
def test_each(judge):
    judge(CAPTURE)

def test_no_drive(drive):
    pass

def test_a_set_that_is_none(judge):
    judge(CAPTURE, requirements="opc")
"""


def outcomes(report: Path) -> dict[str, tuple[str, str]]:
    """Return the outcome and its message by test, as junitparser reads them."""
    words = {Failure: "failed", Error: "error", Skipped: "skipped"}
    found = {}
    for suite in JUnitXml.fromfile(str(report)):
        for case in suite:
            results = [(words[type(one)], f"{one.message or ''}\n{one.text or ''}") for one in case.result]
            found[str(case.name)] = results[0] if results else ("passed", "")
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tests of a user, and the report of both ways to take `not measured`."""
    made = tmp_path_factory.mktemp("plugin")
    capture = material(made)
    (made / "test_user.py").write_text(CASES.replace("CAPTURE", repr(str(capture))))
    for how in ("skip", "fail"):
        done = called(
            made,
            "-m",
            "pytest",
            "-p",
            "wattbell.adapters.pytest_plugin",
            "--wattbell-not-measured",
            how,
            f"--junitxml={how}.xml",
            "-p",
            "no:cacheprovider",
        )
        (made / f"{how}.txt").write_text(done.stdout + done.stderr)
        assert done.returncode == 1, done.stdout
    return made


@pytest.mark.parametrize(
    ("test", "outcome", "said"),
    [
        ("test_pass", "passed", ""),
        ("test_one[marginal]", "passed", ""),
        ("test_one[near]", "failed", "near/R-0: conditional fail: 3.0000(30) W, limit ≤ 2.999 W"),
        ("test_one[fail]", "failed", f"fail/R-1: fail: 3.0000(30) W, limit ≤ 2.5 W (1.2 times the limit). Decision rule: {RULE}"),
        ("test_one[unmeasured]", "skipped", "unmeasured/R-1: not measured: parameter.cap is not given"),
        ("test_one[none]", "skipped", "none/R-0: not applicable: 0 > 1 does not hold"),
        ("test_verdicts_alone_fail_nothing", "passed", ""),
        ("test_each[mixed/R-0]", "passed", ""),
        ("test_each[mixed/R-1]", "failed", "mixed/R-1: fail"),
        ("test_each[mixed/R-2]", "skipped", "mixed/R-2: not measured"),
        ("test_no_drive", "error", "Give pytest one of --wattbell-virtual PROFILE and --wattbell-drive DEVICE."),
        ("test_a_set_that_is_none", "failed", "Did you mean ocp?"),
    ],
)
def test_a_verdict_ends_the_test(folder: Path, test: str, outcome: str, said: str) -> None:
    found = outcomes(folder / "skip.xml")
    assert found[test][0] == outcome and said in found[test][1]
    assert len(found) == 12


def test_not_measured_fails_where_that_is_wanted(folder: Path) -> None:
    skipped, failed = outcomes(folder / "skip.xml"), outcomes(folder / "fail.xml")
    changed = {name for name in skipped if skipped[name] != failed[name]}
    assert changed == {"test_one[unmeasured]", "test_each[mixed/R-2]"} and {failed[name][0] for name in changed} == {"failed"}


def test_output_has_one_line_a_mistake_and_warns_of_a_conditional_pass(folder: Path) -> None:
    text = (folder / "skip.txt").read_text()
    assert "ConditionalPass: marginal/R-0: conditional pass" in text and "MODEL: computed on the virtual rig, not measured" in text
    assert "Traceback" not in text and "station.py" not in text


def test_a_mark_without_the_fixture_and_a_set_that_is_none_are_one_line(tmp_path: Path) -> None:
    plugin = ("-m", "pytest", "-p", "wattbell.adapters.pytest_plugin", "-p", "no:cacheprovider", "--collect-only")
    text = "import pytest\n@pytest.mark.each_requirement\ndef test_x({0}):\n    pass\n"
    (tmp_path / "test_a.py").write_text(text.format("tmp_path"))
    assert "test_a.py::test_x has the mark each_requirement, and must take the fixture judge." in called(tmp_path, *plugin).stdout
    (tmp_path / "test_a.py").write_text(text.format("judge"))
    done = called(tmp_path, *plugin, "--wattbell-requirements", "opc")
    assert done.returncode and "Did you mean ocp?" in done.stdout + done.stderr and "station.py" not in done.stdout


@pytest.mark.needs_built(built, "make sim rtl")
@pytest.mark.xdist_group("virtual-rig")
def test_the_example_passes_on_the_virtual_rig(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "ours", ignore=shutil.ignore_patterns("__pycache__"))
    words = ("--wattbell-virtual", PROFILE, "--wattbell-requirements", "lab.toml", "--wattbell-out", "runs")
    done = called(tmp_path / "ours", "-m", "pytest", *words, "--junitxml=report.xml", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "intel-660p-1tb, a MODEL on the virtual rig: nothing is measured" in done.stdout
    cases = {case.name: case for suite in JUnitXml.fromfile(str(tmp_path / "ours/report.xml")) for case in suite}
    assert {name: one for name, (one, _) in outcomes(tmp_path / "ours/report.xml").items()} == {
        "test_the_drive_is_the_one_we_bought": "passed",
        "test_requirement[lab/L-1]": "passed",
        "test_requirement[lab/L-2]": "passed",
    }
    told = {one.name: one.value for one in cases["test_requirement[lab/L-1]"].child(Properties)}
    assert told == {"lab/L-1": "pass"}
    assert [path.name for path in (tmp_path / "ours/runs").iterdir()] == ["quick"], "both requirements judge one run"


@pytest.mark.needs_built(built, "make sim rtl")
@pytest.mark.xdist_group("virtual-rig")
def test_the_example_fails_at_a_limit_that_the_model_exceeds(tmp_path: Path) -> None:
    words = ("--wattbell-virtual", PROFILE, "--wattbell-requirements", "lab.toml")
    copy = tightened(tmp_path)
    done = called(copy, "-m", "pytest", *words, "--junitxml=report.xml", "-p", "no:cacheprovider")
    assert done.returncode == 1, done.stdout + done.stderr
    found = outcomes(copy / "report.xml")
    assert [name for name, (outcome, _) in found.items() if outcome != "passed"] == ["test_requirement[lab/L-1]"]
    said = found["test_requirement[lab/L-1]"][1]
    assert "lab/L-1: fail: 1.23" in said and "limit ≤ 1 W" in said and RULE in said
