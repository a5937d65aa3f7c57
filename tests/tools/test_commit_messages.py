"""tools/commit_messages.py, in repositories that git makes: the refused messages, and the checked part of a shortened history."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.commit_messages import faults, main

ROOT = Path(__file__).parents[2]
GOOD = "Keep the tables narrow"


@pytest.mark.parametrize(
    "message", [GOOD, f"{GOOD}\n\nThe reason.\nIt goes on.", "Add " + "x" * 68, "Revert two changes of a page", "Test names"]
)
def test_a_message_by_the_rules(message: str) -> None:
    assert faults(f"{message}\n") == []


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("Add " + "x" * 69, "73 characters"),
        (f"{GOOD}.", "period"),
        (f"{GOOD}\nThe reason.", "second line"),
        *((f"{word} the tables narrow", f"'{word}'") for word in (
            "Keeps", "Kept", "Keeping", "keep", "KEEP", "Adds", "Added", "Adding", "Fixes", "Fixed", "Passes", "Processed", "Made", "Built",
            "Wrote", "Read:", "docs:", "Docs:", "The", "New", "Tests", "A", "wip", "Bring's")),
        ("Test of the tables", "'Test'"),
        ("", "''"),
    ],
)  # fmt: skip
def test_a_message_that_breaks_a_rule(message: str, why: str) -> None:
    [fault] = faults(f"{message}\n")
    assert why in fault


class Repository:
    """A repository in a folder, with a commit for each message."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *words: str) -> str:
        who = {f"GIT_{role}_{part}": "a@b" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
        alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        done = subprocess.run(["git", *words], cwd=self.path, env=os.environ | who | alone, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self, message: str) -> str:
        self.git("commit", "--quiet", "--allow-empty", "--cleanup=verbatim", "-m", message)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def made(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "made")


def test_commits_up_to_the_start_are_free(made: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    start = made.commit("docs: as people wrote earlier.")
    made.commit(GOOD)
    assert (main(made.path, start), *capsys.readouterr()) == (0, "", "")
    wrong = made.commit(f"Keeps the tables narrow.\n{GOOD}")
    made.commit(GOOD)
    assert main(made.path, start) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and all(line.startswith(f"commit messages: error: commit {wrong[:7]}") for line in lines)


def test_commits_of_a_merged_branch_count(made: Repository) -> None:
    start = made.commit(GOOD)
    made.git("checkout", "--quiet", "-b", "aside")
    made.commit("Fixes")
    made.git("checkout", "--quiet", "main")
    made.commit(GOOD)
    made.git("merge", "--quiet", "--no-ff", "-m", "Merge branch 'aside'", "aside")
    assert main(made.path, start) == 1


@pytest.mark.parametrize(("tip", "code"), [(GOOD, 0), ("Kept the tables narrow", 1)])
def test_a_clone_of_one_commit(made: Repository, tmp_path: Path, tip: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    start = made.commit("earlier.")
    made.commit("Adds what the clone does not have")
    made.commit(tip)
    made.git("clone", "--quiet", "--depth", "1", made.path.as_uri(), str(tmp_path / "clone"))
    assert main(tmp_path / "clone", start) == code
    assert "1 checked: this clone has only a part of the history" in capsys.readouterr().out


def test_trees_without_that_history_pass_and_say_so(made: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tree").mkdir()
    inner = made.path / "unpacked"
    inner.mkdir()
    for path in (tmp_path / "tree", inner, made.path):  # none, another repository's, one without a commit
        assert main(path, "34c85f96") == 0
        assert "0 checked: this tree has no history of its own" in capsys.readouterr().out
    made.commit("earlier.")
    assert main(made.path, "34c85f96") == 0
    assert "0 checked: this history does not contain commit 34c85f96" in capsys.readouterr().out


def test_this_history_by_the_command() -> None:
    done = subprocess.run([sys.executable, "tools/commit_messages.py"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
