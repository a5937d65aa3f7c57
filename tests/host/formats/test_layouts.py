"""CSV as scopes, supplies and loggers write it, from publications of their makers and users: small files of our own, one a kind.

All hold the same 40 readings, 1 ms apart: 0.15 A, but 1 A from the 11th to the 20th, at 3.3 V.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from wattbell.errors import CaptureError, UsageError, WattbellError
from wattbell.formats import Volts, Waveform, WaveformOptions, open_files
from wattbell.formats.waveform import NamedColumn

from .test_formats import missing, samples

COUNT = 40
AMPS = [1.0 if 10 <= k < 20 else 0.15 for k in range(COUNT)]
VOLTS = Volts(3.3, 0.05)


def rows(text: Callable[[int], str], end: str = "\n") -> str:
    return "".join(text(k) + end for k in range(COUNT))


def german(text: str) -> str:
    return text.replace(".", ",")


def columns(**names: str) -> dict[str, NamedColumn]:
    return {role: NamedColumn(*name.rsplit(":", 1)) if ":" in name else NamedColumn(name) for role, name in names.items()}


def opened(tmp_path: Path, text: str | bytes, **options: object) -> Waveform:
    path = tmp_path / "x.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return open_files([path], WaveformOptions(**options))[1]  # type: ignore[arg-type]


BOTH = columns(current="CH1:A", voltage="CH2:V")
FORMS: dict[str, tuple[str | bytes, dict[str, object]]] = {
    "Tektronix MSO: facts before the names, units in one of them": (
        "Model,MSO54\nHorizontal Units,s\nSample Interval,1e-3\nRecord Length,40\nVertical Units,A,V\n,,\nLabel,,\nTIME,CH1,CH2\n"
        + rows(lambda k: f"{(k - 20) / 1000:.6e},{AMPS[k]},3.3"),
        {},
    ),
    "Tektronix TDS: facts beside the rows, no names": (
        "".join(
            f"{fact},{k / 1000:.6f},{AMPS[k]:.5f},\n"
            for k, fact in enumerate(["Record Length,40,Points", "Sample Interval,1e-3,s"] + [",,"] * 38)
        ),
        {"columns": columns(time="4:s", current="5:A"), "volts": VOLTS},
    ),
    "Keysight InfiniiVision: a line of units behind names that are numbers": (
        "x-axis,1,2\nsecond,Volt,Volt\n" + rows(lambda k: f"{(k - 20) / 1000:.6E},{AMPS[k]},3.3"),
        {"columns": columns(current="1:A", voltage="2:V")},
    ),
    "LeCroy: times without a unit": (
        "LECROYWS3024,12345,Waveform\nSegments,1,SegmentSize,40\n#1,14-Nov-2023 22:13:20,0\nTime,Ampl\n"
        + rows(lambda k: f"{k / 1000:.6f},{AMPS[k]}"),
        {"columns": columns(time="Time:s", current="Ampl:A"), "volts": VOLTS},
    ),
    "Rigol DHO: the interval among the names": (
        "CH1V,CH2V,t0 = -3.000000e-02, tInc = 1.000000e-03,\n" + rows(lambda k: f"{AMPS[k]},3.3,,"),
        {"columns": BOTH},
    ),
    "Rigol DS1000Z: the interval in the line of units": (
        "X,CH1,CH2,Start,Increment,\nSequence,Volt,Volt,0.0e+00,1.0e-03,\n" + rows(lambda k: f"{k},{AMPS[k]},3.3,"),
        {"columns": BOTH},
    ),
    "Siglent: key and values before a second line of names": (
        "Record Length,Analog:40,\nSample Interval,Analog:1.0E-03,\nVertical Units,CH1:A,CH2:V,,\nSource,CH1,CH2,,\nSecond,Value,Value\n"
        + rows(lambda k: f"{(k - 20) / 1000:E},{AMPS[k]:+E},+3.3E+00"),
        {},
    ),
    "Rohde & Schwarz: units behind in": ("in s,CH1 in A,CH2 in V\n" + rows(lambda k: f"{k / 1000},{AMPS[k]},3.3"), {}),
    "PicoScope in German: units in brackets, an empty line": (
        "Time;Channel A;Channel B\n(ms);(mA);(V)\n\n" + rows(lambda k: german(f"{k}.0;{AMPS[k] * 1000};3.3")),
        {},
    ),
    "a line of units behind names that end like units": (
        "Time,Out A,Out V\n(ms),(mA),(mV)\n" + rows(lambda k: f"{k},{AMPS[k] * 1000},3300"),
        {},
    ),
    "Windows-1252": (("Zeit (ms);Strom (µA)\n" + rows(lambda k: german(f"{k}.0;{AMPS[k] * 1e6}"))).encode("cp1252"), {"volts": VOLTS}),
    "UTF-16 without a mark, sep=": (
        ("sep=;\r\nZeit [ms];Strom [µA]\r\n" + rows(lambda k: german(f"{k}.0;{AMPS[k] * 1e6}"), "\r\n")).encode("utf-16-le"),
        {"volts": VOLTS},
    ),
    "UTF-16 with a mark, tabs": (("time_ms\tcurrent_a\tu_v\n" + rows(lambda k: f"{k}\t{AMPS[k]}\t3.3")).encode("utf-16"), {}),
    "times of day over midnight": (
        "Time;Current (mA);Voltage (V)\n"
        + rows(lambda k: f"{f'23:59:59,{980 + k:03d}' if k < 20 else f'00:00:00,{k - 20:03d}'};{AMPS[k] * 1000};3.3"),
        {},
    ),
    "a date and a time": (
        "Date;Time;Current [A];Voltage [V]\n" + rows(lambda k: f"14.11.2023;22:13:20.{k:03d};{AMPS[k]};3.3"),
        {},
    ),
    "American dates": (
        "Sample,Date/Time,Reading (A)\n" + rows(lambda k: f"{k},11/14/2023 10:13:20.{k:03d} PM,{AMPS[k]}"),
        {"volts": VOLTS},
    ),
    "columns of spaces": ("t_s   v_v   i_a\n" + rows(lambda k: f"  {k / 1000:.3f}   3.300  {AMPS[k]:6.3f}"), {}),
    "a rate and one column": ("# Sampling rate: 1 kHz\nCurrent (mA)\n" + rows(lambda k: f"{AMPS[k] * 1000}"), {"volts": VOLTS}),
    "an interval with its unit": ("Sample Interval (ms): 1\nIndex,Current (A),Voltage (V)\n" + rows(lambda k: f"{k},{AMPS[k]},3.3"), {}),
    "a stated interval": ("Index,Current (A),Voltage (V)\n" + rows(lambda k: f"{k},{AMPS[k]},3.3"), {"interval_s": 1e-3}),
    "a unit behind a slash": ("Time/ms,Current/mA,Voltage/V\n" + rows(lambda k: f"{k},{AMPS[k] * 1000},3.3"), {}),
    "units in the place of names": ("s,A,V\n" + rows(lambda k: f"{k / 1000},{AMPS[k]},3.3"), {}),
    "a counter that is called the time, beside an interval in the file": (
        "Sample interval: 1e-3\nSample,Current (A),Voltage (V)\n" + rows(lambda k: f"{k},{AMPS[k]},3.3"),
        {"columns": columns(time="Sample:s")},
    ),
    "the power of something else beside a current that is chosen": (
        "t_s,I1 (A),I2 (A),V (V),Total (W),power_w\n" + rows(lambda k: f"{k / 1000},{AMPS[k]},7,3.3,99,88"),
        {"columns": columns(current="I1 (A)")},
    ),
    "several powers beside one current": (
        "t_s,I (A),V (V),P1 (W),P2 (W)\n" + rows(lambda k: f"{k / 1000},{AMPS[k]},3.3,99,88"),
        {},
    ),
    "no names, decimal commas": (
        rows(lambda k: german(f"{k / 1000};{AMPS[k]};3.3")),
        {"columns": columns(time="1:s", current="2:A", voltage="3:V")},
    ),
    "two columns of one name": (
        "Time,Volts,Volts\n" + rows(lambda k: f"{k / 1000},{AMPS[k]},3.3"),
        {"columns": columns(time="Time:s", current="2:A", voltage="3:V")},
    ),
    "a logger that began again, comments and empty lines": (
        "time_s,voltage_v,current_a\n"
        + rows(lambda k: f"{k / 1000},3.3,{AMPS[k]}" + "\n# again\ntime_s,voltage_v,current_a\n\n" * (k == 12)),
        {},
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_it_is_read(tmp_path: Path, form: str) -> None:
    text, options = FORMS[form]
    waveform = opened(tmp_path, text, **options)
    v, i = samples(waveform)
    assert waveform.about.interval_s == pytest.approx(1e-3, rel=1e-6)
    np.testing.assert_allclose(i, AMPS, rtol=1e-5)
    np.testing.assert_allclose(v, 3.3, rtol=1e-5)


@pytest.mark.parametrize(
    ("text", "options", "asked"),
    [
        ("Index,Current (A),Voltage (V)\n" + rows(lambda k: f"{k},{AMPS[k]},3.3"), {}, "no column of times.*--interval"),
        ("t_s,Ampl\n" + rows(lambda k: f"{k},{AMPS[k]}"), {"volts": VOLTS}, "no column for current or power among t_s, Ampl"),
        ("Time,I (A)\n" + rows(lambda k: f"{k},{AMPS[k]}"), {"volts": VOLTS}, "Time states no unit; say --column time=Time:UNIT"),
        ("t_s,I (A)\n" + rows(lambda k: f"{k},{AMPS[k]}"), {}, "no voltage: .*--volts"),
        ("t_s,I (A),Aux\n" + rows(lambda k: f"{k},{AMPS[k]},3.3"), {}, r"--volts .* or say which of its columns it is \(t_s, I"),
        ("Time (s),Channel A,Channel B\n" + rows(lambda k: f"{k},{AMPS[k]},3.3"), {}, "no column for current or power"),
        ("Time (s),Main Current (A),Aux Current (A)\n" + rows(lambda k: f"{k},{AMPS[k]},3.3"), {}, "2 columns could be the current"),
        ("Sample interval: 1e-3\nI (A)\n" + rows(lambda k: f"{AMPS[k]}"), {"volts": VOLTS, "interval_s": 2e-3}, "line 1 says 0.001 s"),
        ("t_s,I (A)\n" + rows(lambda k: f"{k},{AMPS[k]}"), {"volts": VOLTS, "interval_s": 2e-3}, "--interval has no effect"),
        ("t_s,I_a,V_v\n" + rows(lambda k: german(f"{k / 1000:.3f}") + german(f",{AMPS[k]},3.3")), {}, "6 fields under 3"),
        ("t;I_a;V_v\n" + rows(lambda k: f"1/2/2023 22:13:20.{k:03d};{AMPS[k]};3.3").replace("1/2", "1/3", 1), {}, "read in two ways"),
    ],
)
def test_the_one_fact_that_is_missing_is_asked_for(tmp_path: Path, text: str, options: dict[str, object], asked: str) -> None:
    with pytest.raises(WattbellError, match=asked):
        samples(opened(tmp_path, text, **options))


@pytest.mark.parametrize(
    "word", ["OVLD", "OL", " ol ", "9.91E+37", "-9.9E37", "+9.900000E+37", "9.9E37", "inf", "-inf", "NaN", "O.L", "1.#INF", "", "---"]
)
@pytest.mark.parametrize("unit, scale", [("a", 1.0), ("ma", 1e3)])
def test_what_stands_for_no_reading_is_a_gap_with_a_count(tmp_path: Path, word: str, unit: str, scale: float) -> None:
    text = f"time_s,voltage_v,current_{unit}\n" + rows(lambda k: f"{k / 1000},3.3,{word if k in (7, 30) else AMPS[k] * scale}")
    waveform = opened(tmp_path, text)
    _, i = samples(waveform)
    assert missing(i) == [7, 30] and np.nanmax(i) == 1 and waveform.left_out.without == 2
    assert "2 samples had no number" in waveform.left_out.notes()[0]


@pytest.mark.parametrize("volts, amps", [("3.3", "21"), ("3.3", "-21"), ("26", "0.1"), ("-2", "0.1"), ("3.3", "1e6")])
def test_what_no_rail_can_have_is_a_gap_with_a_count(tmp_path: Path, volts: str, amps: str) -> None:
    text = "time_s,voltage_v,current_a\n" + rows(lambda k: f"{k / 1000},{volts},{amps}" if k == 7 else f"{k / 1000},3.3,{AMPS[k]}")
    waveform = opened(tmp_path, text)
    assert missing(samples(waveform)[1]) == [7]
    assert "1 sample (" in waveform.left_out.notes()[0] and "beyond what the rail of an SSD can have" in waveform.left_out.notes()[0]


@pytest.mark.parametrize(
    ("text", "options", "limit", "inside", "whose"),
    [
        ("Timestamp(ms),Current(uA)\n", {"volts": VOLTS}, 1_001_000.0, 999_000.0, "a PPK2"),
        ("Measured with INA219\nt_ms,bus_v,i_ua\n", {"columns": columns(voltage="bus_v")}, 20_100_000.0, 3_200_000.0, "an INA2xx"),
        ("Time(ms),Main(mA),Main Voltage(V)\n", {}, 7_100.0, 5_900.0, "a Monsoon"),
        ("Time uS,3.3V current uA,3.3V voltage mV\n", {}, 21_000_000.0, 15_000_000.0, "a Quarch module"),
        ("#time,current,voltage,power,charge,energy\n", {}, 13.0, 9.9, "a Joulescope"),
        ('"Timestamp","Value"\n', {"volts": VOLTS, "columns": columns(current="x.csv")}, 5.6, 4.9, "an Otii"),
        ("marker time dt_micro device_timestamp current0 voltage0 power0 power_total\n", {}, 56.0, 49.0, "a PowerSensor3"),
    ],
)
def test_each_instrument_has_its_range(
    tmp_path: Path, text: str, options: dict[str, object], limit: float, inside: float, whose: str
) -> None:
    row: dict[str, Callable[[int, float], str]] = {
        "a PPK2": lambda k, i: f"{k},{i}",
        "an INA2xx": lambda k, i: f"{k},3.3,{i}",
        "a Monsoon": lambda k, i: f"{k},{i},3.3",
        "a Quarch module": lambda k, i: f"{k * 4},{i:.0f},3300",
        "a Joulescope": lambda k, i: f"{k * 0.5},{i},3.3,{i * 3.3},0,0",
        "an Otii": lambda k, i: f"{k / 1000:.6f},{i}",
        "a PowerSensor3": lambda k, i: f"S {k * 5e-5:g} 50 {k * 50 % 1024} {i} 3.3 {i * 3.3} {i * 3.3}",
    }
    path = tmp_path / "x.csv"
    path.write_text(text + rows(lambda k: row[whose](k, limit if k == 7 else inside if k == 9 else 0.0)))
    _, waveform = open_files([path], WaveformOptions(**options))  # type: ignore[arg-type]
    assert missing(samples(waveform)[1]) == [7]
    assert f"beyond what {whose}" in waveform.left_out.notes()[0]


def test_a_file_whose_unit_is_wrong_is_refused_and_not_emptied(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"40 of 40 samples, such as 1000 A, .* --column current=NAME:mA"):
        samples(opened(tmp_path, "time_s,voltage_v,current_a\n" + rows(lambda k: f"{k / 1000},3.3,{AMPS[k] * 1000}")))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("Probe Attenuation,CH1:1X,CH2:10X", True),
        ("Probe Atten,1.000000E+01", True),
        ("Probe Ratio: 10:1", True),
        ("Tastkopf;100", True),
        ("Probe Attenuation,1.000000E+00,1", False),
        ("Probe,CH10", False),
        ("Sample Count,40", False),
    ],
)
def test_a_probe_that_the_file_states_is_told_and_changes_nothing(tmp_path: Path, line: str, told: bool) -> None:
    text = f"{line}\nTime (s),Current (A),Voltage (V)\n" + rows(lambda k: f"{k / 1000:.3f},{AMPS[k]},3.3")
    made = opened(tmp_path, text)
    volts, amps = samples(made)
    assert np.allclose(volts, 3.3) and np.allclose(amps, AMPS)
    notes = [note for note in made.about.notes if "probe" in note]
    assert len(notes) == told and all(line in note and "taken as they are" in note for note in notes)


def test_rows_that_share_a_time_are_spread_to_the_next_time(tmp_path: Path) -> None:
    text = "time_s,voltage_v,current_a\n" + rows(lambda k: f"{k // 4 * 4 / 1000:.3f},3.3,{AMPS[k]}")
    waveform = opened(tmp_path, text)
    np.testing.assert_allclose(samples(waveform)[1], AMPS, rtol=1e-6)
    assert waveform.about.interval_s == pytest.approx(1e-3) and any("30 of 40 rows share the time" in note for note in waveform.about.notes)


def uneven(tmp_path: Path, times: list[float], amps: list[float | str]) -> Waveform:
    return opened(tmp_path, "time_s,voltage_v,current_a\n" + "".join(f"{t:.6f},2,{i}\n" for t, i in zip(times, amps, strict=True)))


def test_energy_at_uneven_times_is_that_of_trapezoids(tmp_path: Path) -> None:
    """Worked out by hand: steps of 1, 3, 2, 1, 3, 2 s ... with 1 A and 3 A by turns: each step has 2 A on the average, 4 W."""
    times = [float(t) for t in np.cumsum([0, 1, 3, 2] + [1, 3, 2] * 20)]
    waveform = uneven(tmp_path, times, [1 if k % 2 else 3 for k in range(len(times))])
    v, i = samples(waveform)
    assert waveform.about.interval_s == 2.0 and waveform.about.span == int(times[-1] / 2)
    assert not missing(i)
    assert float((v.astype(float) * i).sum()) * 2.0 == pytest.approx(4 * (times[-1] // 2 * 2), rel=0.01)
    assert waveform.about.grid_s == 1.0  # half of 3 s is 1.5 s; no more than a second is told here
    assert v == pytest.approx(2)


def test_a_hole_in_uneven_times_is_a_gap_and_so_is_a_reading_of_overload(tmp_path: Path) -> None:
    steps = [0.0, 0.1, 0.3, 0.2] + [0.1, 0.3, 0.2] * 5 + [2.0] + [0.1, 0.3, 0.2] * 5
    times = np.cumsum(steps).tolist()
    amps: list[float | str] = [0.5] * len(times)
    amps[-5] = "OL"
    waveform = uneven(tmp_path, times, amps)
    _, i = samples(waveform)
    centre = (np.arange(waveform.about.span) + 0.5) * waveform.about.interval_s
    hole = (centre > times[18] + 0.1) & (centre < times[19] - 0.1)
    bad = (centre > times[-6] + 0.1) & (centre < times[-4] - 0.1)
    assert np.isnan(i[hole | bad]).all() and bad.sum() > 0
    there = ~np.isnan(i)
    assert i[there] == pytest.approx(0.5) and there.sum() >= 30
    assert waveform.left_out.without == 1 and any("1 step of more than four times" in note for note in waveform.about.notes)


def test_uneven_times_that_go_back_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"line 6: the time goes backwards by 0\.5 s"):
        uneven(tmp_path, [0.0, 0.1, 0.1, 1.0, 0.5, 1.7], [1] * 6)


def test_times_with_a_zone_are_times_of_day(tmp_path: Path) -> None:
    text = "timestamp,current_a,voltage_v\n" + rows(lambda k: f"2023-11-14T23:13:20.{k:03d}+01:00,{AMPS[k]},3.3")
    utc = opened(tmp_path, text).about.utc
    assert utc is not None and utc.ns.tolist() == [1_700_000_000_000_000_000]
    about = opened(tmp_path, text.replace("+01:00", "")).about
    assert about.utc is None and any("no zone" in note for note in about.notes)


def test_what_no_format_is_told_by_name(tmp_path: Path) -> None:
    path = tmp_path / "x.xlsx"
    for inside, said in (("[Content_Types].xml", "workbook"), ("meta.json", "Saleae"), ("x", "neither a sigrok session nor a PPK2")):
        with zipfile.ZipFile(path, "w") as out:
            out.writestr(inside, "x")
        with pytest.raises(CaptureError, match=said):
            open_files([path], WaveformOptions())


def test_a_recording_of_the_old_power_profiler_is_told_by_name(tmp_path: Path) -> None:
    bson = (22).to_bytes(4, "little") + b"\x10version\0\1\0\0\0" + b"\x08a\0\1" + b"\0"
    squeeze = zlib.compressobj(wbits=-15)
    path = tmp_path / "x.ppk"
    path.write_bytes(squeeze.compress(bson + bytes(1000)) + squeeze.flush())
    with pytest.raises(CaptureError, match=r"\(.ppk\); open it in nRF Connect Power Profiler"):
        open_files([path], WaveformOptions())


def test_an_interval_of_no_use_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--interval has no effect"):
        opened(tmp_path, "time_s,voltage_v,current_a\n" + rows(lambda k: f"{k / 1000},3.3,{AMPS[k]}"), interval_s=1e-3)
