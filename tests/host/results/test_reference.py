"""The reference set: it fits the suite and the profiles of this version, and a page of one drive stands among it, marked as models."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from wattbell.origin import Origin
from wattbell.present.chart import Bars, ChartSection
from wattbell.present.colours import BACKGROUND
from wattbell.present.pages.suite import write_suite_page
from wattbell.present.suite.presentation import SuitePresentation
from wattbell.results import read_run
from wattbell.results.reference import SOURCE, reference_set, references
from wattbell.suites.manifest import load_suite
from wattbell.virtual import simulator
from wattbell.virtual.profiles import known_profiles


def test_it_is_of_this_version() -> None:
    """`make reference` makes it anew."""
    assert {run.suite_hash for run in reference_set()} == {load_suite("quick").digest}
    hashes = {run.profile: run.drive["profile_hash"] for run in reference_set()}
    assert set(hashes) == {entry["profile"] for entry in known_profiles()}
    for run in reference_set():
        assert run.origin is Origin.VIRTUAL and not run.scaled and not run.lost and run.title.endswith(" (model)") and not run.missing
    for name, known in hashes.items():
        content = (simulator.profiles_dir() / f"{name}.toml").read_bytes()
        assert known == f"sha256:{sha256(content).hexdigest()}", f"the profile {name} was changed: make reference"


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """A drive's own run of the suite: one of the models' figures, halved."""
    document: dict[str, Any] = json.loads(json.dumps(reference_set()[0].document))
    document["drive"] |= {"title": "Mine <b>", "model": "Mine <b>", "serial": "1", "profile": None}
    document["virtual"] = False
    for test in document["tests"]:
        for score in test["scores"]:
            score["value"]["value"] *= 0.5
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "results.json").write_text(json.dumps(document))
    return tmp_path / "mine"


def bars(found: list[ChartSection]) -> list[Bars]:
    return [block for section in found for block in section.blocks if isinstance(block, Bars)]


def test_one_drive_stands_among_it_sorted_and_picked_out(measured: Path, tmp_path: Path) -> None:
    run = read_run(measured)
    others = references([run])
    assert len(others) == len(reference_set())
    made = bars(SuitePresentation([run], others).sections())
    assert made
    for chart in made:
        values = [bar.value.value for bar in chart.bars]
        assert values == sorted(values, reverse=chart.unit not in ("W", "s"))
        assert [bar.label for bar in chart.bars if bar.picked] == ["Mine <b>"] and len(chart.bars) > 10
        assert all(bar.colour == BACKGROUND and bar.label.endswith("(model)") for bar in chart.bars if not bar.picked)
    page = write_suite_page([run], tmp_path / "page.html", plots=False)[0].read_text(encoding="utf-8")
    assert "nobody measured them" in page and page.count('class="bar picked"') == len(made)
    assert len(page) < 900_000


def test_not_where_it_would_say_nothing(measured: Path, tmp_path: Path) -> None:
    """Another suite or scale, the same model, several drives."""
    document = json.loads((measured / "results.json").read_text())
    run = read_run(measured)
    for change in ({"suite_hash": "sha256:00"}, {"scale": 0.5, "scaled": True}, {"suite": "snia-pts"}):
        (tmp_path / "results.json").write_text(json.dumps({**document, **change}))
        assert references([read_run(tmp_path)]) == []
    of_model = reference_set()[1]
    assert of_model.source == SOURCE and of_model.profile not in {other.profile for other in references([of_model])}
    page = write_suite_page([run, of_model], tmp_path / "two.html", plots=False)[0].read_text(encoding="utf-8")
    assert "nobody measured them" not in page


def test_a_lone_bar_is_a_figure(measured: Path, tmp_path: Path) -> None:
    document = json.loads((measured / "results.json").read_text())
    (measured / "results.json").write_text(json.dumps({**document, "suite_hash": "sha256:00"}))
    page = write_suite_page([read_run(measured)], tmp_path / "page.html", plots=False)[0].read_text(encoding="utf-8")
    assert 'class="bars alone"' in page and not re.search(r'class="bar picked"', page)
