"""``wattbell compare``: drives side by side, in the terminal and on one page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import ResultsError, UsageError
from ..jsondata import JsonObject
from . import applies, complete, numbers, output
from .judge import exit_codes, write_junit
from .options import ExitCodes, Json, Junit, StoreOption, Wide
from .quantities import PERCENT
from .results import open_store

if TYPE_CHECKING:
    from ..measure.judge import Verdict
    from ..results import Run, Store


_WITH = "--with"
_NEXT_SIDE = "\0with"
"""Represents ``--with`` among the references: no path or id has that character."""


class CompareCommand(applies.Checked):
    """Takes the references behind ``--with`` as another side, however many runs it has."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as Click does, with each ``--with`` kept at its place among the references."""
        end = args.index("--") if "--" in args else len(args)
        made: list[str] = []
        for arg in args[:end]:
            name, equals, value = arg.partition("=")
            made += [_WITH, _NEXT_SIDE, *([value] if equals else [])] if name == _WITH else [arg]
        return super().parse_args(ctx, [*made, *args[end:]])


def compare(
    context: typer.Context,
    references: Annotated[
        list[str],
        typer.Argument(
            metavar="A B...",
            help="Results directories, those of `run --repeat`, capture directories, or ids in the store.",
            autocompletion=complete.captures_and_results,
        ),
    ],
    another_side: Annotated[bool, typer.Option(_WITH, help="What follows are runs of another side: A1 A2 A3 --with B1 B2 B3.")] = False,
    stored: Annotated[
        bool,
        typer.Option("--stored", help="Take with each run those of the store that repeat it: drive, firmware, suite, scale, conditions."),
    ] = False,
    gate: Annotated[
        float | None,
        typer.Option(
            "--gate",
            metavar="PERCENT",
            parser=PERCENT,
            callback=numbers.between(1e-3, 50.0, "percent"),
            help="Judge whether the second firmware is worse by more than this; exit code 3 if it is.",
        ),
    ] = None,
    junit: Junit = None,
    codes: ExitCodes = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file, or a folder.")] = Path("compare.html"),
    plots: Annotated[bool, typer.Option(help="Write each plot as PNG and SVG too.")] = True,
    mixed: Annotated[
        bool, typer.Option("--mixed", help="Put runs of different scales or suite versions on one page, which says so.")
    ] = False,
    store: StoreOption = None,
    wide: Wide = False,
    json: Json = False,
) -> None:
    """Put drives side by side: rate, power, bytes per joule, idle power and wake-up of each test, each against the first drive.

    Whether two drives differ takes repeats: at least 3 runs of each side,
    better 5. The spread between them is then the noise. With fewer there is
    no verdict, only how large a difference would have to be at least.

    Runs of one drive that did the same are put together, unless all are of
    one drive. --with says where the runs of another side begin.

    Captures are also compared by the energy of a command of each class, by
    the use of each phase's energy, and the power states that were found.

    The page has all figures with charts. One reference makes the page of that
    run. Drives in the store that ran the same job files at the same scale
    are shown in grey behind the chart of performance against power.

    --gate takes runs of one model before and after a change of its firmware.
    The firmware revision tells the sides apart, or --with does. The exit code
    is 0 if no figure is worse by more than the gate, 3 if one is, 4 if that
    is undecided. The page is only written with --out.

      wattbell run quick --virtual intel-660p-1tb --repeat 5 --out old

      wattbell compare old new --out compare.html

      wattbell compare a1 a2 a3 --with b1 b2 b3

      wattbell compare 3f2a 91bc --stored --json

      wattbell compare old new --gate 1% --junit gate.xml
    """
    from ..present.pages.suite import presented, write_presentation
    from ..present.suite import energies, sidebyside
    from ..results import default_path
    from ..results.sides import repeats_key, sides_of

    if store is not None and applies.is_given(context, "store") and not store.is_file():
        raise UsageError(f"{store}: there is no store; `wattbell results import DIR --store {store}` makes one. Or leave --store out.")
    opened: list[Store] = []

    def get() -> Store:
        if not opened:
            opened.append(open_store(store))
        return opened[0]

    kept = get().runs() if stored else []
    named = [_read(names, get, [] if another_side else kept, repeats_key) for names in _by_side(references)]
    if another_side:
        groups = [[run for group in side for run in group] for side in named]
        if stored:
            _told_apart(groups, kept, repeats_key)
            groups = [_with_kept(group, kept, repeats_key) for group in groups]
    else:
        groups = named[0]
    _each_once(groups)
    if gate is not None:
        code = _gated(context, groups, gate / 100, exit_codes(codes), junit, out, plots, json)
        if code:
            raise typer.Exit(code)
        return
    sides = sides_of(groups, given=another_side)
    runs = [run for side in sides for run in side.runs]
    if not opened and (store or default_path()).is_file():
        get()
    shown = presented(runs, opened[0] if opened else None, sides)
    hard = [reason for reason in shown.mixed if "scaled" in reason or "different versions" in reason]
    if hard and not mixed:
        raise ResultsError(f"{' '.join(hard)} With --mixed they go on one page, which says so.")
    with output.spinner("drawing"):
        written = write_presentation(shown, out, opened[0] if opened else None, plots)
    if json:
        about = {"written": [str(path) for path in written], "not_comparable": shown.mixed}
        output.print_json({**about, "runs": _figures(runs), "differences": sidebyside.to_json(shown.compared)})
        return
    for reason in filter(None, (*shown.mixed, energies.without(runs))):
        output.say(reason)
    if len(sides) > 1:
        for part in energies.printed(shown.compared, output.out.width):
            output.out.print(part)
    output.out.print(str(written[0]), soft_wrap=True)
    if len(written) > 1:
        output.out.print(f"{written[1].parent} ({len(written) - 1} pictures)", soft_wrap=True)


def _gated(
    context: typer.Context,
    groups: Sequence[Sequence[Run]],
    gate: float,
    codes: Mapping[Verdict, int],
    junit: Path | None,
    out: Path,
    plots: bool,
    json: bool,
) -> int:
    """Judge the change between two sides, print the verdicts, write the files that are asked for, and return the exit code."""
    from ..present.pages.suite import presented, write_presentation
    from ..present.suite import gate as told
    from ..present.terminal import drawn
    from ..requirements import judging
    from ..requirements.junit import junit as as_junit
    from ..requirements.of_gate import verdicts_of
    from ..results.gate import gated_sides, judge_change

    a, b = gated_sides(groups, given=applies.is_given(context, "another_side"))
    found = judge_change(a, b, gate)
    verdicts = verdicts_of(found)
    code = judging.exit_code([verdicts], codes) if found.tested else UNJUDGED
    if junit is not None:
        write_junit(junit, as_junit([verdicts], "wattbell compare --gate"))
    written: list[Path] = []
    if applies.is_given(context, "out"):
        with output.spinner("drawing"):
            written = write_presentation(presented([*a.runs, *b.runs], None, [a, b]), out, None, plots)[:1]
    if json:
        output.print_json(told.gate_json(found, code))
        return code
    if verdicts.warning:
        output.say(verdicts.warning)
    for line in (*told.sides_told(found), *told.spreads_told(found)):
        output.say(line)
    output.out.print(drawn(told.gate_table(found)))
    output.say(f"{told.method_told(found)}.")
    for path in filter(None, (junit, *written)):
        output.out.print(str(path), soft_wrap=True)
    return code


UNJUDGED = 4
"""Exit code if no figure could be judged, whatever ``--exit-codes`` says: nothing has passed."""


def _by_side(references: Sequence[str]) -> list[list[str]]:
    """The references before ``--with``, and behind each."""
    sides: list[list[str]] = [[]]
    for reference in references:
        if reference == _NEXT_SIDE:
            sides.append([])
        else:
            sides[-1].append(reference)
    if not all(sides):
        raise UsageError("--with stands between the runs of two sides: A1 A2 A3 --with B1 B2 B3.")
    return sides


def _read(names: Sequence[str], get: Callable[[], Store], kept: Sequence[Run], key: Callable[[Run], str]) -> list[list[Run]]:
    """Return the runs of each reference.

    With ``kept``, stored runs that repeat them are added, and a reference that is among another one's runs is left out.
    """
    from ..results.load import resolve_all

    groups: list[list[Run]] = []
    for name in names:
        with output.spinner(f"reading {name}"):
            group = resolve_all(name, get)
        taken = {run.content_hash for one in groups for run in one}
        if kept and all(run.content_hash in taken for run in group):
            continue
        groups.append(_with_kept(group, kept, key))
    return groups


def _with_kept(group: Sequence[Run], kept: Sequence[Run], key: Callable[[Run], str]) -> list[Run]:
    """Return the group, and the stored runs that repeat one of its runs."""
    keys, hashes = {key(run) for run in group}, {run.content_hash for run in group}
    return [*group, *(run for run in kept if key(run) in keys and run.content_hash not in hashes)]


def _told_apart(groups: Sequence[Sequence[Run]], kept: Sequence[Run], key: Callable[[Run], str]) -> None:
    """ResultsError where runs of the store repeat the runs of two sides alike: nothing says to which side they belong."""
    from ..results.sides import letter

    taken: dict[str, int] = {}
    named = {run.content_hash for group in groups for run in group}
    undecided = {key(run) for run in kept if run.content_hash not in named}
    for i, group in enumerate(groups):
        for one in {key(run) for run in group} & undecided:
            if taken.setdefault(one, i) != i:
                text = f"Runs of the store repeat the runs of side {letter(taken[one])} and of side {letter(i)} alike"
                raise ResultsError(f"{text}: name those of each side by their ids, and leave out --stored.")


def _each_once(groups: Sequence[Sequence[Run]]) -> None:
    seen: set[str] = set()
    for run in (run for group in groups for run in group):
        if run.content_hash in seen:
            raise ResultsError(f"{run.source or run.id} is the same run as one before it; name each run once.")
        seen.add(run.content_hash)


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
                {
                    "test": t.test,
                    "condition": t.condition,
                    "name": s.name,
                    "reading": s.reading,
                    "unit": s.unit,
                    "value": s.value.value,
                    "u": s.value.u,
                    "n_lost": s.value.lost,
                }
                for t in run.tests
                for s in t.scores
            ],
            "energy": run.document.get("energy"),
        }
        for run in runs
    ]
