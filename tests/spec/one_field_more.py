"""Print in JSON where a new field of a command shows: ``python -m tests.spec.one_field_more FOLDER``.

The field is added to the specification before anything else is imported, and nowhere else. Its value is 7 in the one command of a stream.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from wattbell_spec import wire

PROBE = 7
FIELDS = (wire.Field("probe", 8, "SQE byte 1", truth=True), wire.Field("reserved_tail", 24, "zero"))
wire.COMMAND = (*wire.COMMAND, *FIELDS)  # type: ignore[assignment]
wire.COMMAND_SIZE = wire.record_size(wire.COMMAND)


def recorded_capture(folder: Path) -> Any:
    """Record a stream of one command."""
    from tests.host.capture.streams import recorded, run
    from tests.host.wire import encoder

    command = encoder.Command(6_000, doorbell_before=500, fetch_before=400, cid=3, slba=9).pack(5_000) + bytes([PROBE, 0, 0, 0])
    return recorded(folder / "capture", *run(encoder.block(1, 2, 5_000, command), commands=1, last=9_000))


def decoded(folder: Path) -> str:
    """Return the sigrok decoder's text of the command, with tables made anew."""
    from wattbell_spec import sigrok

    from tests.host.wire import encoder

    package = folder / "decoder"
    shutil.copytree(Path(sys.modules["wattbell"].__path__[0]) / "export/decoders/wattbell", package, ignore=lambda *_: ["__init__.py"])
    (package / "tables.py").write_text(sigrok.tables())
    (package / "__init__.py").write_text("")
    spec = importlib.util.spec_from_file_location("decoder", package / "__init__.py", submodule_search_locations=[str(package)])
    assert spec is not None and spec.loader is not None
    sys.modules["decoder"] = importlib.util.module_from_spec(spec)
    records = importlib.import_module("decoder.records")
    payload = encoder.Command(6_000, doorbell_before=500).pack(5_000) + bytes([PROBE, 0, 0, 0])
    ((_, _, texts),) = records.commands(payload)
    return str(texts[0])


def found(folder: Path) -> dict[str, Any]:
    """Return the field as each consumer has it."""
    import polars as pl
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace
    from wattbell.analysis import analyze
    from wattbell.capture import schema
    from wattbell.export import export_csv, export_parquet, export_perfetto
    from wattbell.measure.table import load_commands
    from wattbell.view.answers import command_rows
    from wattbell_spec import capture_page, rust, view

    capture = recorded_capture(folder)
    rows = capture.commands.collect()
    export_csv(capture, folder / "csv")
    export_parquet(capture, folder / "parquet")
    trace = Trace.FromString(export_perfetto(capture, folder / "x.pftrace").read_bytes())
    notes = [(note.name, note.int_value) for packet in trace.packet for note in packet.track_event.debug_annotations]
    shown = rows.with_columns(pl.lit(0).alias("bytes"), pl.lit(0).alias("index"))
    capture.workload_dir.mkdir(exist_ok=True)
    (capture.workload_dir / "truth.json").write_text(json.dumps({"phases": []}))
    names = ("qid", "cid", "opcode", "slba", "status", "probe", "doorbell_ps", "fetch_ps", "first_data_ps", "last_data_ps", "cqe_ps")
    truth = dict(zip(names, (1, 3, 2, 9, 0, PROBE + 1, 5_500_000, 5_600_000, "", "", 6_000_000), strict=True))
    with (capture.workload_dir / "truth-commands.csv").open("w") as file:
        writer = csv.DictWriter(file, [*names, "msix_ps", "cq_head_ps"])
        writer.writeheader()
        writer.writerow(truth)
    page = capture_page.markdown(f"{capture_page.BEGIN}{capture_page.END}")
    with (folder / "csv" / "commands.csv").open() as file:
        (row,) = csv.DictReader(file)
    return {
        "capture": rows["probe"].to_list(),
        "figures": load_commands(capture.commands, {0: 512}).probe.tolist(),
        "csv": row["probe"],
        "parquet": pl.read_parquet(folder / "parquet" / "commands.parquet")["probe"].to_list(),
        "perfetto": [value for name, value in notes if name == "probe"],
        "view": command_rows(shown, 0, 1e-9)["probe"].to_list(),
        "page": '["probe", "probe"]' in view.fields(),
        "truth": analyze(capture)["truth"]["commands"]["wrong_probe"],
        "sigrok": decoded(folder),
        "rust": [line.strip() for line in rust.command().splitlines() if "probe" in line],
        "documented": [line for line in page.splitlines() if line.startswith("| `probe`")],
        "later": "probe" in schema.LATER_COLUMNS["commands"],
    }


if __name__ == "__main__":
    print(json.dumps(found(Path(sys.argv[1]))))
