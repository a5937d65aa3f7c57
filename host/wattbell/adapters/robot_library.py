"""A library of Robot Framework: ``Library    wattbell.adapters.robot_library.RigKeywords    virtual=intel-660p-1tb``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import get_args

from ..errors import UsageError
from ..extras import install_command
from ..measure.judge import Verdict
from ..nearest import did_you_mean
from ..present.verdicts import verdict_line
from ..requirements.files import load_all
from ..requirements.junit import FAILURES
from ..requirements.subjects import read_parameters
from ..virtual.fidelity import Fidelity
from .station import DriveStation, StationRun, StationSetup, VerdictSheet, judge, requirement_names

try:
    from robot.api import Failure, SkipExecution, logger
    from robot.libraries.BuiltIn import BuiltIn
except ImportError:
    raise UsageError(f"These keywords need Robot Framework, which is not installed: {install_command('robot')}") from None

_RESULTS = "wattbell"
"""Folder of the runs in Robot's output directory."""


class RigKeywords:
    """Keywords that run suites on a drive and judge them.

    The library takes one of ``virtual`` (profile of a drive model) and ``drive`` (device of a real drive). Verdicts alone need neither.
    A suite writes to a real drive only with its ``serial`` and ``writes=True``. Runs are kept in the folder ``wattbell`` of Robot's output
    directory, unless ``out`` names another one.

    | Library | wattbell.adapters.robot_library.RigKeywords | virtual=intel-660p-1tb |
    """

    ROBOT_LIBRARY_SCOPE = "SUITE"
    ROBOT_LIBRARY_DOC_FORMAT = "ROBOT"

    def __init__(
        self,
        virtual: str | None = None,
        drive: str | None = None,
        serial: str | None = None,
        rig: str | None = None,
        writes: bool = False,
        fidelity: Fidelity = Fidelity.fast,
        scale: float = 1.0,
        seed: int = 1,
        out: str | None = None,
    ) -> None:
        """Keep the options. Nothing is opened before the first keyword."""
        self._setup = partial(StationSetup, virtual, drive, serial, rig, writes, fidelity, scale, seed)
        self._out = out
        self._station: DriveStation | None = None
        self._sheet: VerdictSheet | None = None

    def run_suite(self, suite: str, *tests: str) -> StationRun:
        """Run a suite, and return the run. Further arguments name the only tests to run.

        | ${run} = | Run Suite | quick | idle | idle-wake-up |
        """
        run = self._held().run_suite(suite, tests)
        logger.info(f"results: {run.folder}")
        return run

    def judge(
        self,
        *what: StationRun | str,
        requirements: str = "declared",
        only: str | None = None,
        parameters: tuple[str, ...] | str = (),
        power_log: str | None = None,
        latency_log: str | None = None,
        health_logs: tuple[str, ...] | str = (),
    ) -> VerdictSheet:
        """Judge runs and captures, write the verdicts into the log, and return them. No verdict fails the test here.

        ``requirements`` names sets and files, with commas. ``parameters`` has numbers of limits, such as ``slot_power_limit_w=11.5``.
        ``power_log`` and ``latency_log`` are files of the drive's log pages 25h and C3h, read during the only capture. ``health_logs`` are
        files of its log page 02h, one for each reading.

        | Judge | ${run} | requirements=lab.toml |
        """
        names = requirement_names(requirements)
        pages = (health_logs,) if isinstance(health_logs, str) else tuple(health_logs)
        texts = (parameters,) if isinstance(parameters, str) else tuple(parameters)
        self._sheet = judge(what, names, read_parameters(texts, load_all(names)), None, only, power_log, latency_log, pages)
        if self._sheet.warning:
            logger.info(self._sheet.warning)
        for row in self._sheet.rows:
            logger.info(verdict_line(row))
        return self._sheet

    def verdict_should_be(self, requirement: str, verdict: str, scope: str | None = None) -> None:
        """Fail unless the last `Judge` gave this verdict. Without a scope, the worst verdict of the requirement counts.

        | Verdict Should Be | ocp/PCM-1 | pass | scope=PS0 |
        """
        known = get_args(Verdict)
        if verdict not in known:
            raise UsageError(f"{verdict} is no verdict.{did_you_mean(verdict, known)} Verdicts: {', '.join(known)}.")
        row = self._last().row(requirement, scope)
        if row.verdict != verdict:
            raise Failure(f"{verdict} expected, but {self._marked(verdict_line(row))}")

    def no_verdict_should_fail(self, not_measured: str = "skip") -> None:
        """Fail if the last `Judge` gave a fail or a conditional fail.

        Otherwise skip the test for verdicts that are not measured, or fail it with ``not_measured=fail``.

        | No Verdict Should Fail | not_measured=fail |
        """
        if not_measured not in ("skip", "fail"):
            raise UsageError(f"not_measured={not_measured}: give skip or fail.")
        sheet = self._last()
        if failed := sheet.lines(FAILURES):
            raise Failure(self._marked("\n".join(failed)))
        if unmeasured := sheet.lines(["not measured"]):
            if not_measured == "fail":
                raise Failure(self._marked("\n".join(unmeasured)))
            raise SkipExecution("\n".join(unmeasured))
        for line in sheet.lines(["conditional pass"]):
            logger.warn(line)

    def drive_model(self) -> str:
        """Return the model of the drive under test."""
        return self._held().drive.model

    def _held(self) -> DriveStation:
        if self._station is None:
            out = self._out or Path(BuiltIn().get_variable_value("${OUTPUT DIR}")) / _RESULTS
            self._station = DriveStation(self._setup(), Path(out), logger.info)
        return self._station

    def _last(self) -> VerdictSheet:
        if self._sheet is None:
            raise UsageError("Nothing was judged yet: call the keyword Judge first.")
        return self._sheet

    def _marked(self, text: str) -> str:
        warning = self._last().warning
        return f"{text}\n{warning}" if warning else text
