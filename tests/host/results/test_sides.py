"""Which runs `wattbell compare` puts on one side, typed as by a user: `--with`, `--stored`, folders of `run --repeat`.

Each run is one figure, chosen by hand: three runs that are 1 apart have a standard deviation of 1. From the table of Student's t, with 4
degrees of freedom, 97.5 % is 2.7764; a difference of two such means is seen from 2.7764 * sqrt(2/3) = 2.2669.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result
from wattbell.cli.app import app
from wattbell.errors import WattbellError

OLD = [100.0, 101.0, 102.0]
SEEN_FROM = 2.2669


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder and a store of the test's own."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("WATTBELL_STORE", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(samples: Any, tmp_path: Path) -> Any:
    """Writes one run of one figure."""

    def write(name: str, rate: float, profile: str = "intel-660p-1tb", seed: int | None = None, **more: Any) -> str:
        score = {"name": "mean", "unit": "MB/s", "value": {"value": rate, "u": 1e-6, "n_lost": 0}, "reading": None}
        test = {"test": "random-read", "name": "Random read", "condition": "test-data", "points": [], "series": None, "scores": [score]}
        made_with = {"fidelity": "fast", "seed": round(1000 * rate) if seed is None else seed}
        began = (datetime(2026, 11, 21, tzinfo=UTC) + timedelta(seconds=rate)).isoformat()
        samples.write_results(tmp_path / name, profile, tests=[test], **{"conditions": made_with, "started_utc": began, **more})
        return name

    return write


def runs(run: Any, name: str, rates: list[float], *more: Any, **options: Any) -> list[str]:
    return [run(f"{name}{number}", rate, *more, **options) for number, rate in enumerate(rates, start=1)]


def told(*arguments: object, code: int = 0) -> Result:
    found = CliRunner().invoke(app, [str(one) for one in arguments])
    if code:
        assert isinstance(found.exception, WattbellError) and found.exception.exit_code == code, found.output
    else:
        assert found.exception is None, (found.output, found.exception)
    return found


def compared(*arguments: object) -> list[dict[str, Any]]:
    """The one row of each pair of sides."""
    pairs = json.loads(told("compare", *arguments, "--no-plots", "--json").stdout)["differences"]
    found = [pair["measures"] for pair in pairs]
    assert all(len(rows) == 1 for rows in found)
    return [rows[0] for rows in found]


# -- --with ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("apart", "verdict"), [(2.3, "higher"), (2.2, "unseen"), (-2.3, "lower")])
def test_with_says_where_the_runs_of_another_side_begin(run: Any, apart: float, verdict: str) -> None:
    """All six are of one drive: only --with says which belong together."""
    a, b = runs(run, "a", OLD), runs(run, "b", [rate + apart for rate in OLD])
    (row,) = compared(*a, "--with", *b)
    assert (row["runs"], row["verdict"]) == ([3, 3], verdict)
    assert (row["a"]["value"], row["b"]["value"]) == (pytest.approx(101), pytest.approx(101 + apart))
    assert row["difference"]["value"] == pytest.approx(apart) and row["seen_from"] == pytest.approx(SEEN_FROM, rel=1e-4)
    alone = compared(*a, *b)
    assert len(alone) == 5 and {one["verdict"] for one in alone} == {"no repeats"}


def test_with_may_stand_twice_and_take_its_first_run_by_an_equals_sign(run: Any) -> None:
    """Two pairs are two rows: the level of each is halved, and 3.4954 * sqrt(2/3) = 2.8540 is seen."""
    a, b, c = runs(run, "a", OLD), runs(run, "b", [102.5, 103.5, 104.5]), runs(run, "c", [90.0, 91.0, 92.0])
    against_b, against_c = compared(*a, f"--with={b[0]}", *b[1:], "--with", *c)
    assert (against_b["verdict"], against_c["verdict"]) == ("unseen", "lower")
    assert against_b["seen_from"] == pytest.approx(2.8540, rel=1e-4)
    assert [row["runs"] for row in (against_b, against_c)] == [[3, 3], [3, 3]]
    assert against_c["difference"]["value"] == pytest.approx(-10)


@pytest.mark.parametrize("order", ["--with a1 a2", "a1 a2 --with", "a1 --with --with a2"])
def test_with_stands_between_two_sides(run: Any, order: str) -> None:
    runs(run, "a", OLD)
    assert "--with stands between the runs of two sides" in str(told("compare", *order.split(), code=2).exception)


def test_runs_that_do_not_repeat_one_another_are_no_side(run: Any, samples: Any) -> None:
    a, b = runs(run, "a", OLD), runs(run, "b", [102.5, 103.5, 104.5], "crucial-p1-1tb")
    said = str(told("compare", *a[:2], b[0], "--with", *b[1:], code=1).exception)
    assert "Side A has runs of different models" in said and "Intel SSD 660p 1TB" in said and "Crucial P1 1TB" in said
    twins = [run("t1", 100.0, seed=7), run("t2", 100.5, seed=7)]
    said = str(told("compare", *twins, "--with", *b, code=1).exception)
    assert "runs of a drive model with one seed (7)" in said and "t1" in said and "t2" in said
    assert "is the same run as one before it" in str(told("compare", *a, "--with", a[0], code=1).exception)


def test_runs_of_two_drives_need_no_with(run: Any) -> None:
    a, b = runs(run, "a", OLD), runs(run, "b", [103.3, 104.3, 105.3], "crucial-p1-1tb")
    (row,) = compared(a[0], b[0], a[1], b[1], a[2], b[2])
    assert (row["runs"], row["verdict"], row["difference"]["value"]) == ([3, 3], "higher", pytest.approx(3.3))


# -- --repeat --------------------------------------------------------------------------------------------------------


def test_a_folder_of_repeated_runs_is_a_side(run: Any, tmp_path: Path) -> None:
    """Even if both folders are of one drive, as before and after an update of something else."""
    for name, rates in (("old", OLD), ("new", [103.3, 104.3, 105.3])):
        runs(run, f"{name}/", rates)
        (tmp_path / name / "repeats.json").write_text(json.dumps({"format": 1, "runs": ["1", "2", "3"]}))
    (row,) = compared("old", "new")
    assert (row["runs"], row["verdict"], row["difference"]["value"]) == ([3, 3], "higher", pytest.approx(3.3))
    (tmp_path / "new/2/results.json").unlink()
    said = str(told("compare", "old", "new", code=1).exception)
    assert "lacks the results of 1 of its 3 runs (2)" in said and "--resume" in said


# -- --stored --------------------------------------------------------------------------------------------------------


def test_stored_takes_the_runs_that_repeat_the_named_and_no_others(run: Any, tmp_path: Path) -> None:
    """Five of the store's runs are of the named drive in other circumstances; each would have moved the mean by far."""
    a, b = runs(run, "a", OLD), runs(run, "b", [103.3, 104.3, 105.3], "crucial-p1-1tb")
    drive = json.loads((tmp_path / a[0] / "results.json").read_text())["drive"]
    others = [
        run("scaled", 500.0, scale=0.5),
        run("updated", 501.0, drive={**drive, "firmware": "NHF040C"}),
        run("refitted", 502.0, drive={**drive, "profile_hash": "sha256:" + "ee" * 32}),
        run("another-suite", 503.0, suite_hash="sha256:" + "ba" * 32),
        run("gateware", 504.0, conditions={"fidelity": "rtl", "seed": 504}),
    ]
    told("results", "import", *a[1:], *b[1:], *others)
    (row,) = compared(a[0], b[0], "--stored")
    assert (row["runs"], row["verdict"], row["difference"]["value"]) == ([3, 3], "higher", pytest.approx(3.3))
    assert [row[side]["value"] for side in "ab"] == [pytest.approx(101), pytest.approx(104.3)]
    (without,) = compared(a[0], b[0])
    assert (without["runs"], without["verdict"]) == ([1, 1], "no repeats")
    (row,) = compared(a[0], "--with", b[0], "--stored")
    assert (row["runs"], row["verdict"]) == ([3, 3], "higher"), "the same with the sides given"


def test_stored_names_no_run_twice(run: Any) -> None:
    """A run that was named and is in the store is one run; a named run that another's repeats hold makes no side of its own."""
    a, b = runs(run, "a", OLD), runs(run, "b", [103.3, 104.3, 105.3], "crucial-p1-1tb")
    told("results", "import", *a, *b)
    (row,) = compared(*a, b[0], "--stored")
    assert (row["runs"], row["difference"]["value"]) == ([3, 3], pytest.approx(3.3))


def test_stored_runs_that_repeat_both_sides_belong_to_neither(run: Any) -> None:
    a, b = runs(run, "a", OLD), runs(run, "b", [103.3, 104.3, 105.3])
    told("results", "import", a[2], b[2])
    said = str(told("compare", *a[:2], "--with", *b[:2], "--stored", code=1).exception)
    assert "repeat the runs of side A and of side B alike" in said and "leave out --stored" in said


def test_stored_without_a_store_is_refused(run: Any) -> None:
    a = runs(run, "a", OLD)
    said = str(told("compare", *a, "--stored", "--store", "mistyped.sqlite", code=2).exception)
    assert "there is no store" in said
