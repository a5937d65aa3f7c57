"""No option is ignored: each is tried with every kind of work and of bench, and changes something there, or is refused.

MATRIX was written by hand from the benches' use of each option, not from the table in ``wattbell.cli.applies``. Behind the command
line everything runs, down to the doubles in :class:`World`: the drive model, the rig, the meter, the log, the session on the drive, the
scoring, and the store.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import io
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from wattbell.campaign import equipment, real, runner, single, virtual
from wattbell.campaign.ending import Kept
from wattbell.capture.marking import BY_FEATURE
from wattbell.capture.record import RIG_STOPPED
from wattbell.cli import ahead, applies, captures, output, run
from wattbell.cli.app import app
from wattbell.drive.device import Device
from wattbell.drive.tools import Tools
from wattbell.errors import DriveError, UsageError, WattbellError
from wattbell.present.suite import terminal
from wattbell.suites import session
from wattbell.suites.drive import Drive
from wattbell.suites.outcome import Outcome
from wattbell.suites.results import Results
from wattbell.virtual import model, play

from tools import options_guide

# Of each kind of work the benches: v a model with the fidelity by default (a suite: functional, else the gateware), f a model with the
# functional rig, r a real drive with a rig, m with a rig as its meter, o with another meter.
# + changes what is done   = applies, and is the default there   . is refused   x there is no such run
MATRIX = """
                                 suite  conformance  plan   job    trace  command
                                 vfrmo  vfrmo        vfrmo  vfrmo  vfrmo  vfrmo
--out other                      +++++  +++++        +++++  +++++  +++++  xx+++
--virtual toshiba-xg6            ++...  ++...        ++...  ++...  ++...  xx...
--drive /dev/nvme8n1             ..+++  ..+++        ..+++  ..+++  ..+++  xx+++
--serial S                       ..+++  ..+++        ..+++  ..+++  ..+++  xx+++
--yes                            ..+++  ..+++        ..+++  ..+++  ..+++  xx...
--rig WB7                        ..+..  ..+..        ..+..  ..+..  ..+..  xx+..
--meter ppk2:/dev/p,volts=3.3    ..+++  ..+++        ..+++  ..+++  ..+++  xx+++
--commands auto                  ..===  ..===        ..===  ..===  ..===  xx===
--commands tap                   ..+..  ..+..        ..+..  ..+..  ..+..  xx+..
--commands blktrace              ..+++  ..+++        ..+++  ..+++  ..+++  xx+++
--commands fio                   ..+++  ..+++        ..+++  ..+++  ..+++  xx...
--link-speed 5                   ..+++  ..+++        ..+++  ..+++  ..+++  xx+++
--governor performance           ..+++  ..+++        ..+++  ..+++  ..+++  xx+++
--apst                           .....  .....        .....  ..+++  ..+++  xx+++
--no-apst                        .....  .....        .....  ..===  ..===  xx+++
--aspm l1                        .....  .....        .....  ..+++  ..+++  xx+++
--dry-run                        +++++  +++++        +++++  +++++  +++++  xx+++
--fidelity fast                  ==...  ==...        +=...  +=...  +=...  xx...
--fidelity rtl                   ++...  ++...        =+...  =+...  =+...  xx...
--seed 7                         +++++  ++...        ++...  ++...  ++...  xx...
--seed 1                         =====  ==...        ==...  ==...  ==...  xx...
--interval 3us                   ++++.  ++++.        ++++.  ++++.  ++++.  xx++.
--decimation 3                   ++++.  ++++.        ++++.  ++++.  ++++.  xx++.
--keep-trace                     ++...  ++...        ++...  ++...  ++...  xx...
--as-direct                      ++...  ++...        ++...  ++...  .....  xx...
--scale 0.5                      +++++  +++++        .....  .....  .....  xx...
--scale 1                        =====  =====        .....  .....  .....  xx...
--condition full                 +++++  .....        .....  .....  .....  xx...
--condition both                 =====  .....        .....  .....  .....  xx...
--tests idle                     +++++  +++++        .....  .....  .....  xx...
--written                        ++...  ++...        .....  .....  .....  xx...
--rounds 3                       +++++  .....        .....  .....  .....  xx...
--repeat 2                       +++++  .....        .....  .....  .....  xx...
--discard-captures               +++++  .....        .....  .....  .....  xx...
--resume                         +++++  +++++        .....  .....  .....  xx...
--requirements ocp               .....  +++++        .....  .....  .....  xx...
--requirements declared,ocp,nvme .....  =====        .....  .....  .....  xx...
--set slot_power_limit_w=11      .....  +++++        .....  .....  .....  xx...
--guard 0                        .....  +++++        .....  .....  .....  xx...
--junit v.xml                    .....  +++++        .....  .....  .....  xx...
--exit-codes fail=5              .....  +++++        .....  .....  .....  xx...
--page                           =====  =====        .....  .....  .....  xx...
--no-page                        +++++  +++++        .....  .....  .....  xx...
--plots                          +++++  +++++        .....  .....  .....  xx...
--no-plots                       =====  =====        .....  .....  .....  xx...
--store s.sqlite                 +++++  +++++        .....  .....  .....  xx...
--no-store                       +++++  +++++        .....  .....  .....  xx...
--force                          +++++  +++++        +++++  +++++  +++++  xx+++
--keep-stream                    ++++.  ++++.        ++++.  ++++.  ++++.  xx++.
--wide                           +++++  +++++        +++++  +++++  +++++  xx+++
--json                           +++++  +++++        +++++  +++++  +++++  xx+++
"""
WORKS = {
    "suite": ["suite"],
    "conformance": ["conformance"],
    "plan": ["p.toml"],
    "job": ["j.fio"],
    "trace": ["t.iolog"],
    "command": ["--", "sh", "-c", "true"],
}
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
fill = { span = 0.1 }
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
[[test]]
id = "idle"
name = "Idle"
kind = "idle"
conditions = ["test-data"]
default = false
"""
JOB = "[r]\nfilename=${WATTBELL_DRIVE}\nrw=randwrite\nbs=4k\nruntime=8s\ntime_based\n"
FILES = {
    "suite/manifest.toml": SUITE,
    "suite/r.fio": JOB,
    "j.fio": JOB,
    "reads.fio": JOB.replace("randwrite", "randread"),
    "p.toml": "[[step]]\nname = 'w'\nfill = { span = 0.1 }\n",
    "still.toml": "[[step]]\nname = 's'\nidle_s = 1\n",
    "t.iolog": "fio version 3 iolog\n0 x add\n0 x open\n1 x write 0 4096\n",
    "reads.iolog": "fio version 3 iolog\n0 x add\n1 x read 0 4096\n",
}


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
    """The functions that the command line reaches, written down in ``seen``. ``blind``: the rig's tap does not see the drive's link, and
    somebody sits at the terminal who does not want the link slowed down."""

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
        put(model, "run_model", self.run_model)
        put(virtual.programs, "version", lambda name: name)
        put(session, "make_trace", lambda name, path, scale, seed: path.write_text(f"{name} {scale} {seed}"))
        put(runner, "open_capture", lambda path: path)
        put(runner, "score_session", self.score)
        put(Results, "describe", lambda *_: None)
        put(runner, "keep", self.keep)
        put(runner, "begin", lambda _results, _out, resume, force: self.see("begin", resume, force) or set())
        put(play, "refuse_existing", lambda _out, force: self.see("room", force))
        put(captures, "show_analysis", lambda out, json: self.see("analysis", out, json))
        put(ahead, "agree", lambda _outlook, _device, yes, times: self.see("agree", yes, times))
        put(single, "check_log", lambda _: None)
        put(terminal, "summary", lambda _: "")
        put(run, "_judged", self.judge)
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
        """The work to do, as files have it."""
        self.see(*((path.name, path.read_text()) for path in sorted(folder.iterdir()) if path.is_file()))

    def run_model(self, run: Any, _voice: object) -> str:
        """In place of drive model and virtual rig."""
        given = {field.name: getattr(run, field.name) for field in dataclasses.fields(run)}
        job = given.pop("job")
        given.pop("stop")  # an event for each run
        given.pop("extra_files")  # in the folder of the plan, which is of another name each time
        self.see("model", given)
        self.plan(job.parent) if run.overwrite and job.name == "plan.toml" else self.see(job.read_text())
        (self.root / run.out).mkdir(parents=True, exist_ok=True)
        return RIG_STOPPED

    def run_session(self, device: object, rig: object, steps: object, plans: Path, capture: Path, **more: Any) -> list[Any]:
        """In place of a session on a drive."""
        self.see(
            "session",
            device,
            rig is not None,
            steps,
            capture,
            {name: value for name, value in more.items() if name in ("journal", "keep_stream", "log", "wanted", "command_stdout")},
        )
        self.plan(plans)
        capture.mkdir(parents=True, exist_ok=True)
        return []

    def score(self, _capture: object, _suite: object, of: Any, scale: float) -> dict[str, Outcome]:
        """In place of the figures."""
        self.see("score", scale)
        return {test.id: Outcome() for test in of.members}

    def keep(self, out: Path, data: Any, ending: Any, _voice: object) -> Kept:
        """In place of store and page, with a look at the files there by then."""
        self.see("keep", out, ending, sorted(str(path) for path in out.rglob("captures/*")))
        return Kept(data, out / "results.json", None, None, None)

    def judge(self, _kept: object, how: Any, request: Any) -> int:
        """In place of the verdicts."""
        page = request.out / run.VERDICTS_PAGE if request.result.page else None
        self.see("judge", [file.name for file in how.files], how.numbers, how.guard, how.junit, how.codes, page, request.result.json)
        return 0

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
            control=SimpleNamespace(query=lambda command: "1"),
            set_interval=lambda s: self.see("interval", s),
            set_decimation=lambda n: self.see("decimation", n),
        )

    @contextlib.contextmanager
    def open_meter(self, text: str) -> Iterator[Any]:
        """In place of a meter."""
        self.see("meter", text)
        yield SimpleNamespace(about=SimpleNamespace(model="", serial="", conditions={}))

    def called(self, words: list[str]) -> tuple[list[str], Exception | None]:
        """Do the same as :meth:`call`, for earlier calls."""
        key = (*words, self.blind)
        if key not in self._called:
            self._called[key] = self.call(words)
        return self._called[key]

    def call(self, words: list[str], config: dict[str, Any] | None = None) -> tuple[list[str], Exception | None]:
        """The functions that a command line reaches, and how it ends. ``config``: the user's own defaults, by commands and options."""
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
    """Options that do something else than the matrix says. ``more``: words of every call."""
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
                assert text.startswith("A command runs on a real drive (--drive)") or option[0] in ("--drive", "--virtual")
            elif option[0] not in text or "\n" in text or not ("eave" in text or "ive one of" in text):
                found.append(f"{here}: {text}")
    return found


@pytest.mark.parametrize(("option", "groups"), ROWS, ids=[" ".join(option) for option, _ in ROWS])
def test_an_option_changes_something_or_is_refused(world: World, option: list[str], groups: list[str]) -> None:
    assert disagreements(world, option, groups) == []


@pytest.mark.parametrize(
    ("option", "groups"),
    [row for row in ROWS if row[0] != ["--dry-run"] and row[0] != ["--wide"]],
    ids=lambda part: " ".join(part) if part[0].startswith("-") else "",
)
def test_a_dry_run_refuses_the_same_and_tells_of_the_rest(world: World, option: list[str], groups: list[str]) -> None:
    stands = "f" if option == ["--fidelity", "fast"] else ""
    told = [
        "".join("+" if each == "=" and bench != stands else each for bench, each in zip(BENCHES, group, strict=True)) for group in groups
    ]
    assert disagreements(world, option, told, ("--dry-run",)) == []


def test_every_name_of_every_option_is_in_the_matrix() -> None:
    command = typer.main.get_command(app).commands["run"]
    names = {name for param in command.params for name in (*param.opts, *param.secondary_opts) if name.startswith("--")}
    assert {option[0] for option, _ in ROWS} == names
    assert [param.name for param in command.params if param.param_type_name == "argument"] == ["what"]
    labels = {applies.label(param) for param in command.params}
    assert {name.partition(" ")[0].partition("/")[0] if name.startswith("-") else name for name in applies.RUN} == labels


@pytest.mark.parametrize(
    ("fault", "row", "words"),
    [
        ({"--plots/--no-plots": applies.EVERYWHERE}, "--plots", "--plots, plan on v: not refused"),
        ({"--scale": applies.ON_A_MODEL}, "--scale 0.5", "--scale 0.5, suite on r: refused"),
        ({"--seed": applies.EVERYWHERE}, "--seed 7", "--seed 7, job on r: not refused"),
        ({"--keep-stream": applies.ON_A_MODEL}, "--keep-stream", "--keep-stream, job on m: refused"),
    ],
)
def test_a_wrong_table_is_noticed(world: World, monkeypatch: pytest.MonkeyPatch, fault: Any, row: str, words: str) -> None:
    for name, boxes in fault.items():
        assert name in applies.RUN
        monkeypatch.setitem(applies.RUN, name, boxes)
    ((option, groups),) = [each for each in ROWS if " ".join(each[0]) == row]
    assert any(words in found for found in disagreements(world, option, groups))


# -- what only the work itself tells ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("j.fio --drive d --yes", None),
        ("reads.fio --drive d --yes", "--yes has no effect: reads.fio only reads"),
        ("reads.iolog --drive d --yes", "--yes has no effect: reads.iolog only reads"),
        ("still.toml --drive d --yes", "--yes has no effect: still.toml only reads"),
        ("suite --drive d --rounds 3 --tests rounds", None),
        ("suite --drive d --rounds 3 --tests still", "--rounds has no effect: suite has no test in rounds"),
        ("suite --virtual intel-660p-1tb --rounds 3 --tests still", "--rounds has no effect: suite has no test in rounds"),
        ("suite --virtual intel-660p-1tb --rounds 6", "--rounds 6: the tests to run have 5 rounds at most. Give a number up to 5."),
        ("suite --drive d --seed 3 --tests replay", None),
        ("suite --drive d --seed 3 --tests still,rounds", "--seed has no effect: suite has no test with a generated trace"),
        ("suite --virtual intel-660p-1tb --seed 3 --tests still", None),
        ("suite --virtual intel-660p-1tb --written --tests rounds", "--written has no effect: suite has only tests that write"),
        ("suite --virtual intel-660p-1tb --written --tests still", None),
        ("suite --virtual intel-660p-1tb --tests ,", "--tests names no test"),
        ("conformance --virtual intel-660p-1tb --tests load", "conformance has no test load; its tests: load-by-state, depth-1"),
        ("conformance --virtual intel-660p-1tb --set x=1", "x is set, but no limit of these requirements uses parameter.x."),
        ("conformance --virtual intel-660p-1tb --requirements ,", "--requirements names no set"),
        ("conformance --drive d --repeat 2", "--repeat is for a suite other than conformance; this is the suite conformance"),
        ("suite --drive d --requirements ocp", "--requirements is for the suite conformance; suite is a suite. Leave it out."),
        ("suite --virtual intel-660p-1tb --tests still,rounds --condition full", "--condition full: the test rounds has only empty"),
    ],
)
@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["run", "dry-run"])
def test_an_option_that_has_nothing_to_act_on_is_refused(world: World, words: str, told: str | None, dry: tuple[str, ...]) -> None:
    seen, ended = world.call(["run", *words.split(), "--out", "out", *dry])
    if told is None:
        assert ended is None
    else:
        assert isinstance(ended, UsageError) and told in str(ended)
        assert not any(what.startswith(("('model'", "('session'", "('rig'", "('agree'")) for what in seen)


def test_what_stands_elsewhere_is_named_unless_it_stands_there_already(world: World) -> None:
    words = ["run", "j.fio", "--drive", "d", "--out", "out", "--keep-trace"]
    assert "--keep-stream keeps the data that the rig sent" in str(world.call(words)[1])
    assert str(world.call([*words, "--keep-stream"])[1]).endswith("this run is on a real drive with a rig. Leave it out.")
    assert "--keep-stream" not in str(world.call([*words, "--meter", "ppk2:/dev/p,volts=3.3"])[1]), "there it does not apply, either"
    for work, told in (("suite", ": each test says that itself."), ("p.toml", ": each step says that itself."), ("j.fio", "out.")):
        bench = ["--virtual", "intel-660p-1tb"] if work == "j.fio" else ["--drive", "d"]
        assert str(world.call(["run", work, *bench, "--out", "out", "--no-apst"])[1]).endswith(told)


def test_options_that_apply_to_the_same_are_refused_in_one_line(world: World) -> None:
    words = ["run", "p.toml", "--virtual", "intel-660p-1tb", "--plots", "--no-page", "--no-store", "--dry-run", "--out", "out"]
    assert str(world.call(words)[1]) == "--no-page, --plots and --no-store are for a suite; p.toml is a plan. Leave them out."


def test_captures_that_are_removed_keep_nothing(world: World) -> None:
    for option in ("--keep-trace", "--keep-stream"):
        _, ended = world.call(["run", "suite", "--virtual", "intel-660p-1tb", "--out", "out", "--discard-captures", option])
        assert str(ended) == f"{option} keeps data in the captures that --discard-captures removes. Leave one of them out."


def test_a_dry_run_says_what_is_in_the_way(world: World) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(play, "refuse_existing", play.refuse_existing)
        for words in (["suite", "--virtual", "intel-660p-1tb"], ["suite", "--drive", "d"]):
            (world.root / "there").mkdir(exist_ok=True)
            (world.root / "there/x").write_text("")
            seen, ended = world.call(["run", *words, "--out", "there", "--dry-run"])
            assert ended is None and "It would be refused now: there exists already" in seen[-1]
            seen, ended = world.call(["run", *words, "--out", "there", "--dry-run", "--force"])
            assert ended is None and "It would be refused now: there holds no results.json; --force replaces only" in seen[-1]
            seen, ended = world.call(["run", *words, "--out", "there", "--dry-run", "--resume"])
            assert ended is None and "It would be refused now: there holds no results.json: there is nothing to resume" in seen[-1]
    assert (world.root / "there/x").is_file()


# -- the user's own defaults ------------------------------------------------------------------------------------------


EVERY_DEFAULT = {
    "plots": True,
    "page": False,
    "no_store": True,
    "scale": "0.5",
    "condition": "full",
    "tests": "still",
    "rounds": "3",
    "discard": True,
    "governor": "performance",
    "link_speed": "5",
    "commands": "trace",
    "apst": True,
    "aspm": "l1",
    "meter": "ppk2:/dev/p,volts=3.3",
}


def test_a_default_that_does_not_apply_is_left_out(world: World) -> None:
    plan = ["run", "p.toml", "--virtual", "intel-660p-1tb", "--out", "out"]
    assert world.call(plan, {"run": EVERY_DEFAULT}) == world.call(plan)
    of_a_model = {"fidelity": "fast", "keep_trace": True, "written": True, "seed": "5", "virtual": "intel-660p-1tb"}
    command = ["run", "--drive", "d", "--out", "out", "--", "sh"]
    assert world.call(command, {"run": of_a_model}) == world.call(command)
    with_meter = ["run", "j.fio", "--drive", "d", "--meter", "ppk2:/dev/p,volts=3.3", "--out", "out"]
    assert world.call(with_meter, {"run": {"rig": "WB7", "keep_stream": True, "interval": "2us"}}) == world.call(with_meter)


@pytest.mark.parametrize(
    ("defaults", "given"),
    [
        ({"meter": "ppk2:/dev/p,volts=3.3"}, ["--rig", "WB7"]),
        ({"rig": "WB7"}, ["--meter", "ppk2:/dev/p,volts=3.3"]),
        ({"page": False}, ["--plots"]),
        ({"plots": True}, ["--no-page"]),
        ({"no_store": True}, ["--store", "s.sqlite"]),
        ({"store": "s.sqlite"}, ["--no-store"]),
        ({"wide": True}, ["--no-store", "--json"]),
        ({"discard": True}, ["--keep-stream", "--rig", "WB7"]),
    ],
)
def test_the_command_line_wins_against_a_default(world: World, defaults: dict[str, Any], given: list[str]) -> None:
    words = ["run", "suite", "--drive", "d", "--out", "out", *given]
    (seen, ended), (without, _) = world.call(words, {"run": defaults}), world.call(words)
    assert ended is None and seen[:-1] == without[:-1]


def test_defaults_that_contradict_each_other_are_told_where_they_apply(world: World) -> None:
    both = {"run": {"store": "s.sqlite", "no_store": True}}
    suite, plan = (["run", what, "--virtual", "intel-660p-1tb", "--out", "out"] for what in ("suite", "p.toml"))
    assert (
        str(world.call(suite, both)[1])
        == "Your own defaults (`wattbell config`) contradict each other. Give one of --store and --no-store."
    )
    assert world.call(plan, both)[1] is None
    assert world.call([*suite, "--no-store"], both)[1] is None


# -- the other commands -----------------------------------------------------------------------------------------------


def commands(tree: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with its names."""
    for name, command in tree.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*names, name))
        else:
            yield (*names, name), command


def test_every_command_refuses_options_that_do_not_apply() -> None:
    found = dict(commands(typer.main.get_command(app)))
    assert len(found) > 30 and all(isinstance(command, applies.Checked) for command in found.values())


def test_every_command_refuses_a_width_for_json(world: World) -> None:
    both = [
        (names, command.params) for names, command in commands(world.tree) if {"wide", "json"} <= {param.name for param in command.params}
    ]
    assert {names[0] for names, _ in both} >= {"run", "rigs", "meters", "info", "analyze", "compare", "results", "suites", "check"}
    for names, params in both:
        required = [param for param in params if param.required]
        words = [word for param in required for word in ([param.opts[0], "x"] if param.param_type_name == "option" else ["x"])]
        more = ["p.toml", "--virtual", "intel-660p-1tb"] if names == ("run",) else []
        assert "--wide is for tables" in str(world.call([*names, *words, *more, "--wide", "--json"])[1]), names


OTHERS = """
record --out c --meter ppk2:x --rig W                      | --rig is for a rig that taps the bus
record --out c --meter ppk2:x --until-marker 1             | --until-marker is for a rig that taps the bus
record --out c --meter ppk2:x --decimation 2               | --decimation is for a rig
record --out c --meter ppk2:x --lba-size 512               | --lba-size is for a rig
record --out c --meter ppk2:x --attach f                   | --attach is for a rig
record --out c --meter ppk2:x --keep-stream                | --keep-stream is for a rig
record --out c --statistics-out s.csv                      | --statistics-out needs a period
import w.csv --out c --align edges                         | --align places work on the clock of the rail
import w.csv --out c --align-u 0.1                         | --align-u places work on the clock of the rail
import w.csv --out c --offset 1,0.1                        | --offset places work on the clock of the rail
import w.csv --out c --fio f --align-u 0.1                 | --align-u is for --align utc
import w.csv --out c --fio f --align edges --align-u 0.1   | --align-u is for --align utc
import w.csv --out c --fio f --offset 1,0.1 --align edges  | --offset is a way to align of its own
import w.csv --out c --fio f --offset 1,0.1 --align-u 0.1  | --offset has its own uncertainty
analyze a b --scheduler tcp://x:1 --workers 0              | give --scheduler or --workers
analyze a b --insecure                                     | --insecure is of a cluster's scheduler
check c --repair --seal                                    | give one of them
info c --rig W                                             | --rig asks a rig about itself
view c --align x                                           | --align is for several captures
view c --out o                                             | --out is for a rig
calibrate --prompt --dwell 2                               | --dwell has a source step by itself
calibrate --point 1,0 --source-ppm 1,1 --reference-uncertainty 1ppm,1ppm | give one of them
calibrate --delay --keep --no-store                        | --store is the former name of --keep
calibrate --delay --no-keep --store                        | --store is the former name of --keep
calibrate --delay --seconds 1                              | --seconds is of the points
calibrate --delay --settle 0                               | --settle is of the points
calibrate --delay --dwell 1                                | --dwell is of the points
calibrate --delay --source-ppm 10,33.3                     | --source-ppm is of the points
calibrate --delay --source-offset 0                        | --source-offset is of the points
calibrate --delay --reference-uncertainty 1ppm,1ppm        | --reference-uncertainty is of the points
calibrate --delay --zero                                   | --zero is of the points
sim start --trace t --rig A --serial B                     | --serial is the former name of --rig
sim replay --out o --qemu-log a --bus-trace b              | Give one of --qemu-log LOG and --bus-trace FILE
compare suite --store none.sqlite                          | none.sqlite: there is no store
compare suite --gate 1% --mixed                            | Leave --mixed out
compare suite --junit gate.xml                             | --junit is of verdicts: add --gate 1%
compare suite --exit-codes pass=0                          | --exit-codes is of verdicts: add --gate 1%
results show c --store s.sqlite                            | --store is for a run by its id
"""
LINES_OF_OTHERS = [[part.strip() for part in line.split("|")] for line in OTHERS.strip().splitlines()]


@pytest.mark.parametrize(("line", "told"), LINES_OF_OTHERS, ids=[line for line, _ in LINES_OF_OTHERS])
def test_other_commands_refuse_what_has_no_effect(world: World, monkeypatch: pytest.MonkeyPatch, line: str, told: str) -> None:
    from wattbell.results import load

    monkeypatch.setattr(load, "resolve", lambda *_: SimpleNamespace(content_hash=""))
    _, ended = world.call(line.split())
    assert isinstance(ended, UsageError) and told in str(ended) and "\n" not in str(ended)


def test_each_rule_of_two_options_is_tried() -> None:
    """A rule that nobody tries may be wrong."""
    tried = {tuple(line.split()) for line, _ in LINES_OF_OTHERS}
    rules = [(rule.command, (rule.one, rule.other)) for rule in applies.APART] + [(rule.command, (rule.option,)) for rule in applies.NEEDS]
    for command, options in rules:
        if command in (None, "run"):
            continue
        names = [set(option.split("/")) for option in options if option.startswith("-")]
        assert any(" ".join(words).startswith(command) and all(name & set(words) for name in names) for words in tried), (command, options)


def test_a_default_of_another_command_is_left_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = {"calibrate": {"seconds": "3", "settle": "1"}, "info": {"rig": "W"}, "import": {"align_u": "0.1"}}
    for words, told in (("calibrate", "Nothing to calibrate"), ("info none", "none"), ("import none.csv --out c", "none.csv")):
        with pytest.raises(WattbellError, match=told) as error:
            world.tree(args=words.split(), standalone_mode=False, default_map=defaults)
        assert "--" not in str(error.value) or "Nothing to calibrate" in str(error.value)


# -- the user's guide -------------------------------------------------------------------------------------------------


def test_the_guide_has_the_tables() -> None:
    guide = options_guide.GUIDE.read_text(encoding="utf-8")
    found = guide.partition(options_guide.BEGIN)[2].partition(options_guide.END)[0]
    assert found == options_guide.tables(), "run python tools/options_guide.py --write"


def test_the_table_is_light() -> None:
    """Whoever mistypes an option does not wait for Polars. (Another test is about the package's own imports.)"""
    found = ast.walk(ast.parse(Path(str(applies.__file__)).read_text(encoding="utf-8")))
    names = {
        name
        for node in found
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    assert names == {"__future__", "collections.abc", "dataclasses", "enum", "typing", "typer.core", "errors"}
