"""A file that another program appends to, by the layouts that programs write."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from wattbell.errors import RigError, UsageError
from wattbell.meters.meter import open_meter

from tests.host.formats import files
from tests.host.meters.measuring import joined, measured, until_lost

ACCURACY = "gain=0.01,offset=1e-5"


class Program:
    """Writes the file's first piece, and from :meth:`go` on appends what `text` yields, every 20 ms."""

    def __init__(self, path: Path, first: str, text: Iterator[str], then: Callable[[], object] | None = None) -> None:
        self.path, self._text, self._then = path, text, then
        path.write_text(first)
        self._end, self._begin = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def go(self) -> None:
        self._begin.set()

    def _run(self) -> None:
        self._begin.wait()
        with open(self.path, "a") as out:
            for text in self._text:
                out.write(text)
                out.flush()
                if self._end.wait(0.02):
                    return
        if self._then:
            self._then()

    def __enter__(self) -> Program:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._begin.set()
        self._thread.join(timeout=5)


def torn(lines: Iterator[str], at: int) -> Iterator[str]:
    """The same text in pieces of `at` characters."""
    held = ""
    for line in lines:
        held += line
        while len(held) >= at:
            yield held[:at]
            held = held[at:]
    yield held


def row(n: int) -> str:
    """time, V, mA: the current is the row's number."""
    return f"{n * 0.001:.3f},3.3,{n % 1000 + 100}\n"


HEAD = "time_s,voltage_v,current_ma\n"


def rows(first: int, stop: int | None = None, lost: frozenset[int] = frozenset()) -> Iterator[str]:
    numbers = itertools.count(first) if stop is None else iter(range(first, stop))
    return (row(n) for n in numbers if n not in lost)


def test_rows_that_come_after_the_start_are_samples_in_their_places(tmp_path: Path) -> None:
    old = HEAD + "".join(rows(0, 200)) + row(200)[:4]
    rest = itertools.chain([row(200)[4:]], rows(201, None, frozenset({700, 701, 1500})))
    with (
        Program(tmp_path / "live.csv", old, torn(rest, 333)) as program,
        open_meter(f"file:{program.path},{ACCURACY}") as meter,
    ):
        about = meter.about
        ticks, volts, amperes = measured(meter, 2000, started=program.go)
        pairs = meter.clock_pairs()
    assert about.interval_ticks * about.tick_ps == 10**9 and about.has_voltage and about.gain == 0.01
    places = ticks // about.interval_ticks
    first = round(amperes[0] * 1000) - 100 - places[0]
    assert first >= 200, "what was there before the start is left out"
    assert ((np.rint(amperes * 1000) - 100 - places - first) % 1000 == 0).all()
    assert volts == pytest.approx(3.3)
    missing = np.setdiff1d(np.arange(places[-1]), places) + first
    assert set(missing.tolist()) == {n for n in (700, 701, 1500) if n > first}
    assert pairs and all(pair.before_ns is None for pair in pairs)


def test_what_the_instrument_cannot_have_measured_is_missing_and_told(tmp_path: Path) -> None:
    def odd(n: int) -> str:
        return f"{n * 0.001:.3f},3.3,{'OVLD' if n == 350 else '9.9e10' if n in (400, 401) else n % 1000 + 100}\n"

    program = Program(tmp_path / "log.csv", HEAD + "".join(rows(0, 200)), map(odd, itertools.count(200)))
    with program, open_meter(f"file:{program.path},{ACCURACY}") as meter:
        ticks, _, amperes = measured(meter, 400, started=program.go)
        remarks = meter.remarks()
    missing = np.setdiff1d(np.arange(ticks[-1] // 1_000_000 + 1), ticks // 1_000_000)
    assert len(missing) == 3 and np.diff(missing).tolist() == [50, 1] and amperes.max() < 2
    assert remarks[0].startswith("1 sample had no number") and remarks[1].startswith("2 samples (9.9e+07 A) beyond")


def test_times_on_no_grid_are_refused_while_they_grow(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("time_s,voltage_v,current_a\n" + "".join(f"{t:.4f},3.3,1\n" for t in np.cumsum([0.01, 0.03, 0.02] * 60)))
    with pytest.raises(RigError, match="lie on no grid.*wattbell import"):
        open_meter(f"file:{path},{ACCURACY}")


@pytest.mark.parametrize("format_name", ["ppk2", "quarch", "powersensor3"])
def test_formats_of_other_programs(tmp_path: Path, format_name: str) -> None:
    whole = tmp_path / "whole"
    count = 6000
    current_ua = [20_000 + n % 977 for n in range(count)]
    if format_name == "ppk2":
        files.ppk2(whole, [float(value) for value in current_ua])
    elif format_name == "quarch":
        files.quarch(whole, [3300] * count, current_ua)
    else:
        files.powersensor3(whole, np.full(count, 3.3), np.array(current_ua) * 1e-6)
    lines = whole.read_text().splitlines(keepends=True)
    program = Program(tmp_path / "live", "".join(lines[:1000]), ("".join(lines[at : at + 50]) for at in range(1000, len(lines), 50)))
    volts = ",volts=3.3,volts_u=0.033" if format_name == "ppk2" else ",rail=3.3V" if format_name == "quarch" else ",rail=0"
    with program, open_meter(f"file:{program.path},{ACCURACY}{volts}") as meter:
        ticks, _, amperes = measured(meter, 2000, started=program.go)
    assert meter.about.gain == pytest.approx(np.hypot(0.01, 0.01) if format_name == "ppk2" else 0.01)
    interval_s = meter.about.interval_ticks * meter.about.tick_ps * 1e-12
    assert interval_s == pytest.approx({"ppk2": 10e-6, "quarch": 4e-6, "powersensor3": 50e-6}[format_name])
    assert (np.diff(ticks) == meter.about.interval_ticks).all()
    value = np.rint(amperes * 1e6).astype(int) - 20_000
    assert ((value - value[0] - np.arange(len(value))) % 977 == 0).all()


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("deleted", "is gone"),
        ("replaced", "was replaced by another file"),
        ("shorter", "became shorter"),
        ("text", "is not a number"),
        ("backwards", "the time goes backwards"),
        ("faster", "no grid fits them"),
    ],
)
def test_what_ends_it_is_one_error_behind_all_that_had_come(tmp_path: Path, what: str, told: str) -> None:
    path = tmp_path / "live.csv"

    def end() -> None:
        time.sleep(0.3)
        if what == "deleted":
            path.unlink()
        elif what == "replaced":
            (tmp_path / "new").write_text(HEAD)
            os.replace(tmp_path / "new", path)
        elif what == "shorter":
            os.truncate(path, 100)
        else:
            text = {"text": "1.5,3.3,oops\n", "backwards": row(3), "faster": "1.4992,3.3,1\n1.4994,3.3,1\n"}[what]
            with open(path, "a") as out:
                out.write(text)

    program = Program(path, HEAD + "".join(rows(0, 200)), ("".join(rows(n, n + 100)) for n in range(200, 1500, 100)), end)
    with program, open_meter(f"file:{path},{ACCURACY}") as meter:
        found, error = until_lost(meter, started=program.go)
    _, _, amperes = joined(found)
    assert told in str(error) and str(error).count("\n") == 0
    assert round(amperes[-1] * 1000) - 100 == 1499 % 1000 and len(amperes) > 1000


def test_one_that_does_not_grow_any_more_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wattbell.meters.arrivals._SILENCE_NS", 300_000_000)
    monkeypatch.setattr("wattbell.meters.file._SLOW_S", 0.3)
    path = tmp_path / "live.csv"
    program = Program(path, HEAD + "".join(rows(0, 200)), iter(["".join(rows(200, 300))]))
    with program, open_meter(f"file:{path},{ACCURACY}") as meter:
        found, error = until_lost(meter, started=program.go)
    assert len(joined(found)[0]) == 100
    assert "has stopped sending" in str(error)


def test_formats_that_are_whole_only_when_finished_are_refused(tmp_path: Path) -> None:
    jls = files.jls(tmp_path / "a.jls", 1000, {"current": ("A", np.ones(100)), "voltage": ("V", np.ones(100))})
    with pytest.raises(RigError, match=r"JLS v2 cannot be read while it grows .*wattbell import"):
        open_meter(f"file:{jls},{ACCURACY}")
    cut = tmp_path / "b.jls"
    cut.write_bytes(jls.read_bytes()[:-100])
    with pytest.raises(RigError, match=r"JLS v2 cannot be read while it grows"):
        open_meter(f"file:{cut},{ACCURACY}")
    zipped = tmp_path / "c.sr"
    zipped.write_bytes(b"PK\x03\x04" + bytes(1000))
    with pytest.raises(RigError, match=r"cannot be read while it grows"):
        open_meter(f"file:{zipped},{ACCURACY}")
    otii = tmp_path / "main current.csv"
    otii.write_text('"Timestamp","Value"\n' + "".join(f"{n * 0.001:.3f},0.5\n" for n in range(200)))
    with pytest.raises(RigError, match=r"Otii CSV cannot be read while it grows"):
        open_meter(f"file:{otii},{ACCURACY},volts=3.3")


def test_one_that_has_no_rows_yet_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "live.csv"
    program = Program(path, HEAD, ("".join(rows(n, n + 40)) for n in itertools.count(0, 40)))
    program.go()
    with program, open_meter(f"file:{path},{ACCURACY}") as meter:
        ticks, _, _ = measured(meter, 100)
    assert (np.diff(ticks) == meter.about.interval_ticks).all()
    monkeypatch.setattr("wattbell.meters.file._LONG_S", 0.2)
    (tmp_path / "empty.csv").write_text(HEAD)
    with pytest.raises(RigError, match="has 1 lines and does not grow"):
        open_meter(f"file:{tmp_path / 'empty.csv'},{ACCURACY}")


def test_columns_are_named_and_what_is_not_said_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    text = "when,amps out\n" + "".join(f"{n},{0.25 + n * 0}\n" for n in range(200))
    with (
        Program(path, text, (f"{n},0.25\n" for n in itertools.count(200))) as program,
        open_meter(f"file:{path},{ACCURACY},time=when:ms,current=amps out:A,volts=5") as meter,
    ):
        _, volts, amperes = measured(meter, 5, started=program.go)
    assert volts == pytest.approx(5) and amperes == pytest.approx(0.25)
    with pytest.raises(RigError, match=r"odd.csv, line 1: no column for the time .* say which with time=NAME:s current=NAME:A"):
        open_meter(f"file:{path},{ACCURACY},format=csv")
    with pytest.raises(UsageError, match="say how accurate its instrument is"):
        open_meter(f"file:{path}")
    with pytest.raises(UsageError, match="give the file"):
        open_meter("file:")
    with pytest.raises(RigError, match="cannot be read"):
        open_meter(f"file:{tmp_path / 'none.csv'},{ACCURACY}")
