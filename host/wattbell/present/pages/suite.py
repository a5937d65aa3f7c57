"""The page of one or several suite runs, as written by ``wattbell run SUITE``, ``wattbell report`` and ``wattbell compare``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from wattbell import durable
from wattbell.errors import ResultsError
from wattbell.jsondata import JsonObject
from wattbell.origin import Origin, warning_of
from wattbell.present import interactive
from wattbell.present.chart import Bars, Chart, ChartSection
from wattbell.present.html import page
from wattbell.present.suite import curves, energies, peaks, power, poweron, scores, sidebyside, tables, transitions
from wattbell.present.suite.entities import drive_key, entities, mixtures, stamp
from wattbell.results import Run, Store, provenance, read_run
from wattbell.results.comparison import compare_sides
from wattbell.results.reference import references
from wattbell.results.sides import DriveSide, sides_of


def sections(
    runs: Sequence[Run],
    background: Sequence[Run] = (),
    rests_on: Mapping[str, Any] | None = None,
    sides: Sequence[DriveSide] = (),
) -> list[ChartSection]:
    """All sections of the page for which these runs have data. ``sides``: which of the runs repeat one another; each is one without it."""
    found = entities(runs)
    sides = sides or sides_of([[run] for run in runs], given=True)
    compared = compare_sides(sides)
    made = [
        sidebyside.section(compared),
        scores.scores(found, background),
        scores.queue_depths(found),
        scores.mixes(found),
        tables.matrices(found),
        curves.rounds(found),
        scores.against_power(found, background),
        curves.fill(found),
        curves.consistency(found),
        scores.traces(found, background),
        curves.idle(found, background),
        *energies.sections(sides, compared),
        power.features(runs),
        transitions.section(found),
        poweron.starts(found),
        peaks.highest(found),
        tables.every_figure(found),
        tables.provenance(runs, rests_on or {}),
    ]
    return _named_apart([section for section in made if section.blocks])


def _named_apart(found: list[ChartSection]) -> list[ChartSection]:
    """The sections, each chart with a unique key, which names its files and its place on the page."""
    taken: set[str] = set()
    for section in found:
        for i, block in enumerate(section.blocks):
            if not isinstance(block, Bars | Chart):
                continue
            key, n = block.key, 1
            while key in taken:
                n += 1
                key = f"{block.key}-{n}"
            taken.add(key)
            section.blocks[i] = replace(block, key=key)
    return found


def _merged(notes: Sequence[tuple[str, str]]) -> list[str]:
    """One line for each note, preceded by the drives it concerns."""
    drives: dict[str, dict[str, None]] = {}
    for drive, note in notes:
        drives.setdefault(note, {})[drive] = None
    return [f"{', '.join(names)}: {note}" for note, names in drives.items()]


def _notes(run: Run) -> list[str]:
    conditions: Any = run.told.get("conditions")
    places = [run.told.get("notes"), conditions.get("notes") if isinstance(conditions, dict) else None]
    return list(dict.fromkeys(str(n) for notes in places if isinstance(notes, list) for n in notes))


_ROUTINE = ("busy for ", "steady in rounds ")
"""How notes begin that report nothing unusual."""


def _test_notes(run: Run) -> list[tuple[str, bool]]:
    """(note with the names and conditions of the tests that have it, whether it is routine) for every note of a test."""
    several = len({test.condition for test in run.tests}) > 1
    tests: dict[str, dict[str, None]] = {}
    for test in run.tests:
        for note in test.notes:
            tests.setdefault(note, {})[f"{test.name}{f' ({test.condition})' if several and test.condition else ''}"] = None
    return [(f"{_listed(names, len(run.tests))}: {note}", note.startswith(_ROUTINE)) for note, names in tests.items()]


def _listed(names: Iterable[str], of: int) -> str:
    found = list(names)
    return ", ".join(found) if len(found) < max(of, 2) else "every test"


def _stamps(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Return (CSS class, text) of the warnings that the reader needs before any figure."""
    stamps = []
    scaled = sorted({run.scale for run in runs if run.scaled})
    if scaled:
        text = "SCALED " + ", ".join(f"×{s:g}" for s in scaled)
        stamps.append(("bad", f"{text}: time and span shortened, figures not those of the whole suite"))
    for origin, style, text in (
        (Origin.VIRTUAL, "model", "MODEL on the virtual rig"),
        (Origin.UNKNOWN, "bad", "ORIGIN UNKNOWN, measured or computed"),
    ):
        if names := dict.fromkeys(run.profile or run.drive_name for run in runs if run.origin is origin):
            stamps.append((style, f"{text}: {', '.join(names)}"))
    if any(run.lost or any(t.lost for t in run.tests) for run in runs):
        stamps.append(("bad", "DATA LOST"))
    return stamps


def _banners(runs: Sequence[Run]) -> dict[str, list[str]]:
    """Return the lists of remarks on the runs that suite.html shows before their figures."""
    lost = [f"{run.title}, {run.suite}: {n} {kind}" for run in runs for kind, n in run.lost.items()]
    lost += [f"{r.title}, {t.name} ({t.condition}): {n} {kind}" for r in runs for t in r.tests for kind, n in t.lost.items()]
    notes = [(run.title, text, routine) for run in runs for text, routine in _test_notes(run)]
    warnings = _merged([(run.title, note) for run in runs for note in _notes(run)])
    return {
        "mixed": mixtures(runs),
        "lost": lost,
        "short": [f"{run.title}, {run.suite}: interrupted; {n} of {run.planned} tests are missing" for run in runs if (n := run.missing)],
        "warnings": warnings + _merged([(title, text) for title, text, routine in notes if not routine]),
        "routine": _merged([(title, text) for title, text, routine in notes if routine]),
    }


def _copied(runs: Sequence[Run]) -> str:
    """Return the text of a chart that is copied: drives, suite, the warnings before any figure, and versions."""
    lines = [
        ", ".join(dict.fromkeys(run.title for run in runs)),
        ", ".join(dict.fromkeys(run.suite for run in runs)),
        " · ".join(text for _, text in _stamps(runs)) or "measured at the drive's connector",
        "made with Wattbell",
    ]
    for run in runs:
        conditions: Any = run.told.get("conditions") or {}
        told = [f"{k}: {v}" for k, v in conditions.items() if isinstance(v, str | int | float)]
        told += [f"{k} {v}" for k, v in (run.told.get("versions") or {}).items() if v]
        lines.append(f"{run.title}, {run.suite}, job files {run.suite_hash[:19]}, {run.started}: {', '.join(told)}")
    return "\n".join([*lines, *mixtures(runs)])


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
    sides: Sequence[DriveSide] = (),
) -> list[Path]:
    """Write one HTML page for ``runs``, and each chart as PNG and SVG; return the paths, the page first.

    out: ending in ``.html``, that file, with the pictures in ``<stem>-plots/`` beside it. Otherwise a folder that gets ``compare.html`` or
        ``suite.html`` and ``plots/``.
    store: has the other drives of the performance against power chart; behind a single drive the reference set is drawn too
    sides: the runs that repeat one another

    Raises ResultsError when there is nothing to draw or nothing can be written there.
    """
    if not runs or not any(run.tests for run in runs):
        raise ResultsError("These results hold no test; run a suite first.")
    target = Path(out)
    single = target.suffix.lower() in (".html", ".htm")
    name = "suite.html" if len(runs) == 1 else "compare.html"
    html = target if single else target / name
    folder = target.with_name(f"{target.stem}-plots") if single else target / "plots"
    drives = list(dict.fromkeys(run.title for run in runs))
    suites = ", ".join(dict.fromkeys(run.suite for run in runs))
    heading = title or (drives[0] if len(drives) == 1 else f"{len(drives)} drives compared")
    rests_on = {run.content_hash: _rests_on(run, store) for run in runs}
    background = comparable(runs, store)
    if len({drive_key(run) for run in runs}) == 1:  # of one drive: where does it stand?
        background += references([*runs, *background])
    made = sections(runs, background, rests_on, sides)
    found = entities(runs)
    text = page(
        "wattbell.present.pages",
        "suite.html",
        ("page.css", "bars.css", "suite.css"),
        ("plots.js",),
        {"P": interactive.plots(made), "B": interactive.bars(made), "C": _copied(runs), "O": warning_of(run.origin for run in runs)},
        title=heading,
        sub=suites,
        stamps=_stamps(runs),
        drives=dict.fromkeys((e.name, e.colour) for e in found),
        full=any(e.full for e in found),
        sections=made,
        **_banners(runs),
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
