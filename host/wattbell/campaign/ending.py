"""How a campaign ends: in the store, and on a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ResultsError
from ..results import Store, read_run
from ..suites.results import RESULTS
from ..virtual.voice import Voice

PAGE = "suite.html"


@dataclass(frozen=True)
class Ending:
    """Options for the results of a campaign.

    store: file of the store, None for none
    page: write ``suite.html``
    plots: write each chart of the page as PNG and SVG too
    """

    store: Path | None
    page: bool = True
    plots: bool = False

    def check(self) -> None:
        """Find out before a long run, not after it, that the store cannot be written."""
        if self.store is not None:
            Store(self.store).close()


@dataclass(frozen=True)
class Kept:
    """The results that a campaign left behind.

    results: results.json, which is in ``file``
    page: file of the page; None without a page
    known_as: the run's id in ``store``
    failed: why one of the files could not be written
    """

    results: Mapping[str, Any]
    file: Path
    page: Path | None
    store: Path | None
    known_as: str | None
    failed: tuple[ResultsError, ...] = ()

    def check(self) -> None:
        """ResultsError when something could not be written, or was not seen by the host's log of commands."""
        missing = (self.results.get("conditions") or {}).get("missing") or []
        wrong = [*map(str, self.failed), *(f"{text}. The figures over that time say so." for text in missing)]
        if wrong:
            raise ResultsError(f"The results are in {self.file}, but: {' '.join(wrong)}")


def keep(out: Path, data: Mapping[str, Any], ending: Ending, voice: Voice) -> Kept:
    """Keep the results in the store, then write the page, whether or not the store took them."""
    known_as = page = None
    failed: list[ResultsError] = []
    try:
        known_as = _store(out, ending)
    except ResultsError as error:
        failed.append(error)
    try:
        page = _page(out, ending, voice)
    except ResultsError as error:
        failed.append(error)
    return Kept(data, out / RESULTS, page, ending.store, known_as, tuple(failed))


def _store(out: Path, ending: Ending) -> str | None:
    """Put the run into the store; return its id there. A run that is there already is left unchanged."""
    if ending.store is None:
        return None
    run = read_run(out)
    with Store(ending.store) as store:
        return store.known(run) or store.add(run)


def _page(out: Path, ending: Ending, voice: Voice) -> Path | None:
    if not ending.page:
        return None
    from ..present.pages.suite import write_run_page  # Jinja2 and the charts take a third of a second to import

    with voice.spinner("drawing"):
        return write_run_page(out, out / PAGE, ending.store, ending.plots)
