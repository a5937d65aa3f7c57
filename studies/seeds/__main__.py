"""Holds every quantitative statement of the five seed articles against measured results: ``python -m studies.seeds``.

Each statement has limits and a reason for them (studies/seeds/statements). The exit code is 0 also where statements do not hold:
the page is the result. ``python -m studies.seeds.runs`` runs whatever the statements need first.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from wattbell import durable
from wattbell.cli import output
from wattbell.errors import ResultsError, WattbellError
from wattbell.results import Run, Store, default_path, read_run
from wattbell.virtual import simulator

from . import check, load_statements
from .check import VERDICTS, CheckedStatement, counts
from .markdown import GROUPS, markdown, to_json


def _runs(store: Path | None, directories: list[Path]) -> list[Run]:
    """Return the runs of the directories, and those of the store if it is named or nothing else is."""
    runs = [read_run(directory) for directory in directories]
    if store is not None or not runs:
        place = store or default_path()
        if not place.exists():
            raise ResultsError(f"There is no results store {place}; `wattbell results import DIR --store {place}` makes it.")
        runs += Store(place).runs()
    return runs


def _write(page: Path, outcomes: list[CheckedStatement]) -> None:
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        with durable.replacing(page) as made:
            made.write_text(markdown(outcomes), encoding="utf-8")
    except OSError as error:
        raise ResultsError(f"{page} cannot be written ({error.strerror}); choose another place.") from None


def _show(outcomes: list[CheckedStatement]) -> None:
    """Print the counts, and each statement that does not hold."""
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


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m studies.seeds", description=__doc__.partition("\n")[0])
    parser.add_argument("--store", type=Path, help="results store (default: in your data directory)")
    parser.add_argument("--run", type=Path, action="append", default=[], help="a results directory besides the store; may be repeated")
    parser.add_argument("--out", type=Path, help="Markdown file to write")
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.parse_args()
    try:
        outcomes = check(load_statements(), _runs(asked.store, asked.run), simulator.profiles_dir())
        if asked.out is not None:
            _write(asked.out, outcomes)
    except WattbellError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    if asked.json:
        output.print_json(to_json(outcomes))
        return 0
    _show(outcomes)
    if asked.out is not None:
        output.out.print(str(asked.out), soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
