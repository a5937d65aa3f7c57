"""Rebuilds a capture whose recorder died, from its journal."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from wattbell_spec import wire as spec

from ..errors import CaptureError
from ..wire.decode import Gap
from . import meta, schema
from . import rail as rail_file
from .journal import NAME as JOURNAL
from .journal import JournalReader
from .live import NAME as LIVE
from .live import being_recorded
from .railjournal import NAME as RAIL_JOURNAL
from .railjournal import journalled
from .room import free_bytes
from .writer import CaptureWriter

Progress = Callable[[int, int], None]
"""Progress callback: bytes done, bytes in total."""
RECORDER_DIED = "the recorder ended without completing the capture"
_SCRATCH = ".rebuild"
_SAMPLE_BYTES = (6, 12.6)
"""Bytes per rail sample, in the stream and in ``rail.jls``."""
_COMMAND_BYTES = (44, 40)
_REST = 1.2
"""Bytes written per byte of anything else."""
_FIXED_BYTES = 1 << 20


def recover(directory: Path, progress: Progress | None = None) -> meta.Meta:
    """Rebuild every table and the waveform of `directory` from ``stream.wbs``, or a meter's from ``rail.arrow``; the journal is kept.

    Raises CaptureError when the recorder is alive or the journal is missing.
    """
    if being_recorded(directory):
        raise CaptureError(f"{directory} is still being recorded (or rebuilt); stop the recorder with Ctrl-C, or wait.")
    if (directory / RAIL_JOURNAL).exists():
        return _recover_rail(directory)
    journal = JournalReader(directory)
    try:
        old = meta.load(directory)
        for name in (*_made(), LIVE):  # a recorder that died leaves them without an end: nobody can read them, and the journal has it all
            (directory / name).unlink(missing_ok=True)
        return rebuild(directory, journal, old, RECORDER_DIED, "recovered", progress)
    finally:
        journal.close()


def rebuild(directory: Path, journal: JournalReader, old: meta.Meta, note: str, state: str, progress: Progress | None = None) -> meta.Meta:
    """As :func:`recover`, for a capture whose ``meta.json`` is (or was) ``old``. ``note``: the reason, kept in the capture's conditions."""
    scratch = directory / _SCRATCH
    if scratch.exists():
        shutil.rmtree(scratch)
    _require_room(directory, old)
    writer = CaptureWriter(scratch, rig=old["rig"], conditions=old["conditions"], journal=False)
    writer.expect_stream()  # a recorder that was killed before its first byte has lost the whole run
    for key in ("id", "workload", "drive", "software", "journal"):
        if old.get(key) is not None:
            writer.meta[key] = old[key]
    if (old.get("journal") or {}).get("rail_only"):
        writer.rail_only(-int(old["journal"]["tick_offsets"][0]))
    anchor = old["clock"].get("utc_anchor")
    if anchor:
        writer.set_anchor(anchor["tick"], anchor["utc_ns"])
    total = (directory / "stream.wbs").stat().st_size
    done = 0
    for data, cut in journal.chunks(old.get("journal", {}).get("cuts", [])):
        if cut:
            writer.reconnected()
        writer.feed(data)
        done += len(data)
        if progress:
            progress(done, total)
    writer.meta["conditions"]["notes"].append(f"rebuilt from its journal ({total} bytes): {note}")
    if old.get("journal"):
        writer.meta["journal"] = old["journal"]
    writer.close(state)
    for name in _made():
        if (scratch / name).exists():
            os.replace(scratch / name, directory / name)
    meta.seal(directory, writer.meta)  # last: from here on the capture is whole
    shutil.rmtree(scratch)
    return meta.load(directory)


def _recover_rail(directory: Path) -> meta.Meta:
    """A meter's capture, from the samples that its recorder had been given. The host's log of commands was in memory."""
    old = meta.load(directory)
    scratch = directory / _SCRATCH
    if scratch.exists():
        shutil.rmtree(scratch)
    writer = CaptureWriter(scratch, rig=old["rig"], conditions=old["conditions"], journal=False, tick_ps=int(old["clock"]["tick_ps"]))
    for key in ("id", "workload", "drive", "software"):
        if old.get(key) is not None:
            writer.meta[key] = old[key]
    anchor = old["clock"].get("utc_anchor")
    if anchor:
        writer.set_anchor(anchor["tick"], anchor["utc_ns"])
    try:
        for source in journalled(directory):
            writer.add_rail_source(source)
            writer.last_tick = int(source.first_tick[-1]) + int(source.count[-1]) * int(source.interval_ticks[-1])
        writer.add_gap(Gap(spec.Kind.RAIL, writer.last_tick, writer.last_tick, -1, RECORDER_DIED))
        writer.note(f"rebuilt from its journal: {RECORDER_DIED}; what the host's log had of the drive's commands is lost with it")
        writer.close("recovered")
    except BaseException:
        writer.abandon()
        raise
    for name in (*_made(), LIVE):
        (directory / name).unlink(missing_ok=True)
        if (scratch / name).exists():
            os.replace(scratch / name, directory / name)
    meta.seal(directory, writer.meta)  # last: from here on the capture is whole
    shutil.rmtree(scratch)
    return meta.load(directory)


def _made() -> list[str]:
    return [f"{table}.parquet" for table in schema.TABLES] + [rail_file.NAME]


def _require_room(directory: Path, old: meta.Meta) -> None:
    """Raises CaptureError when the result of rebuilding will not fit the disk, judged by what the recorder had made of the journal's first
    part."""
    total = (directory / JOURNAL).stat().st_size
    converted = old["loss"].get("bytes_in") or 0
    if converted:
        samples = old["rail"].get("stored_samples") or old["rail"].get("samples") or 0
        commands = (old.get("counts") or {}).get("commands") or 0
        rest = max(0, converted - samples * _SAMPLE_BYTES[0] - commands * _COMMAND_BYTES[0])
        made = samples * _SAMPLE_BYTES[1] + commands * _COMMAND_BYTES[1] + rest * _REST
        wanted = int(made * max(1.0, total / converted)) + _FIXED_BYTES
    else:
        wanted = int(total * _SAMPLE_BYTES[1] / _SAMPLE_BYTES[0]) + _FIXED_BYTES
    missing = wanted - free_bytes(directory)
    if missing > 0:
        raise CaptureError(
            f"{directory} has to be rebuilt from its journal, which needs about {wanted} bytes, {missing} more than are free there. "
            "Free them, or copy the capture to a disk with more room and open it there; nothing in it is lost."
        )
