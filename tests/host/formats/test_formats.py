"""Every format, from files written by others' layouts (:mod:`.files`) to samples on a grid."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyjls
import pytest
from wattbell.errors import CaptureError, UsageError
from wattbell.formats import Volts, Waveform, WaveformOptions, open_files
from wattbell.formats.waveform import NamedColumn, ticks

from . import files

VOLTS = WaveformOptions(volts=Volts(3.3, 0.05))
RNG = np.random.default_rng(22)


def opened(*paths: Path, options: WaveformOptions = VOLTS, name: str | None = None) -> tuple[str, Waveform]:
    kind, waveform = open_files(list(paths), options, name)
    return kind.name, waveform


def samples(waveform: Waveform) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """(V, A) of the whole grid; NaN where nothing came."""
    voltage, current = (np.full(waveform.about.span, np.nan, np.float32) for _ in range(2))
    for source in waveform.sources():
        begin = 0
        for tick, count in zip(source.first_tick.tolist(), source.count.tolist(), strict=True):
            assert tick % waveform.about.interval_ticks == 0
            place = tick // waveform.about.interval_ticks
            voltage[place : place + count] = source.voltage_v[begin : begin + count]
            current[place : place + count] = source.current_a[begin : begin + count]
            begin += count
        assert begin == len(source.current_a) == len(source.voltage_v)
    return voltage, current


def missing(values: npt.NDArray[np.float32]) -> list[int]:
    return np.flatnonzero(np.isnan(values)).tolist()


def test_jls_signals_are_laid_over_each_other_and_gaps_stay_gaps(tmp_path: Path) -> None:
    n = 300_000
    current, voltage = RNG.uniform(0, 2, n), RNG.uniform(3.2, 3.4, n)
    path = files.jls(
        tmp_path / "x.jls",
        1_000_000,
        {"current": ("A", current), "voltage": ("V", voltage)},
        start={"current": 5000, "voltage": 5300},
        utc=[(6000, 1.7e9), (250_000, 1.7e9 + 0.244)],
        gap=(1000, 1500),
    )
    name, waveform = opened(path, options=WaveformOptions())
    about = waveform.about
    assert (name, about.instrument, about.serial) == ("jls", "Jetperch JS220", "001122")
    assert (about.interval_s, about.span) == (1e-6, n - 300)
    v, i = samples(waveform)
    # the voltage began 300 samples later: place k is sample k + 300 of the current and k of the voltage
    there = ~np.isnan(i)
    np.testing.assert_array_equal(i[there], current.astype(np.float32)[300:][there])
    np.testing.assert_array_equal(v[there], voltage.astype(np.float32)[: n - 300][there])
    assert missing(i) == [*range(700, 1500)]  # 1000..1499 of either
    assert about.utc is not None and about.utc.index.tolist() == [700, 244_700]
    assert abs(int(about.utc.ns[0]) - 1_700_000_000_000_000_000) < 1000


def test_jls_power_counts_more_than_the_product_of_means(tmp_path: Path) -> None:
    current, voltage = np.full(5000, 0.5), np.full(5000, 3.0)
    path = files.jls(tmp_path / "x.jls", 1000, {"current": ("A", current), "voltage": ("V", voltage), "power": ("W", np.full(5000, 1.8))})
    v, i = samples(opened(path, options=WaveformOptions())[1])
    assert (v * i)[100] == pytest.approx(1.8)


def test_jls_without_voltage_or_in_milliamperes(tmp_path: Path) -> None:
    path = files.jls(tmp_path / "x.jls", 1000, {"current": ("mA", np.full(5000, 500.0))})
    v, i = samples(opened(path)[1])
    assert (v[0], i[0]) == (np.float32(3.3), np.float32(0.5))
    with pytest.raises(CaptureError, match="--volts"):
        opened(path, options=WaveformOptions())


def test_jls_integers_are_refused(tmp_path: Path) -> None:
    path = files.jls(tmp_path / "x.jls", 1000, {"current": ("A", np.zeros(5000))}, kind=pyjls.DataType.I16)
    with pytest.raises(CaptureError, match="integers"):
        opened(path)


def test_a_cut_jls_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = files.jls(tmp_path / "x.jls", 1000, {"current": ("A", np.zeros(50_000)), "voltage": ("V", np.zeros(50_000))})
    whole = path.read_bytes()
    for length in (10, 30, len(whole) // 2, len(whole) - 8):
        path.write_bytes(whole[:length])
        with pytest.raises(CaptureError, match="cut|no JLS|beginning"):
            opened(path, name="jls")
        assert path.read_bytes() == whole[:length]  # pyjls would have "repaired" it


def test_jls_whose_times_of_day_jump_is_read_without_them_and_says_so(tmp_path: Path) -> None:
    signals = {"current": ("A", np.zeros(5000)), "voltage": ("V", np.zeros(5000))}
    path = files.jls(tmp_path / "x.jls", 1000, signals, utc=[(0, 1.7e9), (1000, 1.7e9 + 1), (2000, 1.7e9 + 62)])
    about = opened(path, options=WaveformOptions())[1].about
    assert about.utc is None
    assert any("60 s lie between samples 1000 and 2000" in note and "all 3 of them are left out" in note.lower() for note in about.notes)


def test_ppk2_rows_that_are_missing_are_gaps(tmp_path: Path) -> None:
    current = RNG.uniform(0, 900_000, 400)
    name, waveform = opened(files.ppk2(tmp_path / "a.csv", current.tolist(), lost=[5, 6, 7, 100]))
    v, i = samples(waveform)
    assert name == "ppk2" and missing(i) == [5, 6, 7, 100] and waveform.about.interval_s == 1e-5
    there = ~np.isnan(i)
    np.testing.assert_allclose(i[there], current[there] * 1e-6, rtol=1e-6, atol=1e-9)
    assert set(v[there].tolist()) == {float(np.float32(3.3))}
    with pytest.raises(CaptureError, match="--volts"):
        opened(tmp_path / "a.csv", options=WaveformOptions())


@pytest.mark.parametrize("unit, step, every_s", [("uS", 4, 4e-6), ("nS", 4000, 4e-6), ("uS", 128, 128e-6)])
def test_quarch(tmp_path: Path, unit: str, step: int, every_s: float) -> None:
    voltage, current = RNG.integers(3200, 3400, 300).tolist(), RNG.integers(0, 2_000_000, 300).tolist()
    remark = "Warning: Max file size exceeded before end of stream."
    path = files.quarch(tmp_path / "q.csv", voltage, current, step=step, unit=unit, lost=[10], remark=remark)
    name, waveform = opened(path, options=WaveformOptions())
    v, i = samples(waveform)
    assert name == "quarch" and waveform.about.interval_s == pytest.approx(every_s) and missing(i) == [10]
    there = ~np.isnan(i)
    np.testing.assert_allclose(v[there], np.array(voltage)[there] * 1e-3, rtol=1e-6)
    np.testing.assert_allclose(i[there], np.array(current)[there] * 1e-6, rtol=1e-6)
    assert any("Max file size" in note for note in waveform.about.notes) and waveform.about.conditions["rail"] == "3.3V"
    v, i = samples(opened(path, options=WaveformOptions(rail="12V"))[1])
    assert (v[0], i[0]) == (12.0, np.float32(5e-6))


def test_quarch_of_old_numbers_its_stripes(tmp_path: Path) -> None:
    path = tmp_path / "old.csv"
    path.write_text(
        "StripeNum, Trig, 3V3_V, 3V3_I, 12V_V, 12V_I\n" + "".join(f"{n},0,3300,{n * 10},12000,1\n" for n in range(50) if n != 20)
    )
    with pytest.raises(UsageError, match="--interval"):
        opened(path)
    _, waveform = opened(path, options=WaveformOptions(interval_s=16e-6))
    v, i = samples(waveform)
    assert missing(i) == [20] and waveform.about.interval_s == 16e-6 and (v[3], i[3]) == (np.float32(3.3), np.float32(30e-6))


def test_powersensor3_is_placed_by_the_device_and_not_by_the_host(tmp_path: Path) -> None:
    volts, amps = np.full(30_000, 3.3), np.linspace(0, 2, 30_000)
    lost = range(20_000, 20_100)  # 5 ms: more than four turns of the device's counter
    path = files.powersensor3(tmp_path / "dump", volts, amps, lost=lost, stall=3000)
    name, waveform = opened(path, options=WaveformOptions(rail="0"))
    _, i = samples(waveform)
    assert name == "powersensor3" and waveform.about.interval_s == pytest.approx(50e-6) and waveform.about.span == 30_000
    assert missing(i) == [*lost]
    there = ~np.isnan(i)
    np.testing.assert_allclose(i[there], amps[there], rtol=1e-5, atol=1e-6)
    with pytest.raises(CaptureError, match=r"several rails \(0, 2\)"):
        opened(path)


def test_powersensor3_with_utc(tmp_path: Path) -> None:
    path = files.powersensor3(tmp_path / "dump", np.full(100, 3.3), np.ones(100), absolute=1.7e9)
    utc = opened(path, options=WaveformOptions(rail="pair 2"))[1].about.utc
    assert utc is not None and abs(int(utc.ns[0]) - 1_700_000_000_000_200_000) < 1000


def test_otii_channels_of_two_rates(tmp_path: Path) -> None:
    current, voltage = RNG.uniform(0, 1, 4000), RNG.uniform(3.2, 3.4, 1000)
    a = files.otii(tmp_path / "Main current.csv", 0.25e-3, current.tolist())
    b = files.otii(tmp_path / "Main voltage.csv", 1e-3, voltage.tolist())
    name, waveform = opened(a, b, options=WaveformOptions())
    v, i = samples(waveform)
    assert name == "otii" and waveform.about.interval_s == 0.25e-3 and not missing(i)
    np.testing.assert_allclose(i, current, atol=1e-8)
    np.testing.assert_allclose(v, np.repeat(voltage, 4), rtol=1e-6)  # a sample of the voltage stands until the next one
    short = files.otii(tmp_path / "Main voltage.csv", 1e-3, voltage[:900].tolist())
    with pytest.raises(CaptureError, match=r"differ in length: 900 and 4000 rows"):
        opened(a, short)


def test_an_option_that_a_file_has_no_use_for_is_refused(tmp_path: Path) -> None:
    plain = tmp_path / "plain.csv"
    plain.write_text("time_s,voltage_v,current_a\n" + "".join(f"{n * 1e-3:.3f},3.3,0.5\n" for n in range(50)))
    dump = files.powersensor3(tmp_path / "dump", np.full(100, 3.3), np.ones(100))
    quarch = files.quarch(tmp_path / "q.csv", [3300] * 50, [100] * 50)
    ppk2, otii = files.ppk2(tmp_path / "p.csv", [5.0] * 50), files.otii(tmp_path / "Main current.csv", 1e-3, [0.5] * 10)
    volts, column = VOLTS.volts, {"current": NamedColumn("x.csv")}
    for path, options, told in (
        (plain, WaveformOptions(volts=volts), "--volts"),
        (plain, WaveformOptions(rail="3V3"), "--rail"),
        (plain, WaveformOptions(interval_s=1e-3), "--interval"),
        (dump, WaveformOptions(volts=volts, rail="2"), "--volts"),
        (dump, WaveformOptions(rail="2", columns=column), "--column"),
        (quarch, WaveformOptions(interval_s=4e-6), "--interval"),
        (quarch, WaveformOptions(columns=column), "--column"),
        (ppk2, WaveformOptions(volts=volts, rail="1"), "--rail"),
        (ppk2, WaveformOptions(volts=volts, columns=column), "--column"),
        (otii, WaveformOptions(volts=volts, columns=column), "--column x.csv: there is no such file"),
    ):
        with pytest.raises(UsageError, match=told) as error:
            opened(path, options=options)
        assert "\n" not in str(error.value)
        opened(path, options=replace(options, for_others=frozenset({"rail", "volts", "columns", "interval_s"})))


def test_otii_names(tmp_path: Path) -> None:
    path = files.otii(tmp_path / "export.csv", 1e-3, [0.5] * 10)
    with pytest.raises(CaptureError, match="--column current=export.csv"):
        opened(path)
    _, i = samples(opened(path, options=WaveformOptions(volts=VOLTS.volts, columns={"current": NamedColumn("export.csv")}))[1])
    assert i[0] == 0.5


def test_statistics_of_a_joulescope_keep_their_power(tmp_path: Path) -> None:
    path = files.statistics(tmp_path / "s.csv", [0.4, 0.5, 0.6], [3.3, 3.3, 3.3], [1.5, 1.7, 2.1])
    name, waveform = opened(path, options=WaveformOptions())
    v, i = samples(waveform)
    assert name == "joulescope-csv" and waveform.about.interval_s == 0.5
    np.testing.assert_allclose(v * i, [1.5, 1.7, 2.1], rtol=1e-6)


def test_statistics_of_a_joulescope_with_times_of_day(tmp_path: Path) -> None:
    path = files.statistics(tmp_path / "s.csv", [0.4, 0.5, 0.6], [3.3] * 3, [1.32, 1.65, 1.98])
    text = path.read_text()
    for seconds, stamp in (("0.0", "20231114T221320.5Z"), ("0.5", "20231114T221321Z"), ("1.0", "20231114T221321.5Z")):
        text = text.replace(f"\n{seconds},", f"\n{stamp},")
    path.write_text(text)
    about = opened(path, options=WaveformOptions())[1].about
    assert about.interval_s == 0.5 and about.utc is not None and about.utc.ns.tolist() == [1_700_000_000_500_000_000]


def test_sigrok_chunks_are_sorted_as_numbers(tmp_path: Path) -> None:
    current, voltage = np.arange(25_500) / 25_500, RNG.uniform(3.2, 3.4, 25_500)
    path = files.sigrok(tmp_path / "x.sr", "1 MHz", {"voltage": voltage, "current": current})
    name, waveform = opened(path, options=WaveformOptions())
    v, i = samples(waveform)
    assert name == "sigrok" and waveform.about.interval_s == 1e-6
    np.testing.assert_array_equal(i, current.astype(np.float32))
    np.testing.assert_array_equal(v, voltage.astype(np.float32))
    named = files.sigrok(tmp_path / "y.sr", "10 kHz", {"CH1": np.full(100, 700.0)})
    with pytest.raises(CaptureError, match="CH1.*--column"):
        opened(named)
    _, i = samples(opened(named, options=WaveformOptions(volts=VOLTS.volts, columns={"current": NamedColumn("CH1", "mA")}))[1])
    assert i[0] == np.float32(0.7)


@pytest.mark.parametrize(
    "head, row",
    [
        ("time_s,voltage_v,current_a", "{t},{v},{i}"),
        ("Time [ms];U [mV];I (uA)", "{tm};{vm};{iu}"),
        ("timestamp (us)\tpower_mw\tvoltage_v", "{tu}\t{pm}\t{v}"),
        ('"i_ma","time s","v_v","remark"', "{im},{t},{v},ok"),
    ],
)
def test_plain_csv_with_units(tmp_path: Path, head: str, row: str) -> None:
    path = tmp_path / "x.csv"
    lines = [head]
    for n in range(40):
        t, v, i = n * 1e-3, 3.3, 0.25 + n * 0.01
        if n != 7:
            got = {"t": t, "tm": t * 1e3, "tu": t * 1e6, "v": v, "vm": v * 1e3, "i": i, "im": i * 1e3, "iu": i * 1e6, "pm": v * i * 1e3}
            lines.append(row.format(**{name: f"{value:.9g}" for name, value in got.items()}))
    path.write_text("\n".join(lines) + "\n")
    name, waveform = opened(path, options=WaveformOptions())
    v, i = samples(waveform)
    assert name == "csv" and missing(i) == [7] and waveform.about.interval_s == pytest.approx(1e-3)
    there = ~np.isnan(i)
    np.testing.assert_allclose(i[there], (0.25 + np.arange(40) * 0.01)[there], rtol=1e-6)
    np.testing.assert_allclose(v[there], 3.3, rtol=1e-6)


@pytest.mark.parametrize("ppm", [-90, -40, 0, 7, 40, 90])
def test_time_stamps_in_whole_microseconds_of_a_clock_that_is_a_little_off(tmp_path: Path, ppm: int) -> None:
    """Most steps are 1000 us and some are 1001 or 999: over half a minute that is more than an interval."""
    path = tmp_path / "x.csv"
    rows = (f"{17.25 + n * 1e-3 * (1 + ppm * 1e-6):.6f},{n / 10}\n" for n in range(30_000) if n % 1000 != 999)
    path.write_text("time_s,current_ma\n" + "".join(rows))
    _, waveform = opened(path)
    assert waveform.about.interval_s == pytest.approx(1e-3 * (1 + ppm * 1e-6), rel=1e-9)
    _, i = samples(waveform)
    assert missing(i) == list(range(999, 29_999, 1000))
    there = ~np.isnan(i)
    np.testing.assert_allclose(i[there], np.flatnonzero(there) * 1e-4, rtol=1e-6)


def test_ticks_fit_the_interval_and_the_length() -> None:
    path = Path("x")
    assert ticks(1e-5, 100, path) == (1000, 10_000)
    assert ticks(5e-7, 100, path) == (1000, 500)
    assert ticks(1 / 48_000, 1000, path) == (1, 20_833_333)
    assert ticks(10.0, 1000, path) == (10_000, 1_000_000_000)
    tick_ps, interval = ticks(1 / 48_000, 10**13, path)  # 6.6 years
    assert tick_ps * interval == pytest.approx(1e12 / 48_000, rel=1e-3) and interval * 10**13 < 1 << 60
    with pytest.raises(CaptureError):
        ticks(1e-13, 10, path)


def test_a_ppk2_recording_as_its_program_saves_it(tmp_path: Path) -> None:
    current = RNG.uniform(0, 900_000, 700_000)
    current[[5, 600_000]] = np.nan  # lost by the program
    current[7] = 9.3e11  # behind a lost byte
    path = files.ppk2_session(tmp_path / "run.ppk2", current)
    name, waveform = opened(path)
    v, i = samples(waveform)
    assert name == "ppk2-session" and waveform.about.interval_s == 1e-5 and waveform.about.span == 700_000
    assert missing(i) == [5, 7, 600_000] and set(v[~np.isnan(v)].tolist()) == {float(np.float32(3.3))}
    there = ~np.isnan(i)
    np.testing.assert_allclose(i[there], current[there] * 1e-6, rtol=1e-6)
    assert (waveform.left_out.without, waveform.left_out.outside) == (2, 1)
    assert waveform.about.utc is not None and waveform.about.utc.ns.tolist() == [1_700_000_000_000_000_000]
    with pytest.raises(CaptureError, match="--volts"):
        opened(path, options=WaveformOptions())


def test_a_ppk2_recording_with_less_than_all_its_parts(tmp_path: Path) -> None:
    current = np.full(100, 1000.0)
    about = opened(files.ppk2_session(tmp_path / "a.ppk2", current, started_ms=None, extra=b"xyz"))[1].about
    assert about.utc is None and about.span == 100
    assert any("last 3 bytes" in note for note in about.notes) and any("does not say when" in note for note in about.notes)
    with pytest.raises(CaptureError, match="version 3 of the format"):
        opened(files.ppk2_session(tmp_path / "b.ppk2", current, version=3))
    for name, content, said in (("c", "{}", "does not state samplesPerSecond"), ("d", None, "has no metadata.json")):
        path = tmp_path / f"{name}.ppk2"
        with zipfile.ZipFile(path, "w") as out:
            out.writestr("session.raw", bytes(600))
            if content is not None:
                out.writestr("metadata.json", content)
        with pytest.raises(CaptureError, match=said):
            opened(path)


def test_a_joulescope_waveform_of_the_ui(tmp_path: Path) -> None:
    """A table as numpy.savetxt writes it, with a header."""
    t, i = np.arange(50) * 1e-3, np.linspace(0.1, 1, 50)
    i[9] = np.nan
    path = tmp_path / "w.csv"
    names = "time,JS220-1.i,JS220-1.v,JS220-1.p,JS110-2.i"
    np.savetxt(path, np.stack([t, i, np.full(50, 3.3), i * 3.3, i * 2], axis=1), delimiter=",", header=names)
    with pytest.raises(CaptureError, match=r"several rails \(JS220-1, JS110-2\)"):
        opened(path, options=WaveformOptions())
    name, waveform = opened(path, options=WaveformOptions(rail="JS220-1"))
    v, amps = samples(waveform)
    assert name == "joulescope-waveform" and missing(amps) == [9]
    np.testing.assert_allclose(np.delete(amps, 9), np.delete(i, 9), rtol=1e-6)
    assert set(v[~np.isnan(v)].tolist()) == {float(np.float32(3.3))}
    with pytest.raises(CaptureError, match="--volts"):
        opened(path, options=WaveformOptions(rail="JS110-2"))


def test_jls_with_a_power_that_does_not_go_with_the_rest_is_read_without_it(tmp_path: Path) -> None:
    path = files.jls(
        tmp_path / "x.jls",
        1000,
        {"current": ("A", np.full(5000, 0.5)), "voltage": ("V", np.full(5000, 3.0)), "power": ("furlong", np.full(5000, 9.0))},
    )
    _, waveform = opened(path, options=WaveformOptions())
    v, i = samples(waveform)
    assert (v[7] * i[7]) == pytest.approx(1.5) and any(
        "the signal power, in 'furlong', is left out" in note for note in waveform.about.notes
    )


def test_markers_of_a_powersensor3_on_lines_of_their_own_are_counted(tmp_path: Path) -> None:
    path = files.powersensor3(tmp_path / "dump", np.full(3000, 3.3), np.linspace(0, 2, 3000))
    lines = path.read_text().splitlines()
    lines[2000:2000] = ["M A"]
    lines[1000:1000] = ['M 0.01 0.02 7 "my work"', "M B"]
    path.write_text("\n".join(lines) + "\n")
    _, waveform = opened(path, options=WaveformOptions(rail="0"))
    _, i = samples(waveform)
    np.testing.assert_allclose(i, np.linspace(0, 2, 3000), rtol=1e-4, atol=1e-6)
    assert any("3 lines that are no row left out, such as 'M 0.01" in note for note in waveform.about.notes)
    lines[500] = "S what is this"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(CaptureError, match="line 501: what is not a number"):
        opened(path, options=WaveformOptions(rail="0"))


def test_quarch_on_two_rails(tmp_path: Path) -> None:
    path = files.quarch(tmp_path / "q.csv", [3300] * 50, [1000 * n for n in range(50)])
    _, waveform = opened(path, options=WaveformOptions(rail="Total"))
    v, i = samples(waveform)
    np.testing.assert_allclose(v * i, 3.3 * np.arange(50) * 1e-3 + 12 * 5e-6, rtol=1e-5)
    assert waveform.about.conditions["rail"] == "total" and any("sum of the rails 3.3V, 12V" in note for note in waveform.about.notes)
    path.write_text(path.read_text().replace("3.3V", "5V"))
    with pytest.raises(CaptureError, match="take their sum with --rail total, or one of them, as --rail 5V"):
        opened(path, options=WaveformOptions())
    with pytest.raises(UsageError, match="--column has no effect"):
        opened(path, options=WaveformOptions(rail="5V", columns={"current": NamedColumn("x")}))


def test_sigrok_of_a_meter_has_no_times(tmp_path: Path) -> None:
    path = files.sigrok(tmp_path / "m.sr", "", {"voltage": np.full(100, 3.3), "current": np.full(100, 0.5)})
    with pytest.raises(CaptureError, match="has no times: it states no sample rate.*--interval"):
        opened(path, options=WaveformOptions())
    _, waveform = opened(path, options=WaveformOptions(interval_s=0.1))
    assert waveform.about.interval_s == pytest.approx(0.1) and samples(waveform)[1][3] == 0.5
    with pytest.raises(UsageError, match="--interval has no effect"):
        opened(
            files.sigrok(tmp_path / "n.sr", "1 kHz", {"voltage": np.ones(9), "current": np.ones(9)}),
            options=WaveformOptions(interval_s=0.1),
        )
