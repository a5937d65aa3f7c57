"""Tables of numbers whose lines can be misread: each is read right, or refused with the fact that is missing.

All hold the same 40 readings, 1 ms apart unless a test says otherwise: 0.15 A, but 1 A from the 11th to the 20th, at 3.3 V. By hand: 30 of
0.495 W and 10 of 3.3 W are 47.85 mW s at 1 ms.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from wattbell.errors import WattbellError
from wattbell.formats import Volts, Waveform

from .test_formats import samples
from .test_layouts import AMPS, german, opened, rows

VOLTS = Volts(3.3, 0.05)
ROWS = rows(lambda k: f"{k},{AMPS[k]}")
COMMAS = rows(lambda k: german(f"{k};{AMPS[k]}"))


def holds(waveform: Waveform, interval_s: float = 1e-3) -> None:
    """The common readings, at this distance."""
    volts, amps = samples(waveform)
    assert waveform.about.interval_s == pytest.approx(interval_s, rel=1e-6) and waveform.about.span == 40
    np.testing.assert_allclose(amps, AMPS, rtol=1e-6)
    np.testing.assert_allclose(volts, 3.3, rtol=1e-6)


# -- the distance of rows that have no times ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "interval_s"),
    [
        ("Time interval :,2.000mS", 2e-3),
        ("Sample interval: 5 us", 5e-6),
        ("Sample Interval (ms),10", 10e-3),
        ("Sample rate (Hz): 500", 2e-3),
        ("Sample rate: 500 samples/s", 2e-3),
        ("Sampling rate,2.5 kSa/s", 0.4e-3),
        ("Frequency :,50.00Hz\nPeriod :,20.00ms\nTime interval :,1.000mS", 1e-3),
    ],
)
def test_the_distance_of_rows_is_the_one_that_a_line_states(tmp_path: Path, line: str, interval_s: float) -> None:
    holds(opened(tmp_path, f"{line}\nIndex,Current (A)\n{ROWS}", volts=VOLTS), interval_s)


@pytest.mark.parametrize(
    ("line", "interval_s"),
    [
        ("Sample interval;2,5 ms", 2.5e-3),
        ("Abtastintervall: 0,001 s", 1e-3),
        ("Sampling rate;1,25 kHz", 0.8e-3),
        ("Abtastrate: 500 Hz", 2e-3),
    ],
)
def test_the_distance_of_rows_may_have_a_decimal_comma(tmp_path: Path, line: str, interval_s: float) -> None:
    holds(opened(tmp_path, f"{line}\nIndex;Current (A)\n{COMMAS}", volts=VOLTS), interval_s)


@pytest.mark.parametrize(
    "line",
    [
        "Sampling time: 2023-11-14 22:13:20",
        "Sample time,22:13:20",
        "Sampling time,14.11.2023",
        "Sampling interval: 1/1000 s",
        "Sampling interval: 10",
        "Sample interval,2,5 ms",
        "Frequency :,50.00Hz",
        "Interval: 1 s on the display",
        "Interval: 3 samples",
    ],
)
def test_a_line_that_states_no_distance_of_rows_gives_none(tmp_path: Path, line: str) -> None:
    with pytest.raises(WattbellError, match="no line that says how far its rows are apart.*--interval"):
        opened(tmp_path, f"{line}\nIndex,Current (A)\n{ROWS}", volts=VOLTS)
    holds(opened(tmp_path, f"{line}\nIndex,Current (A)\n{ROWS}", volts=VOLTS, interval_s=2e-3), 2e-3)
