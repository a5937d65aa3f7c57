"""``wattbell results``: the store of suite runs."""

from __future__ import annotations

import json as json_module
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..clocks.host import in_utc
from ..errors import ResultsError, UsageError
from ..jsondata import JsonObject
from ..origin import Origin
from ..text import NOTHING, concise
from . import applies, complete, output
from .options import Json, StoreOption, Wide

if TYPE_CHECKING:
    from ..results import Run, Store

app = typer.Typer(
    no_args_is_help=True,
    help="""Keep the results of suite runs, with all they rest on, and look at them.

    The store is one SQLite file; sqlite3, DuckDB, pandas and Polars read it without us (docs/results.md).
    """,
)


def open_store(path: Path | None, create: bool = False) -> Store:
    """The store the user means. Raises ResultsError when there is none, unless ``create``."""
    from ..results import Store, default_path

    if path is not None and not create and not path.exists():
        raise ResultsError(f"There is no results store {path}; `wattbell results import DIR --store {path}` makes it.")
    return Store(path or default_path(), create)


def open_to_list(path: Path | None) -> Store | None:
    """Return the store the user means; None if the user named none and has none yet, so that no run is in it.

    Raises ResultsError for a named store that is missing, since its name may be mistyped.
    """
    from ..results import default_path

    return None if path is None and not default_path().exists() else open_store(path)


def _say_empty(opened: Store | None) -> None:
    from ..results import default_path

    which = f"There is no results store yet ({default_path()})" if opened is None else "The store is empty"
    output.say(f"{which}; `wattbell results import DIR` puts a run into it.")


def stamps(run: Run) -> str:
    """Return the words that must accompany every figure of a run."""
    named = {
        Origin.MEASURED: "real drive",
        Origin.VIRTUAL: f"model {run.profile}" if run.profile else "virtual",
        Origin.UNKNOWN: "origin unknown",
    }
    parts = [named[run.origin]]
    if run.scaled:
        parts.append(f"SCALED x{run.scale:g}")
    if run.lost:
        parts.append("DATA LOST: " + ", ".join(f"{n} {kind}" for kind, n in run.lost.items()))
    return ", ".join(parts)


@app.command("list")
def list_runs(store: StoreOption = None, wide: Wide = False, json: Json = False) -> None:
    """List the runs in the store.

    wattbell results list

    wattbell results list --json | jq '.[] | select(.suite == "anandtech-2018") | .id'
    """
    with open_to_list(store) or nullcontext() as opened:
        entries = [] if opened is None else opened.entries()
    if json:
        output.print_json([vars(entry) for entry in entries])
        return
    if not entries:
        _say_empty(opened)
        return
    table = output.table("id", "drive", "suite", ">scale", "condition", "rig", "started", ">lost", expendable=("rig", "started"))
    for e in entries:
        rig = {Origin.VIRTUAL: "virtual", Origin.MEASURED: "real"}.get(e.origin, "unknown")
        table.add_row(e.id, e.origin.marked(e.model), e.suite, f"{e.scale:g}", e.condition, rig, in_utc(e.started_utc), str(e.n_lost or ""))
    output.out.print(table)


@app.command("import")
def import_runs(
    directories: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Directories with a results.json.", autocompletion=complete.results),
    ],
    store: StoreOption = None,
    json: Json = False,
) -> None:
    """Put runs into the store. A run that is there already is refused.

    wattbell results import runs/660p-full

    wattbell results import runs/*
    """
    from ..results import read_run

    added = []
    with open_store(store, create=True) as opened:
        for directory in directories:
            run = read_run(directory)
            run_id = opened.add(run)
            added.append({"id": run_id, "path": str(directory)})
            if not json:
                output.out.print(f"{run_id}  {run.title}, {run.suite}, {run.condition} ({stamps(run)})", soft_wrap=True)
    if json:
        output.print_json(added)


@app.command("show")
def show(
    context: typer.Context,
    run: Annotated[str, typer.Argument(help="Id (or its beginning), or a results directory.", autocompletion=complete.results)],
    store: StoreOption = None,
    json: Json = False,
) -> None:
    """Show the scores of a run and the evidence for them.

    wattbell results show 3f2a
    """
    from rich.text import Text

    from ..present.chart import COVERS
    from ..results.load import resolve

    opened: list[Store] = []

    def get() -> Store:
        opened.append(open_store(store))
        return opened[0]

    found = resolve(run, get)
    if not opened and applies.is_given(context, "store"):
        raise UsageError(f"--store is for a run by its id; {run} is a directory, and is read itself. Leave --store out.")
    rests_on = opened[0].provenance(found.id) if opened else None
    if json:
        output.print_json({"provenance": rests_on, "results": dict(found.document)})
        return
    rest = f", {found.suite}, condition {found.condition or NOTHING}; {stamps(found)}"
    output.out.print(Text.assemble((found.title, "bold"), rest))
    table = output.table("test", "condition", "score", ">value", "unit", ">lost")
    for test in found.tests:
        for score in test.scores:
            name = score.name + (f" ({score.reading})" if score.reading else "")
            lost = str(score.value.lost or "")
            table.add_row(test.name, test.condition, name, concise(score.value), score.unit, lost)
    output.out.print(table)
    output.out.print(f"In brackets: expanded uncertainty (k = 2) in the last digits. {COVERS}", style="dim")
    if rests_on:
        _show_provenance(rests_on)


def _show_provenance(rests_on: JsonObject) -> None:
    table = output.table("", "")
    for key in ("id", "started_utc", "imported_utc", "source", "capture", "serial", "profile", "profile_hash", "suite_hash"):
        if rests_on.get(key):
            table.add_row(key.replace("_", " "), str(rests_on[key]))
    for part, version in rests_on["versions"].items():
        table.add_row(f"{part} version", version)
    for name, value in rests_on["conditions"].items():
        table.add_row(name.replace("_", " "), value if isinstance(value, str) else json_module.dumps(value))
    table.add_row("job files", f"{len(rests_on['jobs'])}, hashes with --json")
    output.out.print(table)


@app.command("export")
def export(
    runs: Annotated[list[str] | None, typer.Argument(metavar="[ID...]", help="Runs; all when none is given.")] = None,
    store: StoreOption = None,
) -> None:
    """Write runs with their provenance as one JSON document on stdout.

    wattbell results export > results.json

    wattbell results export 3f2a 91bc | jq '.[].results.tests[].scores'
    """
    with (open_store(store) if runs else open_to_list(store)) or nullcontext() as opened:
        if opened is None:
            output.print_json([])
            _say_empty(None)
            return
        chosen = [opened.get(name) for name in runs] if runs else opened.runs()
        output.print_json([{"provenance": opened.provenance(r.id), "results": dict(r.document)} for r in chosen])


@app.command("delete")
def delete(
    runs: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids, or their beginnings.")],
    store: StoreOption = None,
    json: Json = False,
) -> None:
    """Remove runs from the store. The directories they came from stay.

    wattbell results delete 3f2a
    """
    with open_store(store) as opened:
        ids = [opened.find(name) for name in runs]
        removed = [opened.delete(name) for name in dict.fromkeys(ids)]
    if json:
        output.print_json({"deleted": removed})
        return
    for run_id in removed:
        output.out.print(f"deleted {run_id}")
