"""``wattbell compare``: many drives on one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ResultsError, UsageError
from ..jsondata import JsonObject
from . import applies, complete, output
from .options import Json, StoreOption, Wide
from .results import open_store

if TYPE_CHECKING:
    from ..results import Run, Store


def compare(
    context: typer.Context,
    references: Annotated[
        list[str],
        typer.Argument(
            metavar="A B...",
            help="Results directories, capture directories, or ids in the store.",
            autocompletion=complete.captures_and_results,
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file, or a folder.")] = Path("compare.html"),
    plots: Annotated[bool, typer.Option(help="Write each plot as PNG and SVG too.")] = True,
    mixed: Annotated[
        bool, typer.Option("--mixed", help="Put runs of different scales or suite versions on one page, which says so.")
    ] = False,
    store: StoreOption = None,
    wide: Wide = False,
    json: Json = False,
) -> None:
    """Write one page for several runs: scores, queue depths, mixes, power, fill, consistency, power states.

    Of captures it also prints what one command costs by class, side by side with the first one's, and whether that differs by more than
    is known; where the joules of each phase went; and the power states that were found.

    One reference makes the page of that run. Drives in the store that ran the same job files at the same scale stand in
    grey behind the chart of performance against power.

      wattbell compare runs/660p runs/p1 --out compare.html

      wattbell compare 3f2a 91bc --json
    """
    from ..present.suite import energies
    from ..present.suite.entities import mixtures
    from ..report.suite import write_suite_page
    from ..results import default_path
    from ..results.load import resolve

    if store is not None and applies.is_given(context, "store") and not store.is_file():
        raise UsageError(f"{store}: there is no store; `wattbell results import DIR --store {store}` makes one. Or leave --store out.")
    opened: list[Store] = []

    def get() -> Store:
        if not opened:
            opened.append(open_store(store))
        return opened[0]

    runs: list[Run] = []
    for reference in references:
        with output.spinner(f"reading {reference}"):
            run = resolve(reference, get)
        if any(run.content_hash == other.content_hash for other in runs):
            raise ResultsError(f"{reference} is the same run as one before it; name each run once.")
        runs.append(run)
    found = mixtures(runs)
    hard = [reason for reason in found if "scaled" in reason or "different versions" in reason]
    if hard and not mixed:
        raise ResultsError(f"{' '.join(hard)} With --mixed they go on one page, which says so.")
    if not opened and (store or default_path()).is_file():
        get()
    with output.spinner("drawing"):
        written = write_suite_page(runs, out, opened[0] if opened else None, plots)
    if json:
        about = {"written": [str(path) for path in written], "not_comparable": found}
        output.print_json({**about, "runs": _figures(runs), "differences": energies.to_json(runs)})
        return
    for reason in filter(None, (*found, energies.without(runs))):
        output.say(reason)
    for part in energies.printed(runs):
        output.out.print(part)
    output.out.print(str(written[0]), soft_wrap=True)
    if len(written) > 1:
        output.out.print(f"{written[1].parent} ({len(written) - 1} pictures)", soft_wrap=True)


def _figures(runs: Sequence[Run]) -> list[JsonObject]:
    return [
        {
            "id": run.id or run.content_hash[:12],
            "drive": run.drive_name,
            "suite": run.suite,
            "suite_hash": run.suite_hash,
            "scale": run.scale,
            "virtual": run.origin.stated,
            "origin": run.origin.value,
            "lost": run.lost,
            "scores": [
                {"test": t.test, "condition": t.condition, "name": s.name, "reading": s.reading, "unit": s.unit,
                 "value": s.value.value, "u": s.value.u, "n_lost": s.value.lost}
                for t in run.tests for s in t.scores
            ],
            "energy": run.document.get("energy"),
        }
        for run in runs
    ]  # fmt: skip
