"""Pages depend on the kind of a test, not on its name."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from wattbell.errors import UsageError
from wattbell.present.suite.presentation import SuitePresentation
from wattbell.results import read_run
from wattbell.results.model import parse
from wattbell.suites.kind import kind_of_test
from wattbell.suites.kinds import KINDS, KindOfTest, ScoreSection, kind_of
from wattbell.suites.suite import Test


def entry(test: str, **more: Any) -> dict[str, Any]:
    scores = [
        {"name": name, "unit": unit, "value": {"value": 1.5, "u": 0.1, "n_lost": 0}, "reading": None}
        for name, unit in (("rate", "MB/s"), ("settled", "W"), ("median, of all", "s"))
    ]
    return {"test": test, "name": f"The {test}", "condition": "test-data", "points": [], "scores": scores, **more}


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("idle", "Idle power and wake-up"),
        ("wake", "Idle power and wake-up"),
        ("fill", "Whole-drive fill and SLC cache"),
        ("trace", "Trace replay (ATSB-like)"),
        ("burst", "Scores"),
        ("one of a later version", "Scores"),
    ],
)
def test_a_test_of_any_name_stands_where_its_kind_belongs(tmp_path: Path, samples: ModuleType, kind: str, title: str) -> None:
    run = read_run(samples.write_results(tmp_path / "run", suite="mine", tests=[entry("t", kind=kind)]))
    assert run.tests[0].kind == kind
    drawn = [section.title for section in SuitePresentation([run]).sections() if "The t" in str(section.blocks)]
    assert title in drawn and not set(drawn) & ({"Scores", "Idle power and wake-up", "Whole-drive fill and SLC cache"} - {title})


@pytest.mark.parametrize(
    ("test", "place"),
    [
        ("idle", ScoreSection.IDLE),
        ("idle 30 mW", ScoreSection.IDLE),
        ("wake-up PS4 read 4 KiB", ScoreSection.WAKE_UP),
        ("atsb-light-like", ScoreSection.TRACES),
        ("fill-of-a-full-drive", ScoreSection.FILL),
        ("non-operational", ScoreSection.POWER_STATES),
        ("fill", ScoreSection.SCORES),
        ("mixed", ScoreSection.SCORES),
    ],
)
def test_old_results_that_do_not_say_it_have_the_kind_of_their_names(
    samples: ModuleType, tmp_path: Path, test: str, place: ScoreSection
) -> None:
    run = read_run(samples.write_results(tmp_path / "run", tests=[entry(test)]))
    assert kind_of(run.tests[0].kind).place is place
    assert run.tests[0].kind in {"", *KINDS}
    assert parse({**run.document, "tests": [entry(test, kind="burst")]}, "here").tests[0].kind == "burst"


def test_a_kind_without_scores_cannot_be_made() -> None:
    unscored = type("Unscored", (KindOfTest,), {})
    with pytest.raises(TypeError, match="abstract method"):
        kind_of_test("unscored")(unscored)
    assert "unscored" not in KINDS


def test_every_kind_knows_its_name() -> None:
    assert len(KINDS) >= 13 and all(kind.name == name for name, kind in KINDS.items())


def test_what_is_of_an_unknown_kind_is_not_scored() -> None:
    test = Test(id="t", name="T", kind="later", conditions=("empty",))
    with pytest.raises(UsageError, match="kind later are not known here"):
        kind_of("later").score(None, test, {}, 1.0)
