"""CSV: commands, rail and figures, one file each, UTF-8, a header line, SI units in the column names."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from wattbell_spec.columns import FACTS
from wattbell_spec.wire import CommandFlag

from wattbell import durable
from wattbell.capture import Capture
from wattbell.errors import CaptureError, UsageError
from wattbell.measure.depth import depth_steps
from wattbell.measure.table import INSTANTS, SIZED_OPCODES
from wattbell.origin import Origin, origin_of_capture

from .formats import export_format, zipped
from .window import ExportWindow, Selection, command_bytes, command_name, resolve

_CHUNK = 1 << 20
_NAMED = ("qid", "cid", "opcode", "nsid", "slba", "blocks", "status", "flags")
_OTHERS = tuple(column.name for column in FACTS if column.name not in _NAMED)
"""Columns of a command behind those that have their place in a row."""


def export_csv(
    capture: Capture,
    out: str | Path,
    *,
    result: Mapping[str, Any] | None = None,
    start_s: float | None = None,
    stop_s: float | None = None,
    rail_every: int = 1,
) -> list[Path]:
    """Write ``commands.csv``, ``events.csv``, ``queue-depth.csv``, ``rail.csv`` (if there is a rail) and, given the ``result`` of
    ``analyze``, ``figures.csv`` to the folder ``out``; returns their paths.

    Every row ends in its origin: ``virtual`` of a model, ``measured``, or ``unknown``. ``rail_every`` samples are averaged into each row.
    Times are seconds from the first tick of the capture, with the ticks beside them. A command belongs to the window by its doorbell (else
    fetch, else CQE).
    """
    if rail_every < 1:
        raise UsageError(f"The rail can be thinned by 1 or more, not by {rail_every}.")
    return csv_files(capture, resolve(capture, start_s, stop_s), Path(out), result, rail_every)


@export_format("csv", "CSV", ".zip", "application/zip")
def write_csv_zip(capture: Capture, begin_tick: int, end_tick: int, path: Path) -> Path:
    """The CSV files of a window, in a ZIP archive."""
    return zipped(capture, begin_tick, end_tick, path, csv_files, zipfile.ZIP_DEFLATED)


def csv_files(
    capture: Capture, window: ExportWindow, folder: Path, result: Mapping[str, Any] | None = None, rail_every: int = 1
) -> list[Path]:
    """Write the CSV files of a window, as :func:`export_csv`."""
    selection = Selection(capture, window)
    origin = origin_of_capture(capture.meta)
    try:
        durable.make_folder(folder)
        written = [
            _commands(selection, folder / "commands.csv"),
            _events(selection, folder / "events.csv"),
            _depth(selection, folder / "queue-depth.csv"),
        ]
        if selection.rail is not None:
            written.append(_rail(selection, folder / "rail.csv", rail_every))
        if result is not None:
            written.append(_figures(result, folder / "figures.csv", origin))
        durable.flush_all([*written, folder])
    except OSError as error:
        text = f"The CSV files cannot be written to {folder} ({error.strerror or error}); choose another place."
        raise CaptureError(text) from None
    return written


def _origin(selection: Selection) -> pl.Expr:
    """A column that says in each row whether it was measured: rows are cut out of files and joined with others."""
    return pl.lit(origin_of_capture(selection.capture.meta).value).alias("origin")


def _commands(selection: Selection, path: Path) -> Path:
    """One row per command: instants in s and ticks, latency in s, name, bytes."""
    window, tick_s = selection.window, selection.tick_s
    seconds = [((pl.col(name) - window.zero_tick) * tick_s).alias(name.removesuffix("_tick") + "_s") for name in INSTANTS]
    placed = (pl.col("qid") > 0) & pl.col("opcode").is_in(SIZED_OPCODES)
    frame = selection.begun_inside.select(
        *_NAMED[:3],
        command_name().alias("command"),
        "nsid",
        *(pl.when(placed).then(pl.col(name)).alias(name) for name in ("slba", "blocks")),
        command_bytes(selection.capture).alias("bytes"),
        *_NAMED[6:],
        "saturated",
        *_OTHERS,
        ((pl.col("cqe_tick") - pl.coalesce("doorbell_tick", "fetch_tick")) * tick_s).alias("latency_s"),
        *seconds,
        *INSTANTS,
        _origin(selection),
    )
    frame.sink_csv(path, float_precision=9)
    return path


def _events(selection: Selection, path: Path) -> Path:
    """One row per event."""
    time = ((pl.col("tick") - selection.window.zero_tick) * selection.tick_s).alias("time_s")
    selection.events.select(time, "tick", "name", "type", "arg8", "arg16", "arg32", _origin(selection)).write_csv(path, float_precision=9)
    return path


def _depth(selection: Selection, path: Path) -> Path:
    """One row per change of the number of I/O commands in flight; the first row is the depth at the start of the window."""
    window, table = selection.window, selection.overlapping
    io = table.take((table.qid > 0) & ~selection.markers & ~table.has(CommandFlag.NO_SQE))
    steps = depth_steps(io.start_tick, np.maximum(io.cqe_tick, io.start_tick))
    inside = slice(*np.searchsorted(steps.ticks, [window.first_tick, window.last_tick], side="left").tolist())
    before = int(steps.depth[inside.start - 1]) if inside.start else 0
    ticks = np.concatenate(([window.first_tick], steps.ticks[inside]))
    depth = np.concatenate(([before], steps.depth[inside]))
    seconds = (ticks - window.zero_tick) * selection.tick_s
    pl.DataFrame({"time_s": seconds, "tick": ticks, "depth": depth}).with_columns(_origin(selection)).write_csv(path, float_precision=9)
    return path


def _mean_rows(values: npt.NDArray[np.float32], every: int) -> npt.NDArray[np.float64]:
    """Means of ``every`` consecutive values; the last mean may be shorter; NaN where any value is missing."""
    n = len(values) // every * every
    means = values[:n].reshape(-1, every).mean(axis=1, dtype=np.float64)
    rest = values[n:]
    return np.append(means, rest.mean(dtype=np.float64)) if len(rest) else means


def _rail(selection: Selection, path: Path, every: int) -> Path:
    """One row per sample, or mean of ``every``: time of its middle, V, A, W; empty if samples are missing. A long gap has no rows."""
    rail, window = selection.rail, selection.window
    assert rail is not None
    low, high = selection.samples()
    step = max(every, _CHUNK // every * every)
    with open(path, "wb") as out:
        out.write(b"time_s,voltage_v,current_a,power_w,origin\n")
        for first in range(low, high, step):
            if not any(rail.stored(first, min(first + step, high))):
                continue
            part = rail.read(first, min(first + step, high))
            columns = [_mean_rows(v, every) for v in (part.voltage, part.current, part.power)]
            count = len(columns[0])
            sizes = np.minimum(every, high - first - np.arange(count) * every)
            middle = rail.tick_of(first) + (np.arange(count) * every + (sizes - 1) / 2) * rail.interval_ticks
            frame = pl.DataFrame(
                {
                    "time_s": (middle - window.zero_tick) * selection.tick_s,
                    "voltage_v": columns[0],
                    "current_a": columns[1],
                    "power_w": columns[2],
                },
            ).with_columns(pl.all().fill_nan(None), _origin(selection))
            frame.write_csv(out, include_header=False, float_precision=9)
    return path


def flatten(result: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, Any, str, Any]]:
    """(phase, figure, value, u, unit, lost) of every figure of a result; plain latencies come in s with their u."""
    parts: list[tuple[str, Mapping[str, Any]]] = [("", result)]
    parts += [(str(phase["name"]), phase) for phase in result["phases"]]
    for phase, section in parts:
        for key in ("rates", "power", "efficiency", "energy_per_command", "owed"):
            yield from ((phase, *row) for row in _walk(key, section.get(key) or {}))
        for opcode, entry in section["commands"]["by_opcode"].items():
            yield phase, f"commands.{opcode}.count", entry["count"], None, "", section["commands"]["lost"]
            yield phase, f"commands.{opcode}.bytes", entry["bytes"], None, "B", section["commands"]["lost"]
            latency = entry["latency_s"]
            for name, value in latency.items():
                if name in ("mean", "min", "max") or (name.startswith("p") and name[1:2].isdigit()):
                    u = latency["u"].get(name)
                    yield phase, f"commands.{opcode}.latency.{name}", value, u, "s", section["commands"]["lost"]
    for level in result["idle"]["levels"]:
        fig = level["mean_w"]
        yield "", f"idle.{level['label']}", fig["value"], fig["u"], fig["unit"], fig["lost"]
    for name, value, u, unit, lost in (*_lone(result), *_states(result), *_transitions(result)):
        yield "", name, value, u, unit, lost


_Row = tuple[str, Any, Any, str, Any]


def _lone(result: Mapping[str, Any]) -> Iterator[_Row]:
    """Commands that stood alone, by class."""
    lost = result["commands"]["lost"]
    for name, one in (result.get("alone") or {}).get("classes", {}).items():
        yield f"alone.{name}.count", one["count"], None, "", lost
        yield f"alone.{name}.measured", one["measured"], None, "", lost
        yield from _walk(f"alone.{name}", one)


def _states(result: Mapping[str, Any]) -> Iterator[_Row]:
    """Yield the time by state, and for each declared state its measured and declared values."""
    states, lost = result.get("power_states") or {}, result["commands"]["lost"]
    for label, seconds in states.get("time_s", {}).items():
        yield f"power_states.{label}.time", seconds, None, "s", lost
    for row in states.get("states", ()):
        name = f"power_states.PS{row['state']}"
        yield from _walk(f"{name}.mean_w", row["mean_w"])
        for key, judged in row["judged"].items():
            yield from _walk(f"{name}.{key}", judged["measured"])
            if judged["declared"] is not None:
                yield f"{name}.{key}.declared", judged["declared"], None, judged["measured"]["unit"], 0


def _transitions(result: Mapping[str, Any]) -> Iterator[_Row]:
    """Yield the ways into and out of sleep, by state and class of the waking command."""
    for one in (result.get("wakeup") or {}).get("transitions", ()):
        name = f"transitions.{one['state']}.{one['class']}"
        yield from _walk(name, one)
        for part in one["parts"]:
            yield from _walk(f"{name}.{part['name']}", part)


def _walk(path: str, node: Any) -> Iterator[_Row]:
    if not isinstance(node, Mapping):
        return
    if {"value", "unit", "lost"} <= set(node):
        yield path, node["value"], node["u"], node["unit"], node["lost"]
        return
    for key, inner in node.items():
        yield from _walk(f"{path}.{key}", inner)


def _guarded(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula: an apostrophe goes before the begin of a formula."""
    return f"'{text}" if text.lstrip()[:1] in tuple("=+-@") or text[:1] in ("\t", "\r") else text


def _figures(result: Mapping[str, Any], path: Path, origin: Origin) -> Path:
    """One row per figure: phase (empty: whole capture), name, value, expanded uncertainty (k = 2), unit, lost records, origin."""
    with open(path, "w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(("phase", "figure", "value", "u_k2", "unit", "lost", "origin"))
        for phase, name, value, u, unit, lost in flatten(result):
            phase, name = _guarded(phase), _guarded(name)
            writer.writerow((phase, name, "" if value is None else value, "" if u is None else u, unit, lost, origin.value))
    return path
