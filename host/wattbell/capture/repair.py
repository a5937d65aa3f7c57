"""Repairs a damaged capture: rebuilds parts from the journal, sets the rest aside, and counts that as lost."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .. import door, durable
from ..errors import CaptureError
from . import hashes, meta, schema
from .check import Checkup, Progress, Remedy
from .journal import NAME as JOURNAL
from .journal import JournalReader
from .rail import NAME as RAIL
from .recover import RECORDER_DIED, rebuild
from .room import writing

_TICKS = ("cqe_tick", "tick", "first_tick")
_KINDS = {"commands": "COMMANDS", "rail_blocks": "RAIL", "events": "EVENTS", "tlps": "TLP", "status": "STATUS", "link": "LINK"}
"""`kind` of the gap for a lost table; without its gaps table, a capture may lack anything."""
ALL = "tables and waveform"


def repair(found: Checkup, progress: Progress | None = None) -> list[tuple[str, Remedy]]:
    """Repair a capture; return each file with the action taken. The capture is then whole and opens; every figure states its losses.

    A file set aside is not removed but renamed to end in :data:`~wattbell.capture.hashes.ASIDE`. Raises CaptureError when nothing can be
    done (``meta.json`` is lost and there is no journal), or the disk refuses a write.
    """
    if found.description is None and not found.journal:
        raise CaptureError(f"{found.path / meta.NAME} is lost, and there is no journal: restore {meta.NAME} from a copy of the capture.")
    done = [(file.name, found.remedy(file)) for file in found.damaged]
    if found.unfinished:
        done.append((ALL, Remedy.rebuild))
    if not done:
        return []
    description = _lost_meta() if found.description is None else found.description
    if (meta.NAME, Remedy.mark) in done:
        note = "meta.json was changed or damaged after the recording; what it says is taken as it stands"
        description["conditions"]["notes"].append(note)
    with writing(found.path):
        _set_aside(found.path, description, [name for name, remedy in done if remedy is Remedy.set_aside])
        rebuilt = [name for name, remedy in done if remedy is Remedy.rebuild]
        if rebuilt:
            _rebuild(found.path, description, rebuilt, progress)
        else:
            meta.seal(found.path, description)
    return done


def _rebuild(directory: Path, description: meta.Meta, names: list[str], progress: Progress | None) -> None:
    journal = JournalReader(directory)
    try:
        unfinished = description["state"] == "recording"
        note = RECORDER_DIED if unfinished else f"{', '.join(names)} had been damaged after the recording"
        rebuild(directory, journal, description, note, "recovered" if unfinished else description["state"], progress)
    finally:
        journal.close()


def _lost_meta() -> meta.Meta:
    made = meta.new()
    made["state"] = "recovered"
    lost = "meta.json was lost: which rig, what conditions, what workload, and where the line was cut is not known"
    made["conditions"]["notes"].append(lost)
    return made


def _set_aside(directory: Path, description: meta.Meta, names: Sequence[str]) -> None:
    """Put empty tables in place of damaged ones; the gaps table and ``meta.json`` say so. The caller seals the capture."""
    for name in names:
        if os.path.lexists(directory / name):
            os.replace(directory / name, directory / f"{name}{hashes.ASIDE}")
        (description.get("files") or {}).pop(name, None)
    tables = [table for table in schema.TABLES if f"{table}.parquet" in names]
    for table in tables:
        pq.write_table(schema.TABLES[table].empty_table(), directory / f"{table}.parquet")
    rows = []
    span = _span(directory, description) if tables or RAIL in names else (0, 0)
    for table in tables:
        # only for commands is the number of rows the number of losses
        count = (description.get("counts") or {}).get(table) if table == "commands" else None
        rows.append(_gap(_KINDS.get(table, schema.ANY_KIND), span, count or -1, f"{table}.parquet was damaged after the recording"))
        description["counts"] = {**(description.get("counts") or {}), table: 0}
    rail = description["rail"]
    if RAIL in names or ("rail_blocks" in tables and rail.get("breaks")):
        rows.append(_gap("RAIL", span, rail.get("samples") or -1, f"{RAIL} was damaged after the recording"))
        rail.update(first_tick=None, samples=0, stored_samples=0, breaks=0)
    lost = [name for name in names if name != JOURNAL]
    if lost:
        description["conditions"]["notes"].append(f"damaged after the recording, and lost: {', '.join(lost)}")
    if rows:
        _add_gaps(directory, rows)
        loss = description["loss"]
        loss["lossless"] = False
        gaps = loss.setdefault("gaps", {})
        for row in rows:
            gaps[row["kind"]] = gaps.get(row["kind"], 0) + 1
        description["counts"]["gaps"] = description["counts"].get("gaps", 0) + len(rows)


Row = Mapping[str, str | int]
"""A row of the table of gaps."""


def _gap(kind: str, span: tuple[int, int], count: int, reason: str) -> Row:
    return {"kind": kind, "first_tick": span[0], "last_tick": span[1], "count": count, "reason": reason}


def _add_gaps(directory: Path, rows: list[Row]) -> None:
    path = directory / "gaps.parquet"
    new = directory / "gaps.parquet.new"
    new.unlink(missing_ok=True)  # not through a link that somebody left there
    pq.write_table(pa.concat_tables([door.parquet_table(path), pa.Table.from_pylist(rows, schema=schema.GAPS)]), new)
    durable.replace(new, path)


def _span(directory: Path, description: meta.Meta) -> tuple[int, int]:
    """Return first and last tick of the remaining data."""
    ticks: list[int] = []
    rail = description["rail"]
    if rail.get("samples") and rail.get("first_tick") is not None:
        ticks += [rail["first_tick"], rail["first_tick"] + rail["samples"] * rail["interval_ticks"]]
    for name in hashes.names(directory):
        if not name.endswith(".parquet") or "/" in name:
            continue
        with door.parquet_file(directory / name) as file:
            column = next((column for column in _TICKS if column in file.schema_arrow.names), None)
            for batch in file.iter_batches(1 << 18, columns=[column]) if column else ():
                limits = pc.min_max(batch.column(0)).as_py()
                ticks += [tick for tick in limits.values() if tick is not None]
    return (min(ticks), max(ticks)) if ticks else (0, 0)
