"""``wattbell judge`` and ``wattbell requirements``: output and files, exit codes, and each mistake in one line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from junitparser import JUnitXml
from typer.testing import CliRunner
from wattbell.capture.meta import save
from wattbell.cli.app import app
from wattbell.errors import UsageError, WattbellError

MS, S = 1_000_000, 1_000_000_000
LAB = """
name = "lab"
title = "Ours"
source = "LAB-7"
[[requirement]]
id = "L-1"
clause = "3"
text = "Peak."
measurand = "largest-mean-power"
window_s = 1e-4
limit = "parameter.cap"
unit = "W"
"""


@pytest.fixture
def capture(builder: Any) -> Path:
    """3 W throughout."""
    builder.levels.append((0, 3.0))
    builder.command(1 * MS, 1 * MS)
    path: Path = builder.write(end=1 * S).path
    return path


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    path = tmp_path / "lab.toml"
    path.write_text(LAB)
    return path


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.mark.parametrize(
    ("cap", "more", "code"),
    [
        (4.0, (), 0),
        (3.001, (), 4),
        (2.999, (), 4),
        (2.5, (), 3),
        (None, (), 4),
        (2.5, ("--exit-codes", "fail=7"), 7),
        (3.001, ("--exit-codes", "conditional pass=0, conditional fail=9"), 0),
        (3.001, ("--guard", "0"), 0),
        (4.0, ("--guard", "10"), 0),
    ],
)
def test_the_exit_code(capture: Path, lab: Path, cap: float | None, more: tuple[str, ...], code: int) -> None:
    done = run("judge", capture, "--requirements", lab, *(("--set", f"cap={cap}") if cap else ()), *more)
    assert done.exit_code == code, done.output


def test_the_table_the_json_and_the_file_say_the_same(capture: Path, lab: Path, tmp_path: Path) -> None:
    made = tmp_path / "v.xml"
    done = run("judge", capture, "--requirements", f"{lab},ocp", "--set", "cap=2.5", "--junit", made)
    assert done.exit_code == 3 and "lab/L-1" in done.output and "fail" in done.output and str(made) in done.output
    assert "guard band w = U" in done.stderr
    told = json.loads(run("judge", capture, "--requirements", f"{lab},ocp", "--set", "cap=2.5", "--json").stdout)
    (drive,) = told["drives"]
    first = drive["verdicts"][0]
    assert (first["id"], first["verdict"], first["limit"], first["unit"]) == ("L-1", "fail", 2.5, "W") and told["exit_code"] == 3
    assert first["measured"]["value"] == pytest.approx(3.0, rel=1e-3) and "ILAC-G8" in first["rule"] and first["sources"] == [str(capture)]
    cases = [case for suite in JUnitXml.fromfile(str(made)) for case in suite]
    assert len(cases) == len(drive["verdicts"]) > 20
    assert [case.name for case in cases] == [f"{row['id']} {row['scope']}".strip() for row in drive["verdicts"]]


def test_the_page_has_every_verdict_and_asks_no_other_host(builder: Any, lab: Path, tmp_path: Path) -> None:
    """Names come from a drive, and may be markup."""
    builder.levels.append((0, 3.0))
    builder.command(1 * MS, 1 * MS)
    made = builder.write(end=1 * S)
    made.meta["drive"] |= {"model": "<img src=x>", "serial": "S", "firmware": "F"}
    save(made.path, made.meta)
    out = tmp_path / "v.html"
    assert run("judge", made.path, "--requirements", f"{lab},ocp", "--set", "cap=2.5", "--out", out).exit_code == 3
    text = out.read_text(encoding="utf-8")
    assert "&lt;img src=x&gt; S F (model)" in text and "<img" not in text and "MODEL: computed on the virtual rig" in text
    assert "<span class=fail>fail</span>" in text and "lab/L-1" in text and "guard band w = U on both sides" in text
    assert "window 100 µs" in text and not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", text)
    refused = run("judge", made.path, "--out", "/no/such/folder/v.html").exception
    assert isinstance(refused, WattbellError) and "cannot be written" in str(refused)


def test_requirements_are_listed_and_explained(lab: Path) -> None:
    every = run("requirements").output
    assert "declared/MP" in every and "ocp/PCM-1" in every and "nvme/POWER-MEASUREMENT" in every
    only = run("requirements", "ocp").output
    assert "ocp/PCM-1" in only and "declared/" not in only and "lab/L-1" in run("requirements", lab).output
    one = run("requirements", "ocp/PCM-1").output
    assert "window 1 s, sampled every 2 ms or faster, for 900 s or longer" in one and "preconditioned" in one and "mandatory" in one
    assert json.loads(run("requirements", "ocp/PCM-1", "--json").stdout)["window_s"] == 1.0
    assert [file["name"] for file in json.loads(run("requirements", "--json").stdout)] == ["declared", "form-factor", "nvme", "ocp"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--requirements", "opc"), "Did you mean ocp?"),
        (("--requirements", ","), "--requirements names no set; `wattbell requirements` lists them."),
        (("--set", "slot_power_limit=3"), "Did you mean slot_power_limit_w?"),
        (("--set", "slot_power_limit_w"), "give a name and a number"),
        (("--set", "slot_power_limit_w=nan"), "give a name and a number"),
        (("--exit-codes", "fail=300"), "give VERDICT=0 to 255; verdicts: pass,"),
        (("--exit-codes", "failed=3"), "give VERDICT=0 to 255"),
        (("--exit-codes", ""), "give VERDICT=0 to 255"),
        (("--junit", "/no/such/folder/v.xml"), "/no/such/folder/v.xml cannot be written (No such file or directory)."),
    ],
)
def test_each_mistake_is_one_line(capture: Path, arguments: tuple[str, ...], said: str) -> None:
    found = run("judge", capture, *arguments).exception
    assert isinstance(found, UsageError) and said in str(found) and "\n" not in str(found)


def test_what_is_no_capture_is_refused(tmp_path: Path) -> None:
    assert isinstance(run("judge", tmp_path).exception, WattbellError)
    assert isinstance(run("requirements", "ocp/PCM1").exception, UsageError)
