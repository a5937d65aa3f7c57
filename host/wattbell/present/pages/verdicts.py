"""The page of ``wattbell judge``: the verdicts on each drive, and the text of every requirement behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from wattbell import durable
from wattbell.errors import ResultsError
from wattbell.present.html import page
from wattbell.present.verdicts import explained, table
from wattbell.requirements.judging import Verdicts
from wattbell.requirements.model import RequirementFile


def write_verdicts_page(found: Sequence[Verdicts], files: Sequence[RequirementFile], out: Path) -> Path:
    """Write one HTML page; return its path. Raises ResultsError when it cannot be written."""
    tables = [table(one, files) for one in found]
    text = page(
        "wattbell.present.pages",
        "verdicts.html",
        ("page.css", "suite.css", "verdicts.css"),
        (),
        {},
        title="Verdicts" if len(found) > 1 else f"Verdicts on {found[0].drive}",
        sub=", ".join(f"{file.title} ({file.source})" for file in files),
        warning="; ".join(dict.fromkeys(one.warning for one in found if one.warning)),
        drives=[(one.drive, f"From {', '.join(one.sources)}.") for one in found],
        tables=[replace(made, title="") for made in tables],
        requirements=[
            {"name": f"{file.name}/{one.id}", "title": one.title, "rows": explained(file, one)}
            for file in files
            for one in file.requirement
        ],
    )
    try:
        with durable.replacing(out) as made:
            made.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ResultsError(f"{out} cannot be written ({error.strerror}).") from None
    return out
