"""A plugin of pytest: the fixtures ``rig``, ``drive``, ``suite`` and ``judge``.

No entry point loads the plugin, since its fixtures have common names. A conftest.py loads it by
``pytest_plugins = ["wattbell.adapters.pytest_plugin"]``, a command by ``pytest -p wattbell.adapters.pytest_plugin``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from ..errors import UsageError, WattbellError
from ..requirements.junit import FAILURES
from ..requirements.subjects import read_parameters
from ..suites.drive import Drive
from ..virtual.fidelity import Fidelity
from .station import DriveStation, StationRun, StationSetup, VerdictSheet, load_requirements, requirement_names
from .station import judge as judged

MARK = "each_requirement"
_UNMEASURED = ("skip", "fail")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options ``--wattbell-...``."""
    group = parser.getgroup("wattbell", "drives under test (wattbell)")
    group.addoption("--wattbell-virtual", metavar="PROFILE", help="Test a model of this drive (`wattbell sim profiles`).")
    group.addoption("--wattbell-drive", metavar="DEVICE", help="Test this drive, such as /dev/nvme0n1.")
    group.addoption("--wattbell-serial", metavar="NUMBER", help="Serial number of the real drive; without it nothing is written.")
    group.addoption("--wattbell-rig", metavar="RIG", help="Serial number of the rig, or its ports: DATA,CONTROL.")
    group.addoption("--wattbell-writes", action="store_true", help="Let suites write to the real drive.")
    group.addoption("--wattbell-fidelity", choices=[one.value for one in Fidelity], default="fast", help="Fidelity of the virtual rig.")
    group.addoption("--wattbell-scale", type=float, default=1.0, metavar="X", help="Shorten times and spans by this; verdicts say so.")
    group.addoption("--wattbell-seed", type=int, default=1, metavar="N", help="Seed of the drive model.")
    group.addoption(
        "--wattbell-requirements",
        default="declared",
        metavar="NAMES",
        help="Sets of requirements by name, and files .toml, separated by commas. Default: declared.",
    )
    group.addoption("--wattbell-set", action="append", default=[], metavar="NAME=VALUE", help="A number that limits use as parameter.NAME.")
    group.addoption(
        "--wattbell-not-measured",
        choices=_UNMEASURED,
        default="skip",
        help="A test with `not measured` as its worst verdict: skip the test (default), or let it fail.",
    )
    group.addoption("--wattbell-out", type=Path, metavar="FOLDER", help="Folder that keeps the runs. Default: pytest's temporary folder.")


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", f"{MARK}(names...): run the test once for each requirement; names of sets, else the option's")


def pytest_report_header(config: pytest.Config) -> str | None:
    """Return a line that names the drive, and a model as one."""
    model, device = config.getoption("wattbell_virtual"), config.getoption("wattbell_drive")
    if model is not None:
        return f"wattbell: {model}, a MODEL on the virtual rig: nothing is measured"
    return None if device is None else f"wattbell: {device}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with the mark once for each requirement."""
    mark = metafunc.definition.get_closest_marker(MARK)
    if mark is None:
        return
    if "judge" not in metafunc.fixturenames:
        raise pytest.UsageError(f"{metafunc.definition.nodeid} has the mark {MARK}, and must take the fixture judge.")
    names = list(mark.args) or _names(metafunc.config)
    try:
        ids = [f"{file.name}/{one.id}" for file in load_requirements(names) for one in file.requirement]
    except WattbellError as error:
        raise pytest.UsageError(str(error)) from None
    metafunc.parametrize("judge", [(names, one) for one in ids], ids=ids, indirect=True)


def _names(config: pytest.Config) -> list[str]:
    return requirement_names(config.getoption("wattbell_requirements"))


@contextmanager
def _one_line() -> Iterator[None]:
    """Let an error of ours fail the test with its one line, without a traceback."""
    try:
        yield
    except WattbellError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def rig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> DriveStation:
    """The rig with its drive, which runs suites and judges them."""
    config = request.config
    option = config.getoption
    with _one_line():
        if (option("wattbell_virtual") is None) == (option("wattbell_drive") is None):
            raise UsageError("Give pytest one of --wattbell-virtual PROFILE and --wattbell-drive DEVICE.")
        setup = StationSetup(
            option("wattbell_virtual"),
            option("wattbell_drive"),
            option("wattbell_serial"),
            option("wattbell_rig"),
            option("wattbell_writes"),
            Fidelity(option("wattbell_fidelity")),
            option("wattbell_scale"),
            option("wattbell_seed"),
        )
    return DriveStation(setup, option("wattbell_out") or tmp_path_factory.mktemp("wattbell"), print)


@pytest.fixture(scope="session")
def drive(rig: DriveStation) -> Drive:
    """The drive under test: model, serial number, firmware, capacity, power states."""
    with _one_line():
        return rig.drive


@pytest.fixture(scope="session")
def suite(rig: DriveStation) -> Callable[..., StationRun]:
    """A function that runs a suite, as :meth:`.station.DriveStation.run_suite`. Equal calls share one run."""

    def run(name: str, tests: Sequence[str] = (), condition: str | None = None) -> StationRun:
        with _one_line():
            return rig.run_suite(name, tests, condition)

    return run


class RequirementCheck:
    """Judges runs and captures, and ends the test as the worst verdict says.

    Fail and conditional fail fail the test. Not measured skips the test, or fails it by ``--wattbell-not-measured fail``. Not applicable
    skips the test if nothing else was judged. A conditional pass passes with a warning.
    """

    def __init__(self, test: pytest.Item, names: Sequence[str], only: str | None) -> None:
        self._test, self._option, self._names, self._only = test, test.config.getoption, names, only

    def __call__(
        self,
        *what: StationRun | str | Path,
        requirements: str | None = None,
        only: str | None = None,
        power_log: str | Path | None = None,
        latency_log: str | Path | None = None,
        health_logs: Sequence[str | Path] = (),
    ) -> VerdictSheet:
        """Judge, and return the verdicts if the test goes on.

        what : runs of the fixture ``suite``, and paths of captures or results directories.
        requirements : names of sets and files; None for the names in the mark or the option.
        only : the one requirement to judge, such as ``ocp/PCM-1``.
        power_log, latency_log : files of the drive's log pages 25h and C3h, read during the only capture.
        health_logs : files of its log page 02h, one for each reading.
        """
        sheet = self.verdicts(
            *what, requirements=requirements, only=only, power_log=power_log, latency_log=latency_log, health_logs=health_logs
        )
        for row in sheet.rows:
            self._test.user_properties.append((f"{row.id} {row.scope}".strip(), row.verdict))
        caption = [sheet.warning] if sheet.warning else []
        if failed := sheet.lines(FAILURES):
            pytest.fail("\n".join([*failed, *caption]), pytrace=False)
        if unmeasured := sheet.lines(["not measured"]):
            if self._option("wattbell_not_measured") == "fail":
                pytest.fail("\n".join(unmeasured), pytrace=False)
            pytest.skip("\n".join(unmeasured))
        if sheet.worst == "not applicable":
            pytest.skip("\n".join(sheet.lines(["not applicable"])) or "no requirement counts")
        for line in sheet.lines(["conditional pass"]):
            warnings.warn(ConditionalPass(line), stacklevel=2)
        return sheet

    def verdicts(
        self,
        *what: StationRun | str | Path,
        requirements: str | None = None,
        only: str | None = None,
        power_log: str | Path | None = None,
        latency_log: str | Path | None = None,
        health_logs: Sequence[str | Path] = (),
    ) -> VerdictSheet:
        """Judge, and return the verdicts whatever they are."""
        names = self._names if requirements is None else requirement_names(requirements)
        with _one_line():
            numbers = read_parameters(self._option("wattbell_set"), load_requirements(names))
            return judged(what, names, numbers, None, only or self._only, power_log, latency_log, health_logs)


class ConditionalPass(UserWarning):
    """A figure that keeps to its limit, with a doubt."""


@pytest.fixture
def judge(request: pytest.FixtureRequest) -> RequirementCheck:
    """A function that judges runs and captures, and fails the test by their verdicts."""
    names, only = getattr(request, "param", (_names(request.config), None))
    return RequirementCheck(request.node, names, only)
