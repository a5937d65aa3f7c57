"""`wattbell run --drive` as a user calls it, on the bench of tests/host/drive/lab.py: runs, refusals, ends."""

from __future__ import annotations

import functools
import io
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from wattbell.campaign import real
from wattbell.capture import open_capture
from wattbell.cli import app, output
from wattbell.drive import bench
from wattbell.drive.settings import HostSettings

from tests.host.drive.lab import Lab

READS = "[global]\nfilename=${WATTBELL_DRIVE}\nrw=randread\nbs=4k\nsize=1m\n[a]\n[b]\nstonewall\n"
SUITE = '[[test]]\nid = "a"\nname = "A"\nkind = "idle"\nconditions = ["test-data"]\ntest_data = "1g"\nidle_s = 0.2\n'


class Terminal(io.StringIO):
    """Standard input of somebody who answers."""

    def isatty(self) -> bool:
        return True


class Called:
    """``code``, ``out`` and ``err`` of a command."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, " ".join(err.split())


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    made = Lab(tmp_path, monkeypatch)
    made.on_the_bench(monkeypatch)
    (tmp_path / "iops").write_text("[1000.0]")
    (tmp_path / "reads.fio").write_text(READS)
    (tmp_path / "writes.fio").write_text(READS.replace("randread", "randwrite"))
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite/manifest.toml").write_text(SUITE)
    monkeypatch.chdir(tmp_path)
    return made


@pytest.fixture
def run(lab: Lab, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Called]:
    def call(*arguments: object, command: Sequence[str] | None = None, answer: str | None = None) -> Called:
        words = [*map(str, arguments), "--drive", "/dev/nvme9n2", "--out", str(lab.root / "out")]
        monkeypatch.setattr(sys, "argv", ["wattbell", "run", *words, *([] if command is None else ["--", *command])])
        monkeypatch.setattr(sys, "stdin", io.StringIO() if answer is None else Terminal(answer))
        monkeypatch.setattr(output.err, "_file", sys.stderr)  # `file` is a property that gives sys.stderr: undone, it would stay bound
        monkeypatch.setattr(output.out, "_file", sys.stdout)
        capfd.readouterr()
        code = 0
        try:
            app.answer()
        except SystemExit as ending:
            code = int(ending.code or 0)
        return Called(code, *capfd.readouterr())

    return call


def phases(lab: Lab) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = open_capture(lab.root / "out").meta["workload"]["phases"]
    return found


def untouched(lab: Lab) -> bool:
    return not (lab.root / "out").exists() and not lab.words("formats") and not lab.words("markers") and not lab.words("runs")


# -- what runs -------------------------------------------------------------------------------------------------------


def test_a_job_file_that_reads_needs_no_serial_number_and_no_consent(lab: Lab, run: Any) -> None:
    lab.mounted = "/"
    done = run("reads.fio", "--json")
    assert done.code == 0, done.err
    assert [(p["name"], p["kind"], p["jobs"]) for p in phases(lab)] == [("reads/a", "fio", ["a"]), ("reads/b", "fio", ["b"])]
    assert [phase["name"] for phase in json.loads(done.out)["phases"]] == ["reads/a", "reads/b"]
    assert lab.words("runs") == ["a", "b"] and not lab.words("formats")
    assert (lab.root / "out/workload/reads.fio").read_text() == READS
    assert open_capture(lab.root / "out").meta["workload"]["job"] == "reads.fio"
    assert not list(lab.root.glob("*restore.json")), "nothing is left to be put back"


def test_a_job_file_may_name_the_drive_by_its_path(lab: Lab, run: Any) -> None:
    (lab.root / "reads.fio").write_text(READS.replace("filename=${WATTBELL_DRIVE}", "  filename = /dev/../dev/nvme9n2 ; ours"))
    assert run("reads.fio").code == 0
    assert (lab.root / "out/workload/reads.fio").read_text() == READS, "what fio gets names no path"


def test_a_plan_runs_its_steps(lab: Lab, run: Any) -> None:
    (lab.root / "jobs").mkdir()
    (lab.root / "jobs/reads.fio").write_text(READS.partition("[b]")[0])
    jobs = ["[[step]]", 'fio = "reads.fio"', "duty = 0.9", "duty_idle_max_s = 0.1", "[[step]]", 'fio = "jobs/reads.fio"']
    still = ["[[step]]", 'name = "still"', "idle_s = 0.1", "ps = 1", "apst = true"]
    (lab.root / "mine.toml").write_text("\n".join(['condition = "full"', *jobs, *still]))
    done = run("mine.toml")
    assert done.code == 0, done.err
    assert [(p["name"], p["kind"]) for p in phases(lab)] == [("reads/a", "fio"), ("reads/b", "fio"), ("reads", "fio"), ("still", "idle")]
    assert phases(lab)[-1]["conditions"]["power_state"] == 1
    (note,) = open_capture(lab.root / "out").meta["conditions"]["notes"]
    assert "describe a model's drive: this one was as it was found" in note
    assert {path.name for path in (lab.root / "out/workload").glob("*.fio")} == {"reads.fio", "2-reads.fio"}
    assert (lab.root / "out/workload/plan.toml").is_file()


def test_a_trace_of_reads_is_replayed(lab: Lab, run: Any) -> None:
    (lab.root / "t.iolog").write_text("fio version 3 iolog\n0 x add\n0 x open\n1 x read 0 4096\n90 x read 8192 4096\n")
    assert run("t.iolog").code == 0
    assert [(p["name"], p["kind"]) for p in phases(lab)] == [("t", "trace")] and lab.words("runs") == ["replay"]


def test_a_command_finds_the_drive_and_its_output_is_its_own(lab: Lab, run: Any) -> None:
    lab.mounted = "/"
    done = run(command=["sh", "-c", "echo to $WATTBELL_DRIVE; echo --json", "--help"])
    assert done.code == 0, done.err
    assert done.out.startswith("to /dev/nvme9n2\n--json\n")
    (phase,) = phases(lab)
    assert (phase["name"], phase["kind"], phase["exit_code"]) == ("sh", "command", 0)
    assert phase["conditions"] == {"apst": "as it was", "aspm": "as it was", "power_state": None}
    assert open_capture(lab.root / "out").meta["workload"]["command"] == ["sh", "-c", "echo to $WATTBELL_DRIVE; echo --json", "--help"]


def test_a_command_finds_the_settings_as_they_were(lab: Lab, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = lab.root / "sys"
    files = [tree / "class/block/nvme9n2/queue/nomerges", tree / "class/nvme/nvme9/power/pm_qos_latency_tolerance_us"]
    for file in files:
        file.parent.mkdir(parents=True)
        file.write_text("1\n")
    monkeypatch.setattr(bench, "HostSettings", functools.partial(HostSettings, sys=tree))
    assert run(command=["cat", *map(str, files)]).out.startswith("1\n1\n")
    assert run("--force", "--no-apst", command=["cat", *map(str, files)]).out.startswith("1\n0"), "but for what was asked"
    fio = (lab.root / "fio").read_text()
    (lab.root / "fio").write_text(f'#!/bin/sh\ncat {files[0]} {files[1]} > {lab.root}/seen\nexec {lab.root}/fio.py "$@"\n')
    (lab.root / "fio.py").write_text(fio)
    (lab.root / "fio.py").chmod(0o755)
    assert run("--force", "reads.fio").code == 0
    assert (lab.root / "seen").read_text() == "20", "merging off, APST off"
    assert [file.read_text().strip() for file in files] == ["1", "1"], "and both are put back"


def test_with_json_nothing_but_json_is_on_stdout(lab: Lab, run: Any) -> None:
    done = run("--json", command=["echo", "mine"])
    assert [phase["name"] for phase in json.loads(done.out)["phases"]] == ["echo"]
    assert "mine" in done.err


def test_markup_and_escapes_in_a_commands_words_do_nothing(lab: Lab, run: Any) -> None:
    program = lab.root / "[bold]x[bold]"
    program.write_text('#!/bin/sh\nexit "$2"\n')
    program.chmod(0o755)
    done = run(command=[str(program), "[/]\x1b[2J[link=a]", "9"])
    assert done.code == 9
    assert "[bold]x[bold] ended with exit code 9" in done.err and "\x1b" not in done.err + done.out
    assert phases(lab)[0]["name"] == "[bold]x[bold]"
    planned = run("--dry-run", command=[str(program), "[/]\x1b[2J[link=a]", "9"])
    assert planned.code == 0 and "[/]\ufffd[2J[link=a] 9" in planned.out and "\x1b" not in planned.out


def test_settings_that_a_killed_run_left_are_put_back_first(lab: Lab, run: Any) -> None:
    left = lab.root / "out.restore.json"
    saved = [{"kind": "feature", "where": "2", "value": "3"}]
    left.write_text(json.dumps({"device": "/dev/nvme9n2", "serial": "S", "saved": saved}))
    done = run("reads.fio")
    assert done.code == 0 and "settings that the interrupted run left changed are put back" in done.err
    assert lab.words("set") == ["set-feature /dev/nvme9 -f 0x2 --value=0x3"] and not left.exists()


# -- how it ends -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        ("exit 3", 3, "sh ended with exit code 3"),
        ("kill -9 $$", 137, "sh was ended by SIGKILL"),
        ("kill -INT $PPID; sleep 0.2; exit 4", 4, "sh ended with exit code 4"),
    ],
)
def test_a_commands_failure_is_passed_on_and_what_was_recorded_is_kept(lab: Lab, run: Any, script: str, code: int, words: str) -> None:
    done = run(command=["sh", "-c", script])
    assert done.code == code
    assert f"error: {words}; {lab.root / 'out'} holds the whole recording." in done.err
    assert phases(lab)[0]["exit_code"] == code and open_capture(lab.root / "out").meta["state"] != "recovered"
    assert "unknown drive" in done.out, "the analysis is printed all the same"


def test_a_fio_that_fails_leaves_what_was_recorded(lab: Lab, run: Any) -> None:
    (lab.root / "fio").write_text('#!/bin/sh\n[ "$1" = --version ] && echo fio-3.33 && exit 0\necho "fio: no such engine"; exit 1\n')
    done = run("reads.fio")
    assert done.code == 1 and done.err.count("error:") == 1 and "fio failed (exit 1): fio: no such engine" in done.err
    assert "holds what was recorded until the error" in done.err and open_capture(lab.root / "out").meta["state"] != "recording"


def test_an_interrupted_plan_is_analysed_as_far_as_it_came(lab: Lab, run: Any) -> None:
    (lab.root / "fio").write_text('#!/bin/sh\n[ "$1" = --version ] && exit 0\nkill -INT $PPID; sleep 60\n')
    done = run("reads.fio")
    assert done.code == 130 and "the run was cut short" in done.err and "Traceback" not in done.err
    assert open_capture(lab.root / "out").events.collect().height > 0


# -- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("work", ["writes.fio", "suite", "fill.toml", "w.iolog", "erase.toml", "alias.fio"])
@pytest.mark.parametrize(
    ("given", "mounted", "words"),
    [
        ((), "", "Spell out the serial number of /dev/nvme9n2 with --serial"),
        (("--serial", "T"), "", "with serial number S, not T"),
        (("--serial", "S"), "/mnt", "mounted on /mnt"),
        (("--serial", "S"), "", "add --yes"),
    ],
)
def test_what_writes_is_refused(lab: Lab, run: Any, work: str, given: tuple[str, ...], mounted: str, words: str) -> None:
    (lab.root / "fill.toml").write_text("[[step]]\nfill = { span = 0.1 }\n")
    (lab.root / "erase.toml").write_text("[[step]]\nformat = { ses = 1 }\n")
    (lab.root / "w.iolog").write_text("fio version 3 iolog\n0 x add\n0 x open\n1 x read 0 4096\n2 x write 0 4096\n")
    (lab.root / "alias.fio").write_text(READS.replace("rw=randread", "readwrite=write"))
    lab.mounted = mounted
    done = run(work, *given, *(() if "--yes" in words else ("--yes",)))
    assert done.code in (1, 2) and words in done.err and done.err.count("error:") == 1, done.err
    assert untouched(lab)


@pytest.mark.parametrize("step", ["idle_s = 0.1\nwrite_cache = true", "restart = {}"])
def test_a_write_cache_behind_the_kernels_back_and_a_restart_are_no_reading(lab: Lab, run: Any, step: str) -> None:
    (lab.root / "cache.toml").write_text(f"[[step]]\n{step}\n")
    assert "Spell out the serial number" in run("cache.toml").err and untouched(lab)
    lab.mounted = "/mnt"
    assert "mounted on /mnt" in run("cache.toml", "--serial", "S", "--yes").err and untouched(lab)


@pytest.mark.parametrize("work", ["restart.toml", "power-on"])
def test_a_restart_is_refused_with_a_meter_before_anything_is_asked(lab: Lab, run: Any, work: str) -> None:
    (lab.root / "restart.toml").write_text("[[step]]\nrestart = {}\n")
    done = run(work, "--meter", "powersensor3:/dev/nowhere", "--serial", "S", answer="no")
    assert done.code == 2 and "another meter only measures" in done.err and "[y/N]" not in done.err and untouched(lab), done.err


def test_another_drive_is_refused_for_reads_too_where_a_number_is_given(lab: Lab, run: Any) -> None:
    done = run("reads.fio", "--serial", "T")
    assert done.code == 1 and "with serial number S, not T" in done.err and untouched(lab)


@pytest.mark.parametrize("name", ["/dev/sda", "/dev/nvme9n1", "/tmp/x", "nvme9n2", "/dev/nvme9n2:/dev/sda", "${HOME}"])
def test_a_job_file_that_names_anything_else_is_refused(lab: Lab, run: Any, name: str) -> None:
    (lab.root / "reads.fio").write_text(READS + f"filename={name}\n")
    done = run("reads.fio")
    assert done.code == 2 and "option `filename`" in done.err and "-- fio reads.fio" in done.err and untouched(lab)


def test_a_job_file_that_names_nothing_or_runs_programs_is_refused(lab: Lab, run: Any) -> None:
    (lab.root / "reads.fio").write_text("[a]\nrw=read\n")
    assert "names no drive" in run("reads.fio").err
    (lab.root / "reads.fio").write_text(READS + "exec_prerun=touch /tmp/x\n")
    assert "reads.fio:9: option `exec_prerun`" in run("reads.fio").err and untouched(lab)


@pytest.mark.parametrize(
    ("arguments", "command", "code", "words"),
    [
        ((), [], 2, "There is no command behind `--`"),
        ((), ["no-such-program"], 127, "no-such-program is not a program that can be found"),
        ((), ["./reads.fio"], 126, "./reads.fio cannot be executed"),
        (("suite",), ["true"], 2, "Give one thing to run"),
        ((), None, 2, "Give one thing to run"),
        (("--resume",), ["true"], 2, "--resume is for a suite; this is a command. Leave it out."),
        (("reads.fio", "--scale", "0.5"), None, 2, "--scale is for a suite; reads.fio is a fio job file. Leave it out."),
        (("suite", "--apst"), None, 2, "--apst is for a fio job file, a trace or a command; suite is a suite. Leave it out"),
        (("mine.toml",), None, 2, "mine.toml is not a file"),
        (("reads.fio", "--keep-trace"), None, 2, "--keep-trace is for a drive model (--virtual); this run is on a real drive with a rig"),
        (("reads.fio", "--keep-stream", "--meter", "ppk2:/dev/null,volts=3.3"), None, 2, "--keep-stream is for a rig"),
    ],
)
def test_calls_that_make_no_sense(lab: Lab, run: Any, arguments: Any, command: Any, code: int, words: str) -> None:
    done = run(*arguments, command=command)
    assert done.code == code and words in done.err and done.err.count("error:") == 1, done.err
    assert untouched(lab)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("", "exactly one of"),
        ("idle_s = nan", "between 0 and 1e+06"),
        ("fill = { span = 2 }", "not above 0 and at most 1"),
        ("idle_s = 1\nwake = { idle_s = 1 }", "exactly one of"),
        ('command = ["rm"]', "exactly one of"),
        ("idle_s = 1\nspeed = 3", "speed"),
        ('idle_s = 1\ncommand = ["rm"]', "exactly one of"),
        ('fio = "none.fio"', "none.fio cannot be read"),
        ("idle_s = 1\nduty = 0.5", "go with fio"),
        ('sanitize = "fire"', "one of block, crypto, overwrite"),
        ('idle_s = 1\naspm = "l9"', "one of off, l1, l1.2"),
        ("= 1", "is no plan"),
    ],
)
def test_a_plan_that_makes_no_sense_names_the_step(lab: Lab, run: Any, step: str, words: str) -> None:
    (lab.root / "mine.toml").write_text(f"[[step]]\n{step}\n")
    done = run("mine.toml")
    assert done.code == 2 and words in done.err and "mine.toml" in done.err.replace("none.fio", "mine.toml") and untouched(lab), done.err


def test_an_existing_capture_is_only_replaced_when_asked(lab: Lab, run: Any) -> None:
    assert run(command=["true"]).code == 0
    again = run(command=["true"])
    assert again.code == 1 and "--force" in again.err
    assert run("--force", command=["sleep", "0"]).code == 0 and phases(lab)[0]["name"] == "sleep"


# -- before it begins ------------------------------------------------------------------------------------------------


def test_what_will_be_written_is_said_and_asked_about(lab: Lab, run: Any) -> None:
    no = run("suite", "--serial", "S", "--no-store", "--no-page", answer="n\n")
    assert no.code == 2 and "Nothing was written." in no.err and untouched(lab)
    said = "This writes 1.07 GB (0.00098 times its capacity) to /dev/nvme9n2 (M, serial number S), and erases it. Everything on it is lost."
    assert said in no.err and "It takes about 5" in no.err
    yes = run("suite", "--serial", "S", "--no-store", "--no-page", answer="y\n")
    assert yes.code == 0 and said in yes.err and len(lab.words("formats")) == 1, yes.err
    assert run("suite", "--serial", "S", "--no-store", "--no-page", "--force", "--yes").code == 0


def test_a_dry_run_prints_the_whole_plan_and_touches_nothing(lab: Lab, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real.Rig, "open", lambda _: pytest.fail("it needs no rig"))
    lab.mounted = "/mnt"
    done = run("suite", "--dry-run")
    assert done.code == 0, done.err
    shown = " ".join(done.out.split())
    for words in (
        "session 1 of 1: a (test-data)",
        "purge Format NVM (SES 1)",
        "fill sequential writes of 128k",
        "1.07 GB",
        "a idle for 0.2 s",
    ):
        assert words in shown, done.out
    assert "It would be refused now: This writes over what is on the drive." in shown and "mounted on /mnt" in shown
    plan = json.loads(run("suite", "--dry-run", "--json").out)
    assert (plan["written_bytes"], plan["written_exact"], plan["erasures"]) == (1 << 30, True, 1)
    assert [step["name"] for step in plan["sessions"][0]["steps"]] == ["purge", "fill", "a-settle", "a"] and len(plan["refusals"]) == 2
    one = json.loads(run("reads.fio", "--dry-run", "--json", "--apst").out)
    assert one["written_bytes"] == 0 and one["refusals"] == [] and one["sessions"][0]["steps"][0]["apst"] is True
    assert untouched(lab) and os.listdir(lab.root / "plans") == []


def test_a_dry_run_of_a_virtual_drive_needs_no_simulation(lab: Lab, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.setenv("WATTBELL_SIM_BIN", str(lab.root / "none"))
    (lab.root / "w.fio").write_text("[a]\nrw=write\nbs=1m\nsize=1g\ndirect=1\nfilename=/dev/sdz\n")
    capacity = 2_000_409_264 * 512  # as the drive's profile has it, the IDEMA capacity of 1024 GB
    filled, an_hour_twice = capacity * 3 // 4, 2 * 3600 * 10**9  # at 1 GB/s, which is what a drive is taken to write
    for work, written in (("w.fio", 1 << 30), ("consistency-2016", filled + an_hour_twice)):
        monkeypatch.setattr(sys, "argv", ["wattbell", "run", work, "--virtual", "intel-660p-1tb", "--out", "o", "--dry-run", "--json"])
        capfd.readouterr()
        with pytest.raises(SystemExit, match="^0$"):
            app.answer()
        plan = json.loads(capfd.readouterr().out)
        assert plan["written_bytes"] == written and plan["settings"] == [] and plan["refusals"] == []
    assert not (lab.root / "o").exists()


def test_what_is_left_is_shown_in_a_terminal_and_told_in_lines_elsewhere(lab: Lab, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (lab.root / "still.toml").write_text("[[step]]\nname = '[bold]still'\nidle_s = 2.5\n")
    plain = run("still.toml")
    assert "left" not in plain.err and "\x1b" not in plain.err
    monkeypatch.setattr(output.err, "_force_terminal", True)
    monkeypatch.setattr(output.err, "is_interactive", True)
    shown = run("still.toml", "--force")
    assert "about 2 s left" in shown.err or "about 1 s left" in shown.err, shown.err
    assert "1: [bold]still" in shown.err
    monkeypatch.setattr(output.err, "no_color", True)
    colours = [
        code for code in run("still.toml", "--force").err.split("\x1b[")[1:] if code[:2] in ("31", "32", "33", "34", "35", "36", "38")
    ]
    assert colours == []


# -- the suite conformance --------------------------------------------------------------------------------------------


def planned(text: str) -> dict[str, list[str]]:
    """Tests by requirement, from the JSON of a dry run."""
    return {need["id"]: need["tests"] for need in json.loads(text)["requirements"]}


def test_a_meter_leaves_the_restarts_out_and_says_why(lab: Lab, run: Any) -> None:
    words = ("conformance", "--requirements", "ocp", "--serial", "S", "--dry-run", "--json")
    with_rig, with_meter = run(*words), run(*words, "--meter", "powersensor3:/dev/nowhere")
    assert planned(with_rig.out)["ocp/TTR-1"] == ["cold"] and planned(with_meter.out)["ocp/TTR-1"] == []
    (why,) = {need["why"] for need in json.loads(with_meter.out)["requirements"] if need["id"] in ("ocp/TTR-1", "ocp/TTR-2")}
    assert why.startswith("A test of kind power-on switches the drive's 3.3 V off and on") and untouched(lab)


def test_a_rig_without_a_switch_leaves_the_restarts_out(lab: Lab, run: Any) -> None:
    """The lab's rig does not know OUTPut."""
    done = run("conformance", "--requirements", "ocp", "--serial", "S", answer="no")
    assert done.code == 2 and "Nothing was written" in done.err and untouched(lab)
    row = next(line for line in done.out.splitlines() if line.startswith("ocp/TTR-1"))
    assert "no work" in row and "cold" not in done.out


def test_the_work_on_a_real_drive_is_told_before_it_is_written(lab: Lab, run: Any) -> None:
    done = run("conformance", "--requirements", "ocp", "--serial", "S", answer="no")
    assert "Everything on it is lost. It takes about" in done.err and re.search(r"load-by-state +\d|load-by-state \d+ ", done.out)
