"""The drive's own power meter against the rail: pages packed here from the field table of the facts, and the rail's seconds by hand."""

from __future__ import annotations

import json
import shutil
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner
from wattbell.capture import open_capture
from wattbell.capture.meta import save
from wattbell.cli.app import app
from wattbell.errors import UsageError
from wattbell.requirements import powerlog
from wattbell.requirements.files import load
from wattbell.requirements.judging import JudgedRow, judge_all
from wattbell.requirements.of_capture import DriveLogs, subject

MS, S = 1_000_000, 1_000_000_000
START = 1 * S
BEGIN_S = 0.4
"""Begin of the drive's first interval behind the start, to be found."""
WATTS = [1.1, 2.3, 2.3, 4.6, 0.9, 1.6, 3.2, 3.2, 1.1, 2.0]
"""The drive's seconds."""


@dataclass
class Meter:
    """A drive's meter that is right, but for its faults.

    gain : of all powers.
    seconds : as the drive counts them.
    moved : intervals that the histogram has one bin too high.
    late_s : of the time stamp of the largest.
    """

    gain: float = 1.0
    seconds: list[float] = field(default_factory=lambda: list(WATTS))
    moved: int = 0
    late_s: float = 0.0
    percent: int = 5
    running: bool = False
    gaps: bool = False
    stop_s: float = 11.0
    begin_s: float = BEGIN_S

    def page(self, **bytes_at: int) -> bytes:
        """Return bytes by the offsets of the facts' table; ``bytes_at`` overwrites single bytes, by ``b`` and the offset."""
        seen = np.array(self.seconds) * self.gain
        places = np.floor(seen / 0.25).astype(int)
        places[: self.moved] += 1
        counts = np.bincount(places) if len(places) else np.zeros(0, int)
        out = bytearray(64 + 8 * len(counts))
        out[1] = 3
        struct.pack_into("<H", out, 2, int(self.running) | int(self.gaps) << 1 | 1 << 3)
        struct.pack_into("<IIH", out, 4, len(out), len(seen), len(counts))
        stop_ms = 5_000_000
        struct.pack_into("<Q", out, 16, 0 if self.running else stop_ms)
        struct.pack_into("<HHH", out, 24, 8, 250, 64)
        struct.pack_into("<I", out, 40, 1 << 16 | round(float(seen.mean()) * 1e4))
        struct.pack_into("<I", out, 44, 2 << 16 | round(float(seen.max()) * 1e2))
        collected_s = self.begin_s + int(np.argmax(seen)) + 1 + self.late_s
        struct.pack_into("<Q", out, 48, stop_ms - round((self.stop_s - collected_s) * 1e3))
        out[56] = self.percent
        for k, count in enumerate(counts):
            struct.pack_into("<II", out, 64 + 8 * k, count, 2 << 16 | k * 25)
        for name, value in bytes_at.items():
            out[int(name[1:])] = value
        return bytes(out)


def recorded(builder: Any, *, stop_s: float = 11.0, stop: bool = True, read: bool = True, minutes: int = 0, interval: int = MS) -> Any:
    """A capture with the drive's seconds, the start, the stop and the reading."""
    builder.interval = interval
    builder.levels += [(0, 0.5)]
    builder.levels += [(START + round((BEGIN_S + k) * S), watts) for k, watts in enumerate(WATTS)]
    builder.levels += [(START + round((BEGIN_S + len(WATTS)) * S), 0.5)]
    builder.command(START - 100_000, 100_000, qid=0, opcode=0x09, slba=0x25, blocks=1 | minutes << 16)
    if stop:
        builder.command(START + round(stop_s * S) - 100_000, 100_000, qid=0, opcode=0x09, slba=0x25, blocks=0)
    if read:
        builder.command(START + round((stop_s + 0.2) * S), 100_000, qid=0, opcode=0x02, slba=0x7F0025, blocks=0)
    capture = builder.write(end=START + 14 * S)
    capture.meta["drive"] |= {"model": "TESTDRIVE", "serial": "T1", "firmware": "F1"}
    save(capture.path, capture.meta)
    return open_capture(capture.path)


def rows(capture: Any, page: bytes | None) -> dict[str, JudgedRow]:
    """The rows of the drive's own meter by the last part of their id; ``mean`` is the first."""
    log = None if page is None else powerlog.parse(page)
    (found,) = judge_all([subject(capture, DriveLogs(log))], [load("nvme")])
    mine = [row for row in found.rows if row.requirement.id.startswith("POWER-MEASUREMENT")]
    return {row.requirement.id.partition("-MEASUREMENT")[2].lstrip("-") or "mean": row for row in mine}


def verdicts(capture: Any, page: bytes | None) -> dict[str, str]:
    return {name: row.verdict for name, row in rows(capture, page).items()}


GOOD = dict.fromkeys(("mean", "largest", "count", "histogram", "time"), "pass")


def test_a_right_meter_passes(builder: Any) -> None:
    """The begin of the first interval is found, and the mean of ten known seconds."""
    found = rows(recorded(builder), Meter().page())
    assert {name: row.verdict for name, row in found.items()} == GOOD
    assert found["mean"].measured.conditions["rail_w"] == pytest.approx(sum(WATTS) / 10, rel=2e-3)
    assert found["mean"].limit.value == 0.05 and "10 intervals, the first 0." in found["mean"].remark
    low, high = (float(word) for word in found["mean"].remark.split("first ")[1].split(" s ")[0].split(" to "))
    assert low - 0.02 <= BEGIN_S <= high + 0.02 and high - low < 0.3


@pytest.mark.parametrize("percent", [5, 2])
def test_a_gain_of_a_tenth_fails(builder: Any, percent: int) -> None:
    found = rows(recorded(builder), Meter(gain=1.1, percent=percent).page())
    assert (found["mean"].verdict, found["largest"].verdict) == ("fail", "fail")
    assert found["mean"].measured.value == pytest.approx(0.1, abs=0.02)


def test_a_gain_within_its_claim_passes(builder: Any) -> None:
    found = verdicts(recorded(builder), Meter(gain=1.06, percent=10).page())
    assert (found["mean"], found["largest"], found["histogram"]) == ("pass", "pass", "pass")


def test_a_dropped_second_is_seen(builder: Any) -> None:
    """Nine seconds of eleven, and the drive says that none is missing."""
    found = rows(recorded(builder, stop_s=11.5), Meter(seconds=WATTS[:-1], stop_s=11.5).page())
    assert found["count"].verdict == "fail" and found["count"].measured.value == pytest.approx(1.5, abs=0.001)
    assert found["mean"].verdict == "not measured" and "9 intervals in 11.50 s" in found["mean"].why


def test_a_drive_that_says_so_is_not_accused(builder: Any) -> None:
    found = rows(recorded(builder, stop_s=11.5), Meter(seconds=WATTS[:-1], gaps=True).page())
    assert {row.verdict for row in found.values()} == {"not measured"}
    assert "the drive says that intervals are missing" in found["count"].why


def test_a_histogram_off_by_a_bin_fails(builder: Any) -> None:
    found = rows(recorded(builder), Meter(moved=1, percent=1).page())
    assert found["histogram"].verdict == "fail" and found["histogram"].measured.value == 1


def test_a_time_stamp_that_is_late_fails(builder: Any) -> None:
    """2.5 s behind the end of the largest second; the next second as large does not exist."""
    found = rows(recorded(builder), Meter(late_s=2.5).page())
    assert found["time"].verdict == "fail" and found["time"].measured.value == pytest.approx(2.5, abs=0.3)


def test_a_page_that_was_read_while_the_drive_measured(builder: Any) -> None:
    """The reading ends the measuring time, 11.3 s behind the start; there is no stop, and no time stamp of a stop."""
    found = rows(recorded(builder, stop=False), Meter(running=True).page())
    assert found["mean"].verdict == found["count"].verdict == "pass"
    assert found["count"].measured.value == pytest.approx(0.2001, abs=1e-4)
    assert found["time"].verdict == "not measured" and "no time stamps" in found["time"].why


def test_the_drives_own_timer_ends_it(builder: Any) -> None:
    """A timer of a minute is not over in this capture, so the page cannot have a stop."""
    found = rows(recorded(builder, stop=False, minutes=1), Meter().page())
    assert "the capture has no stop" in found["mean"].why


def test_without_the_start_or_the_page_nothing_is_measured(builder: Any) -> None:
    builder.levels.append((0, 1.0))
    builder.command(1 * MS, 10_000)
    capture = builder.write(end=2 * S)
    without = rows(capture, None)
    assert {row.verdict for row in without.values()} == {"not measured"} and "--power-log FILE" in without["mean"].why
    assert "no Set Features 25h that starts" in rows(capture, Meter().page())["mean"].why


def test_a_drive_that_claims_no_error_is_not_judged(builder: Any) -> None:
    found = verdicts(recorded(builder), Meter(percent=255).page())
    assert found == {
        **dict.fromkeys(("mean", "largest"), "not applicable"),
        "count": "pass",
        **dict.fromkeys(("histogram", "time"), "not measured"),
    }


def test_missing_samples_are_said(builder: Any) -> None:
    """A second of eleven is too much."""
    builder.hole = (START + 3 * S, START + 4 * S)
    found = rows(recorded(builder), Meter().page())
    assert found["mean"].verdict == "not measured" and "the rail is missing in" in found["mean"].why


def test_a_few_missing_samples_make_verdicts_conditional(builder: Any) -> None:
    """Blocks have 300 samples of 0.1 ms: one is 0.3 % of the measuring time."""
    builder.hole = (START + 3 * S, START + 3 * S + 30 * MS)
    found = rows(recorded(builder, interval=MS // 10), Meter().page())
    assert (found["mean"].verdict, found["largest"].verdict) == ("conditional pass", "conditional pass")
    assert found["mean"].measured.conditions["rail_w"] == pytest.approx(sum(WATTS) / 10, rel=5e-3)


@pytest.mark.parametrize("seed", range(30))
def test_right_meters_are_not_accused_and_wrong_ones_are_found(builder: Any, seed: int) -> None:
    """Draws loads and begins. A right meter with a claim of 3 % never fails; a gain of 1.15 is never passed."""
    draw = np.random.default_rng(seed)
    watts = list(np.round(draw.uniform(0.6, 6.0, 10), 2))
    begin_s = float(np.round(draw.uniform(0.0, 0.99), 3))
    builder.interval = 1 * MS
    builder.levels += [(0, 0.5)]
    # half seconds of load: an interval is a mean of two levels
    halves = np.repeat(watts, 2) + np.tile([0.2, -0.2], 10)
    builder.levels += [(START + round((begin_s + k / 2) * S), float(level)) for k, level in enumerate(halves)]
    builder.levels += [(START + round((begin_s + 10) * S), 0.5)]
    builder.command(START - 100_000, 100_000, qid=0, opcode=0x09, slba=0x25, blocks=1)
    builder.command(START + 11 * S - 100_000, 100_000, qid=0, opcode=0x09, slba=0x25, blocks=0)
    capture = builder.write(end=START + 14 * S)
    right = Meter(seconds=watts, percent=3, begin_s=begin_s)
    assert not {name for name, verdict in verdicts(capture, right.page()).items() if "fail" in verdict}
    right.gain = 1.15
    assert "pass" not in {verdicts(capture, right.page())[name] for name in ("mean", "largest")}


def test_bytes_that_are_no_page_are_refused(tmp_path: Path) -> None:
    """One line each, with the contradiction."""
    good = Meter().page()
    for page, why in (
        (b"", "0 bytes of at least 64"),
        (good[:70], "and has 70"),
        (Meter().page(b0=1), "version is 1"),
        (Meter().page(b12=255), "supports 64"),
        (Meter().page(b24=4), "not within"),
        (Meter().page(b76=7), "bin 1 does not begin at 250 mW"),
        (Meter().page(b8=11), "hold 10 intervals of 11"),
    ):
        (tmp_path / "page").write_bytes(page)
        with pytest.raises(UsageError, match=why):
            powerlog.read(tmp_path / "page")
    with pytest.raises(UsageError, match="cannot be read"):
        powerlog.read(tmp_path / "gone")


def test_any_bytes_are_read_or_refused() -> None:
    draw = np.random.default_rng(1)
    for _ in range(3000):
        page = bytearray(Meter().page())
        for at in draw.integers(0, len(page), draw.integers(1, 6)):
            page[at] = draw.integers(256)
        try:
            powerlog.parse(bytes(page))
        except ValueError as error:
            assert str(error)


def test_from_the_command_line(builder: Any, tmp_path: Path) -> None:
    """A page of a wrong meter gives exit code 3; a page without its capture, or for two, is refused."""
    capture = recorded(builder)
    (tmp_path / "page").write_bytes(Meter(gain=1.2).page())
    words = ["judge", str(capture.path), "--requirements", "nvme", "--power-log", str(tmp_path / "page"), "--json"]
    done = CliRunner().invoke(app, words)
    told = {row["id"]: row["verdict"] for row in json.loads(done.stdout)["drives"][0]["verdicts"]}
    assert (done.exit_code, told["POWER-MEASUREMENT"], told["POWER-MEASUREMENT-count"]) == (3, "fail", "pass")
    shutil.copytree(capture.path, tmp_path / "again")
    gone = CliRunner().invoke(app, ["judge", str(tmp_path / "gone"), "--power-log", str(tmp_path / "page")])
    assert "gone" in str(gone.exception) and "belongs to" not in str(gone.exception), "that is wrong first"
    refused = CliRunner().invoke(app, [*words, str(tmp_path / "again")])
    assert isinstance(refused.exception, UsageError) and "belongs to one capture, and 2 are given" in str(refused.exception)
