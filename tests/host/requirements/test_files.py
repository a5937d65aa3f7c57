"""Files of requirements: the package's own, a lab's, and each mistake in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from wattbell.errors import UsageError
from wattbell.requirements.files import load, load_all, set_names

HEAD = 'name = "lab"\ntitle = "Ours"\nsource = "LAB-7"\n'
GOOD = """
[[requirement]]
id = "L-1"
clause = "3"
text = "Peak below 6 W."
measurand = "largest-mean-power"
window_s = 1e-4
limit = 6
unit = "W"
"""


def told(tmp_path: Path, text: str) -> str:
    path = tmp_path / "lab.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load(str(path))
    said = str(caught.value)
    assert said.startswith(str(path)) and "\n" not in said
    return said.removeprefix(str(path))


def test_every_set_of_the_package_can_be_read() -> None:
    assert set_names() == ["declared", "form-factor", "nvme", "ocp"]
    for name in set_names():
        file = load(name)
        assert file.name == name and file.source and file.revision
        for one in file.requirement:
            assert one.text.endswith(".") and one.title and one.clause, one.id


def test_the_limits_are_those_of_the_documents() -> None:
    ours = ("LATENCY-MONITOR", "LATENCY-MONITOR-latency", "LATENCY-MONITOR-stamp")
    limits = {one.id: one.limit for one in load("ocp").requirement if isinstance(one.limit, float) and one.id not in ours}
    assert limits == {
        **{"PWR-6": 5.0, "TTR-1": 1.0, "TTR-2": 20.0, "TTR-5": 10.0, "CTO-1": 10.0, "CTO-3": 8.0, "CTO-3-rate": 7.0},
        **{"TTHROTTLE-9": 77.0, "TTHROTTLE-9-least": 77.0, "TTHROTTLE-10": 85.0, "TTHROTTLE-10-least": 85.0},
    }
    (pcm1,) = (one for one in load("ocp").requirement if one.id == "PCM-1")
    assert (pcm1.window_s, pcm1.sampling_s, pcm1.duration_s) == (1.0, 0.002, 900.0)


def test_a_lab_adds_a_file_and_no_code(tmp_path: Path) -> None:
    (tmp_path / "lab.toml").write_text(HEAD + GOOD + GOOD.replace("L-1", "L-2").replace("limit = 6", 'limit = "parameter.cap"'))
    first, second = load(str(tmp_path / "lab.toml")).requirement
    assert (first.limit, second.limit, first.side, first.guard, first.severity) == (6, "parameter.cap", "at most", 1.0, "mandatory")
    with pytest.raises(UsageError, match="Two files of requirements are named lab"):
        (tmp_path / "again.toml").write_text(HEAD + GOOD)
        load_all([str(tmp_path / "lab.toml"), str(tmp_path / "again.toml")])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("limit = 6", ""), "L-1: it has no limit"),
        (("limit = 6", "limit = nan"), "L-1: its limit is nan: give a number"),
        (("limit = 6", "limit = inf"), "L-1: its limit is inf: give a number"),
        (("limit = 6", "limit = -6"), "L-1: its limit is -6: give a number of at least 0"),
        (('unit = "W"', 'unit = "mW"'), "the unit of largest-mean-power is 'W', not 'mW'"),
        (("window_s = 1e-4", ""), "largest-mean-power needs window_s"),
        (("window_s = 1e-4", "window_s = 1e-4\nthreshold_s = 2"), "threshold_s has no meaning for largest-mean-power"),
        (("window_s = 1e-4", "window_s = -1"), "L-1: Expected `float` > 0.0 (window_s)"),
        (('measurand = "largest-mean-power"', 'measurand = "largest-mean-powr"'), "Did you mean largest-mean-power?"),
        (('measurand = "largest-mean-power"', 'not_measured = "no"'), "limit has no meaning beside not_measured"),
        (('measurand = "largest-mean-power"', ""), "give either measurand and limit, or not_measured with the reason"),
        (("limit = 6", 'limit = "1 +"'), "is no expression such as"),
        (("limit = 6", 'limit = "declared.max_power_w"'), "declared.max_power_w needs states"),
        (("limit = 6", 'limit = "declared.maximum"\nstates = "each"'), "declared.maximum is no declared field"),
        (("limit = 6", 'limit = "measured.peak_w"'), "there is no measured.peak_w"),
        (("limit = 6", "limit = true"), "L-1: Expected `float | str | null`, got `bool` (limit)"),
        (("clause", "claus"), "L-1: Object contains unknown field `claus`"),
        (('id = "L-1"', 'id = "L 1"'), "L 1: Expected `str` matching regex"),
        (("window_s = 1e-4", 'window_s = 1e-4\nexempt = ["format"]'), "exempt has no meaning"),
    ],
)
def test_each_mistake_is_named(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    assert GOOD.count(change[0]) == 1
    assert said in told(tmp_path, HEAD + GOOD.replace(*change))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "missing required field"),
        ("name = 1", "Expected `str`"),
        ("x = [", "not TOML"),
        (HEAD, "missing required field"),
        (HEAD + "requirement = 3", "Expected `array`"),
        (HEAD + "requirement = []", "length >= 1"),
        (HEAD + GOOD + GOOD, "L-1 is there 2 times"),
        (HEAD + GOOD + "[parameters]\ncap = nan", "parameter cap is nan"),
        (HEAD + "[[requirement]]\n", "requirement 1: Object missing required field"),
        (
            HEAD
            + GOOD.replace("largest-mean-power", "admin-latency").replace("window_s = 1e-4", 'exempt = ["formt"]').replace('"W"', '"s"'),
            "there is no opcode formt",
        ),
    ],
)
def test_each_broken_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    assert said in told(tmp_path, text)


def test_what_is_not_there_or_no_file_is_refused(tmp_path: Path) -> None:
    found: list[Any] = []
    for name in ("opc", str(tmp_path / "none.toml"), str(tmp_path)):
        with pytest.raises(UsageError) as caught:
            load(name)
        found.append(str(caught.value))
    assert "known: declared, form-factor, nvme, ocp, or a file .toml. Did you mean ocp?" in found[0]
    assert "No such file" in found[1] and "There is no set" in found[2]
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not TOML"):
        load(str(tmp_path / "b.toml"))


def test_a_measurand_of_states_needs_states(tmp_path: Path) -> None:
    """Without them it would be judged in no state, and have no row."""
    one = GOOD.replace("largest-mean-power", "state-maximum-power").replace("window_s = 1e-4\n", "")
    assert told(tmp_path, HEAD + one) == ", L-1: state-maximum-power needs states."
    (tmp_path / "lab.toml").write_text(HEAD + one + 'states = "each"\n')
    assert load(str(tmp_path / "lab.toml")).requirement[0].states == "each"
