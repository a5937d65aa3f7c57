"""The decoder against a hand-written encoder, and against damage of every kind."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wattbell.wire.decode import Batch, StreamDecoder
from wattbell_spec.wire import FLUSH_TICKS, BlockContent

from tests.host.wire import encoder as e

U8, U16, U32 = (st.integers(0, 2**bits - 1) for bits in (8, 16, 32))
I24 = st.integers(-(2**23), 2**23 - 1)
TICK = st.integers(0, 2**60 - 2**20)


def decode(data: bytes, pieces: int | None = None) -> tuple[list[Batch], StreamDecoder]:
    decoder = StreamDecoder()
    batches: list[Batch] = []
    size = pieces or max(1, len(data))
    for start in range(0, len(data), size):
        batches += decoder.feed(data[start : start + size])
    return batches + decoder.finish(), decoder


def command_rows(batches: list[Batch]) -> list[tuple[int, ...]]:
    """(cqe_tick, slba, cid) of every command."""
    rows: list[tuple[int, ...]] = []
    for batch in batches:
        if batch.commands:
            columns = batch.commands.columns
            both = zip(batch.commands.cqe_tick.tolist(), columns["slba"].tolist(), columns["cid"].tolist(), strict=True)
            rows += both
    return rows


# -- every field -----------------------------------------------------------------------------------------------------

COMMAND = st.builds(
    lambda offset, **fields: (offset, fields),
    st.integers(-(2**31), 2**31 - 1),
    **{name: st.integers(0, (1 << bits) - 1) for name, bits in e.COMMAND[1:]},
)


@given(TICK, st.lists(st.lists(COMMAND, min_size=1, max_size=46), min_size=1, max_size=4), st.integers(1, 5000))
@settings(deadline=None)
def test_every_field_of_a_command(tick: int, blocks: list[list[tuple[int, dict[str, int]]]], piece: int) -> None:
    stream, wanted = b"", []
    for number, block in enumerate(blocks):
        base = tick + number * 1000
        records = [e.Command(cqe_tick=base + offset, **fields) for offset, fields in block]
        wanted += records
        stream += e.commands(number, base, records)
    batches, decoder = decode(stream, piece)
    names = list(batches[0].commands.columns) if batches[0].commands else []
    assert names == [name for name, _ in e.COMMAND[1:]]
    found = []
    for batch in batches:
        assert batch.commands is not None
        for index, cqe_tick in enumerate(batch.commands.cqe_tick.tolist()):
            fields = {name: int(batch.commands.columns[name][index]) for name in names}
            found.append(e.Command(cqe_tick=cqe_tick, **fields))
    assert found == wanted
    assert decoder.counters.lossless


@given(
    TICK,
    st.integers(0, 10**9 // 336),
    U16,
    st.integers(0, 2**64 - 1),
    st.integers(-(2**95), 2**95 - 1),
    U32,
    st.lists(st.lists(st.tuples(I24, I24), max_size=336), min_size=1, max_size=3),
)
@settings(deadline=None)
def test_every_field_of_a_rail_block(
    tick: int, interval: int, flags: int, index: int, energy: int, dropped: int, blocks: list[list[tuple[int, int]]]
) -> None:
    options = {"interval": interval, "flags": flags, "adc_index": index, "energy": energy, "dropped": dropped}
    stream = b"".join(e.rail(number, tick + number, samples, **options) for number, samples in enumerate(blocks))
    batches, decoder = decode(stream)
    rail = batches[0].rail
    assert rail is not None
    assert rail.first_tick.tolist() == [tick + number for number in range(len(blocks))]
    assert rail.columns["count"].tolist() == [len(samples) for samples in blocks]
    for name, value in (("interval_ticks", interval), ("flags", flags), ("adc_index", index), ("energy_high", energy >> 64)):
        assert rail.columns[name].tolist() == [value] * len(blocks)
    assert [low % 2**64 for low in rail.columns["energy"].tolist()] == [energy % 2**64] * len(blocks)
    assert rail.dropped.tolist() == [dropped] * len(blocks)
    wanted = [sample for samples in blocks for sample in samples]
    assert list(zip(rail.voltage.tolist(), rail.current.tolist(), strict=True)) == wanted
    assert decoder.counters.dropped["RAIL"] == dropped * len(blocks)


@given(TICK, st.lists(st.tuples(st.integers(0, 10**9), U8, U8, U16, U32), min_size=1, max_size=127))
@settings(deadline=None)
def test_every_field_of_an_event(tick: int, behind: list[tuple[int, ...]]) -> None:
    records = [(tick + first, *rest) for first, *rest in behind]
    batches, _ = decode(e.events(0, tick, records))
    events = batches[0].events
    assert events is not None
    columns = [events.tick] + [events.columns[name] for name in ("type", "arg8", "arg16", "arg32")]
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == records


@given(TICK, st.lists(st.tuples(st.integers(-1000, 1000), U8, U8, st.binary(max_size=300)), max_size=6))
@settings(deadline=None)
def test_raw_tlps(base: int, records: list[tuple[int, int, int, bytes]]) -> None:
    wanted = [(base + offset, direction, flags, data) for offset, direction, flags, data in records]
    batches, decoder = decode(e.tlps(0, base, wanted) + e.status(1, base))
    tlps = batches[0].tlps
    found = list(zip(tlps.tick, tlps.direction, tlps.flags, tlps.data, strict=True)) if tlps else []
    assert found == wanted
    assert decoder.counters.lossless


def test_status_fields() -> None:
    batches, _ = decode(e.status(0, 77, run=1, adc_period=1000, decimation=16))
    status = batches[0].status
    assert status is not None
    row = {name: int(column[0]) for name, column in status.columns.items()}
    assert status.tick.tolist() == [77]
    assert (row["gateware_version"], row["tick_ps"], row["clock_ticks"], row["tlp_width"]) == (0x10000, 1000, 4, 128)
    assert (row["queues"], row["slots"], row["adc_bits"], row["run"]) == (64, 1024, 18, 1)
    assert (row["voltage_lsb_uv"], row["current_lsb_na"]) == (20, 500)
    assert (row["adc_period_ticks"], row["decimation"]) == (1000, 16)


# -- damage ----------------------------------------------------------------------------------------------------------

PER_BLOCK = 3


def command_block(number: int, base: int = 10**9) -> bytes:
    tick = base + number * 10_000
    return bytes(e.commands(number % 2**32, tick, [e.Command(tick + i, slba=number % 2**32, cid=i) for i in range(PER_BLOCK)]))


@dataclass
class Damaged:
    stream: bytes
    intact: set[int]
    """Numbers of the blocks that the stream contains intact."""
    copies: dict[int, int]
    first: int
    count: int


@st.composite
def damaged_streams(draw: st.DrawFn) -> Damaged:
    """Consecutive blocks, some omitted, repeated, swapped, truncated, flipped, or preceded by garbage."""
    first = draw(st.sampled_from([0, 1, 500, 2**32 - 5]))
    count = draw(st.integers(1, 30))
    order = list(range(first, first + count))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(order) - 1))
        action = draw(st.sampled_from(["repeat", "swap", "drop"]))
        if action == "repeat":
            order.insert(draw(st.integers(0, len(order))), order[at])
        elif action == "swap":
            other = draw(st.integers(0, len(order) - 1))
            order[at], order[other] = order[other], order[at]
        elif len(order) > 1:
            del order[at]
    pieces: list[bytes] = []
    copies: dict[int, int] = {}
    for number in order:
        block = command_block(number)
        damage = draw(st.sampled_from(["none"] * 6 + ["flip", "cut", "garbage", "magic"]))
        if damage == "flip":
            bit = draw(st.integers(0, len(block) * 8 - 1))
            flipped = bytearray(block)
            flipped[bit // 8] ^= 1 << bit % 8
            pieces.append(bytes(flipped))
            continue
        if damage == "cut":
            start = draw(st.integers(0, len(block) - 1))
            stop = draw(st.integers(start + 1, len(block)))
            if b"WBEL".startswith(block[start:]):
                continue  # the next block's magic would replace what was truncated
            pieces.append(block[:start] + block[stop:])
            continue
        if damage == "garbage":
            pieces.append(draw(st.binary(min_size=1, max_size=40)))
        elif damage == "magic":  # a header that promises more than there is
            length = draw(st.integers(0, 0xFFFF))
            pieces.append(b"WBEL" + struct.pack("<BBHIIQI", 2, 1, length, draw(U32), 0, 0, 0))
        pieces.append(block)
        copies[number] = copies.get(number, 0) + 1
    return Damaged(b"".join(pieces), set(copies), copies, first, count)


@given(damaged_streams(), st.integers(1, 3000))
@settings(deadline=None, max_examples=400)
def test_damage_is_survived_and_counted(damaged: Damaged, piece: int) -> None:
    batches, decoder = decode(damaged.stream, piece)
    counters = decoder.counters
    rows = command_rows(batches)
    true_rows = {
        (10**9 + number * 10_000 + i, number % 2**32, i)
        for number in range(damaged.first, damaged.first + damaged.count)
        for i in range(PER_BLOCK)
    }
    # nothing wrong, nothing twice, everything that arrived whole
    assert set(rows) <= true_rows
    assert len(rows) == len(set(rows))
    assert {slba for _, slba, _ in rows} == {number % 2**32 for number in damaged.intact}
    # every loss is counted
    if damaged.intact:
        span = max(damaged.intact) - min(damaged.intact) + 1
        assert counters.missing_blocks == span - len(damaged.intact)
    assert counters.duplicate_blocks == sum(damaged.copies.values()) - len(damaged.intact)
    assert counters.bytes_in == len(damaged.stream) == counters.bytes_accepted + counters.skipped_bytes
    assert counters.bytes_accepted == sum(len(command_block(n)) * c for n, c in damaged.copies.items())
    gaps = [gap for batch in batches for gap in batch.gaps]
    assert sum(gap.count for gap in gaps if gap.count > 0) == counters.missing_blocks


@given(st.binary(max_size=3000), st.integers(1, 700))
@settings(deadline=None)
def test_any_bytes_at_all(data: bytes, piece: int) -> None:
    _, decoder = decode(data, piece)
    counters = decoder.counters
    assert counters.bytes_accepted + counters.skipped_bytes == len(data)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, 2, 3, 4, 5, 6, 255]),
            U32,
            st.integers(0, 2**64 - 1),
            st.binary(max_size=60),
            U32,
            st.sampled_from([2, 2, 2, 1, 0]),
        ),
        max_size=12,
    )
)
@settings(deadline=None, max_examples=400)
def test_any_payload_in_a_valid_frame(blocks: list[tuple[int, int, int, bytes, int, int]]) -> None:
    stream = b""
    for kind, sequence, tick, payload, dropped, version in blocks:
        stream += e.block(kind, sequence, tick, payload + bytes(-len(payload) % 4), dropped, version)
    _, decoder = decode(stream)
    counters = decoder.counters
    assert counters.bytes_accepted == len(stream)
    assert counters.blocks == len(blocks)


@given(st.integers(1, 400))
@settings(deadline=None, max_examples=50)
def test_pieces_do_not_matter(piece: int) -> None:
    generator = random.Random(piece)
    stream = bytearray(b"".join(command_block(n) for n in range(40)))
    for _ in range(6):
        stream[generator.randrange(len(stream))] ^= 1 << generator.randrange(8)
    whole, first = decode(bytes(stream))
    parts, second = decode(bytes(stream), piece)
    assert command_rows(whole) == command_rows(parts)
    assert first.counters == second.counters


def test_it_starts_anywhere() -> None:
    stream = b"".join(command_block(n) for n in range(50))
    size = len(command_block(0))
    for start in range(1, 3 * size, 7):
        batches, decoder = decode(stream[start:])
        assert len(command_rows(batches)) == PER_BLOCK * (50 - -(-start // size))
        assert decoder.counters.missing_blocks == 0


@pytest.mark.parametrize("between", [0, 28])
def test_a_header_that_ends_where_a_later_block_begins_does_not_swallow_those_between(between: int) -> None:
    """Also if other bytes that form no block precede the later one. Found by Hypothesis."""
    blocks = [command_block(number) for number in range(4)]
    junk = b"WBEL" + struct.pack("<BBHIIQI", 2, 1, 0, 0, 0, 0, 0)
    length = sum(map(len, blocks[:3])) + between - 4
    header = b"WBEL" + struct.pack("<BBHIIQI", 2, 1, length, 0, 0, 0, 0)
    batches, decoder = decode(header + b"".join(blocks[:3]) + junk[:between] + blocks[3], 1)
    assert {slba for _, slba, _ in command_rows(batches)} == {0, 1, 2, 3}
    assert decoder.counters.skipped_bytes == len(header) + between


@pytest.mark.parametrize("length", [65_532, 65_535, 6])
def test_a_length_that_no_block_has_is_not_waited_for(length: int) -> None:
    """A damaged block followed by a header that no rig writes: the next blocks are delivered at once, not only when that many bytes have
    come."""
    damaged = bytearray(command_block(0))
    damaged[40] ^= 1
    header = b"WBEL" + struct.pack("<BBHIIQI", 2, 1, length, 0, 0, 0, 0)
    rows = command_rows(StreamDecoder().feed(bytes(damaged) + header + command_block(2) + command_block(3)))
    assert {slba for _, slba, _ in rows} == {2, 3}


def test_a_block_inside_a_damaged_block_is_not_taken() -> None:
    inner = command_block(7, base=5)
    carrier = bytearray(e.tlps(1, 10**9, [(10**9, 1, 0, bytes(16) + inner + bytes(8))]))
    for bit in range(len(carrier) * 8):
        hit = bytearray(carrier)
        hit[bit // 8] ^= 1 << bit % 8
        stream = command_block(0) + bytes(hit) + command_block(2) + command_block(3)
        rows = command_rows(decode(stream)[0])
        assert all(tick >= 10**9 for tick, _, _ in rows) or bit // 8 in (6, 7), bit  # not when the length is hit
        assert {0, 2, 3} <= {slba for _, slba, _ in rows}, bit


def test_a_stray_block_far_off_the_sequence_does_not_hide_what_follows() -> None:
    stray = command_block(3_000_000_000, base=5)
    for where in range(4):
        blocks = [command_block(n) for n in range(6)]
        blocks.insert(where, stray)
        batches, decoder = decode(b"".join(blocks))
        assert {slba for _, slba, _ in command_rows(batches)} == set(range(6))
        assert decoder.counters.implausible_blocks == 1
        assert decoder.counters.missing_blocks == 0


def test_a_long_hole_is_counted_when_the_next_block_confirms_it() -> None:
    numbers = [0, 1, 2, 100_000, 100_001]
    batches, decoder = decode(b"".join(command_block(n) for n in numbers))
    assert [slba for _, slba, cid in command_rows(batches) if cid == 0] == numbers
    assert decoder.counters.missing_blocks == 99_997
    gap = next(gap for batch in batches for gap in batch.gaps)
    assert gap.kind is None
    assert gap.count == 99_997
    assert gap.first_tick == 10**9 + 20_000 - FLUSH_TICKS
    assert gap.last_tick == 10**9 + 100_000 * 10_000 + FLUSH_TICKS


def test_sequence_wraps() -> None:
    batches, decoder = decode(b"".join(command_block(n) for n in range(2**32 - 3, 2**32 + 3)))
    assert len(command_rows(batches)) == 6 * PER_BLOCK
    assert decoder.counters.lossless


def test_dropped_records_are_gaps_of_their_kind() -> None:
    stream = e.events(0, 1000, [(1000, 1, 1, 0, 0)]) + e.events(1, 9000, [(9000, 1, 2, 0, 0)], dropped=12)
    batches, decoder = decode(stream)
    (gap,) = [gap for batch in batches for gap in batch.gaps]
    assert (gap.kind, gap.first_tick, gap.last_tick, gap.count) == (BlockContent.EVENTS, 1000, 9000, 12)
    assert decoder.counters.dropped == {"COMMANDS": 0, "RAIL": 0, "EVENTS": 12, "TLP": 0, "STATUS": 0, "LINK": 0}


def test_unknown_kinds_and_versions_are_counted_not_lost() -> None:
    stream = command_block(0) + e.block(9, 1, 0, bytes(8)) + e.block(1, 2, 0, bytes(44), version=1) + command_block(3)
    batches, decoder = decode(stream)
    counters = decoder.counters
    assert (counters.unknown_kind, counters.unknown_version, counters.missing_blocks) == (1, 1, 0)
    assert len(command_rows(batches)) == 2 * PER_BLOCK


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (1, bytes(40)),
        (2, bytes(20)),
        (2, struct.pack("<IHHQq", 1, 5, 0, 0, 0)),
        (3, bytes(12)),
        (5, bytes(40)),
        (4, struct.pack("<iHBB", 0, 100, 0, 0)),
    ],
)
def test_a_payload_of_a_wrong_size_is_malformed(kind: int, payload: bytes) -> None:
    batches, decoder = decode(e.block(kind, 0, 0, payload) + command_block(1))
    assert decoder.counters.malformed_blocks == 1
    assert len(command_rows(batches)) == PER_BLOCK


def test_a_restart_after_a_cut_begins_a_new_epoch() -> None:
    decoder = StreamDecoder()
    before = decoder.feed(b"".join(command_block(n, base=10**12) for n in range(10)))
    before += decoder.reconnected()
    after = decoder.feed(b"".join(command_block(n) for n in range(5))) + decoder.finish()
    assert {batch.epoch for batch in before} == {0}
    assert {batch.epoch for batch in after} == {1}
    assert len(command_rows(after)) == 5 * PER_BLOCK
    assert decoder.counters.restarts == 1
    assert decoder.counters.missing_blocks == 0


RESTARTS = {
    "another run": {"run": 8},
    "no run given": {},
    "another run, later ticks": {"run": 8, "base": 10**12},
    "another run, few blocks before": {"run": 8, "before": 3},
    "another run, later ticks, few blocks before": {"run": 8, "before": 3, "base": 10**12},
}


@pytest.mark.parametrize("how", RESTARTS.values(), ids=RESTARTS)
@pytest.mark.parametrize("first", [0, 2, 40])
@pytest.mark.parametrize("cut", [False, True])
def test_a_restart_is_told_from_blocks_that_came_again(how: dict[str, int], first: int, cut: bool) -> None:
    """Even without a cut, and however few blocks there were: nothing of the second run is taken for blocks of the first."""
    run = 7 if "run" in how else 0
    old = [e.commands(n, 10**10 + n * 1000, [e.Command(10**10 + n * 1000, slba=n)], run=run) for n in range(how.get("before", 60))]
    base = how.get("base", 10**6)
    new = [e.commands(n, base + n * 1000, [e.Command(base + n * 1000, slba=10**6 + n)], run=how.get("run", 0)) for n in range(first, 80)]
    decoder = StreamDecoder()
    batches = decoder.feed(b"".join(old))
    if cut:
        batches += decoder.reconnected()
    batches += decoder.feed(b"".join(new)) + decoder.finish()
    found = [(batch.epoch, int(slba)) for batch in batches if batch.commands for slba in batch.commands.columns["slba"]]
    assert found == [(0, n) for n in range(len(old))] + [(1, 10**6 + n) for n in range(first, 80)]
    assert (decoder.counters.restarts, decoder.counters.duplicate_blocks) == (1, 0)


def test_a_block_that_came_before_is_a_duplicate_and_no_loss() -> None:
    blocks = [command_block(n) for n in range(30)]
    batches, decoder = decode(b"".join(blocks[:20] + blocks[5:9] + blocks[12:]))
    assert len(command_rows(batches)) == 30 * PER_BLOCK
    assert decoder.counters.duplicate_blocks == 4 + 8 and decoder.counters.restarts == 0
    assert decoder.counters.lossless and not [gap for batch in batches for gap in batch.gaps]


@pytest.mark.parametrize("run", [0, 9])
def test_a_block_under_a_number_that_came_with_other_content_is_a_loss(run: int) -> None:
    blocks = [command_block(n) for n in range(30)]
    other = e.commands(5, 10**9 + 50_000, [e.Command(10**9 + 50_000, slba=77)], run=run)
    batches, decoder = decode(b"".join([*blocks[:20], other, *blocks[20:]]))
    assert len(command_rows(batches)) == 30 * PER_BLOCK
    assert decoder.counters.implausible_blocks == 1 and not decoder.counters.lossless
    (gap,) = [gap for batch in batches for gap in batch.gaps]
    assert gap.kind is None and gap.count == -1 and gap.first_tick <= 10**9 + 190_000 <= gap.last_tick


@pytest.mark.parametrize("tick", [2**62 + 1, 2**63, 2**64 - 1])
def test_a_tick_that_no_counter_reaches_is_malformed(tick: int) -> None:
    stream = command_block(0) + command_block(1) + e.commands(2, tick, [e.Command(tick)]) + command_block(3)
    batches, decoder = decode(stream)
    assert len(command_rows(batches)) == 3 * PER_BLOCK
    assert decoder.counters.malformed_blocks == 1 and not decoder.counters.lossless
    assert [gap.count for batch in batches for gap in batch.gaps] == [-1]


def test_parts_of_blocks_at_both_ends_are_told() -> None:
    blocks = [command_block(n) for n in range(10)]
    for stream in (blocks[0][7:] + b"".join(blocks[1:]), b"".join(blocks[:9]) + blocks[9][:40]):
        batches, decoder = decode(stream)
        (gap,) = [gap for batch in batches for gap in batch.gaps]
        assert gap.kind is None and gap.count == -1 and not decoder.counters.lossless


def test_a_cut_without_a_restart_is_a_hole() -> None:
    decoder = StreamDecoder()
    decoder.feed(b"".join(command_block(n) for n in range(10)) + command_block(10)[:50])
    decoder.reconnected()
    after = decoder.feed(command_block(20) + command_block(21)) + decoder.finish()
    assert {batch.epoch for batch in after} == {0}
    assert decoder.counters.missing_blocks == 10
    assert decoder.counters.restarts == 0


def test_numbers_stay_exact_at_the_edges_of_their_fields() -> None:
    stream = e.rail(0, 0, [(-(2**23), 2**23 - 1), (-1, 1), (2**23 - 1, -(2**23))])
    rail = decode(stream)[0][0].rail
    assert rail is not None
    assert rail.voltage.dtype == np.int32
    assert rail.voltage.tolist() == [-(2**23), -1, 2**23 - 1]
    assert rail.current.tolist() == [2**23 - 1, 1, -(2**23)]
