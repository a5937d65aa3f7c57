"""TLP prefixes and digests (ECRC) of a bus trace, in both fidelities. The bytes are of PCIe Base 4.0 (2.2.1, 2.2.10), not a model's."""

from __future__ import annotations

import json
import random
import subprocess
import zlib
from pathlib import Path

import pytest
from wattbell_spec.wire import EventType, MalformedClass

from tests.sim.rig.rig_process import ORIGIN_TICK, column, decode, find, play, run
from tests.sim.rig.rig_trace import BURST, TLP_DOWN, TLP_UP, Record, encode, records, squeeze
from tests.sim.rig.test_fidelity import compare

LEFT_OUT = 1
PASID, EXTENDED_TPH, IDE, VENDOR_LOCAL, MR_IOV = 0x91, 0x90, 0x92, 0x8E, 0x80


def dressed(row: Record, prefixes: bytes, *, digest: bool) -> Record:
    """Return a record of a TLP with these bytes before its header, and perhaps TD set and a digest behind it."""
    kind, flags, time_ps, body = row
    if digest:
        body = body[:2] + bytes([body[2] | 0x80]) + body[3:]
        body += zlib.crc32(body).to_bytes(4, "little")
    return kind, flags, time_ps, prefixes + body


def any_prefixes(rng: random.Random) -> bytes:
    """Return up to three local and up to four end-to-end prefixes, of known types and of others.

    A PASID is not among them: it means another address (tests/traffic/test_doubts.py).
    """
    kinds = [rng.choice((MR_IOV, VENDOR_LOCAL, 0x85)) for _ in range(rng.choice((0, 0, 0, 1, 3)))]
    kinds += [rng.choice((EXTENDED_TPH, 0x9E, 0x9F, 0x97)) for _ in range(rng.choice((0, 1, 1, 2, 3, 4)))]
    return b"".join(bytes([kind]) + rng.randbytes(3) for kind in kinds)


def expanded(rows: list[Record]) -> list[Record]:
    """Return the records without bursts, which carry neither prefixes nor digests."""
    return [row for row in rows if row[0] != BURST]


def spread(rows: list[Record], rng: random.Random) -> list[Record]:
    return [
        dressed(row, any_prefixes(rng), digest=rng.random() < 0.4) if row[0] in (TLP_DOWN, TLP_UP) and rng.random() < 0.9 else row
        for row in rows
    ]


def table(stream: bytes) -> dict[str, list[int]]:
    batches, _ = decode(stream)
    names = ("qid", "cid", "opcode", "slba", "nlb", "status", "flags", "cqe_tick", "sq_doorbell", "fetch", "first_data", "last_data")
    first = next(b.commands for b in batches if b.commands is not None)
    present = [name for name in names if name in first.columns]
    return {name: [int(v) for v in column(batches, "commands", name)] for name in present}


@pytest.fixture(scope="module")
def plain(drive_trace: Path) -> list[Record]:
    """Give the traffic of the SSD model, with its Identify data: whole payloads of short TLPs, omitted payloads of long ones."""
    return expanded(list(squeeze(records(drive_trace))))[:4000]


@pytest.mark.parametrize("seed", range(2))
def test_prefixes_and_digests_change_no_record(plain: list[Record], tmp_path: Path, seed: int) -> None:
    """Header, length and payload are found behind any prefixes: the records equal the records of the same TLPs without them."""
    last = plain[-1][2]
    rows = [row for row in plain if row[0] != 6]
    traces = []
    for name, some in (("plain", rows), ("dressed", spread(rows, random.Random(seed)))):
        traces.append(tmp_path / f"{name}.wbt")
        traces[-1].write_bytes(encode([*some, (6, 0, last + 200_000_000, b"")]))
    streams = [play(trace, tmp_path, "--fidelity", "fast") for trace in traces]
    bare, with_prefixes = map(table, streams)
    assert len(bare["cid"]) > 30 and with_prefixes == bare
    for stream in streams:
        batches, _ = decode(stream)
        assert EventType.MALFORMED not in column(batches, "events", "type")
    result = compare(traces[1], "--interval", 1e-5)
    assert result["caveat"] is None and result["commands"] == len(bare["cid"])


CASES = {
    "five end-to-end": (bytes([PASID, 1, 2, 3]) * 5, b"", MalformedClass.PREFIXES),
    "local behind end-to-end": (bytes([PASID, 1, 2, 3, MR_IOV, 0, 0, 0]), b"", MalformedClass.PREFIXES),
    "eight": (bytes([MR_IOV, 0, 0, 0]) * 8, b"", MalformedClass.PREFIXES),
    "encrypted": (bytes([IDE, 0x40, 0, 1]), b"", MalformedClass.ENCRYPTED),
    "encrypted behind local": (bytes([VENDOR_LOCAL, 0, 0, 0, IDE, 0x40, 0, 1, PASID, 0, 0, 0]), b"", MalformedClass.ENCRYPTED),
    "digest is missing": (bytes([PASID, 0, 0, 0]), b"TD", MalformedClass.LENGTH),
    "format": (bytes([PASID, 0, 0, 0]), b"Fmt", MalformedClass.FORMAT),
    "poisoned": (bytes([EXTENDED_TPH, 0, 0, 0]), b"EP", MalformedClass.POISONED),
}


def broken(row: Record, prefixes: bytes, how: bytes) -> Record:
    body = bytearray(row[3])
    if how == b"TD":
        body[2] |= 0x80
    elif how == b"EP":
        body[2] |= 0x40
    elif how == b"Fmt":
        body[0] |= 0x80  # of a write: Fmt 110 or 111
    return row[0], row[1], row[2], prefixes + bytes(body)


def test_a_tlp_that_is_refused_is_told_with_its_class(plain: list[Record], tmp_path: Path) -> None:
    """An I/O doorbell becomes each refused TLP in turn: an event says why, STATUS counts it, and the TLP is not read as another one."""
    rows = [row for row in plain if row[0] != 6]
    doorbells = [n for n, row in enumerate(rows) if row[0] == TLP_DOWN and row[3][:1] in (b"\x60", b"\x40") and len(row[3]) <= 20][60:]
    for n, (prefixes, how, _) in zip(doorbells[::3], CASES.values(), strict=False):
        rows[n] = broken(rows[n], prefixes, how)
    trace = tmp_path / "refused.wbt"
    trace.write_bytes(encode([*rows, (6, 0, rows[-1][2] + 200_000_000, b"")]))
    batches, _ = decode(play(trace, tmp_path, "--fidelity", "fast"))
    events = {name: column(batches, "events", name) for name in ("tick", "type", "arg8", "arg16")}
    told = [
        (t, c, d) for t, k, d, c in zip(*(events[n] for n in ("tick", "type", "arg8", "arg16")), strict=True) if k == EventType.MALFORMED
    ]
    due = [(ORIGIN_TICK + rows[n][2] // 1000, int(case[2]), 0) for n, case in zip(doorbells[::3], CASES.values(), strict=False)]
    assert [c for _, c, _ in told] == [c for _, c, _ in due] and len(due) == len(CASES)
    assert all(abs(a - b) <= 4 and d == 0 for (a, _, d), (b, _, _) in zip(told, due, strict=True))
    result = compare(trace, "--interval", 1e-5)
    assert result["caveat"] is None


@pytest.mark.parametrize(
    ("body", "said"),
    [(bytes([PASID, 0, 0, 0]) * 3, "shorter than its header"), (bytes([PASID, 0, 0, 0, 0x40, 0, 0, 1]) + bytes(16), "payload of 8 bytes")],
)
def test_a_trace_with_a_broken_tlp_is_refused(tmp_path: Path, body: bytes, said: str) -> None:
    trace = tmp_path / "broken.wbt"
    trace.write_bytes(encode([(TLP_UP, 0, 1000, body)]))
    done = subprocess.run([str(find("wattbell-bus-dump")), str(trace)], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and said in done.stderr


def test_the_dump_shows_prefixes_and_digest(tmp_path: Path) -> None:
    body = bytes([PASID, 0, 0, 7, 0x40, 0, 0x80, 1, 0, 0, 0, 0xF]) + bytes([0, 0, 0x10, 0]) + b"data" + b"ecrc"
    omitted = bytes([0x9E, 1, 2, 3, 0x40, 0, 0x80, 2]) + bytes(8) + b"ecrc"
    trace = tmp_path / "dump.wbt"
    trace.write_bytes(encode([(TLP_DOWN, 0, 1000, body), (TLP_UP, LEFT_OUT, 2000, omitted), (6, 0, 3000, b"")]))
    lines = [json.loads(line) for line in run([find("wattbell-bus-dump"), trace]).stdout.splitlines()]
    assert lines[1]["tlp"] == body.hex() and not lines[1]["left_out"]
    assert lines[2]["tlp"] == (omitted[:-4] + bytes(8) + b"ecrc").hex() and lines[2]["left_out"]
