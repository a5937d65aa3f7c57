"""Any bytes as Identify data, any TLPs carrying them: a drive that meta.json may hold, nothing, or one clear error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell.capture.identify import IDENTIFY_BYTES, Collector, memory_write, parse_controller, parse_namespace, parse_power_state
from wattbell.capture.metamodel import DriveAbout
from wattbell.errors import WattbellError
from wattbell.wire.records import Tlps

from tests.host.fuzzing import examples

COLUMNS = ("qid", "opcode", "status", "nsid", "slba", "first_data_tick", "fetch_tick", "doorbell_tick", "cqe_tick")
PLACES = [0, 4, 24, 26, 64, 80, 96, 128, 130, 191, 263, 265, 266, 268, 272, 322, 525, 2048, 2080, 3071]
# a whole structure from few drawn bytes: a repeated pattern with some bytes set
STRUCTURES = st.builds(
    lambda pattern, places: _structure(pattern, places),
    st.binary(min_size=1, max_size=40),
    st.lists(st.tuples(st.sampled_from(PLACES), st.binary(max_size=8)), max_size=6),
)


def _structure(pattern: bytes, places: list[tuple[int, bytes]]) -> bytes:
    data = bytearray((pattern * IDENTIFY_BYTES)[:IDENTIFY_BYTES])
    for at, value in places:
        data[at : at + len(value)] = value
    return bytes(data[:IDENTIFY_BYTES])


def held(drive: Any) -> None:
    """It passes the layer that reads meta.json, through JSON, and a terminal shows it."""
    text = msgspec.json.encode(drive)
    msgspec.json.decode(text, type=DriveAbout)
    for key in ("model", "serial", "firmware"):
        assert drive.get(key, "").isprintable()


@examples(300)
@given(data=STRUCTURES, nsid=st.integers(0, (1 << 32) - 1))
def test_any_structure_is_a_drive(data: bytes, nsid: int) -> None:
    drive = parse_controller(data)
    assert 1 <= len(drive["power_states"]) <= 32
    drive["namespaces"] = [parse_namespace(nsid, data)]
    held(drive)


@examples(200)
@given(data=st.binary(max_size=80) | st.sampled_from([bytes(4095), bytes(4097), b""]))
def test_another_length_is_an_error(data: bytes) -> None:
    for parse in (parse_controller, lambda part: parse_namespace(1, part)):
        with pytest.raises(WattbellError, match=f"has {len(data)} bytes, expected 4096"):
            parse(data)
    if len(data) != 32:
        with pytest.raises(WattbellError, match="expected 32"):
            parse_power_state(0, data)


def tlp(address: int, data: bytes, wide: bool) -> bytes:
    first = bytes([0x60 if wide else 0x40, 0, len(data) // 4 >> 8 & 3, len(data) // 4 & 0xFF])
    return first + bytes(4) + address.to_bytes(8 if wide else 4, "big") + data


TICKS = st.none() | st.integers(0, 40) | st.integers(0, (1 << 63) - 1)
ROWS = st.fixed_dictionaries(
    {
        "qid": st.just(0),
        "opcode": st.just(6),
        "status": st.sampled_from([0, 0, 0, 2]),
        "nsid": st.none() | st.integers(0, 3),
        "slba": st.none() | st.integers(0, 3) | st.integers(0, (1 << 64) - 1),
        "first_data_tick": TICKS,
        "fetch_tick": TICKS,
        "doorbell_tick": TICKS,
        "cqe_tick": TICKS,
    }
)


@examples(200)
@given(
    structure=STRUCTURES,
    piece=st.sampled_from([128, 512, 2048, 4096]),
    base=st.sampled_from([0, 0x1000, 0xFFFF_F000]),
    odd=st.lists(st.tuples(st.integers(0, 40), st.binary(max_size=40)), max_size=4),
    rows=st.lists(ROWS, max_size=4),
    lost=st.sets(st.integers(0, 40), max_size=3),
)
def test_any_tlps_and_commands_are_a_drive_or_none(
    tmp_path: Path, structure: bytes, piece: int, base: int, odd: list[tuple[int, bytes]], rows: list[dict[str, Any]], lost: set[int]
) -> None:
    sent = [(k, tlp(base + at, structure[at : at + piece], False)) for k, at in enumerate(range(0, IDENTIFY_BYTES, piece)) if k not in lost]
    records = sorted([*sent, *odd])
    for _, data in odd:
        memory_write(data)
    collector = Collector()
    n = len(records)
    collector.add(Tlps([t for t, _ in records], [1] * n, [2] * n, [data for _, data in records]))
    types = {name: pl.UInt64 if name == "slba" else pl.Int64 for name in COLUMNS}
    path = tmp_path / "commands.parquet"
    pl.DataFrame({name: [row[name] for row in rows] for name in COLUMNS}, schema=types).write_parquet(path)
    drive = collector.drive(path)
    if drive is not None:
        held(drive)
