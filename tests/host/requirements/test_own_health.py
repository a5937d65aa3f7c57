"""The power and energy of the SMART log against captures made by hand."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from wattbell.capture import open_capture
from wattbell.capture.meta import save
from wattbell.errors import UsageError
from wattbell.requirements.files import load
from wattbell.requirements.healthlog import parse, read
from wattbell.requirements.judging import JudgedRow, judge_all
from wattbell.requirements.of_capture import DriveLogs, subject

MS, S = 1_000_000, 1_000_000_000
HOUR = 3600 * S


def page(energy_wh: int = 0, tenth_mw: int = 0) -> bytes:
    """The log page by NVMe's layout: bytes 239:232 in Wh; 243:240 with scale 1, a tenth of a milliwatt."""
    return bytes(232) + struct.pack("<QI", energy_wh, 1 << 16 | tenth_mw if tenth_mw else 0) + bytes(268)


def judged(builder: Any, pages: list[bytes], at: list[int], end: int) -> dict[str, JudgedRow]:
    """Judge a capture in which the host read the log page at these ticks."""
    for tick in at:
        builder.command(tick, 1 * MS, qid=0, opcode=0x02, slba=0x007F_0002)
    capture = builder.write(end=end)
    capture.meta["drive"] |= {"model": "TESTDRIVE", "serial": "T1", "firmware": "F1"}
    save(capture.path, capture.meta)
    lab = load("nvme")
    seen = subject(open_capture(capture.path), DriveLogs(health=[parse(one) for one in pages]))
    seen = type(seen)(**{**vars(seen), "declares": {"own_meter_error": 0.05}})
    (found,) = judge_all([seen], [lab], {})
    return {row.requirement.id: row for row in found.rows}


@pytest.mark.parametrize(("after_wh", "verdict", "off_wh"), [(16, "pass", 0.0), (15, "conditional pass", 1.0), (18, "fail", 2.0)])
def test_energy_between_two_pages(builder: Any, after_wh: int, verdict: str, off_wh: float) -> None:
    """3 W for two hours are 6 Wh."""
    builder.levels.append((0, 3.0))
    builder.interval = 1000 * MS
    row = judged(builder, [page(10), page(after_wh)], [10 * S, 10 * S + 2 * HOUR], 2 * HOUR + 20 * S)["SMART-ENERGY"]
    assert row.measured.value == pytest.approx(off_wh, abs=2e-3)
    assert row.verdict == verdict or (off_wh == 1.0 and row.verdict.startswith("conditional")), row


@pytest.mark.parametrize(
    ("watts", "verdict", "error"),
    [(2.0, "pass", 0.0), (1.0, "pass", 0.0), (1.7, "pass", 0.0), (2.2, "fail", 0.1), (0.8, "fail", 0.2)],
)
def test_the_latest_second_may_be_any_that_ended_within_one(builder: Any, watts: float, verdict: str, error: float) -> None:
    """1 W to 9 s, then 2 W; read at 10 s. The second ended between 9 and 10 s, so its mean is from 1 to 2 W."""
    builder.levels += [(0, 1.0), (9000 * MS, 2.0)]
    builder.interval = 1 * MS
    row = judged(builder, [page(0, round(watts * 1e4))], [10 * S], 12 * S)["SMART-POWER"]
    assert row.verdict == verdict and row.measured.value == pytest.approx(error, abs=2e-3), row


def test_pages_and_reads_that_do_not_match_have_no_figure(builder: Any) -> None:
    builder.levels.append((0, 3.0))
    rows = judged(builder, [page(10, 30_000), page(11, 30_000)], [4 * S, 5 * S, 6 * S], 8 * S)
    for name in ("SMART-ENERGY", "SMART-POWER"):
        assert rows[name].verdict == "not measured" and "3 reads of log page 02h, and 2 pages" in rows[name].why


def test_what_the_drive_does_not_report_is_no_zero(builder: Any) -> None:
    builder.levels.append((0, 3.0))
    rows = judged(builder, [page(), page()], [4 * S, 5 * S], 8 * S)
    assert rows["SMART-ENERGY"].verdict == rows["SMART-POWER"].verdict == "not measured"
    assert "reports no" in rows["SMART-ENERGY"].why and "reports no" in rows["SMART-POWER"].why


@pytest.mark.parametrize("size", [0, 511, 513])
def test_a_file_that_is_no_page_is_refused(tmp_path: Path, size: int) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(size))
    with pytest.raises(UsageError, match=f"{size} bytes, not 512.*--log-id=0x2"):
        read(tmp_path / "x.bin")
