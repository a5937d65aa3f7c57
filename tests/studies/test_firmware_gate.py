"""The study of `compare --gate`: its samples, its firmwares and its counts."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wattbell.virtual.simulator import profiles_dir

from studies.firmware_gate import GROUP, Outcomes, drawn, profile_of, write_sample


def _number(profile: dict[str, Any], section: str, key: str) -> float:
    of = profile[section] if isinstance(profile[section], dict) else profile[section][0]
    return float(of[key]["value"])


def test_a_firmware_changes_powers_and_nothing_else_of_a_sample(tmp_path: Path) -> None:
    made = {name: tomllib.loads(write_sample(tmp_path / name, 7, name).read_text()) for name in ("old", "equal", "worse")}
    assert len({one["identity"]["serial"]["value"] for one in made.values()}) == 1
    assert [one["identity"]["firmware"]["value"] for one in made.values()] == ["OLD", "NEW", "NEW"]
    watts = [_number(one, "power", "link_l0_w") for one in made.values()]
    assert watts[2] / watts[1] == pytest.approx(1.02) and abs(watts[1] / watts[0] - 1) < 0.005 and watts[1] != watts[0]
    times = {_number(one, "flash", "read_slc_us") for one in made.values()}
    plain = tomllib.loads((profiles_dir() / f"{profile_of(7)}.toml").read_text())
    assert len(times) == 1 and times != {_number(plain, "flash", "read_slc_us")}, "the sample has times of its own"
    other = tomllib.loads(write_sample(tmp_path / "other", 8, "old").read_text())
    assert _number(other, "power", "link_l0_w") != watts[0] and other["identity"]["serial"] != made["old"]["identity"]["serial"]
    assert len({profile_of(k) for k in range(GROUP)}) == 1 and profile_of(GROUP) != profile_of(0)


def test_drawn_pairs_are_accused_where_they_are_worse_and_hardly_elsewhere() -> None:
    random = np.random.default_rng(1)
    equal, worse = Outcomes(), Outcomes()
    for _ in range(60):
        equal.add(drawn(5, 3, 0.0, random))
        worse.add(drawn(5, 3, 0.03, random)[:1])
    assert (equal["pairs"], equal["rows"], worse["rows"]) == (60, 600, 60)
    assert equal["accused"] <= 5 and worse["accused"] > 50, "2.5 % of 60, with three standard deviations"
    assert equal["pass"] > 500
    assert equal.share("accused", "pairs").startswith(f"{100 * equal['accused'] / 60:.1f} % of 60 (")
