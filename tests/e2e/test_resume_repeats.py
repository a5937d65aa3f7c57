"""`run --repeat` is interrupted, killed and resumed: its runs equal the runs of an uninterrupted one."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from wattbell.cli.app import app
from wattbell.errors import WattbellError

from studies.false_calls import write_suite
from tests.e2e.virtual import MARKS, finished, stop_in, wait_for_no_rig, wattbell

pytestmark = [*MARKS, pytest.mark.long]
TESTS = ["burst", "writes", "awake"]
TIMES = 3


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the short suite, with each test as a separate session."""
    folder = write_suite(tmp_path_factory.mktemp("suites") / "short")
    manifest = folder / "manifest.toml"
    manifest.write_text(manifest.read_text().replace('session = "false-calls"\n', ""))
    return folder


def arguments(suite: Path, out: Path, *more: object, times: int = TIMES) -> list[str]:
    common = ["run", suite, "--virtual", "crucial-p1-1tb", "--fidelity", "fast", "--repeat", times, "--no-store", "--no-page"]
    return [str(one) for one in (*common, "--out", out, *more)]


def results(out: Path, number: int) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((out / str(number) / "results.json").read_text())
    return data


def figures(data: dict[str, Any]) -> dict[str, Any]:
    """Return everything but wall-clock times."""
    tests = [{k: v for k, v in test.items() if k != "wall_s"} for test in data["tests"]]
    return {**{k: v for k, v in data.items() if k != "started_utc"}, "tests": tests}


def done(out: Path) -> list[int]:
    """Return how many tests of each run are done."""
    return [len(results(out, number)["tests"]) if (out / str(number)).exists() else -1 for number in range(1, TIMES + 1)]


def test_interrupted_and_killed_and_gone_on_with(suite: Path, tmp_path: Path) -> None:
    once, again = tmp_path / "once", tmp_path / "again"
    finished(wattbell(tmp_path, *arguments(suite, once)))

    process = wattbell(tmp_path, *arguments(suite, again))
    stop_in(process, again / "1/captures/writes-test-data", signal.SIGINT)
    _, said = finished(process, 130)
    assert "Continue with --resume" in said and done(again) == [1, -1, -1]
    began = results(again, 1)["started_utc"]

    process = wattbell(tmp_path, *arguments(suite, again, "--resume"))
    stop_in(process, again / "2/captures/burst-test-data", signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    wait_for_no_rig(tmp_path / "runtime")
    assert done(again) == [3, 0, -1]
    refused = CliRunner().invoke(app, ["compare", str(once), str(again), "--no-plots"])
    assert isinstance(refused.exception, WattbellError) and "lacks the results of 1 of its 3 runs (3)" in str(refused.exception)

    before = {number: (again / str(number) / "results.json").read_bytes() for number in (1, 2)}
    for more, times, says in (
        (("--resume",), 2, "was started with --repeat 3, not 2"),
        (("--resume", "--seed", "5"), 3, "--seed 1, not 5"),
        ((), 3, "exists already; choose another name, or add --force to replace it (or --resume, if those runs were interrupted)"),
    ):
        refused = CliRunner().invoke(app, arguments(suite, again, *more, times=times))
        assert isinstance(refused.exception, WattbellError) and says in str(refused.exception), refused.exception
    assert before == {number: (again / str(number) / "results.json").read_bytes() for number in (1, 2)}

    out, said = finished(wattbell(tmp_path, *arguments(suite, again, "--resume")))
    assert said.count("done before") == len(TESTS), "of the first run; the second had ended none"
    assert f"{again}: {TIMES} runs, which `wattbell compare` takes together" in out
    for number in range(1, TIMES + 1):
        ours, theirs = results(again, number), results(once, number)
        assert figures(ours) == figures(theirs) and [test["test"] for test in ours["tests"]] == TESTS
        assert ours["conditions"]["seed"] == number, "no two runs of a model repeat one seed"
    assert results(again, 1)["started_utc"] == began
    assert {path.name for path in again.glob("*/captures/*-interrupted")} == {"writes-test-data-interrupted", "burst-test-data-interrupted"}

    both = CliRunner().invoke(app, ["compare", str(once), str(again), "--no-plots", "--out", str(tmp_path / "c.html"), "--json"])
    assert both.exception is None, both.output
    (pair,) = json.loads(both.stdout)["differences"]
    assert pair["measures"] and {tuple(row["runs"]) for row in pair["measures"]} == {(TIMES, TIMES)}
    assert {row["difference"]["value"] for row in pair["measures"]} == {0.0}
    assert "higher" not in both.stdout and "lower" not in both.stdout
