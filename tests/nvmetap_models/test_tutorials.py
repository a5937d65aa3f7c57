"""The tutorials of cocotbext-nvmetap as a reader follows them: each block of a page is saved or typed, on the wheels, in Icarus Verilog."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from markdown_it.token import Token
from wattbell.capture import open_capture

from tests.docs.pages import page, parsed
from tests.nvmetap_models.simulate import PACKAGE

LATENCY, RULES, RESULTS = (page(f"docs/nvmetap-{name}.md") for name in ("latency", "rules", "results"))
DONE = ("python3 -m venv", "pip install")
"""Beginnings of lines that the fixture `installed` has done."""
OPENS_A_BROWSER = "wattbell view "


@dataclass(frozen=True)
class Step:
    """A block of a page.

    kind : language of the block
    text : its lines
    file : name of the file in the sentence before it, or ""
    """

    kind: str
    text: str
    file: str


def steps(text: str) -> list[Step]:
    """Return the blocks of a page in order."""
    found = []
    before: Token | None = None
    for token in parsed(text):
        if token.type == "fence":
            names = re.findall(r"as\s`(\w+\.(?:py|v))`", before.content) if before and token.info in ("python", "verilog") else []
            found.append(Step(token.info, token.content, names[0] if names else ""))
        if token.type == "inline":
            before = token
    return found


def follow(text: str, folder: Path, python: Path) -> list[str]:
    """Save and type the blocks of a page in a folder; return the lines typed.

    The commands before a block of text must print each of its lines, perhaps behind other words.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "WATTBELL"))}
    programs = [str(python.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = {**kept, "PATH": os.pathsep.join(programs), "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1"}
    typed: list[str] = []
    output = ""
    for step in steps(text):
        if step.file:
            (folder / step.file).write_text(step.text)
        elif step.kind == "sh":
            output = ""
            for line in step.text.splitlines():
                if line.startswith((*DONE, OPENS_A_BROWSER)):
                    continue
                done = subprocess.run(["sh", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False)
                assert done.returncode == 0, f"{line}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
                output += done.stdout
                typed.append(line)
        elif step.kind == "text":
            shown = [line.rstrip() for line in output.splitlines()]
            lost = [line for line in step.text.splitlines() if not any(one.endswith(line) for one in shown)]
            assert lost == [], f"{lost} are not in\n{output[-5000:]}"
    return typed


@pytest.fixture(scope="module")
def folder(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a reader who has followed the first tutorial."""
    place = tmp_path_factory.mktemp("reader")
    shutil.copy(PACKAGE / "examples" / "controller" / "controller.v", place)
    follow(LATENCY.text, place, installed)
    return place


pytestmark = [pytest.mark.needs("iverilog"), pytest.mark.xdist_group("tutorials")]


def test_latencies(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} >= {"bench.py", "run.py", "streams.py", "top.v"}
    assert sum(bool(step.file) for step in steps(LATENCY.text)) == 4


def test_rules(folder: Path, installed: Path) -> None:
    typed = follow(RULES.text, folder, installed)
    assert len(typed) == 4
    for name, broken in (("depth1", []), ("depth4", []), ("fault", ["CQE_PHASE"])):
        cases = ElementTree.parse(folder / "results" / name / "rules.xml").getroot().iter("testcase")
        assert [case.get("name", "").partition(":")[0] for case in cases if case.find("failure") is not None] == broken
    assert "2 run(s)" in (folder / "coverage.html").read_text()
    (folder / "results" / "depth4" / "coverage.json").unlink()
    merged = subprocess.run([installed, "merge.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert merged.returncode == 1 and "missing: {" in merged.stdout


def test_ci_files_type_the_same_lines() -> None:
    """The two files are YAML, with the commands of the page, and the results that the page names."""
    github, gitlab = (yaml.safe_load(step.text) for step in steps(RULES.text) if step.kind == "yaml")
    ours = [line for step in steps(RULES.text) if step.kind == "sh" for line in step.text.splitlines() if "FAULT" not in line]
    job = github["jobs"]["rules"]
    lines = [line for step in job["steps"] for line in step.get("run", "").splitlines()]
    install = next(step.text for step in steps(LATENCY.text) if step.kind == "sh").splitlines()[-1]
    for found in (lines, gitlab["rules"]["script"]):
        assert [line for line in found if "run.py" in line or "merge.py" in line] == ours
        assert [line.removeprefix("venv/bin/") for line in found if "pip" in line] == [install]
    assert gitlab["rules"]["artifacts"]["reports"]["junit"] == "results/*/rules.xml" in job["steps"][-1]["with"]["path"]


def test_results(folder: Path, installed: Path) -> None:
    typed = follow(RESULTS.text, folder, installed)
    assert [line.split()[0] for line in typed] == ["python", "wattbell", "python"]
    reads = [row for row in open_capture(folder / "capture").commands.collect().to_dicts() if row["qid"]]
    assert len(reads) == 8 and not any(row["flags"] for row in reads)
    assert f"{OPENS_A_BROWSER}capture\n" in RESULTS.text
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    assert {round(event["args"]["W"], 6) for event in events if event["ph"] == "C"} == {0.165, 1.485, 2.805}


def test_a_line_that_no_command_prints_is_found(tmp_path: Path, installed: Path) -> None:
    follow("```sh\necho one\n```\n\n```text\none\n```\n", tmp_path, installed)
    with pytest.raises(AssertionError, match="two"):
        follow("```sh\necho one\n```\n\n```text\none\ntwo\n```\n", tmp_path, installed)
    with pytest.raises(AssertionError, match="false"):
        follow("```sh\nfalse\n```\n", tmp_path, installed)
