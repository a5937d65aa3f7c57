"""A user's suite is interrupted, killed and resumed: its results equal the results of an uninterrupted run."""

from __future__ import annotations

import json
import signal
import sqlite3
from importlib.resources import files
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner
from wattbell.capture import open_capture
from wattbell.cli.app import app
from wattbell.errors import WattbellError

from tests.e2e.virtual import MARKS, finished, stop_in, wait_for_no_rig, wattbell

pytestmark = MARKS
TESTS = ["burst-random-read", "random-read", "random-write", "mixed-random", "active-idle"]


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write `quick`, with each test as a separate session."""
    folder = tmp_path_factory.mktemp("suites") / "quick-apart"
    folder.mkdir()
    for source in files("wattbell.suites").joinpath("data/quick").iterdir():
        (folder / source.name).write_bytes(source.read_bytes())
    manifest = folder / "manifest.toml"
    manifest.write_text(manifest.read_text().replace('session = "quick"\n', ""))
    return folder


def arguments(suite: Path, out: Path, *more: str) -> list[str]:
    common = ["run", str(suite), "--virtual", "intel-660p-1tb", "--fidelity", "fast", "--scale", "0.05", "--tests", ",".join(TESTS)]
    return [*common, "--out", str(out), "--store", str(out.parent / "store.sqlite"), "--no-page", *more]


def results(out: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((out / "results.json").read_text())
    return data


def figures(data: dict[str, Any]) -> dict[str, Any]:
    """Return everything but wall-clock times."""
    tests = [{k: v for k, v in test.items() if k != "wall_s"} for test in data["tests"]]
    return {**{k: v for k, v in data.items() if k != "started_utc"}, "tests": tests}


def test_interrupted_and_killed_and_gone_on_with(suite: Path, tmp_path: Path) -> None:
    once, again = tmp_path / "once", tmp_path / "again"
    finished(wattbell(tmp_path, *arguments(suite, once)))

    process = wattbell(tmp_path, *arguments(suite, again))
    stop_in(process, again / "captures/random-read-test-data", signal.SIGINT)
    assert "Continue with --resume" in finished(process, 130)[1]
    done = results(again)
    assert [t["test"] for t in done["tests"]] == TESTS[:1]

    process = wattbell(tmp_path, *arguments(suite, again, "--resume"))
    stop_in(process, again / "captures/random-write-test-data", signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    wait_for_no_rig(tmp_path / "runtime")
    assert [t["test"] for t in results(again)["tests"]] == TESTS[:2]

    _, said = finished(wattbell(tmp_path, *arguments(suite, again, "--resume")))
    assert said.count("done before") == 2
    assert figures(results(again)) == figures(results(once))
    assert results(again)["started_utc"] == done["started_utc"]
    assert [t["test"] for t in results(again)["tests"]] == TESTS
    # the recordings of the interrupted sessions are still there, as captures
    for name in ("random-read", "random-write"):
        open_capture(again / f"captures/{name}-test-data-interrupted")
    (series,) = [t["series"] for t in results(again)["tests"] if t["series"]]
    assert pl.read_parquet(again / series).equals(pl.read_parquet(once / series))
    with sqlite3.connect(tmp_path / "store.sqlite") as store:
        assert store.execute("SELECT count(*), count(DISTINCT started_utc) FROM runs").fetchone() == (2, 2)
    # once more: nothing is left to run, and the store has it already
    assert finished(wattbell(tmp_path, *arguments(suite, again, "--resume")))[1].count("done before") == len(TESTS)

    before = (again / "results.json").read_bytes()
    for more, says in (
        (("--scale", "0.1"), "--scale 0.05, not 0.1"),
        (("--seed", "2"), "--seed 1, not 2"),
        (("--virtual", "intel-600p"), "profile intel-660p-1tb, not intel-600p"),
        (("--tests", "random-read"), "other tests: burst-random-read (test-data), random-read"),
        (("--rounds", "3"), "--rounds has no effect"),
        (("--interval", "20us"), "--interval 1e-05, not 2e-05"),
        (("--fidelity", "rtl"), "--fidelity fast, not rtl"),
        (("--force",), "give one of them"),
    ):
        refused = CliRunner().invoke(app, arguments(suite, again, "--resume", *more))
        assert isinstance(refused.exception, WattbellError) and refused.exception.exit_code == 2
        assert says in str(refused.exception)
    manifest = suite / "manifest.toml"
    manifest.write_text(manifest.read_text() + "# changed\n")
    assert "another version of the suite's files" in str(CliRunner().invoke(app, arguments(suite, again, "--resume")).exception)
    assert (again / "results.json").read_bytes() == before
    assert "nothing to resume" in str(CliRunner().invoke(app, arguments(suite, tmp_path / "new", "--resume")).exception)
