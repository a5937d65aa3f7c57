"""Unintended paths and numbers: taken literally, or refused in one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from wattbell.capture import CaptureWriter

from tests.patience import PATIENCE_S


@pytest.fixture
def wattbell(tmp_path: Path) -> Any:
    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "WATTBELL_RUNTIME": str(tmp_path / "runtime"), "XDG_DATA_HOME": str(tmp_path / "home")}
        for name in ("WATTBELL_DEBUG", "WATTBELL_STORE"):
            env.pop(name, None)
        command = [sys.executable, "-m", "wattbell", *map(str, arguments)]
        return subprocess.run(command, env=env, cwd=tmp_path, text=True, capture_output=True, timeout=PATIENCE_S, check=False)

    return run


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """One line with these words, and the exit code of a user error."""
    assert done.returncode in (1, 2), (done.stdout, done.stderr)
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert done.stderr.startswith("error: ")
    for word in words:
        assert word in done.stderr


def write_capture(path: Path, commands: int) -> Path:
    with CaptureWriter(path, conditions={"virtual": True}) as writer:
        ticks = [10_000_000 + 100_000 * i for i in range(commands)]
        n = len(ticks)
        columns = {"cqe_tick": [t + 50_000 for t in ticks], "doorbell_tick": ticks, "fetch_tick": [t + 500 for t in ticks]}
        writer.add_rows("commands", {**columns, "opcode": [2] * n, "qid": [1] * n, "nsid": [1] * n, "blocks": [8] * n, "slba": [0] * n})
    return path


def test_a_captures_path_is_a_name_and_no_pattern(wattbell: Any, tmp_path: Path) -> None:
    counts = {"run1": 10, "run2": 20, "run?": 30, "run[12]": 40, "*": 50, "a=1 {b}": 60}
    for name, commands in counts.items():
        write_capture(tmp_path / name, commands)
    for name, commands in counts.items():
        done = wattbell("analyze", name, "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["commands"]["all"]["count"] == commands
        assert json.loads(wattbell("info", name, "--json").stdout)["counts"]["commands"] == commands
    (tmp_path / "run[12]" / "commands.parquet").unlink()
    refused(wattbell("analyze", "run[12]"), "commands.parquet")
    assert wattbell("export", "csv", "run?", "--out", "csv[1]").returncode == 0
    assert len((tmp_path / "csv[1]" / "commands.csv").read_text().splitlines()) == 31


def test_a_capture_that_is_nearly_one_is_named(wattbell: Any, tmp_path: Path) -> None:
    write_capture(tmp_path / "runs" / "before", 3)
    for command in (
        ("info",),
        ("analyze",),
        ("report",),
        ("check",),
        ("compare",),
        ("export", "csv", "--out", "o"),
        ("view", "--no-browser"),
    ):
        refused(wattbell(*command, "runs/befor"), "runs/befor", "Did you mean runs/before?")
    assert not (tmp_path / "o").exists()


NUMBERS = [
    ("export", "csv", "c", "--out", "o", "--from"),
    ("export", "csv", "c", "--out", "o", "--to"),
    ("export", "sigrok", "c", "--out", "o", "--from"),
    ("record", "--out", "o", "--duration"),
    ("run", "quick", "--virtual", "intel-660p-1tb", "--out", "o", "--scale"),
    ("run", "quick", "--virtual", "intel-660p-1tb", "--out", "o", "--interval"),
    ("sim", "replay", "--bus-trace", "t", "--out", "o", "--interval"),
    ("sump", "--settle"),
    ("compare", "c", "--gate"),
    ("policies", "ps", "idle.csv", "--tolerance"),
    ("trace", "make", "heavy", "--out", "o", "--scale"),
    ("calibrate", "--delay", "--seconds"),
    ("calibrate", "--delay", "--settle"),
    ("calibrate", "--delay", "--dwell"),
    ("calibrate", "--delay", "--source-offset"),
]


@pytest.mark.parametrize("command", NUMBERS, ids=" ".join)
def test_numbers_that_are_none_are_refused(wattbell: Any, tmp_path: Path, command: tuple[str, ...]) -> None:
    refused(wattbell(*command, "nan"), command[-1], "give a ")
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("unit", ["5x", "1MiB", "10 kg", "s", ""])
def test_a_unit_that_is_none_is_refused_with_an_example(wattbell: Any, unit: str) -> None:
    refused(wattbell("record", "--out", "c", "--duration", unit), "--duration", "such as 60s")


@pytest.mark.parametrize("number", ["inf", "-inf", "1e300", "-1e300"])
def test_times_beyond_all_time_are_refused(wattbell: Any, number: str) -> None:
    refused(wattbell("export", "csv", "c", "--out", "o", "--from", number), "--from", "give a ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("export", "csv", "c", "--out", "o", "--rail-every", 10**30),
        ("export", "sigrok", "c", "--out", "o", "--rate", 10**30),
        ("run", "quick", "--virtual", "intel-660p-1tb", "--out", "o", "--seed", 10**400),
        ("run", "quick", "--virtual", "intel-660p-1tb", "--out", "o", "--rounds", 10**30),
        ("trace", "make", "heavy", "--out", "o", "--seed", -1),
        ("record", "--out", "o", "--lba-size", 0),
        ("record", "--out", "o", "--lba-size", 10**30),
        ("record", "--out", "o", "--until-marker", 2**32),
        ("record", "--out", "o", "--statistics", "0.05"),
        ("record", "--out", "o", "--statistics", "nan"),
        ("record", "--out", "o", "--json", "--statistics", "1s"),
        ("record", "--out", "o", "--statistics-out", "o.csv"),
        ("record", "--out", "o", "--statistics", "1s", "--statistics-out", "none/o.csv"),
        ("sump", "--level", "current=inf"),
        ("calibrate", "--point", "1e300,0"),
        ("calibrate", "--point", "1,0", "--reference-uncertainty", f"{'9' * 400}%,1%"),
    ],
    ids=lambda a: " ".join(str(x)[:12] for x in a),
)
def test_numbers_out_of_all_range_are_refused(wattbell: Any, arguments: tuple[object, ...]) -> None:
    refused(wattbell(*arguments), str(next(a for a in reversed(arguments) if str(a).startswith("--"))))


LONG = "n" * 300


@pytest.mark.parametrize(
    "arguments",
    [
        ("info", LONG),
        ("analyze", LONG),
        ("report", LONG),
        ("compare", LONG),
        ("export", "csv", LONG, "--out", "o"),
        ("results", "import", LONG),
        ("results", "list", "--store", LONG),
        ("results", "show", LONG),
        ("trace", "show", LONG),
        ("trace", "convert", LONG, "--out", "o"),
        ("trace", "make", "light", "--scale", "0.002", "--out", LONG),
        ("run", LONG, "--virtual", "intel-660p-1tb", "--out", "o"),
        ("sim", "start", "--trace", LONG),
        ("info", "--rig", f"/dev/{LONG}"),
        ("report", "c", "--no-plots", "--out", LONG),
        ("export", "csv", "c", "--out", LONG),
        ("export", "sigrok", "c", "--out", LONG),
    ],
    ids=lambda a: " ".join(str(x)[:8] for x in a),
)
def test_names_that_are_too_long_are_one_error(wattbell: Any, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    write_capture(tmp_path / "c", 3)
    refused(wattbell(*arguments))


def test_what_cannot_be_read_is_one_error(wattbell: Any, tmp_path: Path) -> None:
    folder, pipe = tmp_path / "folder", tmp_path / "results"
    folder.mkdir()
    pipe.mkdir()
    os.mkfifo(pipe / "results.json")
    refused(wattbell("trace", "show", folder), "Is a directory")
    refused(wattbell("trace", "convert", folder, "--out", "o"), "Is a directory")
    refused(wattbell("sim", "start", "--trace", folder), "Is a directory")
    refused(wattbell("results", "import", folder), "results.json")
    refused(wattbell("results", "import", pipe), "not a file")
    refused(wattbell("results", "list", "--store", folder), "not a results store")
    refused(wattbell("run", folder, "--virtual", "intel-660p-1tb", "--out", "o"))


def test_a_full_disk_says_what_to_do(wattbell: Any, tmp_path: Path) -> None:
    write_capture(tmp_path / "c", 3)
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "commands.csv").symlink_to("/dev/full")
    refused(wattbell("export", "csv", "c", "--out", "csv"), "cannot be written to csv (No space left on device")
    refused(wattbell("trace", "make", "light", "--scale", "0.002", "--out", "/dev/full", "--force"), "disk is full: free some space")


@pytest.mark.parametrize("arguments", [("sim", "profiles", "--json"), ("sim", "profiles"), ("--help",)], ids=" ".join)
def test_output_that_nobody_takes_is_an_error(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "wattbell", *arguments]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, cwd=tmp_path, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1
    assert done.stderr == "error: disk is full: free some space\n"


def test_a_trace_whose_name_is_no_line_stays_one_line(tmp_path: Path) -> None:
    import tomllib

    from wattbell.cli import output
    from wattbell.virtual.tracefile import replay_plan

    trace = tmp_path / "a\n[[step]]\nname = 'b' \x1b[2J.iolog"
    trace.write_text("fio version 3 iolog\n0 x add\n1 x read 0 4096\n")
    plan = tomllib.loads(replay_plan(trace, tmp_path, output).read_text(encoding="utf-8"))
    assert [step["trace"] for step in plan["step"]] == [str(trace)]
    assert "\n" not in plan["step"][0]["name"] and "\x1b" not in plan["step"][0]["name"]
