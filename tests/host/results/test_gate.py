"""`wattbell compare --gate`, typed as by a user: the sides, verdicts, exit codes, JUnit XML.

Each run is one rate, chosen by hand. Three runs that are 1 apart have a standard deviation of 1. From the table of Student's t, with 4
degrees of freedom, 97.5 % is 2.7764. So the difference of two such means is known to 2.7764 * sqrt(2/3) = 2.2669.
"""

from __future__ import annotations

import itertools
import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import junitparser
import pytest
from scipy.stats import t as student
from typer.testing import CliRunner, Result
from wattbell.cli.app import app
from wattbell.errors import WattbellError
from wattbell.results.gate import holm

from tests.columns import print_wide

OLD, NEW = "NHF034C", "NHF040C"
_count = itertools.count()


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder and a store of the test's own."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    print_wide(monkeypatch)
    monkeypatch.delenv("WATTBELL_STORE", raising=False)
    monkeypatch.chdir(tmp_path)


Value = tuple[str, float]
"""Unit and value of a figure."""


@pytest.fixture
def run(samples: Any, tmp_path: Path) -> Any:
    """Writes one run; returns its name."""

    def write(*figures: Value, firmware: str = OLD, serial: str = "S1", u: float | None = 1e-6, lost: int = 0, **more: Any) -> str:
        number = next(_count)
        tests = [
            {
                "test": f"test-{i}",
                "name": f"Test {i}",
                "condition": "test-data",
                "points": [],
                "series": None,
                "scores": [{"name": "mean", "unit": unit, "value": {"value": value, "u": u, "n_lost": lost}, "reading": None}],
            }
            for i, (unit, value) in enumerate(figures)
        ]
        drive = {
            "model": "Intel SSD 660p 1TB",
            "serial": serial,
            "firmware": firmware,
            "profile": "p",
            "profile_hash": "sha256:" + "cd" * 32,
        }
        began = (datetime(2026, 11, 21, tzinfo=UTC) + timedelta(seconds=number)).isoformat()
        document = {"tests": tests, "drive": drive, "conditions": {"fidelity": "fast", "seed": number}, "started_utc": began, **more}
        samples.write_results(tmp_path / f"r{number}", **document)
        return f"r{number}"

    return write


def told(*arguments: object, code: int = 0) -> Result:
    found = CliRunner().invoke(app, [str(one) for one in arguments])
    if isinstance(found.exception, WattbellError):
        assert found.exception.exit_code == code, found.exception
    else:
        assert found.exit_code == code and isinstance(found.exception, SystemExit | None), (found.output, found.exception)
    return found


def gated(*arguments: object, gate: str = "5%", code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(told("compare", *arguments, "--gate", gate, "--json", code=code).stdout)
    assert found["exit_code"] == code
    return found


def rates(run: Any, middle: float, **more: Any) -> list[str]:
    """Three runs that are 1 apart."""
    return [run(("MB/s", middle + k), **more) for k in (-1, 0, 1)]


@pytest.mark.parametrize(
    ("unit", "new", "verdict", "code"),
    [
        ("MB/s", 100.0, "pass", 0),  # the interval ends 2.3 % below
        ("MB/s", 97.0, "conditional pass", 4),  # 3 % lower, and 5.3 % within the interval
        ("MB/s", 94.0, "conditional fail", 4),
        ("MB/s", 91.0, "fail", 3),
        ("MB/s", 120.0, "pass", 0),  # better
        ("W", 91.0, "pass", 0),
        ("W", 103.0, "conditional pass", 4),
        ("W", 109.0, "fail", 3),
    ],
)
def test_verdicts_and_exit_codes_follow_the_interval_around_the_gate(
    run: Any, unit: str, new: float, verdict: str, code: int, tmp_path: Path
) -> None:
    a = [run((unit, 100.0 + k)) for k in (-1, 0, 1)]
    b = [run((unit, new + k), firmware=NEW) for k in (-1, 0, 1)]
    found = gated(*a, *b, code=code)
    (row,) = found["figures"]
    assert (row["verdict"], row["design"]) == (verdict, "one sample")
    assert row["change"] == pytest.approx(new / 100 - 1, abs=1e-3)
    half = 2.7764 * new / 100 * math.hypot(1 / 100, 1 / new) / math.sqrt(3)
    assert (row["change_high"] - row["change_low"]) / 2 == pytest.approx(half, rel=0.02)
    assert row["between_runs"]["value"] == pytest.approx(0.01, rel=0.1)
    assert row["between_samples"] is None and "between samples is unknown" in row["spread_unknown"], "unknown is not zero"
    shown = told("compare", *a, *b, "--gate", "5%", code=code).output
    assert {"pass": "no regression", "fail": "regression"}.get(verdict, "undecided") in shown
    assert f"firmware {OLD}" in shown and f"firmware {NEW}" in shown and "sample S1 alone" in shown and "Holm" in shown
    assert ("more run" in shown) == ("conditional" in verdict)
    assert not (tmp_path / "compare.html").exists(), "no page without --out"


def test_the_first_run_says_which_firmware_is_before(run: Any) -> None:
    a, b = rates(run, 100.0), rates(run, 80.0, firmware=NEW)
    assert gated(b[0], *a, *b[1:])["figures"][0]["change"] == pytest.approx(0.25, rel=0.01)
    assert [side["firmware"] for side in gated(*a, *b, code=3)["sides"]] == [OLD, NEW]


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ({}, f"All runs have firmware {OLD}"),
        ({"firmware": ""}, "does not say its firmware revision"),
        ({"firmware": NEW, "serial": ""}, "does not say the drive's serial number"),
        ({"firmware": NEW, "scale": 0.5}, "differ in the suite, its version or its scale"),
        ({"firmware": NEW, "condition": "full"}, "differ in their conditions"),
        ({"firmware": NEW, "virtual": False}, "differ in being measured or modelled"),
        ({"firmware": NEW, "drive": {"model": "Crucial P1", "firmware": NEW, "serial": "S1"}}, "differ in the drive's model"),
    ],
)
def test_sides_that_cannot_be_told_apart_are_refused(run: Any, new: dict[str, Any], said: str) -> None:
    a, b = rates(run, 100.0), rates(run, 100.0, **new)
    assert said in str(told("compare", *a, *b, "--gate", "1%", code=1).exception)


def test_three_revisions_and_three_sides_are_refused(run: Any) -> None:
    a, b, c = rates(run, 100.0), rates(run, 100.0, firmware=NEW), rates(run, 100.0, firmware="X")
    assert f"3 revisions of firmware ({OLD}, {NEW}, X)" in str(told("compare", *a, *b, *c, "--gate", "1%", code=1).exception)
    assert "one --with between them, not 3" in str(told("compare", *a, "--with", *b, "--with", *c, "--gate", "1%", code=1).exception)


def test_with_tells_runs_of_one_firmware_apart(run: Any) -> None:
    a, b = rates(run, 100.0), rates(run, 91.0)
    assert gated(*a, "--with", *b, code=3)["figures"][0]["verdict"] == "fail"


def test_one_run_a_side_is_not_judged_and_no_exit_code_makes_it_pass(run: Any) -> None:
    a, b = run(("MB/s", 100.0)), run(("MB/s", 100.0), firmware=NEW)
    (row,) = gated(a, b, code=4)["figures"]
    assert row["verdict"] == "not measured" and "the spread between runs is unknown, it takes 3 runs a side" in row["why"]
    assert row["between_runs"] is row["between_samples"] is row["change"] is None
    told("compare", a, b, "--gate", "1%", "--exit-codes", "not measured=0", code=4)


def test_another_sample_on_each_side_says_nothing_of_the_firmware(run: Any) -> None:
    a, b = rates(run, 100.0), rates(run, 100.0, firmware=NEW, serial="S2")
    (row,) = gated(*a, *b, code=4)["figures"]
    assert row["verdict"] == "not measured" and "cannot be told from a sample's own difference" in row["why"]


def test_samples_are_the_units_where_there_are_several(run: Any) -> None:
    """Three samples change by -1, -2 and -3 %. By hand: mean -2 %, 4.3027 / sqrt(3) = 2.4842 %, however many runs each has."""
    a = [run(("MB/s", 100.0 + k), serial=f"S{s}") for s in range(3) for k in (-0.01, 0.01)]
    b = [run(("MB/s", 99.0 - s + k), serial=f"S{s}", firmware=NEW) for s in range(3) for k in (-0.01, 0.01)]
    found = gated(*a, *b, code=0)
    (row,) = found["figures"]
    assert (row["design"], row["df"], row["verdict"]) == ("same samples", 2, "pass")
    assert row["change"] == pytest.approx(-0.02, abs=1e-4)
    assert (row["change_low"], row["change_high"]) == (pytest.approx(-0.0445, abs=3e-4), pytest.approx(0.0051, abs=3e-4))
    assert row["between_samples"]["value"] == pytest.approx(0.0102, rel=0.03) and row["between_runs"]["value"] < 2e-4
    assert [side["samples"] for side in found["sides"]] == [["S0", "S1", "S2"]] * 2
    assert "Spread of the change between samples" in told("compare", *a, *b, "--gate", "5%").output
    assert gated(*a, *b, gate="4%", code=4)["figures"][0]["verdict"] == "conditional pass"


def test_a_fail_is_corrected_for_the_number_of_figures_and_a_pass_is_not(run: Any) -> None:
    """20 figures. The first changed by so much that its one-sided p is 0.5 %: alone it fails, among 20 it does not."""
    gap = float(student.ppf(1 - 0.005, 4)) * math.sqrt(2 / 3)

    def values(first: float, k: int, others: int) -> list[Value]:
        return [("W", first + k), *[("W", 1000.0 + k)] * others]

    new = 105.0 + gap
    for others, verdict, code in ((0, "fail", 3), (19, "conditional fail", 4)):
        a = [run(*values(100.0, k, others)) for k in (-1, 0, 1)]
        b = [run(*values(new, k, others), firmware=NEW) for k in (-1, 0, 1)]
        found = gated(*a, *b, code=code)
        assert found["figures_tested"] == others + 1
        row, *more = found["figures"]
        assert row["verdict"] == verdict and row["p"] == pytest.approx(0.005, rel=0.15)
        assert row["p_holm"] == pytest.approx((others + 1) * row["p"])
        assert {one["verdict"] for one in more} <= {"pass"}


def test_holm_is_that_of_r() -> None:
    """R: p.adjust(c(0.01, 0.02, 0.03, 0.005, 0.5), "holm")."""
    assert holm([0.01, 0.02, 0.03, 0.005, 0.5]) == pytest.approx([0.04, 0.06, 0.06, 0.025, 0.5])


def test_the_instrument_may_be_off_by_more_than_the_gate(run: Any) -> None:
    a = [run(("W", 100.0 + 0.01 * k), u=2.0) for k in (-1, 0, 1)]
    b = [run(("W", 100.0 + 0.01 * k), u=2.0, firmware=NEW) for k in (-1, 0, 1)]
    (row,) = gated(*a, *b, gate="1%", code=4)["figures"]
    assert row["verdict"] == "conditional pass" and "longer runs may help, more runs do not" in row["why"]
    assert gated(*a, *b, gate="3%")["figures"][0]["verdict"] == "pass"


def test_lost_records_make_a_verdict_conditional_and_no_uncertainty_gives_none(run: Any) -> None:
    a, b = rates(run, 100.0, lost=1), rates(run, 100.0, firmware=NEW)
    (row,) = gated(*a, *b, code=4)["figures"]
    assert row["verdict"] == "conditional pass" and "records were lost" in row["why"]
    a, b = rates(run, 100.0, u=None), rates(run, 100.0, firmware=NEW)
    (row,) = gated(*a, *b, code=4)["figures"]
    assert row["verdict"] == "not measured" and "uncertainty" in row["why"]


def test_junit_is_read_by_another_parser_and_a_page_is_written_where_asked(run: Any, tmp_path: Path) -> None:
    a = [run(("MB/s", 100.0 + k), ("W", 100.0 + k), ("IOPS", 0.0)) for k in (-1, 0, 1)]
    b = [run(("MB/s", 90.0 + k), ("W", 100.0 + k), ("IOPS", 0.0), firmware=NEW) for k in (-1, 0, 1)]
    shown = told("compare", *a, *b, "--gate", "5%", "--junit", "gate.xml", "--out", "page.html", "--no-plots", code=3).output
    assert "gate.xml" in shown and "page.html" in shown and (tmp_path / "page.html").stat().st_size > 1000
    (suite,) = junitparser.JUnitXml.fromfile("gate.xml")
    assert (suite.tests, suite.failures, suite.skipped) == (3, 1, 1)
    cases = {case.name: case.result for case in suite}
    assert [type(one[0]).__name__ if one else "" for one in cases.values()] == ["Failure", "", "Skipped"]
    assert next(iter(cases)).startswith("Test 0: rate")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--junit", "x.xml"], "add --gate 1%"),
        (["--gate", "1%", "--mixed"], "Leave --mixed out"),
        (["--gate", "a lot"], "a share in percent"),
        (["--gate", "0"], "give a number from 0.001 to 50"),
        (["--gate", "1%", "--exit-codes", "regression=0"], "give VERDICT="),
    ],
)
def test_options_that_make_no_sense_are_refused(run: Any, options: list[str], said: str) -> None:
    a, b = rates(run, 100.0), rates(run, 100.0, firmware=NEW)
    assert said in str(told("compare", *a, *b, *options, code=2).exception)
