"""The bus trace for a rig without a tap has the records of the rail and of the sidebands (docs/bus-trace.md)."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[3] / "sim/guest/rail_only.py"
HEAD = b"WBBT" + struct.pack("<II", 1, 2) + b"{}"


def record(kind: int, time_ps: int, body: bytes = b"") -> bytes:
    return struct.pack("<BBHQ", kind, 0, len(body), time_ps) + body


RAIL = record(4, 1000, struct.pack("<qq", 1, 2))
SIDEBAND = record(5, 3000, b"\x02\x01")
END = record(6, 9000)
BODIES = {1: bytes(16), 2: bytes(4112), 3: bytes(24), 7: bytes(80), 8: b"\1"}
TLPS = [record(kind, 2000 + kind, body) for kind, body in BODIES.items()]


def run(data: bytes) -> bytes:
    return subprocess.run([sys.executable, str(PROGRAM)], input=data, capture_output=True, check=True).stdout


def test_tlps_bursts_and_summaries_are_left_out() -> None:
    assert run(HEAD + TLPS[0] + RAIL + b"".join(TLPS) + SIDEBAND + TLPS[1] + END) == HEAD + RAIL + SIDEBAND + END


def test_a_trace_that_is_still_written_goes_through_as_it_comes() -> None:
    """The input comes in pieces that end anywhere; data after its end does not belong to it."""
    whole = HEAD + RAIL + TLPS[1] + SIDEBAND + END + RAIL
    process = subprocess.Popen([sys.executable, str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(whole[: len(HEAD + RAIL) + 5])
    process.stdin.flush()
    assert process.stdout.read(len(HEAD + RAIL)) == HEAD + RAIL, "before anything follows"
    for at in range(len(HEAD + RAIL) + 5, len(HEAD + RAIL + TLPS[1]) + 30, 700):
        process.stdin.write(whole[at : at + 700])
        process.stdin.flush()
    assert process.communicate()[0] == SIDEBAND + END


@pytest.mark.parametrize("data", (b"", b"WBBX" + HEAD[4:], HEAD[:4] + struct.pack("<II", 2, 2) + b"{}"))
def test_anything_else_is_refused(data: bytes) -> None:
    done = subprocess.run([sys.executable, str(PROGRAM)], input=data, capture_output=True, check=False)
    assert done.returncode != 0 and done.stdout == b""
