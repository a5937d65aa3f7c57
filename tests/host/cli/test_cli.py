"""The command as a process: its output, where it goes, and how it fails."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wattbell.capture import CaptureWriter

from tests.patience import PATIENCE_S

COMMANDS = [
    (),
    ("rigs",),
    ("info",),
    ("record",),
    ("run",),
    ("analyze",),
    ("report",),
    ("export",),
    ("export", "csv"),
    ("export", "sigrok"),
    ("compare",),
    ("results",),
    ("results", "list"),
    ("results", "import"),
    ("results", "show"),
    ("results", "export"),
    ("results", "delete"),
    ("sim",),
    ("sim", "start"),
    ("sim", "replay"),
    ("sim", "profiles"),
]


@pytest.fixture
def wattbell(tmp_path: Path) -> Any:
    def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "WATTBELL_RUNTIME": str(tmp_path / "runtime"), "COLUMNS": "120", **environment}
        env.pop("WATTBELL_DEBUG", None)
        return subprocess.run(
            [sys.executable, "-m", "wattbell", *map(str, arguments)],
            env=env,
            cwd=tmp_path,
            text=True,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )

    return run


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "capture"
    with CaptureWriter(path, conditions={"virtual": True, "profile": "by hand"}) as writer:
        ticks = [10_000_000 + 100_000 * i for i in range(200)]
        writer.add_rows(
            "commands",
            {
                "cqe_tick": [t + 50_000 for t in ticks],
                "doorbell_tick": ticks,
                "fetch_tick": [t + 500 for t in ticks],
                "opcode": [2] * 200,
                "qid": [1] * 200,
                "nsid": [1] * 200,
                "blocks": [8] * 200,
                "slba": list(range(200)),
            },
        )
        writer.add_rail(0, 1000, np.full(40_000, 3.3), np.full(40_000, 0.5))
    return path


@pytest.mark.parametrize("command", COMMANDS, ids="-".join)
def test_help_teaches(wattbell: Any, command: tuple[str, ...]) -> None:
    shown = wattbell(*command, "--help")
    assert shown.returncode == 0
    assert "Usage:" in shown.stdout
    if "--store " in shown.stdout:
        assert "wattbell/results.sqlite in your data directory" in " ".join(shown.stdout.replace("│", " ").split())
    if command not in {("sim",), ("export",), ("rigs",), ("sim", "profiles"), ("results",)}:
        assert f"wattbell {' '.join(command)}".strip() in " ".join(shown.stdout.split()).replace("Usage: wattbell", "")


def failed(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in " ".join(done.stderr.split())


def test_errors_say_what_to_do(wattbell: Any, tmp_path: Path) -> None:
    failed(wattbell("info", tmp_path / "none"), 1, "not a directory")
    failed(wattbell("analyze", tmp_path), 1, "not a capture")
    failed(wattbell("record", "--out", tmp_path / "x"), 1, "No rig found", "wattbell run")
    failed(wattbell("record", "--out", tmp_path / "x", "--until-marker", "soon"), 2, "give a number")
    failed(wattbell("nonsense"), 2, "No such command")
    failed(wattbell("run", "none.fio", "--virtual", "intel-660p-1tb", "--out", "x"), 2, "is not a file")
    (tmp_path / "a.fio").write_text("[a]\nrw=read\n")
    failed(wattbell("run", "a.fio", "--virtual", "maxtor", "--out", "x"), 2, "no profile maxtor", "intel-660p-1tb")
    failed(wattbell("sim", "replay", "--out", "x"), 2, "--qemu-log")
    failed(wattbell("sim", "start", "--trace", "a.fio"), 1, "not a bus trace")
    assert not (tmp_path / "x").exists()


def test_a_missing_simulation_says_how_to_build_it(wattbell: Any, tmp_path: Path) -> None:
    (tmp_path / "a.fio").write_text("[a]\nrw=read\n")
    empty = str(tmp_path / "bin")
    done = wattbell("run", "a.fio", "--virtual", "intel-660p-1tb", "--out", "x", WATTBELL_SIM_BIN=empty)
    failed(done, 1, "make sim", "WATTBELL_SIM_BIN")


def test_an_existing_capture_is_refused_before_anything_runs(wattbell: Any, capture: Path) -> None:
    trace = capture.parent / "t.wbt"
    trace.write_bytes(b"WBBT" + struct.pack("<II", 1, 2) + b"{}")
    failed(wattbell("sim", "replay", "--bus-trace", trace, "--out", capture), 1, "--force")
    trace.write_bytes(b"WBBT" + struct.pack("<II", 9, 2) + b"{}")
    failed(wattbell("sim", "start", "--trace", trace), 1, "version 9")
    trace.write_bytes(b"WBBT" + struct.pack("<II", 1, 2) + b"{{")
    failed(wattbell("sim", "start", "--trace", trace), 1, "damaged header")


def test_info(wattbell: Any, capture: Path) -> None:
    shown = wattbell("info", capture)
    assert shown.returncode == 0
    assert "40000 samples at 1.00 MS/s" in shown.stdout
    assert "by hand" in shown.stdout
    assert json.loads(wattbell("info", capture, "--json").stdout)["counts"]["commands"] == 200


def test_analyze_report_export(wattbell: Any, capture: Path, tmp_path: Path) -> None:
    result = json.loads(wattbell("analyze", capture, "--json").stdout)
    assert result["commands"]["by_opcode"]["read"]["count"] == 200
    assert result["commands"]["by_opcode"]["read"]["bytes"] == 200 * 4096
    assert "read" in wattbell("analyze", capture).stdout
    report = json.loads(wattbell("report", capture, "--out", tmp_path / "r.html", "--no-plots", "--json").stdout)
    assert (tmp_path / "r.html").read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html")
    assert report["written"] == [str(tmp_path / "r.html")]
    csv = json.loads(wattbell("export", "csv", capture, "--out", tmp_path / "csv", "--json").stdout)
    assert str(tmp_path / "csv" / "commands.csv") in csv["written"]
    sigrok = json.loads(wattbell("export", "sigrok", capture, "--out", tmp_path / "c.sr", "--json").stdout)
    assert sigrok["samples"] > 0
    assert (tmp_path / "c.sr").exists()


def test_nothing_but_json_on_stdout(wattbell: Any, capture: Path) -> None:
    for arguments in (("rigs",), ("info", capture), ("analyze", capture), ("sim", "profiles")):
        json.loads(wattbell(*arguments, "--json").stdout)


def test_profiles(wattbell: Any, tmp_path: Path) -> None:
    listed = json.loads(wattbell("sim", "profiles", "--json").stdout)
    names = [entry["profile"] for entry in listed]
    assert "intel-660p-1tb" in names
    assert "common" not in names, "what the profiles share is no drive"
    (tmp_path / "bad.toml").write_text("= 1")
    failed(wattbell("sim", "profiles", WATTBELL_PROFILES=str(tmp_path)), 1, "not a valid profile")


def test_an_unexpected_error_is_one_line_and_debug_shows_the_rest() -> None:
    """The output of a command with a bug, simulated since none is known."""
    program = "from wattbell.cli import app, info\ninfo.info.__code__ = (lambda capture, rig, wide, json: {}['rail']).__code__\napp.main()"

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", program, *arguments], text=True, capture_output=True, timeout=PATIENCE_S, check=False)

    done = run("info")
    failed(done, 70, "bug:", "KeyError", "--debug")
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" in run("--debug", "info").stderr


@pytest.mark.parametrize(("arguments", "code"), [(("--version",), 0), (("info", "nowhere"), 1)])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_comes_when_all_is_said_changes_nothing(arguments: tuple[str, ...], code: int, number: signal.Signals) -> None:
    program = "import atexit, os, sys\natexit.register(os.kill, os.getpid(), int(sys.argv.pop()))\nfrom wattbell.cli import main\nmain()"
    command = [sys.executable, "-c", program, *arguments]
    late, plain = (
        subprocess.run([*command, str(int(sent))], text=True, capture_output=True, timeout=PATIENCE_S, check=False) for sent in (number, 0)
    )
    assert late.returncode == plain.returncode == code
    assert (late.stdout, late.stderr) == (plain.stdout, plain.stderr)


def test_a_meta_that_lacks_a_key_is_an_error_that_names_it(wattbell: Any, capture: Path) -> None:
    meta = json.loads((capture / "meta.json").read_text())
    del meta["rail"]
    (capture / "meta.json").write_text(json.dumps(meta))
    done = wattbell("info", capture)
    failed(done, 1, "error:", "`rail`", "meta.json")
    assert len(done.stderr.strip().splitlines()) == 1


def test_version(wattbell: Any) -> None:
    assert wattbell("--version").stdout.startswith("wattbell ")
