"""The page of one or several suite runs, as written by ``wattbell run SUITE``, ``wattbell report`` and ``wattbell compare``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wattbell import durable
from wattbell.errors import ResultsError
from wattbell.jsondata import JsonObject
from wattbell.origin import warning_of
from wattbell.present import interactive
from wattbell.present.html import page
from wattbell.present.suite.entities import drive_key, stamp
from wattbell.present.suite.presentation import SuitePresentation
from wattbell.results import Run, Store, provenance, read_run
from wattbell.results.reference import references
from wattbell.results.sides import DriveSide


def comparable(runs: Sequence[Run], store: Store | None) -> list[Run]:
    """Return the store's runs of other drives with the same measurements as ``runs`` (same job files, same scale).

    For each drive this is the latest run, and older runs only if they have tests that no later one has.
    """
    if store is None:
        return []
    wanted = {(run.suite, run.suite_hash, run.scale) for run in runs}
    own = {drive_key(run) for run in runs}
    seen: set[tuple[str, str, str, str]] = set()
    out: list[Run] = []
    for run in reversed(store.runs()):
        if (run.suite, run.suite_hash, run.scale) not in wanted or drive_key(run) in own:
            continue
        tests = {(drive_key(run), run.suite, t.test, t.condition) for t in run.tests}
        if tests - seen:
            out.append(run)
            seen |= tests
    return out


def _rests_on(run: Run, store: Store | None) -> JsonObject:
    if run.id and store is not None:
        return store.provenance(run.id)
    folder = Path(run.source)
    if not folder.is_dir():
        return {}
    return {"jobs": provenance.job_hashes(folder), "capture": provenance.capture_of(folder)}


def write_run_page(directory: Path, out: Path, store: Path | None, plots: bool = True) -> Path:
    """Write the page of the run in a folder, and return its path.

    store: file of the store with other drives; None, or a file that is missing: without them

    Raises ResultsError as :func:`write_suite_page` does.
    """
    opened = Store(store, create=False) if store is not None and store.is_file() else None
    try:
        return write_suite_page([read_run(directory)], out, opened, plots)[0]
    finally:
        if opened is not None:
            opened.close()


def write_suite_page(
    runs: Sequence[Run],
    out: str | Path,
    store: Store | None = None,
    plots: bool = True,
    title: str | None = None,
) -> list[Path]:
    """Write one HTML page for ``runs``, each a side of its own. See :func:`write_presentation`."""
    return write_presentation(presented(runs, store), out, store, plots, title)


def presented(runs: Sequence[Run], store: Store | None = None, sides: Sequence[DriveSide] = ()) -> SuitePresentation:
    """Return the presentation of ``runs`` with other drives behind them.

    store: has the other drives of the performance against power chart; behind a single drive the reference set is drawn too
    sides: the runs that repeat one another; empty: each run is a side
    """
    background = comparable(runs, store)
    if len({drive_key(run) for run in runs}) == 1:  # of one drive: where does it stand?
        background += references([*runs, *background])
    return SuitePresentation(runs, background, sides)


def write_presentation(
    shown: SuitePresentation,
    out: str | Path,
    store: Store | None = None,
    plots: bool = True,
    title: str | None = None,
) -> list[Path]:
    """Write one HTML page, and each chart as PNG and SVG; return the paths, the page first.

    out: ending in ``.html``, that file, with the pictures in ``<stem>-plots/`` beside it. Otherwise a folder that gets ``compare.html`` or
        ``suite.html`` and ``plots/``.
    store: knows the provenance of its runs

    Raises ResultsError when there is nothing to draw or nothing can be written there.
    """
    runs = shown.runs
    if not any(run.tests for run in runs):
        raise ResultsError("These results hold no test; run a suite first.")
    target = Path(out)
    single = target.suffix.lower() in (".html", ".htm")
    name = "suite.html" if len(runs) == 1 else "compare.html"
    html = target if single else target / name
    folder = target.with_name(f"{target.stem}-plots") if single else target / "plots"
    drives = list(dict.fromkeys(run.title for run in runs))
    suites = ", ".join(dict.fromkeys(run.suite for run in runs))
    heading = title or (drives[0] if len(drives) == 1 else f"{len(drives)} drives compared")
    made = shown.sections({run.content_hash: _rests_on(run, store) for run in runs})
    text = page(
        "wattbell.present.pages",
        "suite.html",
        ("page.css", "bars.css", "suite.css"),
        ("plots.js",),
        {"P": interactive.plots(made), "B": interactive.bars(made), "C": shown.copied(), "O": warning_of(run.origin for run in runs)},
        title=heading,
        sub=suites,
        stamps=shown.stamps(),
        drives=dict.fromkeys((e.name, e.colour) for e in shown.entities),
        full=any(e.full for e in shown.entities),
        sections=made,
        **shown.banners(),
    )
    try:
        durable.make_folder(html.parent)
        with durable.replacing(html) as made_page:
            made_page.write_text(text, encoding="utf-8")
        if not plots:
            return [html]
        from wattbell.present.pictures import write_pictures  # takes a second, for matplotlib

        return [html, *write_pictures(made, folder, stamp(runs))]
    except OSError as error:
        raise ResultsError(f"The page cannot be written to {target} ({error.strerror or error}); choose another place.") from None
