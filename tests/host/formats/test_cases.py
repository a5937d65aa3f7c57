"""Files of other people's programs, each with its right answer (``../shared/cases/host``): every folder ``wf-*`` is here.

The common waveform: 10 s, 0.495 W, but 3.3 W from 3 to 6 s; 13.365 J in all, 9.9 J in that phase.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wattbell.errors import WattbellError
from wattbell.formats import Volts, Waveform, WaveformOptions, open_files
from wattbell.formats.waveform import NamedColumn

from tests.host.sharedcases import unpacked_cases

VOLTS = Volts(3.3, 0.03)


def columns(**names: str) -> dict[str, NamedColumn]:
    """``current="CH1:A"``, as on the command line."""
    return {role: NamedColumn(*name.rsplit(":", 1)) if ":" in name else NamedColumn(name) for role, name in names.items()}


READ: dict[str, WaveformOptions] = {
    "wf-digilent": WaveformOptions(columns=columns(current="Channel 1 (V):A", voltage="Channel 2 (V)")),
    "wf-eu": WaveformOptions(),
    "wf-ina-luca": WaveformOptions(columns=columns(voltage="LoadV[V]")),
    "wf-ina-luca2": WaveformOptions(columns=columns(voltage="BusV[V]")),
    "wf-ina-nohead": WaveformOptions(columns=columns(time="1:ms", current="3:mA", voltage="2:V")),
    "wf-jls-2018": WaveformOptions(),
    "wf-jls-ionly": WaveformOptions(volts=VOLTS),
    "wf-jls-js220": WaveformOptions(),
    "wf-jls-offset": WaveformOptions(),
    "wf-jls-two": WaveformOptions(rail="JS220-000001"),
    "wf-js-waveform": WaveformOptions(),
    "wf-js-waveform-one": WaveformOptions(volts=VOLTS),
    "wf-monsoon-dup": WaveformOptions(),
    "wf-monsoon-gui": WaveformOptions(columns=columns(current="Main Avg Current (mA)")),
    "wf-monsoon-py": WaveformOptions(),
    "wf-n6705": WaveformOptions(columns=columns(current="Curr avg 1:A", voltage="Volt avg 1:V"), interval_s=1e-3),
    "wf-ppk2-api": WaveformOptions(volts=VOLTS),
    "wf-ppk2-bits": WaveformOptions(volts=VOLTS),
    "wf-ppk2-native": WaveformOptions(volts=VOLTS),
    "wf-ps3-lines": WaveformOptions(),
    "wf-pyjls-export": WaveformOptions(volts=VOLTS, columns=columns(current="1:A"), interval_s=1e-3),
    "wf-quarch-old": WaveformOptions(rail="5V", columns=columns(time="Time:us")),
    "wf-quarch-u2": WaveformOptions(rail="total"),
    "wf-rigol": WaveformOptions(columns=columns(current="CH1:A", voltage="CH2:V")),
    "wf-rigol-mso": WaveformOptions(columns=columns(current="CH1V:A", voltage="CH2V")),
    "wf-saleae": WaveformOptions(columns=columns(current="Channel 0:A", voltage="Channel 1:V")),
    "wf-siglent": WaveformOptions(columns=columns(current="CH1:A", voltage="CH2:V")),
    "wf-sr-meter": WaveformOptions(columns=columns(current="I1:A", voltage="V1:V"), interval_s=1e-3),
    "wf-sr-scope": WaveformOptions(columns=columns(current="CH1:A", voltage="CH2:V")),
    "wf-utf16": WaveformOptions(),
}
"""Cases that are the whole common waveform, and their options."""
ASKED: dict[str, str] = {
    "wf-digilent": "no column for current or power among .*Channel 1.*--column current=",
    "wf-ina-luca": r"2 columns could be the voltage \(BusV\[V\], LoadV\[V\]\).*--column voltage=",
    "wf-ina-luca2": "2 columns could be the voltage.*--column voltage=",
    "wf-ina-nohead": "no line has names of its 3 columns.*--column time=1",
    "wf-jls-ionly": "--volts",
    "wf-jls-rates": "differ in rate",
    "wf-jls-two": "--rail",
    "wf-jls-v1": "version 1",
    "wf-js-waveform-one": "no voltage.*--volts",
    "wf-js-wrap": "line 548: the time goes backwards by 2147.46 s",
    "wf-n6705": "Curr avg 1 states no unit",
    "wf-ppk2-api": "--volts",
    "wf-ppk2-native": "a PPK2 measures current and no voltage",
    "wf-pyjls-export": "no column for the time",
    "wf-quarch-old": "Time states no unit; say --column time=Time:us",
    "wf-quarch-u2": r"several rails \(5V, 12V\).*--rail total",
    "wf-rigol": "no column for current or power among X, CH1, CH2",
    "wf-saleae": "no column for current or power among .*Channel 0",
    "wf-sr-meter": "has no times: it states no sample rate.*--interval",
    "wf-sr-scope": "--column current=",
}
"""Cases in which a fact is missing, and the message about it."""
OWN = {"wf-csv-inf", "wf-ina-jitter", "wf-jls-drop", "wf-ppk2-spike"}
"""Cases with a test of their own."""


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked_cases(tmp_path_factory.mktemp("cases"), "wf-")


def opened(cases: Path, name: str, options: WaveformOptions) -> Waveform:
    (path,) = [one for one in (cases / name).iterdir() if one.name != "README"]
    return open_files([path], options)[1]


def power(waveform: Waveform) -> np.ndarray[Any, np.dtype[np.float64]]:
    """W at each place of the grid; NaN where there is no sample."""
    watts = np.full(waveform.about.span, np.nan)
    for piece in waveform.read():
        watts[piece.index] = piece.voltage_v.astype(np.float64) * piece.current_a
    return watts


def test_no_case_is_forgotten(cases: Path) -> None:
    assert {one.name for one in cases.glob("wf-*")} == READ.keys() | ASKED.keys() | OWN


@pytest.mark.parametrize("name", sorted(READ))
def test_it_is_the_common_waveform(cases: Path, name: str) -> None:
    waveform = opened(cases, name, READ[name])
    interval, watts = waveform.about.interval_s, power(waveform)
    assert interval * len(watts) == pytest.approx(10, rel=1e-6) and not np.isnan(watts).any()
    assert watts.sum() * interval == pytest.approx(13.365, rel=1e-5)
    at = np.arange(len(watts)) * interval
    busy = (at >= 3 - interval / 2) & (at < 6 - interval / 2)
    assert watts[busy] == pytest.approx(3.3, rel=1e-5) and watts[~busy] == pytest.approx(0.495, rel=1e-5)


@pytest.mark.parametrize("name", sorted(ASKED))
def test_what_is_missing_is_asked_for(cases: Path, name: str) -> None:
    with pytest.raises(WattbellError, match=ASKED[name]):
        opened(cases, name, WaveformOptions())


def test_half_of_a_drive_on_two_rails_is_one_of_them(cases: Path) -> None:
    assert power(opened(cases, "wf-quarch-u2", WaveformOptions(rail="12V"))).mean() == pytest.approx(1.3365 / 2)


def test_two_impossible_samples_of_a_ppk2_are_a_gap_with_a_count(cases: Path) -> None:
    waveform = opened(cases, "wf-ppk2-spike", WaveformOptions(volts=VOLTS))
    watts = power(waveform)
    assert np.flatnonzero(np.isnan(watts)).tolist() == [7000, 7001]
    assert np.nansum(watts) * 1e-3 == pytest.approx(13.365 - 2 * 0.495e-3, rel=1e-6)
    (note,) = waveform.left_out.notes()
    assert note.startswith("2 samples (9.333e+05 A) beyond what a PPK2 can measure")


def test_readings_of_overload_are_a_gap_with_a_count(cases: Path) -> None:
    waveform = opened(cases, "wf-csv-inf", WaveformOptions())
    watts = power(waveform)
    assert np.flatnonzero(np.isnan(watts)).tolist() == [7000, 7001] and np.nanmax(watts) == pytest.approx(3.3)
    assert waveform.left_out.without == 2


def test_dropped_samples_of_a_joulescope_are_a_gap(cases: Path) -> None:
    watts = power(opened(cases, "wf-jls-drop", WaveformOptions()))
    assert np.flatnonzero(np.isnan(watts)).tolist() == list(range(10_000, 15_000)) and np.nanmean(watts) == pytest.approx(1.3808, abs=1e-4)


def test_a_loop_that_stamps_each_reading(cases: Path) -> None:
    """The oracle: the trapezoid rule over the file's own rows, in pure Python."""
    name = "wf-ina-jitter"
    waveform = opened(cases, name, WaveformOptions())
    watts, interval = power(waveform), waveform.about.interval_s
    rows = [list(map(float, line.split(","))) for line in (cases / name / "ina.csv").read_text().splitlines()[1:]]
    end = rows[0][0] + interval * len(watts)
    energy = 0.0
    for (t, v, i), (later, v2, i2) in zip(rows, rows[1:], strict=False):
        if later <= end:
            energy += (later - t) * (v * i + v2 * i2) / 2e3
    assert np.nansum(watts) * interval == pytest.approx(energy, abs=0.02 * 3.3)
    inside = (np.arange(len(watts)) * interval > 3.2) & (np.arange(len(watts)) * interval < 5.8)
    assert watts[inside] == pytest.approx(3.3, rel=1e-5) and watts[:250] == pytest.approx(0.495, rel=1e-5)
    assert 0.003 < waveform.about.grid_s < 0.011
