"""A capture in Python: its frames, beside the recorded data; and the message where there is nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import wattbell
from wattbell.capture import meta
from wattbell.errors import CaptureError, UsageError
from wattbell.wire.decode import Gap
from wattbell_spec.wire import BlockContent, CommandFlag

MS = 1_000_000


@pytest.fixture
def opened(builder: Any) -> wattbell.OpenCapture:
    builder.power(0, 0.6)
    builder.phase(1, 10 * MS, 40 * MS, "reads <script>alert(1)</script>")
    builder.power(20 * MS, 2.0)
    for k in range(100):
        builder.command(20 * MS + 100_000 * k, 80_000, opcode=2 if k % 4 else 1, slba=k, blocks=8)
    builder.command(31 * MS, 90_000, doorbell_tick=None, fetch_tick=None)
    builder.command(32 * MS, 90_000, flags=int(CommandFlag.ABORTED))
    builder.command(33 * MS, 90_000, status=0x281)
    builder.command(34 * MS, 20_000, qid=0, opcode=0x06)
    builder.power(35 * MS, 0.6)
    builder.phase(2, 41 * MS, 44 * MS, "twice")
    builder.phase(3, 45 * MS, 48 * MS, "twice")
    builder.write(60 * MS)
    return wattbell.open(builder.path)


def test_importing_it_loads_nothing_else() -> None:
    code = "import sys, wattbell; print([m for m in ('polars', 'numpy', 'pyarrow', 'wattbell.api') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    assert {"open", "OpenCapture", "WattbellError"} <= set(dir(wattbell))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = wattbell.nothing  # type: ignore[attr-defined]


def test_commands_have_times_names_and_bytes(opened: wattbell.OpenCapture) -> None:
    assert isinstance(opened.commands, pl.LazyFrame)
    rows = opened.commands.collect()
    assert len(rows) == 104, "the markers are not among them"
    zero = opened.figures["capture"]["first_tick"]
    first = rows.row(0, named=True)
    assert first["opcode_name"] == "write" and first["bytes"] == 4096 and not first["is_admin"]
    assert first["t_s"] == pytest.approx((20 * MS - zero) * 1e-9) and first["latency_s"] == pytest.approx(80e-6)
    assert rows.filter(pl.col("opcode_name") == "read").height == 78
    no_start, aborted, failed, admin = rows.tail(4).rows(named=True)
    assert no_start["latency_s"] is None and aborted["latency_s"] is None
    assert failed["status_name"].startswith("2/81 ")
    assert admin["opcode_name"] == "identify" and admin["is_admin"] and admin["bytes"] == 0
    assert rows["cqe_tick"].dtype == pl.Int64


def test_the_same_zero_and_end_as_the_figures(opened: wattbell.OpenCapture) -> None:
    about = opened.figures["capture"]
    assert (opened.bounds.first_tick, opened.bounds.last_tick) == (about["first_tick"], about["last_tick"])
    assert opened.duration_s == pytest.approx(about["duration_s"])
    mean = opened.figures["power"]["mean_w"]
    assert mean.value == pytest.approx(opened.rail()["power_w"].mean(), rel=1e-3)


def test_phases_by_name_and_number(opened: wattbell.OpenCapture) -> None:
    one = opened.phases.row(0, named=True)
    assert opened.phases["number"].to_list() == [1, 2, 3] and one["duration_s"] == pytest.approx(0.030)
    by_time = opened.rail(one["t0_s"], one["t1_s"])
    assert opened.rail(phase=1).equals(by_time) and opened.rail(phase=one["name"]).equals(by_time)
    assert by_time["power_w"].max() == pytest.approx(2.0, rel=1e-4)
    with pytest.raises(UsageError, match="2 phases are called 'twice'"):
        opened.rail(phase="twice")
    with pytest.raises(UsageError, match="no phase 'none'.*1 'reads"):
        opened.rail(phase="none")
    with pytest.raises(UsageError, match="not both"):
        opened.rail(0.0, phase=1)


def test_points_are_statistics_of_their_samples(builder: Any) -> None:
    builder.interval = 1000
    for k, watts in enumerate(np.random.default_rng(1).uniform(0.5, 4.0, 60_000 // 37)):  # so that every sample of an interval counts
        builder.power(37_000 * k, float(watts))
    builder.write(60 * MS)
    c = wattbell.open(builder.path)
    for t0, t1, points in ((0.0, None, 17), (0.001234, 0.0567, 9), (0.02, 0.02 + 3e-4, 7), (0.0295, 0.031, 500)):
        samples, found = c.rail(t0, t1), c.rail(t0, t1, points=points)
        assert 0 < found.height <= points
        step = found["t_s"][1] - found["t_s"][0]
        place = np.minimum(((samples["t_s"] - samples["t_s"][0]).to_numpy() + 1e-9) // step, found.height - 1).astype(int)
        for i in range(found.height):
            watts = samples["power_w"].to_numpy()[place == i].astype(float)
            row = found.row(i, named=True)
            assert row["power_w"] == pytest.approx(watts.mean(), rel=1e-5)
            assert (row["power_min_w"], row["power_max_w"]) == pytest.approx((watts.min(), watts.max()), rel=1e-6)


def test_a_gap_stays_a_gap(builder: Any) -> None:
    builder.power(0, 1.0)
    builder.hole = (12 * MS, 18 * MS)
    builder.write(60 * MS)
    c = wattbell.open(builder.path)
    rail = c.rail()
    assert rail["power_w"].null_count() == 600 and not rail["power_w"].is_nan().any()
    points = c.rail(points=60)
    assert 3 <= points["power_w"].null_count() == points["power_max_w"].null_count()
    assert c.gaps.select("kind", "count").rows() == [("RAIL", 300), ("RAIL", 300)]
    assert c.gaps["t0_s"][0] == pytest.approx(0.012)
    builder.path = builder.path.with_name("other")
    builder.gaps = [Gap(BlockContent.COMMANDS, 5 * MS, 6 * MS, 3, "CRC")]
    builder.write(60 * MS)
    assert "data were lost" in wattbell.open(builder.path)._repr_html_()


def test_it_shows_itself_escaped(opened: wattbell.OpenCapture) -> None:
    card = opened._repr_html_()
    assert "<script>" not in card and "reads &lt;script&gt;" in card and "nothing lost" in card


@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf"])
def test_a_plot_is_written(opened: wattbell.OpenCapture, tmp_path: Path, ending: str) -> None:
    plot = opened.plot(phase=1, rows=["power", "voltage", "current", "throughput", "iops", "queue-depth", "latency"])
    path = plot.save(tmp_path / f"a{ending}")
    assert path.stat().st_size > 5_000
    if ending == ".svg":
        text = path.read_text()
        assert all(word in text for word in ("power, W", "voltage, V", "current, A", "IOPS", "queue depth", "CQE"))
    assert plot._repr_png_().startswith(b"\x89PNG")


def test_a_plot_refuses_what_it_cannot_draw(opened: wattbell.OpenCapture, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no row 'volts': choose of power, voltage"):
        opened.plot(rows=["volts"])
    with pytest.raises(UsageError, match="has no latency from 0.05 s"):
        opened.plot(0.05, rows=["latency"])
    with pytest.raises(UsageError, match="neither"):
        opened.plot().save(tmp_path / "a.gif")
    with pytest.raises(CaptureError, match="cannot be written"):
        opened.plot().save(tmp_path / "nowhere" / "a.png")


@pytest.mark.parametrize("t0", [float("nan"), "reads", True, 1.0])
def test_no_such_time(opened: wattbell.OpenCapture, t0: Any) -> None:
    with pytest.raises(UsageError):
        opened.rail(t0)
    with pytest.raises(UsageError, match="points is 0"):
        opened.rail(points=0)


def test_a_capture_without_rail_commands_or_anything(builder: Any) -> None:
    builder.command(MS, 80_000)
    builder.write()
    with wattbell.open(builder.path) as c:
        with pytest.raises(CaptureError, match="has no rail: no rail samples were recorded"):
            c.rail()
        assert c.phases.is_empty() and c.gaps.is_empty() and c.commands.collect().height == 1
        c.plot()
    builder.path = builder.path.with_name("empty")
    builder.rows = []
    builder.write()
    with wattbell.open(builder.path) as c:
        assert c.duration_s == 0 and c.commands.collect().is_empty() and c.events.is_empty()
        assert c._repr_html_()
        with pytest.raises(UsageError, match="nothing to draw"):
            c.plot()


def test_what_is_no_capture(tmp_path: Path, builder: Any) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.jls").write_bytes(b"x")
    for path in (tmp_path / "folder", tmp_path / "file.jls", tmp_path / "missing", str(tmp_path / "missing")):
        with pytest.raises(CaptureError, match=str(path)):
            wattbell.open(path)
    builder.command(MS, 80_000)
    builder.write()
    with wattbell.open(builder.path) as c:
        (builder.path / "commands.parquet").write_bytes(b"PAR1")
        with pytest.raises(CaptureError, match="commands.parquet"):
            c.commands.collect()
    about = json.loads((builder.path / "meta.json").read_text())
    about["format"] = 99
    (builder.path / "meta.json").write_bytes(meta._with_checksum(about))  # which the writer refuses
    with pytest.raises(CaptureError, match="format"):
        wattbell.open(builder.path)
