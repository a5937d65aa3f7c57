"""The library of Robot Framework in Robot itself; robot.api reads its output.xml."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.host.adapters.made import EXAMPLES, PROFILE, ROOT, RULE, built, called, material, tightened
from tests.needs import library

CASES = Path(__file__).with_name("drive_cases.robot")
robot = library("robot.api")


def results(folder: Path) -> dict[str, tuple[str, str]]:
    """Return status and message by test, as Robot's own model of its output has them."""
    suite = robot.ExecutionResult(str(folder / "output.xml")).suite
    return {test.name: (test.status, test.message) for test in suite.all_tests}


def messages(folder: Path) -> list[str]:
    """Return every line of the log, as Robot's visitor finds them."""
    found: list[str] = []

    class Messages(robot.ResultVisitor):  # type: ignore[misc]
        def visit_message(self, message: Any) -> None:
            found.append(message.message)

    robot.ExecutionResult(str(folder / "output.xml")).visit(Messages())
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of drive_cases.robot."""
    made = tmp_path_factory.mktemp("robot")
    capture = material(made)
    words = ("--variable", f"CAPTURE:{capture}", "--variable", f"SETS:{made}", "--outputdir", made)
    done = called(made, "-m", "robot", *words, CASES)
    assert (made / "output.xml").is_file(), done.stdout + done.stderr
    return made


@pytest.mark.parametrize(
    ("test", "status", "said"),
    [
        ("Before Any Judgement", "FAIL", "Nothing was judged yet: call the keyword Judge first."),
        ("As Expected", "PASS", ""),
        ("Not As Expected", "FAIL", "pass expected, but mixed/R-1: fail: 3.0000(30) W, limit ≤ 2.5 W (1.2 times the limit)."),
        ("Not As Expected", "FAIL", f"Decision rule: {RULE}"),
        ("A Mistyped Verdict", "FAIL", "passed is no verdict. Did you mean pass?"),
        ("A Mistyped Requirement", "FAIL", "mixed/R1 was not judged. Did you mean mixed/R-1?"),
        ("With A Parameter", "PASS", ""),
        ("One Fails", "FAIL", "mixed/R-1: fail: 3.0000(30) W"),
        ("One Is Not Measured", "SKIP", "unmeasured/R-1: not measured: parameter.cap is not given"),
        ("One Is Not Measured And That Fails", "FAIL", "unmeasured/R-1: not measured"),
        ("A Conditional Pass", "PASS", ""),
        ("The Drive", "PASS", ""),
    ],
)
def test_a_verdict_ends_the_test(folder: Path, test: str, status: str, said: str) -> None:
    found = results(folder)
    assert found[test][0] == status and said in found[test][1], found[test]
    assert len(found) == 11


def test_the_log_has_every_verdict_with_its_rule(folder: Path) -> None:
    log = messages(folder)
    assert any(line.startswith("mixed/R-0: pass: 3.0000(30) W, limit ≤ 4 W. Decision rule: guard band w = U") for line in log)
    assert any("marginal/R-0: conditional pass" in line for line in log) and "MODEL: computed on the virtual rig, not measured" in log


def test_libdoc_has_every_keyword_of_the_page() -> None:
    """Robot's own reader of libraries takes the library without a drive."""
    told = library("robot.libdocpkg").LibraryDocumentation("wattbell.adapters.robot_library.RigKeywords")
    page = (ROOT / "docs" / "adapters.md").read_text()
    assert {one.name for one in told.keywords} == set(re.findall(r"^\| `([A-Z][A-Za-z ]+)` \|", page, re.MULTILINE))
    assert all(one.doc for one in told.keywords) and len(told.keywords) == 5


@pytest.mark.needs_built(built, "make sim rtl")
@pytest.mark.xdist_group("virtual-rig")
def test_the_example_passes_on_the_virtual_rig(tmp_path: Path) -> None:
    done = called(tmp_path, "-m", "robot", "--variable", f"DRIVE:{PROFILE}", "--outputdir", tmp_path, EXAMPLES / "drive.robot")
    assert done.returncode == 0, done.stdout + done.stderr
    found = results(tmp_path)
    assert len(found) == 3 and {status for status, _ in found.values()} == {"PASS"}
    assert [path.name for path in (tmp_path / "wattbell").iterdir()] == ["quick"]


@pytest.mark.needs_built(built, "make sim rtl")
@pytest.mark.xdist_group("virtual-rig")
def test_the_example_fails_at_a_limit_that_the_model_exceeds(tmp_path: Path) -> None:
    copy = tightened(tmp_path)
    done = called(tmp_path, "-m", "robot", "--outputdir", tmp_path, copy / "drive.robot")
    assert done.returncode == 2, done.stdout + done.stderr
    found = results(tmp_path)
    assert [name for name, (status, _) in found.items() if status == "PASS"] == ["The Drive Is Frugal When Idle"]
    failed = [message for status, message in found.values() if status == "FAIL"]
    assert len(failed) == 2 and all("lab/L-1: fail: 1.23" in one and "limit ≤ 1 W" in one and RULE in one for one in failed)
