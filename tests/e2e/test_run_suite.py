"""A suite from the command line through the Verilated instrument to results.json, at a small scale."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner
from wattbell.cli.app import app
from wattbell.errors import SimError, WattbellError
from wattbell.virtual import simulator


def built() -> bool:
    try:
        return all(simulator.find_program(name) for name in ("wattbell-rig", "wattbell-ssd"))
    except SimError:
        return False


pytestmark = [
    pytest.mark.needs_built(built, "make sim rtl"),
    pytest.mark.xdist_group("virtual-rig"),
]
SCALE = 0.01
TESTS = "burst-random-read,random-write,mixed-random,idle-wake-up"


def wattbell(folder: Path, *arguments: object, code: int = 0) -> tuple[str, str]:
    told = subprocess.run(
        [sys.executable, "-m", "wattbell", *map(str, arguments)],
        env={**os.environ, "WATTBELL_RUNTIME": str(folder / "runtime"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )
    assert told.returncode == code, told.stderr
    assert "Traceback" not in told.stderr
    return told.stdout, told.stderr


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("suite")
    common = ("run", "quick", "--virtual", "intel-660p-1tb", "--scale", SCALE, "--tests", TESTS)
    out, _ = wattbell(
        folder, *common, "--fidelity", "rtl", "--interval", 2e-5, "--out", folder / "results", "--store", folder / "store.sqlite"
    )
    return folder, out


def results(folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((folder / "results" / "results.json").read_text())
    return loaded


def test_the_results_are_those_of_the_capture(ran: tuple[Path, str]) -> None:
    folder, _ = ran
    data = results(folder)
    tests = {t["test"]: t for t in data["tests"]}
    assert list(tests) == TESTS.split(",")
    assert data["lost"] == {}
    folders = {t["capture"] for t in tests.values()}
    assert len(folders) == 1  # one session
    fio = json.loads((folder / "results" / folders.pop() / "workload" / "fio.json").read_text())
    told = sum(job[direction]["io_bytes"] for job in fio["jobs"] for direction in ("read", "write"))
    assert sum(p["bytes"] for t in tests.values() for p in t["points"]) == told > 0
    assert [p["x"]["qd"] for p in tests["random-write"]["points"]] == [1, 2, 4]
    assert [p["x"]["write_share"] for p in tests["mixed-random"]["points"]] == [0.0, 0.5, 1.0]
    readings = {s["reading"] for s in tests["mixed-random"]["scores"]}
    assert readings == {"totals", "mean of the points, as SSD reviews"}


def test_a_sleeping_drive_takes_its_time(ran: tuple[Path, str]) -> None:
    """The 660p's measured wake-up takes about 55 ms, and its profile was fitted to this."""
    folder, _ = ran
    (wake,) = [t for t in results(folder)["tests"] if t["test"] == "idle-wake-up"]
    median = next(s for s in wake["scores"] if s["name"] == "median, doorbell to completion")
    assert median["value"]["value"] == pytest.approx(55e-3, rel=0.06), "a few wake-ups, which vary by 2 %"
    series = pl.read_parquet(folder / "results" / wake["series"])
    assert {"latency_s", "from_clkreq_s"} <= set(series.columns)
    assert (series["from_clkreq_s"] > series["latency_s"]).all()


def test_everything_is_stamped_as_scaled(ran: tuple[Path, str]) -> None:
    folder, out = ran
    data = results(folder)
    assert (data["scale"], data["scaled"], data["virtual"]) == (SCALE, True, True)
    assert any("not the published test" in note for note in data["conditions"]["notes"])
    assert out.count("scaled x 0.01") == len(data["tests"])
    plans = list((folder / "results" / "plans").glob("*/*.fio"))
    assert plans and all("not the published test" in p.read_text().splitlines()[0] for p in plans)


def test_it_ends_in_the_store_and_on_a_page(ran: tuple[Path, str]) -> None:
    folder, out = ran
    page = folder / "results" / "suite.html"
    last = out[out.rindex("quick  INTEL") :]
    assert str(page) in last and str(folder / "store.sqlite") in last
    assert all(t["name"] in last for t in results(folder)["tests"])
    listed, _ = wattbell(folder, "results", "list", "--json", "--store", folder / "store.sqlite")
    (entry,) = json.loads(listed)
    assert (entry["suite"], entry["profile"], entry["scale"]) == ("quick", "intel-660p-1tb", SCALE)
    text = page.read_text(encoding="utf-8")
    assert "Burst random read" in text and "SCALED" in text


def test_provenance(ran: tuple[Path, str]) -> None:
    folder, _ = ran
    data = results(folder)
    assert data["suite_hash"].startswith("sha256:") and data["drive"]["profile_hash"].startswith("sha256:")
    assert data["drive"]["model"] == "INTEL SSDPEKNW010T8"
    assert data["versions"]["host"]
    assert data["conditions"]["fidelity"] == "rtl"


def test_what_cannot_run_is_told_in_one_line(ran: tuple[Path, str]) -> None:
    folder, _ = ran
    here = str(folder / "x")
    for arguments, code, says in (
        (("quack", "--out", here), 2, "There is no suite quack; known: anandtech-2018"),
        (("quick", "--out", here, "--tests", "nap"), 2, "no test nap"),
        (("quick", "--out", here, "--scale", "0"), 2, "give a number from"),
        (("quick", "--out", here, "--condition", "full"), 2, "No test of quick"),
        (("quick", "--out", str(folder / "results")), 1, "add --force"),
        (("none.fio", "--out", here), 2, "is not a file"),
    ):
        told = CliRunner().invoke(app, ["run", *arguments, "--virtual", "intel-660p-1tb"])
        assert isinstance(told.exception, WattbellError)
        assert told.exception.exit_code == code
        assert says in str(told.exception)
        assert not (folder / "x").exists()


def test_suites_are_listed() -> None:
    out = CliRunner().invoke(app, ["suites"]).stdout
    assert all(name in out for name in ("anandtech-2018", "consistency-2014", "consistency-2016", "snia-pts", "power-states"))
    listed = json.loads(CliRunner().invoke(app, ["suites", "anandtech-2018", "--json"]).stdout)
    assert len(listed["tests"]) == 20
