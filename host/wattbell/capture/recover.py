"""Rebuilds a capture whose recorder died, from its journal."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from . import meta, schema
from . import rail as rail_file
from .journal import JournalReader
from .writer import CaptureWriter

Progress = Callable[[int, int], None]
"""Called with bytes done and bytes to do."""
_SCRATCH = ".rebuild"


def recover(directory: Path, progress: Progress | None = None) -> meta.Meta:
    """Rebuild every table and the waveform of `directory` from ``stream.wbs``; the journal is kept.

    Raises CaptureError when the recorder is alive or the journal is missing.
    """
    journal = JournalReader(directory)
    try:
        old = meta.load(directory)
        scratch = directory / _SCRATCH
        if scratch.exists():
            shutil.rmtree(scratch)
        writer = CaptureWriter(scratch, rig=old["rig"], conditions=old["conditions"], journal=False)
        for key in ("workload", "drive", "software", "journal"):
            if old.get(key) is not None:
                writer.meta[key] = old[key]
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
        writer.meta["conditions"]["notes"].append(
            f"rebuilt from its journal ({total} bytes): the recorder ended without completing the capture"
        )
        writer.meta["journal"] = old.get("journal", {})
        writer.close("recovered")
        for name in [f"{table}.parquet" for table in schema.TABLES] + [rail_file.NAME]:
            os.replace(scratch / name, directory / name)
        os.replace(scratch / meta.NAME, directory / meta.NAME)  # last: from here on the capture is whole
        shutil.rmtree(scratch)
        return meta.load(directory)
    finally:
        journal.close()
