"""Where a run of a suite ends: in the store, on a page, and in a last table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from ..errors import ResultsError
from ..suites.results import RESULTS
from ..suites.summary import summary
from . import output

PAGE = "suite.html"


@dataclass(frozen=True)
class Ending:
    """What is done with the results. ``store``: file of the store, None for none; ``page``: write ``suite.html``;
    ``plots``: each of its charts as PNG and SVG too."""

    store: Path | None
    page: bool = True
    plots: bool = False

    def check(self) -> None:
        """Find out before a long run, not after it, that the store cannot be written."""
        if self.store is not None:
            from ..results import Store

            Store(self.store).close()


def finish(out: Path, data: Mapping[str, Any], ending: Ending, json: bool) -> None:
    """Keep the results in the store, write the page, print the table (or the JSON).

    Raises ResultsError when the store or the page could not be written, after everything else was done.
    """
    kept = page = None
    failed: list[ResultsError] = []
    try:
        kept = _keep(out, ending)
    except ResultsError as error:
        failed.append(error)
    try:
        page = _page(out, ending)
    except ResultsError as error:
        failed.append(error)
    if json:
        output.print_json(data)
    else:
        output.out.print(summary(data))
        _places(out, ending, kept, page)
    if failed:
        raise ResultsError(f"The results are in {out / RESULTS}, but: {' '.join(map(str, failed))}")


def _keep(out: Path, ending: Ending) -> str | None:
    """Put the run into the store; its id there. A run that is there already stays as it is."""
    if ending.store is None:
        return None
    from ..results import Store, read_run

    run = read_run(out)
    with Store(ending.store) as store:
        return store.known(run) or store.add(run)


def _page(out: Path, ending: Ending) -> Path | None:
    if not ending.page:
        return None
    from ..report.suite import write_suite_page
    from ..results import Store, read_run

    with output.spinner("drawing"):
        store = Store(ending.store, create=False) if ending.store is not None and ending.store.is_file() else None
        try:
            return write_suite_page([read_run(out)], out / PAGE, store, ending.plots)[0]
        finally:
            if store is not None:
                store.close()


def _places(out: Path, ending: Ending, kept: str | None, page: Path | None) -> None:
    rows = [("results", str(out / RESULTS))]
    if page is not None:
        rows.append(("page", str(page)))
    if kept is not None:
        rows.append(("store", f"{ending.store}, as {kept}"))
    for name, place in rows:
        output.out.print(Text.assemble((f"{name:8}", "grey58"), " ", place), soft_wrap=True)
