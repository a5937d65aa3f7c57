"""Assertions of their own for what a golden page would hold only as a whole: which bars a chart keeps, and where titles are."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from wattbell.analysis import figures_of
from wattbell.measure.figure import Figure
from wattbell.present.capture.charts import energy_bars
from wattbell.present.capture.tables import percent
from wattbell.present.joules import stacked
from wattbell.present.pages import write_report
from wattbell.present.pages.suite import write_suite_page
from wattbell.results.reference import reference_set
from wattbell.text import concise, decimals, signed

from tests.host.conftest import MS, Builder


def energies(many: int) -> Any:
    """An analysis with one phase; its classes cost 1 to ``many`` uJ, in an order of neither."""
    order = sorted(range(1, many + 1), key=lambda n: n * 7919 % 31)
    classes = {f"read {n} KiB": Figure(n * 1e-6, 1e-9, "J", 0, {}) for n in order}
    return {"alone": {}, "phases": [{"name": "p", "energy_per_command": {"classes": classes}}]}


def test_a_chart_that_is_cut_keeps_the_largest_bars_and_says_so() -> None:
    bars = energy_bars(energies(30))["shares"]
    assert [round(bar.value.value * 1e6) for bar in bars.bars] == list(range(30, 6, -1))
    assert "the largest 24 of 30" in bars.title
    assert "largest" not in energy_bars(energies(24))["shares"].title


def test_title_and_subtitle_of_a_suite_page_are_drive_and_suite(tmp_path: Path) -> None:
    run = next(one for one in reference_set() if one.profile == "intel-660p-1tb")
    (html,) = write_suite_page([run], tmp_path / "p.html", plots=False)
    text = html.read_text(encoding="utf-8")
    heading, below = re.search(r"<h1>(.*?)</h1><p class=sub>(.*?)</p>", text).groups()  # type: ignore[union-attr]
    assert "660p" in heading and heading.endswith("(model)") and below == "quick"
    (html,) = write_suite_page([run], tmp_path / "q.html", plots=False, title="My title")
    assert "<h1>My title</h1>" in html.read_text(encoding="utf-8")


def test_title_and_subtitle_of_a_captures_page_are_drive_and_origin(tmp_path: Path) -> None:
    made = Builder(tmp_path / "c")
    made.power(0, 1.0)
    capture = made.write(100 * MS, conditions={"virtual": False})
    capture.meta["drive"] |= {"model": "Some drive", "serial": "S", "firmware": "F1"}
    text = write_report(capture, figures_of(capture), tmp_path / "r.html", plots=False).read_text(encoding="utf-8")
    heading, below = (unescape(part) for part in re.search(r"<h1>(.*?)</h1><p class=sub>(.*?)</p>", text).groups())  # type: ignore[union-attr]
    assert heading == "Some drive" and below.startswith("firmware F1 · measured at the drive's connector")


@pytest.mark.parametrize(
    "text",
    [
        decimals(-0.04, 1),
        decimals(-0.0, 0),
        percent(-0.0004, 1),
        percent(-0.0004, 1, sign=True),
        percent(0.0004, 1, sign=True),
        concise(Figure(-0.001, 1.0, "W", 0, {})),
        signed(-0.0, "W"),
        stacked(
            "p",
            {
                "total_j": Figure(1.0, None, "J", 0, {}),
                "baseline_j": Figure(1.0, None, "J", 0, {}),
                "classes_j": {},
                "after_j": Figure(0.0, None, "J", 0, {}),
                "deferred_j": Figure(0.0, None, "J", 0, {}),
                "unexplained_j": Figure(-4e-4, None, "J", 0, {}),
            },
        ).remark,
    ],
)
def test_zero_has_no_sign(text: str) -> None:
    assert not re.search(r"[-−+]0", text), text


def test_what_is_not_zero_keeps_its_sign() -> None:
    assert percent(-0.0006, 1, sign=True) == "−0.1 %" and percent(0.0006, 1, sign=True) == "+0.1 %" and decimals(-0.06, 1) == "−0.1"
