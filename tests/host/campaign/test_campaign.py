"""A campaign on a real bench: its results, how it is interrupted, and how it goes on. Fast ones on a virtual bench are in tests/e2e."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from wattbell.campaign import equipment
from wattbell.campaign.bench import Bench
from wattbell.campaign.commands import CommandObserver
from wattbell.campaign.ending import Ending
from wattbell.campaign.equipment import How
from wattbell.campaign.eta import Eta
from wattbell.campaign.real import JOURNAL, RealBench, Setup
from wattbell.campaign.runner import SuiteOrder, run_suite
from wattbell.errors import DriveError, ResultsError, UsageError
from wattbell.suites.outlook import Outlook
from wattbell.suites.session import Choice

from tests.host.drive.lab import Lab
from tests.host.drive.meterlab import LabLog, LabMeter

TEST = '[[test]]\nid = "{0}"\nname = "Test {0}"\nkind = "idle"\nconditions = ["empty"]\nidle_s = 0.2\n'


class Audience:
    """Writes down its messages; ``interrupt`` is called with each line."""

    def __init__(self, interrupt: Callable[[str], None] = lambda _: None) -> None:
        self.heard: list[str] = []
        self.tests: list[str] = []
        self._interrupt = interrupt

    def say(self, text: str) -> None:
        self.heard.append(text)
        self._interrupt(text)

    @contextlib.contextmanager
    def spinner(self, text: str) -> Iterator[object]:
        yield text

    @contextlib.contextmanager
    def recording(self, serial: str) -> Iterator[Callable[[object], None]]:
        yield lambda _: None

    def ahead(self, outlook: Outlook, bench: Bench) -> None:
        self.outlook = outlook

    @contextlib.contextmanager
    def progress(self, eta: Eta) -> Iterator[None]:
        yield

    def begun(self, results: Mapping[str, Any]) -> None:
        assert results["tests"] == [] or len(results["tests"]) == 1

    def scored(self, test: Mapping[str, Any], results: Mapping[str, Any]) -> None:
        self.tests.append(test["test"])


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    made = Lab(tmp_path, monkeypatch)
    made.on_the_bench(monkeypatch)
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite/manifest.toml").write_text("".join(TEST.format(name) for name in "ab"))
    return made


def campaign(lab: Lab, audience: Audience, resume: bool = False) -> Mapping[str, Any]:
    out = lab.root / "out"
    bench = RealBench(Setup("/dev/nvme9n2", "S", None, out / JOURNAL, resume), Choice(written=True, real=True), audience)
    run_suite(SuiteOrder(str(lab.root / "suite"), out, resume=resume), bench, Ending(None, page=False), audience)
    found: Mapping[str, Any] = json.loads((out / "results.json").read_text())
    return found


def test_a_suite_on_a_real_drive_leaves_its_results(lab: Lab) -> None:
    audience = Audience()
    results = campaign(lab, audience)
    assert audience.tests == [test["test"] for test in results["tests"]] == ["a", "b"]
    first, second = (text for text in audience.heard if text.startswith("session"))
    assert first.startswith("session 1 of 2: a (empty); about ") and second.startswith("session 2 of 2: b (empty); about ")
    assert (results["virtual"], results["drive"]["capacity_bytes"]) == (False, 1 << 40)
    conditions = results["conditions"]
    assert (conditions["fio"], conditions["nvme_cli"], conditions["written"]) == ("fio-3.33", "nvme version 2.3", True)
    assert conditions["settings"]["power_state"] is None
    phases = json.loads((lab.root / "out/plans/a-empty/phases.json").read_text())
    assert [(phase["name"], phase["kind"], phase["measured"]) for phase in phases] == [
        ("a-settle", "precondition", False),
        ("a", "idle", True),
    ]
    assert phases[0]["settling"]["settled"] is True and phases[1]["idle_s"] == 0.2
    assert len(lab.words("formats")) == 1 == audience.outlook.erasures, "b begins with a rest, on the drive that a only read"
    assert not any("filled anew" in note for note in results["tests"][0]["notes"])
    assert "not filled anew: on the drive as a-empty left it, which was filled alike and only read since" in results["tests"][1]["notes"]
    phases = json.loads((lab.root / "out/plans/b-empty/phases.json").read_text())
    assert [phase["name"] for phase in phases] == ["b-settle", "b"]


def test_an_interrupted_campaign_keeps_what_it_has_and_goes_on(lab: Lab) -> None:
    def ctrl_c(text: str) -> None:
        if text == "2: b":
            raise KeyboardInterrupt

    audience = Audience(ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        campaign(lab, audience)
    aside = lab.root / "out/captures/b-empty-interrupted"
    assert audience.heard[-1] == f"b: interrupted; what was recorded is in {aside}. Continue with --resume." and aside.is_dir()
    assert [test["test"] for test in json.loads((lab.root / "out/results.json").read_text())["tests"]] == ["a"]
    again = Audience()
    with pytest.raises(UsageError, match="was started with --rounds the default, not 3"):
        _ = run_suite(
            SuiteOrder(str(lab.root / "suite"), lab.root / "out", resume=True),
            RealBench(Setup("", "S", None, lab.root / "out" / JOURNAL), Choice(written=True, real=True, rounds=3), again),
            Ending(None, page=False),
            again,
        )
    results = campaign(lab, again, resume=True)
    assert [test["test"] for test in results["tests"]] == ["a", "b"] and again.tests == ["b"]
    assert "session 1 of 2: a (empty): done before" in again.heard
    assert len(lab.words("formats")) == 2, "nobody knows what became of the drive meanwhile"
    assert again.outlook.erasures == 1 and again.outlook.seconds() < audience.outlook.seconds()


def test_a_rig_that_sees_no_command_is_at_another_drive(lab: Lab) -> None:
    lab.commands = False
    with pytest.raises(DriveError, match=r"saw no command of /dev/nvme9n2: is this drive in the rig's connector"):
        campaign(lab, Audience())


def test_commands_that_the_hosts_log_lost_end_a_run_with_an_error(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A suite over a meter: every session is run and scored, and then the loss is reported."""
    meter, log = LabMeter(lab), LabLog(lab)
    log.overran, log.overran_from = 7, 1
    monkeypatch.setattr(equipment, "open_meter", lambda _: meter)
    logs = iter([log, LabLog(lab)])
    monkeypatch.setattr(equipment, "open_log", lambda _kind, _device, folder=None: next(logs) if folder else contextlib.nullcontext())
    audience, out = Audience(), lab.root / "out"
    setup = Setup("/dev/nvme9n2", "S", None, out / JOURNAL, how=How("fake:", CommandObserver.trace))
    bench = RealBench(setup, Choice(written=True, real=True), audience)
    kept = run_suite(SuiteOrder(str(lab.root / "suite"), out), bench, Ending(None, page=False), audience)
    assert audience.tests == ["a", "b"] and kept.results["virtual"] is False
    assert (kept.results["conditions"]["meter"], kept.results["conditions"]["commands"]) == ("fake:", "trace")
    with pytest.raises(ResultsError, match=r"a-empty: 7 commands are missing from the host's log \(the kernel's trace buffer overran"):
        kept.check()
    assert len(json.loads((out / "results.json").read_text())["conditions"]["missing"]) == 1


def test_a_loss_of_the_hosts_log_beside_a_tap_is_none_of_the_figures() -> None:
    lost = [{"first_ns": 1, "last_ns": 2, "count": 3, "reason": "the kernel's trace buffer overran (CPU 0)"}]
    assert "3 commands are missing" in (equipment.missing_of({"host_log": {"lost": lost, "beside_tap": False}}) or "")
    assert equipment.missing_of({"host_log": {"lost": lost, "beside_tap": True}}) is None


def test_a_virtual_rig_that_serves_as_a_meter_is_told(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    meter = LabMeter(lab)
    meter.follows(0.0)
    monkeypatch.setattr(equipment, "open_meter", lambda _: meter)
    monkeypatch.setattr(equipment, "open_log", lambda *_: contextlib.nullcontext())
    with equipment.equipped(How("rig:V", CommandObserver.trace), None, lab.device, lambda _: None) as held:
        assert held.virtual
