"""Phases and a plug of OpenHTF: a suite as a phase, and verdicts as measurements with validators and marginal limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ..errors import UsageError
from ..extras import install_command
from ..present.verdicts import verdict_line
from ..requirements.judging import JudgedRow
from ..requirements.junit import FAILURES
from ..requirements.model import FAILS
from .station import DriveStation, StationRun, StationSetup, judge, load_requirements

try:
    import openhtf
    from openhtf.core.measurements import Measurement
    from openhtf.util import units
    from openhtf.util.validators import InRange
except ImportError as error:
    if (error.name or "").partition(".")[0] != "openhtf":
        raise
    raise UsageError(f"These phases need OpenHTF, which is not installed: {install_command('openhtf')}") from None

ATTACHMENT = "wattbell-verdicts.json"
_LONGEST_S = 30 * 86400
"""Limit of a phase in s. OpenHTF's own default is three minutes, and a suite may take days."""
_UNITS = {"W": units.WATT, "s": units.SECOND}


class StationPlug(openhtf.plugs.BasePlug):
    """Gives phases a station. A test with its own set-up takes a subclass from :func:`station_plug`.

    Each execution of a test has a new plug, thus measures anew.
    """

    setup: ClassVar[StationSetup | None] = None
    out: ClassVar[Path] = Path("wattbell-runs")

    def __init__(self) -> None:
        if self.setup is None:
            raise UsageError("The plug has no drive: make it with station_plug(StationSetup(...)).")
        self.station = DriveStation(self.setup, self.out, self.logger.info)
        self.runs: list[StationRun | str | Path] = []
        """Runs and paths of captures that the next phase of verdicts judges."""

    def run_suite(self, suite: str, tests: Sequence[str] = (), condition: str | None = None) -> StationRun:
        """Run a suite as :meth:`.station.DriveStation.run_suite`, and add the run to :attr:`runs`."""
        run = self.station.run_suite(suite, tests, condition)
        if run not in self.runs:
            self.runs.append(run)
        return run


def station_plug(setup: StationSetup, out: str | Path = StationPlug.out) -> type[StationPlug]:
    """Return the class of a plug for a drive. ``out``: folder for the runs, each in a new folder there."""
    return type("StationPlug", (StationPlug,), {"setup": setup, "out": Path(out)})


def suite_phase(plug: type[StationPlug], suite: str, tests: Sequence[str] = (), condition: str | None = None) -> Any:
    """Return a phase that runs a suite on the plug's drive; arguments as :meth:`.station.DriveStation.run_suite`."""

    def run(test: Any, rig: StationPlug) -> None:
        done = rig.run_suite(suite, tests, condition)
        test.logger.info("results: %s", done.folder)

    return _phase(run, plug, f"run {Path(suite).stem}")


def verdict_phase(
    plug: type[StationPlug],
    requirements: Sequence[str] = ("declared",),
    parameters: Mapping[str, float] | None = None,
    guard: float | None = None,
    power_log: str | Path | None = None,
    latency_log: str | Path | None = None,
    health_logs: Sequence[str | Path] = (),
) -> Any:
    """Return a phase that judges the plug's runs, with a measurement for each verdict.

    Requirements and names are checked here, before any test begins. The measurement's name is the requirement's, such as ``ocp/PCM-1``,
    with the power state or level behind it if there is one. Fail and conditional fail are FAIL, a conditional pass is a marginal PASS.
    A measurement that was not measured is UNSET, which fails the phase unless OpenHTF's ``allow_unset_measurements`` is set. Informative
    requirements never fail a phase. All verdicts are in the attachment ``wattbell-verdicts.json``.

    power_log, latency_log : files of the drive's log pages 25h and C3h, read during the only capture.
    health_logs : files of its log page 02h, one for each reading.

    Raises UsageError for a set or a file of requirements that there is not.
    """
    load_requirements(requirements)

    def judged(state: Any, rig: StationPlug) -> None:
        sheet = judge(rig.runs, requirements, parameters, guard, None, power_log, latency_log, health_logs)
        test, declared = state.test_api, state.running_phase_state.measurements
        if sheet.warning:
            test.logger.warning(sheet.warning)
        test.attach(ATTACHMENT, json.dumps(sheet.to_json(), indent=1).encode(), "application/json")
        several = len(sheet.found) > 1
        for one in sheet.found:
            for row in one.rows:
                test.logger.info(verdict_line(row))
                if row.verdict == "not applicable" or (row.verdict == "not measured" and row.severity not in FAILS):
                    continue
                name = " ".join(filter(None, (row.id, row.scope, one.drive if several else "")))
                declared[name] = measurement(row, name)
                if row.verdict != "not measured":
                    test.measurements[name] = row.measured.value
        if not declared:
            raise UsageError(f"No requirement of {', '.join(requirements)} applies to this drive.")

    return _phase(judged, plug, "judge", requires_state=True)


def measurement(row: JudgedRow, name: str) -> Any:
    """Return the OpenHTF measurement of a verdict: unit, limits and decision rule, without its value."""
    found = Measurement(name).doc(f"{row.requirement.text} {verdict_line(row)}")
    found.allow_fail = row.severity not in FAILS
    if row.requirement.unit in _UNITS:
        found.with_units(_UNITS[row.requirement.unit])
    if row.limit.value is not None:
        found.with_validator(VerdictRange(row))
    return found


class VerdictRange(InRange):
    """Limits of a verdict as OpenHTF has them. The marginal limit is the limit less the guard band.

    The verdict decides. It also knows doubts that no range shows, such as lost records: then a figure far from its limit is marginal.
    """

    def __init__(self, row: JudgedRow) -> None:
        limit, band = row.limit.value, row.band
        assert limit is not None
        if row.requirement.side == "at most":
            super().__init__(maximum=limit, marginal_maximum=None if band is None else limit - band)
        else:
            super().__init__(minimum=limit, marginal_minimum=None if band is None else limit + band)
        self.row = row

    def __call__(self, value: float) -> bool:
        return self.row.verdict not in FAILURES

    def is_marginal(self, value: float) -> bool:
        return self.row.verdict == "conditional pass"

    def __str__(self) -> str:
        return f"{super().__str__()}; {self.row.rule}"


def _phase(work: Callable[..., None], plug: type[StationPlug], name: str, **options: Any) -> Any:
    phase = openhtf.PhaseOptions(name=name, timeout_s=_LONGEST_S, **options)(work)
    return openhtf.plugs.plug(rig=plug)(phase)
