"""The generation of the drive's power meter against the starts of the host: the byte and its rule from the facts, by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from wattbell.capture import open_capture
from wattbell.capture.meta import save
from wattbell.cli.app import app
from wattbell.errors import UsageError
from wattbell.requirements import powerlog
from wattbell.requirements.files import load
from wattbell.requirements.judging import JudgedRow, judge_all
from wattbell.requirements.of_capture import DriveLogs, subject

S = 1_000_000_000
START, STOP = 0x0002_0001, 0x0002_0000
READ, SET = (0x02, 0x25), (0x09, 0x25)


def page(generation: int) -> bytes:
    """Log page 25h of a meter that has not counted: 64 bytes, its generation in byte 1, its size in bytes 7:4."""
    out = bytearray(64)
    out[1], out[4] = generation, 64
    return bytes(out)


def recorded(builder: Any, commands: str, overlap: bool = False) -> Any:
    """A capture with reads (r), starts (s), refused starts (x), stops (o) and the other feature (f), a second apart.

    ``overlap``: a command lasts two seconds, and so overlaps the next one.
    """
    for k, letter in enumerate(commands):
        opcode, slba = READ if letter == "r" else SET
        blocks = {"s": START, "x": START, "o": STOP, "f": START, "r": 0}[letter]
        slba = 0x24 if letter == "f" else slba
        took = 2 * S if overlap else 100_000
        builder.command((k + 1) * S, took, qid=0, opcode=opcode, slba=slba, blocks=blocks, status=2 if letter == "x" else 0)
    capture = builder.write(end=(len(commands) + 3) * S)
    capture.meta["drive"] |= {"model": "TESTDRIVE", "serial": "T1", "firmware": "F1"}
    save(capture.path, capture.meta)
    return open_capture(capture.path)


def row(capture: Any, *generations: int) -> JudgedRow:
    pages = [powerlog.parse(page(one)) for one in generations]
    logs = DriveLogs(power=pages[-1] if pages else None, power_before=pages[:-1])
    (found,) = judge_all([subject(capture, logs)], [load("nvme")])
    (one,) = (one for one in found.rows if one.requirement.id == "METER-GENERATION")
    return one


@pytest.mark.parametrize(
    ("commands", "generations", "verdict"),
    [
        ("rsor", (4, 5), "pass"),
        ("rsor", (4, 4), "fail"),
        ("rsor", (4, 6), "fail"),
        ("rsor", (255, 0), "pass"),
        ("rsor", (0, 255), "fail"),
        ("rsxfosor", (7, 9), "pass"),
        ("rsxfosor", (7, 10), "fail"),
        ("rsrsor", (1, 2, 3), "pass"),
        ("rsrsor", (1, 3, 3), "fail"),
        ("srsor", (1, 2), "pass"),
    ],
)
def test_each_successful_start_is_one(builder: Any, commands: str, generations: tuple[int, ...], verdict: str) -> None:
    """Refused starts, stops and other features do not count; the number has eight bits."""
    assert row(recorded(builder, commands), *generations).verdict == verdict


@pytest.mark.parametrize(
    ("commands", "generations", "why"),
    [
        ("rsor", (5,), "one page has no difference"),
        ("rsor", (), "--power-log FILE twice"),
        ("rsor", (4, 4, 5), "has 2 reads of log page 25h, and 3 pages are given"),
        ("sor", (4, 5), "has 1 reads"),
        ("ror", (4, 4), "not started between"),
    ],
)
def test_what_cannot_be_told(builder: Any, commands: str, generations: tuple[int, ...], why: str) -> None:
    found = row(recorded(builder, commands), *generations)
    assert found.verdict == "not measured" and why in found.why


@pytest.mark.parametrize(("generation", "verdict"), [(4, "pass"), (5, "pass"), (6, "fail")])
def test_a_start_beside_a_read_counts_on_either_side(builder: Any, generation: int, verdict: str) -> None:
    """The start lasts until after the second read's fetch: the drive may take either first. The third read decides the sum."""
    assert row(recorded(builder, "rsr", overlap=True), 4, generation).verdict == verdict


def test_two_pages_on_the_command_line(builder: Any, tmp_path: Path) -> None:
    """The option is given once for each reading; the last page is the one that other rows judge."""
    capture = recorded(builder, "rsor")
    paths = [tmp_path / f"{k}.bin" for k in range(2)]
    for path, generation in zip(paths, (8, 9), strict=True):
        path.write_bytes(page(generation))
    words = [
        "judge",
        str(capture.path),
        "--requirements",
        "nvme",
        "--json",
        *(word for path in paths for word in ("--power-log", str(path))),
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code in (3, 4), done.output
    (found,) = (one for one in json.loads(done.stdout)["drives"][0]["verdicts"] if one["id"] == "METER-GENERATION")
    assert found["verdict"] == "pass"
    broken = tmp_path / "broken.bin"
    broken.write_bytes(b"short")
    done = CliRunner().invoke(app, ["judge", str(capture.path), "--power-log", str(broken), "--power-log", str(paths[1])])
    assert isinstance(done.exception, UsageError) and "broken.bin" in str(done.exception)
