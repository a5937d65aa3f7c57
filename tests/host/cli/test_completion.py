"""Completion, asked as a shell asks: by the variables of its protocol, and by bash itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.host.cli.test_light import run as imported
from tests.patience import PATIENCE_S

PROGRAM = "import os, sys\nfrom wattbell.cli import main\nsys.argv = ['wattbell']\nmain()"
BASH = """
eval "$(wattbell --show-completion)"
complete -p wattbell >/dev/null || exit 1
COMP_WORDS=({words} '')
COMP_CWORD={at}
_wattbell_completion wattbell
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for capture in ("before", "runs/after", "runs/a/captures/idle", "my capture", ".hidden", "before/inside"):
        (tmp_path / capture).mkdir(parents=True)
        (tmp_path / capture / "meta.json").write_text("{}")
    (tmp_path / "runs/a/results.json").write_text("{}")
    (tmp_path / "runs/nothing").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/manifest.toml").write_text('[[test]]\nid = "first"\nname = "First"\n[[test]]\nid = "second"\n')
    (tmp_path / "reads.fio").write_text("[a]\n")
    (tmp_path / "profiles").mkdir()
    for name in ("acme-1tb", "acme-2tb", "common", "other"):
        (tmp_path / "profiles" / f"{name}.toml").write_text("")
    return tmp_path


def environment(folder: Path, **more: str) -> dict[str, str]:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    return {**os.environ, "PATH": path, "WATTBELL_PROFILES": str(folder / "profiles"), **more}


def offered(folder: Path, *words: str) -> list[str]:
    """Completions of the last word, as bash asks for them."""
    asked = {"_WATTBELL_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(("wattbell", *words)), "COMP_CWORD": str(len(words))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment(folder, **asked),
        cwd=folder,
        text=True,
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_suites_and_files_of_work(folder: Path) -> None:
    assert offered(folder, "suites", "ana") == ["anandtech-2018"]
    assert {"quick", "snia-pts", "reads.fio"} <= set(offered(folder, "run", ""))
    assert offered(folder, "run", "qu") == ["quick"]
    assert offered(folder, "run", "re") == ["reads.fio"]


def test_models_of_drives(folder: Path) -> None:
    assert offered(folder, "run", "--virtual", "") == ["acme-1tb", "acme-2tb", "other"]
    assert offered(folder, "run", "quick", "--out", "o", "--virtual", "acme-2") == ["acme-2tb"]


def test_tests_of_the_suite_that_was_given(folder: Path) -> None:
    assert {"random-read", "idle"} <= set(offered(folder, "run", "quick", "--tests", ""))
    assert offered(folder, "run", "--virtual", "other", "mine", "--tests", "") == ["first", "second"]
    assert offered(folder, "run", "mine", "--tests", "first,") == ["first,second"]
    assert offered(folder, "run", "mine", "--tests", "f") == ["first"]
    assert offered(folder, "run", "--tests", "") == [], "without a suite there is no test"


@pytest.mark.parametrize("command", ["analyze", "info", "check", "view", "report", "compare", "export csv", "export perfetto"])
def test_folders_that_hold_a_capture(folder: Path, command: str) -> None:
    both = {"runs/a"} if command in ("report", "compare") else set()
    assert set(offered(folder, *command.split(), "")) == {"before", "runs/after", "runs/a/captures/idle"} | both
    assert offered(folder, *command.split(), "runs/a/c") == ["runs/a/captures/idle"]
    assert offered(folder, *command.split(), ".h") == [".hidden"]
    assert offered(folder, *command.split(), "none/") == []


def test_folders_that_hold_results(folder: Path) -> None:
    assert offered(folder, "results", "import", "") == ["runs/a"]
    assert offered(folder, "results", "show", "ru") == ["runs/a"]


def test_commands_options_and_choices(folder: Path) -> None:
    assert {"results", "report", "record"} <= set(offered(folder, "re"))
    assert offered(folder, "results", "li") == ["list"]
    assert offered(folder, "run", "--fid") == ["--fidelity"]
    assert offered(folder, "run", "--fidelity", "") == ["rtl", "fast"]
    assert offered(folder, "trace", "make", "h") == ["heavy"]


@pytest.mark.needs("bash")
def test_bash_itself_gets_the_same(folder: Path) -> None:
    for words, at, wanted in (("run qu", 2, {"quick"}), ("analyze be", 2, {"before"}), ("run mine --tests", 4, {"first", "second"})):
        script = BASH.format(words=f"wattbell {words}", at=at)
        if at == 2:
            script = script.replace(" '')", ")")
        done = subprocess.run(
            ["bash", "--norc", "-c", script],
            env=environment(folder),
            cwd=folder,
            text=True,
            capture_output=True,
            timeout=PATIENCE_S,
            check=True,
        )
        assert set(done.stdout.split()) == wanted, done.stderr


@pytest.mark.parametrize("words", ["run quick --tests ", "run --virtual ", "analyze ", "re", "results "])
def test_completion_imports_nothing_heavy(words: str, folder: Path) -> None:
    asked = {"_WATTBELL_COMPLETE": "complete_bash", "COMP_WORDS": f"wattbell {words}", "COMP_CWORD": str(len(words.split(" ")))}
    heavy = imported("call()\nprint()\nprint(json.dumps(heavy()))", **environment(folder, **asked))
    assert set(heavy) <= {"pydantic"}, "Typer reads the words before with it"
