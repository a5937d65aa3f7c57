"""`wattbell results` and `wattbell compare` as processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def wattbell(tmp_path: Path) -> Any:
    def run(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "XDG_DATA_HOME": str(tmp_path / "home"), "COLUMNS": "160"}
        for name in ("WATTBELL_DEBUG", "WATTBELL_STORE"):
            env.pop(name, None)
        command = [sys.executable, "-m", "wattbell", *map(str, arguments)]
        done = subprocess.run(command, env=env, cwd=tmp_path, text=True, capture_output=True, check=False)
        assert done.returncode == code, (done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done

    return run


def test_from_directories_to_a_page(wattbell: Any, samples: Any, tmp_path: Path) -> None:
    samples.write_results(tmp_path / "a")
    samples.write_results(tmp_path / "b", "crucial-p1-1tb", lost=2)
    added = json.loads(wattbell("results", "import", "a", "b", "--json").stdout)
    assert (tmp_path / "home" / "wattbell" / "results.sqlite").is_file()
    again = wattbell("results", "import", "a", code=1)
    assert f"already, as {added[0]['id']}" in " ".join(again.stderr.split())
    shown = wattbell("results", "show", added[1]["id"][:5]).stdout
    assert "DATA LOST: 2 commands" in shown and "mean of ratios" in shown and "ratio of means" in shown
    exported = json.loads(wattbell("results", "export").stdout)
    assert [e["provenance"]["id"] for e in exported] == [a["id"] for a in added]
    assert "No such option: --json" in wattbell("results", "export", "--json", code=2).stderr, "an option that changes nothing"
    made = json.loads(wattbell("compare", added[0]["id"], "b", "--no-plots", "--out", "page.html", "--json").stdout)
    assert made["written"] == ["page.html"] and made["not_comparable"] == []
    assert made["runs"][1]["lost"] == {"commands": 2}
    assert "SSD 660p" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["list", "export"])
def test_without_a_store_the_list_of_runs_is_empty(wattbell: Any, tmp_path: Path, command: str) -> None:
    done = wattbell("results", command)
    assert "no results store yet" in done.stderr and "results import DIR" in done.stderr
    assert json.loads(done.stdout or "[]") == []
    if command == "list":
        assert wattbell("results", "list", "--json").stdout == "[]\n"
    assert not (tmp_path / "home").exists(), "looking makes no store"


def test_a_store_that_was_named_is_there_or_refused(wattbell: Any, tmp_path: Path) -> None:
    for command in (("list",), ("export",), ("show", "3f2a"), ("delete", "3f2a")):
        refused = wattbell("results", *command, "--store", "mistyped.sqlite", code=1).stderr
        assert "no results store mistyped.sqlite" in refused and "results import DIR --store mistyped.sqlite" in refused
    for command in (("results", "show", "3f2a"), ("results", "export", "3f2a"), ("results", "delete", "3f2a"), ("compare", "3f2a")):
        assert "no results store" in wattbell(*command, code=1).stderr, "a run that was named is not there"
    assert list(tmp_path.iterdir()) == []


def test_report_takes_results(wattbell: Any, samples: Any, tmp_path: Path) -> None:
    samples.write_results(tmp_path / "a")
    wattbell("report", "a", "--no-plots", "--out", "page.html")
    assert "MODEL on the virtual rig" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_scaled_and_unscaled_only_when_asked_for(wattbell: Any, samples: Any, tmp_path: Path) -> None:
    samples.write_results(tmp_path / "a")
    samples.write_results(tmp_path / "b", "crucial-p1-1tb", scale=0.01)
    refused = wattbell("compare", "a", "b", "--no-plots", "--out", "page.html", code=1)
    assert "--mixed" in refused.stderr and not (tmp_path / "page.html").exists()
    wattbell("compare", "a", "b", "--no-plots", "--out", "page.html", "--mixed")
    assert "not simply comparable" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "is the same run" in wattbell("compare", "a", "a", code=1).stderr
