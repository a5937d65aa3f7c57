"""Tables of instruments with more than numbers around them: settings, words in each row, text behind the rows, damage by a power cut.

All hold the readings of :mod:`.test_odd_tables`: 30 of 0.495 W and 10 of 3.3 W; 47.85 mW s at 1 ms, by hand.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from wattbell.errors import WattbellError

from .test_formats import samples
from .test_layouts import AMPS, columns, opened, rows
from .test_odd_tables import VOLTS, holds

TABLE = "time_s,current_a,voltage_v\n" + rows(lambda k: f"{k / 1000},{AMPS[k]},3.3")

FORMS: dict[str, tuple[str, dict[str, object]]] = {
    "Tektronix MDO: settings of channels look like rows": (
        "Model,MDO3024\nSample Interval,0.001,,,\nVertical Offset,0,0,,\nVertical Scale,0.2,1,,\nVertical Position,-3,-2,,\n,,,,\n"
        "TIME,CH1,CH1 Peak Detect,CH2,CH2 Peak Detect\n" + rows(lambda k: f"{k / 1000 - 0.02:.6e},{AMPS[k]},9,3.3,9"),
        {"columns": columns(time="TIME:s", current="CH1:A", voltage="CH2:V")},
    ),
    "a logger: a table of settings, as wide as the rows": (
        "Channel,Name,Range,Gain,Offset\n"
        + "".join(f"{n},ch{n},2.0,10,0.5\n" for n in range(1, 9))
        + "\nTime (s),Current (A),Voltage (V),a,b\n"
        + rows(lambda k: f"{k / 1000},{AMPS[k]},3.3,0,0"),
        {},
    ),
    "Keithley 2450: most fields of a row are words": (
        "Model,2450\nSerial,0\n\nIndex,Reading,Unit,Range,Math,Start,Limit1,Terminal,Origin,Value,Unit,Output,Date,Time,Relative Time\n"
        + rows(lambda k: f"{k + 1},{AMPS[k]},Amp DC,6,F,F,F,Front,Main,3.3,Volt DC,T,11/14/2023,22:13:20,{k / 1000:.6f}"),
        {"columns": columns(time="Relative Time:s"), "volts": VOLTS},
    ),
    "UNI-T: words and units": (
        "No.,Time,DC/AC,Value,Unit,Auto\n" + rows(lambda k: f"{k + 1},22:13:20.{k:03d},DC,{AMPS[k] * 1000:.1f},mA,Manual"),
        {"volts": VOLTS},
    ),
    "PeakTech: a unit behind each number, no names": (
        rows(lambda k: f"{k / 1000:.4f}, s, {AMPS[k]}, A"),
        {"columns": columns(time="1:s", current="3:A"), "volts": VOLTS},
    ),
    "DSView: names that are numbers": (
        "; CSV\nTime(s), 0, 1\n" + rows(lambda k: f"{k / 1000},{AMPS[k]},3.3"),
        {"columns": columns(time="1:s", current="2:A", voltage="3:V")},
    ),
    "GW Instek: one column, and units of both axes": (
        "Memory Length,40\nVertical Units,A\nHorizontal Units,S\nSampling Period,1.000E-03\nWaveform Data,\n"
        + rows(lambda k: f"{AMPS[k]},"),
        {"columns": columns(current="1:A"), "volts": VOLTS},
    ),
    "HWiNFO: the names again, and a line of devices behind the rows": (
        'Date,Time,"Drive Temperature [C]","SSD Power [W]",\n'
        + rows(lambda k: f"14.11.2023,22:13:20.{k:03d},35,{AMPS[k] * 3.3:.4f},")
        + 'Date,Time,"Drive Temperature [C]","SSD Power [W]",\n,,"Drive: X","Drive: X",\n',
        {"volts": VOLTS},
    ),
    "a logger with the name that a PPK2 gives its times": (
        "Timestamp(ms),Current(mA),Voltage(V)\n" + rows(lambda k: f"{k},{AMPS[k] * 1000},3.3"),
        {},
    ),
    "a meter of 3 A with a PPK2's names and a voltage": (
        "Timestamp(ms),Current(uA),Voltage(mV)\n" + rows(lambda k: f"{k},{AMPS[k] * 1e6},3300"),
        {},
    ),
    "a data base with an Otii's names and times of day": (
        '"Timestamp","Value"\n' + rows(lambda k: f"2023-11-14T22:13:20.{k:03d}Z,{AMPS[k]}"),
        {"columns": columns(current="Value:A"), "volts": VOLTS},
    ),
    "line ends of old Macs": (TABLE.replace("\n", "\r"), {}),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_rows_are_found(tmp_path: Path, form: str) -> None:
    text, options = FORMS[form]
    holds(opened(tmp_path, text, **options))


def test_names_stand_above_every_column_or_are_none(tmp_path: Path) -> None:
    """Two fields of a fact are no names of the second and third column."""
    text = '"VUnit","A","V"\n"HUnit","s"\n' + rows(lambda k: f",{AMPS[k]},3.3")
    holds(opened(tmp_path, text, columns=columns(current="A:A", voltage="V:V"), interval_s=1e-3))


@pytest.mark.parametrize("cut", [2, 3, 5, 9])
def test_a_last_row_without_an_end_is_left_out(tmp_path: Path, cut: int) -> None:
    """``0.039,0.15,3.3`` without its last two letters is ``0.039,0.15,3``: a voltage that was never measured."""
    waveform = opened(tmp_path, TABLE[:-cut])
    volts, amps = samples(waveform)
    assert waveform.about.span == 39 and volts.tolist() == pytest.approx([3.3] * 39) and amps.tolist() == pytest.approx(AMPS[:39])
    assert any("the last line of the file has no end: it is left out" in note for note in waveform.about.notes)


def test_a_last_row_with_all_its_decimals_is_whole(tmp_path: Path) -> None:
    """Editors and scripts leave out the last line's end; ``3.3`` below 39 numbers with one decimal is not cut."""
    waveform = opened(tmp_path, TABLE[:-1])
    holds(waveform)
    assert not any("no end" in note for note in waveform.about.notes)


@pytest.mark.parametrize("last", ["150", "0.15"])
def test_a_last_number_that_may_be_cut_is_left_out(tmp_path: Path, last: str) -> None:
    """``150`` may be a part of ``1500``; ``0.15`` of ``0.1504``, where other rows have more decimals."""
    body = rows(lambda k: f"{k / 1000},3.3,{1500 if last == '150' else 0.1504 if k % 2 else 0.15}")
    names = "time_s,voltage_v,current_ma\n" if last == "150" else "time_s,voltage_v,current_a\n"
    waveform = opened(tmp_path, names + body.rpartition("\n")[0].rpartition(",")[0] + f",{last}")
    assert waveform.about.span == 39
    assert any("the last line of the file has no end: it is left out" in note for note in waveform.about.notes)


def test_text_behind_the_rows_needs_no_end(tmp_path: Path) -> None:
    waveform = opened(tmp_path, TABLE + "# stopped by the user")
    holds(waveform)
    assert not any("no end" in note for note in waveform.about.notes)


@pytest.mark.parametrize("where", [len(TABLE), len(TABLE) // 2])
def test_zeros_of_a_power_cut_are_told_with_their_line(tmp_path: Path, where: int) -> None:
    data = TABLE[:where].encode() + b"\0" * 512 + TABLE[where:].encode()
    with pytest.raises(WattbellError, match=rf"line {TABLE[:where].count(chr(10)) + 1}: a byte of zeros.*Copy it again"):
        opened(tmp_path, data)


def test_a_current_that_was_measured_the_wrong_way_round(tmp_path: Path) -> None:
    text = "time_s,current_a,voltage_v\n" + rows(lambda k: f"{k / 1000},{-AMPS[k]},3.3")
    waveform = opened(tmp_path, text)
    samples(waveform)
    (note,) = waveform.left_out.notes()
    assert "the mean power is -1.2 W" in note and "--column current=NAME:-A" in note  # -47.85 mW s in 40 ms
    turned = opened(tmp_path, text, columns=columns(current="current_a:-A"))
    holds(turned)
    assert turned.left_out.notes() == []


def test_the_offset_of_a_meter_is_no_wrong_way_round(tmp_path: Path) -> None:
    waveform = opened(tmp_path, "time_s,current_a,voltage_v\n" + rows(lambda k: f"{k / 1000},-0.001,3.3"))
    samples(waveform)
    assert waveform.left_out.notes() == []
