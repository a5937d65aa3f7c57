"""A station of a test floor: runs suites on one drive, real or modelled, and judges the runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from ..campaign.bench import Bench
from ..campaign.ending import Ending
from ..campaign.eta import Eta
from ..campaign.real import JOURNAL, RealBench, Setup
from ..campaign.runner import SuiteOrder, run_suite
from ..campaign.virtual import VirtualBench
from ..capture.record import Progress
from ..drive import Tools, inspect
from ..drive.identity import identify
from ..errors import UsageError
from ..measure.judge import Verdict
from ..nearest import did_you_mean
from ..present.verdicts import to_json, verdict_line
from ..requirements.files import load_all
from ..requirements.judging import DEFAULT_CODES, JudgedRow, Verdicts, exit_code, judge_all, that_count
from ..requirements.model import RequirementFile
from ..requirements.subjects import DriveLogFiles, check_parameters, load_subjects
from ..results import Store, default_path
from ..suites.drive import Drive, from_profile
from ..suites.listing import CONFORMANCE
from ..suites.outlook import Outlook
from ..suites.session import Choice
from ..virtual.fidelity import Fidelity
from ..virtual.profiles import find_profile


@dataclass(frozen=True)
class StationSetup:
    """The drive that a station tests, and how it is measured.

    virtual : profile of a drive model, by name or path; None for a real drive.
    drive : path of a real drive, such as ``/dev/nvme0n1``; None for a model.
    serial : serial number of the real drive. Without it nothing is written there.
    rig : serial number of the rig or its ports; None for the only one.
    writes : whether a suite may write to the real drive, where data is then lost.
    fidelity : the replacement of the instrument, for a model.
    scale : factor that shortens times and spans; at most 1.
    seed : of the model, and of generated traces.

    Raises UsageError unless exactly one of ``virtual`` and ``drive`` is given.
    """

    virtual: str | None = None
    drive: str | None = None
    serial: str | None = None
    rig: str | None = None
    writes: bool = False
    fidelity: Fidelity = Fidelity.fast
    scale: float = 1.0
    seed: int = 1

    def __post_init__(self) -> None:
        if (self.virtual is None) == (self.drive is None):
            raise UsageError("Give a station one of a virtual drive (its profile) and a real drive (its device).")


@dataclass(frozen=True)
class StationRun:
    """A suite's run.

    folder : its results directory.
    results : content of its results.json.
    """

    folder: Path
    results: Mapping[str, Any] = field(repr=False)

    @property
    def references(self) -> list[str]:
        """Return the paths to judge: the results, and every capture. The results have no commands, and captures no scores.

        The results of the suite ``conformance`` stand alone: its captures are judged with them, each for its own figures.
        """
        if self.results.get("suite") == CONFORMANCE:
            return [str(self.folder)]
        return [str(self.folder), *sorted(str(one) for one in (self.folder / "captures").glob("*") if (one / "meta.json").is_file())]


@dataclass(frozen=True)
class VerdictSheet:
    """The verdicts of one judgement, on each drive."""

    found: Sequence[Verdicts]

    @property
    def rows(self) -> list[JudgedRow]:
        """Return the rows of all drives, in the order of their requirements."""
        return [row for one in self.found for row in one.rows]

    @property
    def counted(self) -> list[JudgedRow]:
        """Return the rows that count, the worst verdict first. Informative requirements do not count."""
        return that_count(self.found)

    @property
    def worst(self) -> Verdict:
        """Return the worst verdict of the rows that count; ``not applicable`` without any."""
        return next((row.verdict for row in self.counted), "not applicable")

    @property
    def warning(self) -> str:
        """Return the caption for figures that no instrument measured; empty if all were measured."""
        return "; ".join(dict.fromkeys(one.warning for one in self.found if one.warning))

    def lines(self, verdicts: Iterable[Verdict]) -> list[str]:
        """Return a line for each row that counts and has one of these verdicts, the worst first. Each states its decision rule."""
        wanted = set(verdicts)
        return [verdict_line(row) for row in self.counted if row.verdict in wanted]

    def row(self, requirement: str, scope: str | None = None) -> JudgedRow:
        """Return the row of a requirement such as ``ocp/PCM-1``; without a scope, the row with the worst verdict.

        Raises UsageError for a requirement that was not judged, or not in this scope.
        """
        rows = that_count(self.found) + [row for row in self.rows if row not in self.counted]
        mine = [row for row in rows if row.id == requirement]
        if not mine:
            known = list(dict.fromkeys(row.id for row in self.rows))
            raise UsageError(f"{requirement} was not judged.{did_you_mean(requirement, known)}")
        found = next((row for row in mine if scope is None or row.scope == scope), None)
        if found is None:
            raise UsageError(f"{requirement} was not judged for {scope}; it was for {', '.join(row.scope or 'the whole' for row in mine)}.")
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the verdicts as ``wattbell judge --json`` prints them."""
        return to_json(self.found, exit_code(self.found, DEFAULT_CODES))


class DriveStation:
    """Runs suites on one drive.

    setup : the drive.
    out : folder for the results. Each run gets a new folder there; nothing is written over.
    say : takes each line on the progress.
    """

    def __init__(self, setup: StationSetup, out: Path, say: Callable[[str], None] = lambda _: None) -> None:
        self.setup, self.out = setup, out
        self._audience = _QuietAudience(say, setup.writes)
        self._runs: dict[tuple[str, tuple[str, ...], str | None], StationRun] = {}

    @property
    def virtual(self) -> bool:
        """Whether the drive is a model."""
        return self.setup.virtual is not None

    @cached_property
    def drive(self) -> Drive:
        """Return the drive. Raises DriveError for a device that is no drive, UsageError for a profile that is none."""
        if self.setup.virtual is not None:
            return from_profile(find_profile(self.setup.virtual))
        return identify(inspect(str(self.setup.drive)), Tools())

    def run_suite(self, suite: str, tests: Sequence[str] = (), condition: str | None = None) -> StationRun:
        """Run a suite, and return the run. The same call again returns the same run.

        suite : name, or folder of a manifest.
        tests : ids of the tests to run; none for all.
        condition : ``test-data``, ``full`` or ``empty``; None for all that the suite has.

        Raises UsageError or DriveError if the suite cannot, or must not, be run on this drive.
        """
        key = (suite, tuple(tests), condition)
        if key not in self._runs:
            folder = self._new_folder(Path(suite).stem)
            order = SuiteOrder(suite, folder, condition, tuple(tests))
            kept = run_suite(order, self._bench(folder), Ending(None, page=False), self._audience)
            kept.check()
            self._runs[key] = StationRun(folder, kept.results)
        return self._runs[key]

    def _bench(self, folder: Path) -> Bench:
        setup = self.setup
        if setup.virtual is not None:
            return VirtualBench(find_profile(setup.virtual), Choice(setup.scale, seed=setup.seed), self._audience, setup.fidelity)
        choice = Choice(setup.scale, True, seed=setup.seed, real=True)
        return RealBench(Setup(str(setup.drive), setup.serial, setup.rig, folder / JOURNAL), choice, self._audience)

    def _new_folder(self, name: str) -> Path:
        number = 1
        while (folder := self.out / (f"{name}-{number}" if number > 1 else name)).exists():
            number += 1
        return folder


def requirement_names(text: str) -> list[str]:
    """Return the names in a list with commas, such as ``declared,lab.toml``."""
    return [name.strip() for name in text.split(",") if name.strip()]


def judge(
    what: Iterable[StationRun | str | Path],
    requirements: Sequence[str],
    parameters: Mapping[str, float] | None = None,
    guard: float | None = None,
    only: str | None = None,
    power_log: str | Path | None = None,
    latency_log: str | Path | None = None,
    health_logs: Sequence[str | Path] = (),
) -> VerdictSheet:
    """Return the verdicts on runs and captures.

    what : runs, and paths of captures or results directories.
    requirements : sets by name, and files ``.toml``.
    parameters : numbers that limits use as ``parameter.NAME``.
    guard : width of the guard band in units of U; None for each requirement's own.
    only : the one requirement to judge, such as ``ocp/PCM-1``.
    power_log, latency_log : files of the drive's log pages 25h and C3h, read during the only capture.
    health_logs : files of its log page 02h, one for each reading.

    Raises UsageError for a set, a requirement, a parameter or a log that there is not, and ResultsError for nothing to judge.
    """
    files = load_requirements(requirements, only)
    check_parameters(parameters or {}, files)
    references = [text for one in what for text in (one.references if isinstance(one, StationRun) else [str(one)])]
    power, latency = (None if path is None else Path(path) for path in (power_log, latency_log))
    logs = DriveLogFiles(power, latency, [Path(path) for path in health_logs])
    subjects = load_subjects(references, _store, lambda: nullcontext(lambda done, total: None), logs)
    return VerdictSheet(judge_all(subjects, files, parameters, guard))


def load_requirements(names: Sequence[str], only: str | None = None) -> list[RequirementFile]:
    """Return the files of requirements, or the one file that has ``only``, with this requirement alone. Raises UsageError."""
    files = load_all(names)
    if not files:
        raise UsageError("No set of requirements is named; `wattbell requirements` lists them.")
    if only is None:
        return files
    found = {f"{file.name}/{one.id}": (file, one) for file in files for one in file.requirement}
    if only not in found:
        raise UsageError(f"{', '.join(names)} has no requirement {only}.{did_you_mean(only, found)}")
    file, one = found[only]
    return [msgspec.structs.replace(file, requirement=(one,))]


def _store() -> Store:
    return Store(default_path())


class _QuietAudience:
    """Passes on each line, shows no progress, and agrees to writes only if they were allowed beforehand."""

    def __init__(self, say: Callable[[str], None], writes: bool) -> None:
        self.say, self._writes = say, writes

    def spinner(self, text: str) -> AbstractContextManager[object]:
        return nullcontext()

    def recording(self, serial: str) -> AbstractContextManager[Callable[[Progress], None]]:
        return nullcontext(lambda _: None)

    def progress(self, eta: Eta) -> AbstractContextManager[object]:
        return nullcontext()

    def ahead(self, outlook: Outlook, bench: Bench) -> None:
        if isinstance(bench, RealBench) and outlook.writes and not self._writes:
            raise UsageError(f"The suite writes to {bench.device.path}, and what is written over is lost: allow writes if that is meant.")

    def begun(self, results: Mapping[str, Any]) -> None:
        pass

    def scored(self, test: Mapping[str, Any], results: Mapping[str, Any]) -> None:
        pass
