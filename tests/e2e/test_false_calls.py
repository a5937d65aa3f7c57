"""A small `make false-calls` through the fast instrument: one pair of equal models, a model that draws 1 % more, and one that takes
1 % longer.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from wattbell.virtual.simulator import profiles_dir

from studies.false_calls import TWINS, one_pair, write_twin


@pytest.mark.parametrize(
    ("twin", "changed"),
    [
        (
            "power",
            {("power", "link_l0_w"): 1.01, ("power_state", "core_w"): 1.01, ("power_state", "max_w"): 1.0, ("flash", "read_slc_us"): 1.0},
        ),
        (
            "time",
            {
                ("flash", "read_slc_us"): 1.01,
                ("controller", "data_path_mb_per_s"): 1 / 1.01,
                ("power_state", "exit_us"): 1.0,
                ("power", "link_l0_w"): 1.0,
                ("limits", "warning_temperature_c"): 1.0,
            },
        ),
    ],
)
def test_a_twin_differs_in_one_respect(tmp_path: Path, twin: str, changed: dict[tuple[str, str], float]) -> None:
    name = "crucial-p1-1tb"
    made = tomllib.loads(write_twin(tmp_path, name, TWINS[twin]).read_text())
    plain = tomllib.loads((profiles_dir() / f"{name}.toml").read_text())
    for (section, key), by in changed.items():
        ours, theirs = (of[section] if isinstance(of[section], dict) else of[section][4] for of in (made, plain))
        assert ours[key]["value"] == pytest.approx(by * theirs[key]["value"]) and theirs[key]["value"], (section, key)
    assert (tmp_path / "common.toml").is_file(), "what a profile takes where it says nothing differs too"


@pytest.mark.long
def test_equal_models_get_no_verdict_and_one_percent_more_power_is_seen() -> None:
    found = one_pair(0, [3], 1)
    assert found["suite"]["equal"][3]["rows"] >= 7 and found["capture"]["equal"][3]["rows"] >= 20, "enough is judged"
    assert found["suite"]["equal"][3]["verdicts"] == found["capture"]["equal"][3]["verdicts"] == 0
    assert found["suite"]["one run"]["verdicts"] > 0, "by the uncertainty within one run they would differ"
    rows, right, _ = found["suite"]["one percent"]["power"][3]["power"]
    assert rows >= 3 and right >= 2
    rows, _, apart = found["suite"]["one percent"]["time"][3]["rate"]
    assert rows >= 2 and apart / rows == pytest.approx(-0.01, abs=0.01), "three runs do not see 1 % of a rate: docs/results.md"
