"""``wattbell judge`` and ``wattbell requirements``: verdicts of a drive against numbered requirements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UsageError
from . import complete, output
from .options import ALL_SETS, ExitCodes, Guard, Json, Junit, Parameters, RequirementSets, StoreOption, Wide
from .results import open_store

if TYPE_CHECKING:
    from ..measure.judge import Verdict
    from ..requirements.measurands import Subject
    from ..requirements.model import RequirementFile


def judge(
    references: Annotated[
        list[str],
        typer.Argument(
            metavar="CAPTURE|RUN...",
            help="Captures, results directories of a suite, or ids in the store.",
            autocompletion=complete.captures_and_results,
        ),
    ],
    requirements: RequirementSets = ALL_SETS,
    parameters: Parameters = None,
    guard: Guard = None,
    power_log: Annotated[
        list[Path] | None,
        typer.Option(
            "--power-log", metavar="FILE", help="The drive's raw log page 25h. Once for each reading, in order; the last is judged."
        ),
    ] = None,
    latency_log: Annotated[
        Path | None,
        typer.Option("--latency-log", metavar="FILE", help="The drive's raw log page C3h (OCP), read during the capture."),
    ] = None,
    health_log: Annotated[
        list[Path] | None,
        typer.Option("--health-log", metavar="FILE", help="The drive's raw log page 02h. Once for each reading, in order."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write an HTML page, too.")] = None,
    junit: Junit = None,
    codes: ExitCodes = None,
    store: StoreOption = None,
    wide: Wide = False,
    json: Json = False,
) -> None:
    """Judge a drive against numbered requirements: its own declarations, OCP, NVMe, or a file of yours.

    Each verdict states its limit, figure and decision rule. The guard band is the expanded uncertainty U on both sides of the
    limit (ILAC-G8). Captures and results of one drive are judged together.

    The exit code is 0 if all pass, 3 if one fails, else 4 if one is conditional or was not measured. Informative
    requirements do not count.

      wattbell judge capture

      wattbell judge capture --out verdicts.html

      wattbell judge conformance-nvme0n1          # a run of the suite conformance, with its captures

      wattbell judge runs/power-states runs/power-states/captures/* --requirements declared

      wattbell judge capture --requirements ocp,lab.toml --set slot_power_limit_w=11.5 --junit verdicts.xml

      wattbell judge capture --requirements nvme --power-log log-25h.bin
    """
    from ..requirements.subjects import DriveLogFiles, load_subjects

    how = HowToJudge.of(requirements, parameters, guard, junit, codes)
    powers = power_log or []
    pages = DriveLogFiles(powers[-1] if powers else None, latency_log, health_log or (), powers[:-1])
    subjects = load_subjects(references, lambda: open_store(store), lambda: output.bar("rebuilding from the journal"), pages)
    code = conclude(subjects, how, out, json)
    if code:
        raise typer.Exit(code)


@dataclass(frozen=True)
class HowToJudge:
    """The options of a judgement, read.

    files : the requirements.
    numbers : values of ``parameter.NAME``.
    codes : exit code by verdict.
    """

    files: list[RequirementFile]
    numbers: Mapping[str, float]
    guard: float | None
    junit: Path | None
    codes: Mapping[Verdict, int]

    @classmethod
    def of(
        cls, requirements: str, parameters: Iterable[str] | None, guard: float | None, junit: Path | None, codes: str | None
    ) -> HowToJudge:
        """Read the options. Raises UsageError for the first that makes no sense."""
        from ..requirements import files
        from ..requirements.subjects import read_parameters

        chosen = files.load_all(name.strip() for name in requirements.split(",") if name.strip())
        if not chosen:
            raise UsageError("--requirements names no set; `wattbell requirements` lists them.")
        return cls(chosen, read_parameters(parameters or (), chosen), guard, junit, exit_codes(codes))


def conclude(subjects: Sequence[Subject], how: HowToJudge, page: Path | None, json: bool) -> int:
    """Judge the subjects, print the verdicts, write the files that are asked for, and return the exit code."""
    from ..present import verdicts
    from ..present.terminal import drawn
    from ..requirements import judging
    from ..requirements.junit import junit as as_junit

    with output.spinner("judging"):
        found = judging.judge_all(subjects, how.files, how.numbers, how.guard)
    code = judging.exit_code(found, how.codes)
    if how.junit is not None:
        write_junit(how.junit, as_junit(found))
    if page is not None:
        from ..present.pages.verdicts import write_verdicts_page

        write_verdicts_page(found, how.files, page)
    if json:
        output.print_json(verdicts.to_json(found, code))
        return code
    for one in found:
        if one.warning:
            output.say(one.warning)
        output.out.print(drawn(verdicts.table(one, how.files)))
    rules = dict.fromkeys(row.rule for one in found for row in one.rows)
    output.say(f"Decision rule: {'; '.join(rules)}.")
    for path in filter(None, (page, how.junit)):
        output.out.print(str(path), soft_wrap=True)
    return code


def write_junit(path: Path, text: bytes) -> None:
    """Write a file of JUnit XML. Raises UsageError where that is not possible."""
    from .. import durable

    try:
        with durable.replacing(path) as made:
            made.write_bytes(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror}).") from None


def exit_codes(text: str | None) -> dict[Verdict, int]:
    """Return the exit code by verdict; UsageError for a verdict or a code that is none."""
    from ..requirements.judging import DEFAULT_CODES

    codes = dict(DEFAULT_CODES)
    for part in (text or "").split(",") if text is not None else ():
        name, equals, value = part.partition("=")
        verdict = next((one for one in codes if one == name.strip()), None)
        if verdict is None or not equals or not value.strip().isdigit() or not 0 <= int(value) <= 255:
            raise UsageError(f"--exit-codes {part.strip() or text}: give VERDICT=0 to 255; verdicts: {', '.join(codes)}.")
        codes[verdict] = int(value)
    return codes


def requirements(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="SET|FILE|SET/ID", help="List this set, or explain one requirement.", autocompletion=complete.requirement_sets
        ),
    ] = None,
    wide: Wide = False,
    json: Json = False,
) -> None:
    """List the requirements that `wattbell judge` knows, or explain one.

    wattbell requirements

    wattbell requirements ocp

    wattbell requirements ocp/PCM-1
    """
    import msgspec

    from ..nearest import did_you_mean
    from ..present import verdicts
    from ..present.terminal import drawn
    from ..requirements import files

    if name is not None and not name.endswith(".toml") and "/" in name:
        wanted, _, id_ = name.rpartition("/")
        file = files.load(wanted)
        ids = [one.id for one in file.requirement]
        if id_ not in ids:
            raise UsageError(f"{file.name} has no requirement {id_}.{did_you_mean(id_, ids)}")
        one = file.requirement[ids.index(id_)]
        if json:
            output.print_json(msgspec.to_builtins(one))
            return
        shown = output.table("", "")
        for key, text in verdicts.explained(file, one):
            shown.add_row(key, text)
        output.out.print(shown)
        return
    chosen = [files.load(one) for one in ([name] if name is not None else files.set_names())]
    if json:
        output.print_json([msgspec.to_builtins(file) for file in chosen])
        return
    output.out.print(drawn(verdicts.listing(chosen)))
