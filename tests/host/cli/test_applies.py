"""No option is ignored: each is tried with every kind of work and of bench, and changes something there, or is refused.

MATRIX was written by hand from what the benches do with each option, not from the table in ``wattbell.cli.applies``. Behind the command
line everything runs, down to the doubles in :class:`World`: the drive model, the rig, the meter, the log, the session on the drive, the
scoring, and the store.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from wattbell.campaign import equipment, real, runner, virtual
from wattbell.campaign.ending import Kept
from wattbell.capture.marking import BY_FEATURE
from wattbell.capture.record import RIG_STOPPED
from wattbell.cli import applies, output
from wattbell.cli import run as run_module
from wattbell.cli.app import app
from wattbell.drive.device import Device
from wattbell.drive.tools import Tools
from wattbell.errors import DriveError, UsageError
from wattbell.suites import session
from wattbell.suites.drive import Drive
from wattbell.suites.outcome import Outcome
from wattbell.suites.results import Results

# Of each kind of work the benches: v a model behind the gateware, f a model behind the functional rig, r a real drive with a rig, m with a
# rig as its meter, o with another meter.
# + changes what is done   = applies, and is the default there   . is refused   x there is no such run
MATRIX = """
                                 suite  plan   job    trace  command
                                 vfrmo  vfrmo  vfrmo  vfrmo  vfrmo
--out other                      +++++  +++++  +++++  +++++  xx+++
--virtual toshiba-xg6             ++...  ++...  ++...  ++...  xx...
--drive /dev/nvme8n1             ..+++  ..+++  ..+++  ..+++  ..+++
--serial S                       ..+++  ..+++  ..+++  ..+++  xx+++
--yes                            ..+++  ..+++  ..+++  ..+++  xx...
--rig WB7                        ..+..  ..+..  ..+..  ..+..  xx+..
--meter ppk2:/dev/p,volts=3.3    ..+++  ..+++  ..+++  ..+++  xx+++
--commands auto                  ..===  ..===  ..===  ..===  xx===
--commands tap                   ..+..  ..+..  ..+..  ..+..  xx+..
--commands blktrace              ..+++  ..+++  ..+++  ..+++  xx+++
--commands fio                   ..+++  ..+++  ..+++  ..+++  xx...
--link-speed 5                   ..+++  ..+++  ..+++  ..+++  xx+++
--governor performance           ..+++  ..+++  ..+++  ..+++  xx+++
--apst                           .....  .....  ..+++  ..+++  xx+++
--no-apst                        .....  .....  ..===  ..===  xx+++
--aspm l1                        .....  .....  ..+++  ..+++  xx+++
--dry-run                        +++++  +++++  +++++  +++++  xx+++
--fidelity fast                  +=...  +=...  +=...  +=...  xx...
--fidelity rtl                   =+...  =+...  =+...  =+...  xx...
--seed 7                         +++++  ++...  ++...  ++...  xx...
--seed 1                         =====  ==...  ==...  ==...  xx...
--interval 3us                   ++++.  ++++.  ++++.  ++++.  xx++.
--decimation 3                   ++++.  ++++.  ++++.  ++++.  xx++.
--keep-trace                     ++...  ++...  ++...  ++...  xx...
--scale 0.5                      +++++  .....  .....  .....  xx...
--scale 1                        =====  .....  .....  .....  xx...
--condition full                 +++++  .....  .....  .....  xx...
--condition both                 =====  .....  .....  .....  xx...
--tests still                    +++++  .....  .....  .....  xx...
--written                        ++...  .....  .....  .....  xx...
--rounds 3                       +++++  .....  .....  .....  xx...
--discard-captures               +++++  .....  .....  .....  xx...
--resume                         +++++  .....  .....  .....  xx...
--page                           =====  .....  .....  .....  xx...
--no-page                        +++++  .....  .....  .....  xx...
--plots                          +++++  .....  .....  .....  xx...
--no-plots                       =====  .....  .....  .....  xx...
--store s.sqlite                 +++++  .....  .....  .....  xx...
--no-store                       +++++  .....  .....  .....  xx...
--force                          +++++  +++++  +++++  +++++  xx+++
--keep-stream                    ++++.  ++++.  ++++.  ++++.  xx++.
--wide                           +++++  +++++  +++++  +++++  xx+++
--json                           +++++  +++++  +++++  +++++  xx+++
"""
WORKS = {"suite": ["suite"], "plan": ["p.toml"], "job": ["j.fio"], "trace": ["t.iolog"], "command": ["--", "sh", "-c", "true"]}
BENCHES = {
    "v": ["--virtual", "intel-660p-1tb"],
    "f": ["--virtual", "intel-660p-1tb", "--fidelity", "fast"],
    "r": ["--drive", "/dev/nvme9n1"],
    "m": ["--drive", "/dev/nvme9n1", "--meter", "rig:WB9"],
    "o": ["--drive", "/dev/nvme9n1", "--meter", "powersensor3:/dev/ttyACM0"],
}
HEAD, *LINES = MATRIX.strip("\n").splitlines()
WORK_OF_GROUP = HEAD.split()
ROWS = [(line[:33].split(), line[33:].split()) for line in LINES[1:]]
SUITE = """
[[test]]
id = "still"
name = "Still"
kind = "idle"
conditions = ["test-data", "full"]
idle_s = 20
[[test]]
id = "rounds"
name = "Rounds"
kind = "rounds"
conditions = ["empty"]
purge = true
jobs = "r.fio"
rounds_max = 5
rounds_first = 2
track = ["r"]
quantity = "iops"
[[test]]
id = "replay"
name = "Replay"
kind = "trace"
conditions = ["test-data"]
trace = "light"
"""
JOB = "[r]\nfilename=${WATTBELL_DRIVE}\nrw=randwrite\nbs=4k\nruntime=8s\ntime_based\n"
FILES = {
    "suite/manifest.toml": SUITE, "suite/r.fio": JOB,
    "j.fio": JOB, "reads.fio": JOB.replace("randwrite", "randread"),
    "p.toml": "[[step]]\nname = 'w'\nfill = { span = 0.1 }\n", "still.toml": "[[step]]\nname = 's'\nidle_s = 1\n",
    "t.iolog": "fio version 3 iolog\n0 x add\n0 x open\n1 x write 0 4096\n", "reads.iolog": "fio version 3 iolog\n0 x add\n1 x read 0 4096\n",
}  # fmt: skip


class Log(str):
    """In place of the host's log of commands: its kind."""

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class Refusing(io.StringIO):
    """Somebody at a terminal who says no."""

    def isatty(self) -> bool:
        return True


class World:
    """What the command line reaches, written down in ``seen``. ``blind``: the rig's tap does not see the drive's link, and somebody sits
    at the terminal who does not want the link slowed down."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.blind = root, False
        self.seen: list[str] = []
        self._called: dict[tuple[Any, ...], tuple[list[str], Exception | None]] = {}
        self.tree = typer.main.get_command(app)
        for name, text in FILES.items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(text)
        monkeypatch.chdir(root)
        monkeypatch.setenv("XDG_DATA_HOME", str(root / "home"))
        put = monkeypatch.setattr
        put(sys, "stdin", io.StringIO())
        put(virtual, "run_model", self.run_model)
        put(run_module, "run_model", self.run_model)
        put(virtual.programs, "version", lambda name: name)
        put(session, "make_trace", lambda name, path, scale, seed: path.write_text(f"{name} {scale} {seed}"))
        put(runner, "open_capture", lambda path: path)
        put(runner, "score_session", self.score)
        put(Results, "describe", lambda *_: None)
        put(runner, "keep", self.keep)
        put(runner, "begin", lambda _results, _out, resume, force: self.see("begin", resume, force) or set())
        put(runner, "flush_tree", lambda _: None)
        put(run_module, "refuse_existing", lambda _out, force: self.see("room", force))
        put(run_module.captures, "show_analysis", lambda out, json: self.see("analysis", out, json))
        put(run_module, "agree", lambda _outlook, _device, yes: self.see("agree", yes))
        put(run_module, "check_log", lambda _: None)
        put(run_module, "summary", lambda _: "")
        put(real, "inspect", self.inspect)
        put(real, "identify", lambda *_: Drive("", 1 << 40, (0,), (), "M", "S"))
        put(real, "refuse_in_use", lambda _: None)
        put(real, "refuse_wrong_serial", lambda _device, serial: self.see("serial", serial))
        put(real, "restore_left_over", lambda *_: False)
        put(real, "check_host", lambda how, *_: self.see("host", how.wanted))
        put(real, "about_host", dict)
        put(real, "read_link", lambda *_: None)
        put(real, "declared", lambda *_: None)
        put(real.marking, "choose", lambda *_: (BY_FEATURE, ""))
        put(real, "run_session", self.run_session)
        put(real.RealBench, "accept", lambda *_: {})
        put(real.Rehearsal, "rehearse", lambda _self, _steps, speed, governor: self.see("rehearse", speed, governor))
        put(Tools, "find", lambda _self, name: name)
        put(Tools, "run", lambda *_: "")
        put(equipment.Rig, "open", self.open_rig)
        put(equipment, "open_meter", self.open_meter)
        put(equipment, "open_log", lambda kind, *_: Log(kind))
        put(equipment, "read_link", lambda *_: SimpleNamespace(width=4))
        put(equipment, "board_of", lambda _: SimpleNamespace(rates_gt_s=(5.0,), lanes=4))
        put(equipment, "unseen", lambda *_: "The tap does not see this link" if self.blind else None)

    def see(self, *what: Any) -> None:
        """Write it down."""
        self.seen.append(repr(what))

    def plan(self, folder: Path) -> None:
        """What is to be done, as it stands in files."""
        self.see(*((path.name, path.read_text()) for path in sorted(folder.iterdir()) if path.is_file()))

    def run_model(self, run: Any, _voice: object) -> str:
        """In place of drive model and virtual rig."""
        given = {field.name: getattr(run, field.name) for field in dataclasses.fields(run)}
        job = given.pop("job")
        given.pop("extra_files")  # in the folder of the plan, which is of another name each time
        self.see("model", given)
        self.plan(job.parent) if run.overwrite and job.name == "plan.toml" else self.see(job.read_text())
        (self.root / run.out).mkdir(parents=True, exist_ok=True)
        return RIG_STOPPED

    def run_session(self, device: object, rig: object, steps: object, plans: Path, capture: Path, **more: Any) -> list[Any]:
        """In place of a session on a drive."""
        self.see("session", device, rig is not None, steps, capture, {name: value for name, value in more.items() if name in (
            "journal", "keep_stream", "log", "wanted", "command_stdout")})  # fmt: skip
        self.plan(plans)
        capture.mkdir(parents=True, exist_ok=True)
        return []

    def score(self, _capture: object, _suite: object, of: Any, scale: float) -> dict[str, Outcome]:
        """In place of the figures."""
        self.see("score", scale)
        return {test.id: Outcome() for test in of.members}

    def keep(self, out: Path, data: Any, ending: Any, _voice: object) -> Kept:
        """In place of store and page, with a look at what is there by then."""
        self.see("keep", out, ending, sorted(str(path) for path in out.rglob("captures/*")))
        return Kept(data, out / "results.json", None, None, None)

    def inspect(self, path: str) -> Device:
        """In place of a look at the drive."""
        self.see("drive", path)
        return Device(path, Path(path).name, "nvme9", "M", "S", "F", 1 << 40, 512, "", 7)

    @contextlib.contextmanager
    def open_rig(self, port: str | None) -> Iterator[Any]:
        """In place of a rig."""
        self.see("rig", port)
        yield SimpleNamespace(
            port=SimpleNamespace(virtual=False, serial="WB9"),
            set_interval=lambda s: self.see("interval", s),
            set_decimation=lambda n: self.see("decimation", n),
        )

    @contextlib.contextmanager
    def open_meter(self, text: str) -> Iterator[Any]:
        """In place of a meter."""
        self.see("meter", text)
        yield SimpleNamespace(about=SimpleNamespace(model="", serial="", conditions={}))

    def called(self, words: list[str]) -> tuple[list[str], Exception | None]:
        """As :meth:`call`, of what was called before."""
        key = (*words, self.blind)
        if key not in self._called:
            self._called[key] = self.call(words)
        return self._called[key]

    def call(self, words: list[str], config: dict[str, Any] | None = None) -> tuple[list[str], Exception | None]:
        """What a command line reaches, and how it ends. ``config``: the user's own defaults, by commands and options."""
        self.seen = []
        shutil.rmtree(self.root / "out", ignore_errors=True)
        shutil.rmtree(self.root / "other", ignore_errors=True)
        width, said = output.out._width, io.StringIO()
        sys.stdin = Refusing("n\n") if self.blind else io.StringIO()
        ended: Exception | None = None
        try:
            with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(said), contextlib.redirect_stderr(nowhere):
                self.tree(args=words, standalone_mode=False, default_map=config or {})
        except (UsageError, DriveError) as error:
            ended = error
        self.see("printed", output.out.width, said.getvalue())
        output.out._width = width
        return self.seen, ended


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield World(tmp_path_factory.mktemp("world"), monkeypatch)


def words_of(work: str, bench: str, option: list[str]) -> list[str]:
    """A command line."""
    what = WORKS[work]
    options = [*BENCHES[bench], "--out", "out", *option]  # of an option that stands twice, the last counts
    return ["run", *options, *what] if work == "command" else ["run", *what, *options]


def disagreements(world: World, option: list[str], groups: list[str], more: tuple[str, ...] = ()) -> list[str]:
    """Where an option does something else than the matrix says. ``more``: words that stand in every call."""
    found = []
    world.blind = option == ["--commands", "tap"]
    for work, group in zip(WORK_OF_GROUP, groups, strict=True):
        for bench, expected in zip(BENCHES, group, strict=True):
            here = f"{' '.join(option)}, {work} on {bench}"
            without, failed = world.called(words_of(work, bench, [*more]))
            assert expected == "x" or failed is None or world.blind, f"{here}: {failed}"
            seen, ended = world.call(words_of(work, bench, [*option, *more]))
            if expected in "+=":
                changed = seen != without or type(ended) is not type(failed)
                if isinstance(ended, UsageError):
                    found.append(f"{here}: refused ({ended})")
                elif changed != (expected == "+"):
                    found.append(f"{here}: {'changes something' if changed else 'changes nothing'}")
                continue
            text = str(ended)
            if not isinstance(ended, UsageError):
                found.append(f"{here}: not refused")
            elif seen[:-1]:
                found.append(f"{here}: refused, but {seen} was done")
            elif expected == "x":
                assert text == "A command runs on a real drive (--drive); there is no computer with a virtual one."
            elif option[0] not in text or "\n" in text or not ("eave" in text or "ive one of" in text):
                found.append(f"{here}: {text}")
    return found


@pytest.mark.parametrize(("option", "groups"), ROWS, ids=[" ".join(option) for option, _ in ROWS])
def test_an_option_changes_something_or_is_refused(world: World, option: list[str], groups: list[str]) -> None:
    assert disagreements(world, option, groups) == []


@pytest.mark.parametrize(("option", "groups"), [row for row in ROWS if row[0] != ["--dry-run"] and row[0] != ["--wide"]],
                         ids=lambda part: " ".join(part) if part[0].startswith("-") else "")  # fmt: skip
def test_a_dry_run_refuses_the_same_and_tells_of_the_rest(world: World, option: list[str], groups: list[str]) -> None:
    stands = "f" if option == ["--fidelity", "fast"] else ""
    told = ["".join("+" if each == "=" and bench != stands else each for bench, each in zip(BENCHES, group, strict=True)) for group in groups]
    assert disagreements(world, option, told, ("--dry-run",)) == []


def test_every_name_of_every_option_is_in_the_matrix() -> None:
    command = typer.main.get_command(app).commands["run"]
    names = {name for param in command.params for name in (*param.opts, *param.secondary_opts) if name.startswith("--")}
    assert {option[0] for option, _ in ROWS} == names
    assert [param.name for param in command.params if param.param_type_name == "argument"] == ["what"]
    labels = {applies.label(param) for param in command.params}
    assert {name.partition(" ")[0].partition("/")[0] if name.startswith("-") else name for name in applies.RUN} == labels


@pytest.mark.parametrize(("fault", "row", "words"), [
    ({"--plots/--no-plots": applies.EVERYWHERE}, "--plots", "--plots, plan on v: not refused"),
    ({"--scale": applies.ON_A_MODEL}, "--scale 0.5", "--scale 0.5, suite on r: refused"),
    ({"--seed": applies.EVERYWHERE}, "--seed 7", "--seed 7, job on r: not refused"),
    ({"--keep-stream": applies.ON_A_MODEL}, "--keep-stream", "--keep-stream, job on m: refused"),
])  # fmt: skip
def test_a_wrong_table_is_noticed(world: World, monkeypatch: pytest.MonkeyPatch, fault: Any, row: str, words: str) -> None:
    for name, boxes in fault.items():
        assert name in applies.RUN
        monkeypatch.setitem(applies.RUN, name, boxes)
    ((option, groups),) = [each for each in ROWS if " ".join(each[0]) == row]
    assert any(words in found for found in disagreements(world, option, groups))
