"""``wattbell seeds-check``: the statements of the seed articles compared with measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import ResultsError
from . import complete, output
from .options import Json, StoreOption
from .results import open_store


def seeds_check(
    results: StoreOption = None,
    directories: Annotated[
        list[Path] | None,
        typer.Option(
            "--run",
            help="A results directory to use besides the store; may be repeated.",
            autocompletion=complete.results,
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Markdown file to write.")] = None,
    json: Json = False,
) -> None:
    """Hold every quantitative statement of the five seed articles against the measured results.

    Each statement has limits and a reason for them (host/wattbell/seeds/statements). The exit code is 0 also where
    statements do not hold: the page is the result.

      wattbell seeds-check --store results.sqlite --out docs/seeds-check.md
    """
    from .. import durable
    from ..results import Run, read_run
    from ..seeds import check, load_statements
    from ..seeds.check import VERDICTS, counts
    from ..seeds.markdown import GROUPS, markdown, to_json
    from ..virtual import simulator

    runs: list[Run] = [read_run(directory) for directory in directories or []]
    if results is not None or not runs:
        runs += open_store(results).runs()
    with output.spinner("checking the statements"):
        outcomes = check(load_statements(), runs, simulator.profiles_dir())
    if out is not None:
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            with durable.replacing(out) as made:
                made.write_text(markdown(outcomes), encoding="utf-8")
        except OSError as error:
            raise ResultsError(f"{out} cannot be written ({error.strerror}); choose another place.") from None
    if json:
        output.print_json(to_json(outcomes))
        return
    table = output.table("statements", *(f">{verdict}" for verdict in VERDICTS))
    for group, row in counts(outcomes).items():
        table.add_row(GROUPS[group].replace("*", ""), *(str(row[verdict] or "") for verdict in VERDICTS))
    output.out.print(table)
    for outcome in outcomes:
        if outcome.verdict == "does not hold":
            s = outcome.statement
            found = outcome.text if outcome.value is None else f"{outcome.value.value:.4g} {s.unit}".strip()
            marks = "".join(f" ({mark})" for mark in dict.fromkeys(run.origin.mark for run in outcome.runs) if mark)
            output.out.print(f"does not hold: {s.id} ({outcome.group}): {s.stated or s.equals}; measured {found}{marks}", soft_wrap=True)
    if out is not None:
        output.out.print(str(out), soft_wrap=True)
