"""Tables of numbers with lines that can be misread: each is read right, or refused with the fact that is missing.

All hold the same 40 readings, 1 ms apart unless a test says otherwise: 0.15 A, but 1 A from the 11th to the 20th, at 3.3 V. By hand: 30 of
0.495 W and 10 of 3.3 W are 47.85 mW s at 1 ms.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from wattbell.errors import WattbellError
from wattbell.formats import Volts, Waveform

from .test_formats import missing, samples
from .test_layouts import AMPS, columns, german, opened, rows

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


# -- which column is which ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["MV", "PV", "PS", "NS", "ADC", "Min", "PA"])
def test_a_name_that_only_looks_like_a_unit_is_none(tmp_path: Path, name: str) -> None:
    holds(opened(tmp_path, f"Time (ms),{name},Current (A)\n" + rows(lambda k: f"{k},{k % 3},{AMPS[k]}"), volts=VOLTS))


@pytest.mark.parametrize("names", ["Time (ms),ADC,Voltage (V)", "ms,ADC,V"])
def test_counts_of_a_converter_are_no_current(tmp_path: Path, names: str) -> None:
    with pytest.raises(WattbellError, match="no column for current or power"):
        opened(tmp_path, f"{names}\n" + rows(lambda k: f"{k},{3 if AMPS[k] == 1 else 1},3.3"))


@pytest.mark.parametrize(
    ("unit", "factor"), [("W", 1000), ("mW", 0.001), ("W", 3.6), ("W", -1)], ids=["mW called W", "W called mW", "12 V", "reversed"]
)
def test_a_power_that_is_not_of_the_voltage_and_current_beside_it_is_refused(tmp_path: Path, unit: str, factor: float) -> None:
    scale = factor if unit == "W" else factor * 1000
    text = f"Time (ms),Current (A),Voltage (V),Power ({unit})\n" + rows(lambda k: f"{k},{AMPS[k]},3.3,{AMPS[k] * 3.3 * scale:.6f}")
    with pytest.raises(
        WattbellError, match=rf"line 1: the column Power \({unit}\) is {factor:g} times Voltage .V. x Current .A.: a unit is"
    ):
        opened(tmp_path, text)
    holds(opened(tmp_path, text, columns=columns(current="Current (A)")))


def test_a_power_that_differs_as_a_mean_of_products_may_is_used(tmp_path: Path) -> None:
    text = "Time (ms),Current (A),Voltage (V),Power (W)\n" + rows(lambda k: f"{k},{AMPS[k]},3.3,{AMPS[k] * 3.3 * 1.2:.6f}")
    volts, amps = samples(opened(tmp_path, text))
    np.testing.assert_allclose(volts * amps, np.array(AMPS) * 3.96, rtol=1e-5)


@pytest.mark.parametrize(("amps", "watts"), [("0.002", "0.01"), ("0.0014", "0.00")])
def test_a_power_with_too_few_digits_is_not_compared(tmp_path: Path, amps: str, watts: str) -> None:
    """2 mA at 3.3 V are 6.6 mW, which the file rounds to 0.01 W; 1.4 mA are 4.62 mW, rounded to 0."""
    volts, found = samples(opened(tmp_path, "Time (ms),I (A),U (V),P (W)\n" + rows(lambda k: f"{k},{amps},3.3,{watts}")))
    np.testing.assert_allclose(volts * found, float(watts), atol=1e-8)


@pytest.mark.parametrize(
    ("names", "one", "other"),
    [
        ("Time (ms),Channel,Value", "1", "2"),
        ("Time (ms),What,Value", "Current", "Voltage"),
        ("Time (ms),Sensor,Value", "0x40", "0x41"),
    ],
)
def test_rows_of_several_channels_below_one_another_are_refused(tmp_path: Path, names: str, one: str, other: str) -> None:
    text = f"{names}\n" + rows(lambda k: f"{k},{one},{AMPS[k]}\n{k},{other},3.3")
    with pytest.raises(WattbellError, match=f"rows of several quantities stand below one another.*'{one}', '{other}'.*a column of its own"):
        opened(tmp_path, text, volts=VOLTS, columns=columns(current="Value:A"))
    alone = "".join(line + "\n" for line in text.splitlines() if f",{other}," not in line)
    holds(opened(tmp_path, alone, volts=VOLTS, columns=columns(current="Value:A")))


def test_a_column_that_tells_the_state_of_each_row_changes_nothing(tmp_path: Path) -> None:
    holds(opened(tmp_path, "Time (ms),State,I (A)\n" + rows(lambda k: f"{k},{'busy' if 10 <= k < 20 else 'idle'},{AMPS[k]}"), volts=VOLTS))


# -- cells that are more than a number ---------------------------------------------------------------------------------


def milli(k: int) -> str:
    """150 mA, or 1 A: as a meter that changes its range prints them."""
    return "1.000 A" if AMPS[k] == 1 else "150.0 mA"


CELLS = {
    "a unit in each cell": "Time (ms),Current,Voltage\n" + rows(lambda k: f"{k},{milli(k)},3.3V"),
    "units and decimal commas": "Zeit;Strom;Spannung\n" + rows(lambda k: german(f"{k}.0 ms;{milli(k)};3300.0 mV")),
    "a column of units": "Time (ms),Value,Unit,Voltage (V)\n" + rows(lambda k: f"{k},{milli(k).replace(' ', ',')},3.3"),
    "units of DC": "Time (ms),Reading,Unit,U (V)\n" + rows(lambda k: f"{k},{milli(k).replace(' ', ',')} DC,3.3"),
    "English thousands": "Time (ms),Current (uA),U (V)\n" + rows(lambda k: f'{k},"{AMPS[k] * 1e6:,.1f}",3.3'),
    "English thousands, no decimals": "Time (ms),Current (uA),U (V)\n" + rows(lambda k: f'{k},"{AMPS[k] * 1e6:,.0f}",3.3'),
    "English thousands between semicolons": "Time (ms);Current (mA);U (mV)\n" + rows(lambda k: f"{k}.0;{AMPS[k] * 1e3:.1f};3,300"),
    "German thousands": "Zeit (ms);Strom (uA);U (V)\n" + rows(lambda k: f"{k};{'1.000.000,0' if AMPS[k] == 1 else '150.000,0'};3,3"),
    "Swiss thousands": "Zeit (ms);Strom (uA);U (V)\n" + rows(lambda k: f"{k};{AMPS[k] * 1e6:,.1f};3.3".replace(",", "'")),
    "French thousands": "Temps (ms);Courant (uA);U (V)\n" + rows(lambda k: german(f"{k};{AMPS[k] * 1e6:,.0f};3.3".replace(",", "\u202f"))),
    "decimal commas in quotes": "Zeit (ms),Strom (mA),U (V)\n" + rows(lambda k: f'{k},"{AMPS[k] * 1e3:.1f}","3.3"'.replace(".", ",")),
}


@pytest.mark.parametrize("form", CELLS)
def test_a_cell_is_read_with_its_unit_and_its_marks(tmp_path: Path, form: str) -> None:
    picked = {"columns": columns(current="Value" if "Value" in CELLS[form] else "Reading")} if "Unit" in CELLS[form] else {}
    holds(opened(tmp_path, CELLS[form], **picked))


def test_the_unit_of_each_row_goes_before_that_of_the_command_line(tmp_path: Path) -> None:
    holds(opened(tmp_path, CELLS["a column of units"], columns=columns(current="Value:mA")))
    probe = "Time (ms),CH1\n" + rows(lambda k: f"{k},{AMPS[k] * 1000:.0f} mV")
    holds(opened(tmp_path, probe, columns=columns(current="CH1:A"), volts=VOLTS))  # 1 V/A


def test_a_row_of_another_quantity_is_an_error_with_its_line(tmp_path: Path) -> None:
    text = "Time (ms),Value,Unit\n" + rows(lambda k: f"{k},{AMPS[k]},A" if k != 7 else f"{k},3.3,V")
    with pytest.raises(WattbellError, match="line 9: V is no unit of a current"):
        samples(opened(tmp_path, text, columns=columns(current="Value"), volts=VOLTS))


def test_a_mark_that_may_be_of_thousands_or_of_decimals_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(WattbellError, match="1,500 may be 1500 or 1.500, and nothing in the file tells"):
        opened(tmp_path, "t_ms,i_ma,v_v\n" + rows(lambda k: f'{k},"{1500 + k:,}",3'))


@pytest.mark.parametrize("word", ["---O L---", "OL.", "Over Load", "-OVLD-", "O.FL", "*OL", "OL mA", "(null)", "N.A.", "BLANK", "NO DATA"])
def test_a_word_for_no_reading_in_any_spelling_is_a_gap(tmp_path: Path, word: str) -> None:
    waveform = opened(tmp_path, "t_ms,i_a,v_v\n" + rows(lambda k: f"{k},{word if k in (0, 7) else AMPS[k]},3.3"))
    assert missing(samples(waveform)[1]) == [0, 7] and waveform.left_out.without == 2


@pytest.mark.parametrize("word", ["OFF", "> 3 A", "0x7fff", "1.#J", "maybe"])
def test_another_word_is_an_error_with_its_line(tmp_path: Path, word: str) -> None:
    with pytest.raises(WattbellError, match=f"line 9: {word} is not a number"):
        samples(opened(tmp_path, "t_ms,i_a,v_v\n" + rows(lambda k: f"{k},{word if k == 7 else AMPS[k]},3.3")))


def test_a_line_without_a_time_among_times_of_day_is_one_error(tmp_path: Path) -> None:
    text = "Time,Current (A)\n" + rows(lambda k: f"22:13:20.{k:03d},{AMPS[k]}" if k != 7 else "oops,1")
    with pytest.raises(WattbellError, match=r"line 10: numbers behind a line of text \(oops,1\)|line 9: oops is no time"):
        samples(opened(tmp_path, text, volts=VOLTS))


def test_a_minus_sign_of_typography_is_one(tmp_path: Path) -> None:
    _, amps = samples(opened(tmp_path, "t_ms,i_a,v_v\n" + rows(lambda k: f"{k},\u2212{AMPS[k]},3.3")))
    np.testing.assert_allclose(amps, -np.array(AMPS), rtol=1e-6)


# -- times -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form",
    [
        "14-Nov-2023 22:13:{s:06.3f}",
        "14-11-2023 22:13:{s:06.3f}",
        "23/11/14 22:13:{s:06.3f}",
        "Nov 14 2023 22:13:{s:06.3f}",
        "Tue Nov 14 22:13:{s:06.3f} 2023",
        "Tue, 14 Nov 2023 22:13:{s:06.3f} GMT",
        "13:{s:06.3f}",
        "59:{s:06.3f}",
    ],
)
def test_a_time_of_another_form_counts_by_its_differences(tmp_path: Path, form: str) -> None:
    text = "Time;Current (A)\n" + rows(lambda k: form.format(s=20 + k / 1000) + f";{AMPS[k]}")
    waveform = opened(tmp_path, text, volts=VOLTS)
    holds(waveform)
    assert waveform.about.utc is None


def test_minutes_go_on_over_the_hour(tmp_path: Path) -> None:
    text = "Time,Current (A)\n" + rows(lambda k: f"{'59:59' if k < 20 else '00:00'}.{980 + k if k < 20 else k - 20:03d},{AMPS[k]}")
    holds(opened(tmp_path, text, volts=VOLTS))


def test_a_date_of_an_uncertain_form_may_not_change(tmp_path: Path) -> None:
    text = "Time,Current (A)\n" + rows(lambda k: f"{14 + k // 20}-11-2023 22:13:{20 + k},{AMPS[k]}")
    with pytest.raises(WattbellError, match="the date changes from 14-11-2023 to 15-11-2023; write dates as 2023-12-11"):
        samples(opened(tmp_path, text, volts=VOLTS))


@pytest.mark.parametrize(
    ("names", "fraction"),
    [
        ("Date,Time,Millisecond,I (A)", "{ms}"),
        ("Date,Time,Time(ms),I (A)", "{ms}"),
        ("Date,Time,Fractional Seconds,I (A)", "{s:.3f}"),
    ],
)
@pytest.mark.parametrize("start_ms", [0, 950], ids=["within a second", "over a second"])
def test_a_fraction_of_a_second_in_a_column_of_its_own_is_added(tmp_path: Path, names: str, fraction: str, start_ms: int) -> None:
    """40 rows 20 ms apart: whole seconds in one column, the rest in the next."""

    def row(k: int) -> str:
        whole, ms = divmod(start_ms + 20 * k, 1000)
        return f"2023/11/14,22:13:{20 + whole:02d},{fraction.format(ms=ms, s=ms / 1000)},{AMPS[k]}"

    holds(opened(tmp_path, f"{names}\n" + rows(row), volts=VOLTS), 20e-3)


def test_elapsed_milliseconds_beside_times_of_day_are_used_alone(tmp_path: Path) -> None:
    text = "Time,Elapsed (ms),I (A)\n" + rows(lambda k: f"22:13:{20 + k // 10},{100 * k},{AMPS[k]}")
    holds(opened(tmp_path, text, volts=VOLTS), 0.1)


@pytest.mark.parametrize(
    ("names", "first"),
    [(",time_s,current_a,voltage_v", 0), ("time_s,current_a,voltage_v", 1), ('"","time_s","current_a","voltage_v"', 1)],
    ids=["pandas", "R: a name less than columns", "a name that is empty"],
)
def test_numbers_of_rows_may_have_no_name(tmp_path: Path, names: str, first: int) -> None:
    holds(opened(tmp_path, f"{names}\n" + rows(lambda k: f"{k + first},{k / 1000},{AMPS[k]},3.3")))


def test_names_that_fit_no_column_are_not_shifted(tmp_path: Path) -> None:
    """A known fault of a program: 3 names stand above 4 columns, and the second column has none."""
    with pytest.raises(WattbellError, match="no line has names of its 4 columns"):
        opened(tmp_path, "time_s,current_a,voltage_v\n" + rows(lambda k: f"{k / 1000},777,{AMPS[k]},3.3"))


def test_a_fact_before_numbered_rows_is_not_their_names(tmp_path: Path) -> None:
    text = "Record Length,40\n" + rows(lambda k: f"{k},{AMPS[k]},3.3")
    with pytest.raises(WattbellError, match="no line has names of its 3 columns"):
        opened(tmp_path, text, interval_s=1e-3)
