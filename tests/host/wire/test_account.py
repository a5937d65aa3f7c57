"""The decoder's account to the last tick and byte: the effect of each kind of damage, by hand from docs/wire-format.md."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from wattbell.wire.decode import Batch, Counters, Gap, StreamDecoder
from wattbell.wire.framing import BlockFramer
from wattbell.wire.sequence import Arrival, SequenceTracker
from wattbell_spec import wire as spec

from tests.host.wire import encoder as e

FLUSH = 10_000_000
"""Ticks for which the rig may hold a block open."""
SLACK = 100 * FLUSH
"""Ticks by which a block of one kind may lag behind blocks of another: a second."""
T = 10**12
LOST, BEGIN, END, ODD = (
    "blocks lost on the way to the host",
    "bytes at the beginning are no whole block",
    "bytes at the end are no whole block",
    "blocks that fit nothing around them",
)


def block(number: int, tick: int | None = None, run: int = 0, slba: int | None = None) -> bytes:
    """One command; block n of an intact stream is at T + 1000 n."""
    at = T + 1000 * number if tick is None else tick
    return bytes(e.commands(number % 2**32, at, [e.Command(at, slba=number if slba is None else slba)], run=run))


def told(*pieces: bytes, finish: bool = True) -> tuple[StreamDecoder, list[Batch], list[tuple[Any, ...]]]:
    """The decoder, its batches, and its gaps as tuples."""
    decoder, batches = StreamDecoder(), []
    for piece in pieces:
        batches += decoder.feed(piece)
    if finish:
        batches += decoder.finish()
    return decoder, batches, [tuple_of(gap) for batch in batches for gap in batch.gaps]


def tuple_of(gap: Gap) -> tuple[Any, ...]:
    return gap.kind, gap.first_tick, gap.last_tick, gap.count, gap.reason


def numbers(batches: list[Batch]) -> list[tuple[int, int]]:
    """(epoch, SLBA) of every command."""
    return [(batch.epoch, int(slba)) for batch in batches if batch.commands for slba in batch.commands.columns["slba"]]


def at(tick: int) -> tuple[int, int]:
    """The interval in which something unread may lie, when `tick` is the last one seen."""
    return max(tick - SLACK, 0), tick + FLUSH


# -- losses, to the tick -----------------------------------------------------------------------------------------------


def test_a_hole_reaches_from_a_flush_before_it_to_a_flush_behind_it() -> None:
    decoder, batches, gaps = told(*(block(n) for n in (0, 1, 2, 5, 6)))
    assert gaps == [(None, T + 2000 - FLUSH, T + 5000 + FLUSH, 2, LOST)]
    assert numbers(batches) == [(0, n) for n in (0, 1, 2, 5, 6)]
    counters = decoder.counters
    assert (counters.blocks, counters.missing_blocks, counters.late_blocks, counters.lossless) == (5, 2, 0, False)
    assert [batch.last_tick for batch in batches] == [T + 1000, T + 2000, T + 5000, T + 6000, T + 6000]  # the first waits for the second


def test_no_gap_begins_before_the_counter_did() -> None:
    early = [block(0, 0), block(1, 10), block(4, 20), block(5, 30)]
    assert told(*early)[2] == [(None, 0, 20 + FLUSH, 2, LOST)]
    cut = block(0, 0)[5:]
    assert told(cut + block(1, 10) + block(2, 20))[2] == [(None, 0, 10, -1, BEGIN)]
    assert told(block(0, 0) + block(1, 10) + cut)[2] == [(None, 0, 10 + FLUSH, -1, END)]


@pytest.mark.parametrize("behind", [False, True])
def test_a_late_block_closes_its_part_of_a_hole(behind: bool) -> None:
    late = [3, 4] if behind else [4, 3]
    decoder, batches, gaps = told(*(block(n) for n in (0, 1, 6, *late, 7)))
    assert sorted(numbers(batches)) == [(0, n) for n in (0, 1, 3, 4, 6, 7)]
    assert [gap[3] for gap in gaps] == [1, 1] and {gap[1:3] for gap in gaps} == {(T + 1000 - FLUSH, T + 6000 + FLUSH)}
    assert (decoder.counters.late_blocks, decoder.counters.missing_blocks) == (2, 2)
    assert decoder.counters.duplicate_blocks == decoder.counters.implausible_blocks == 0


@pytest.mark.parametrize(
    ("tick", "taken"),
    [
        (T + 1000 - SLACK, True),
        (T + 1000 - SLACK - 1, False),
        (T + 6000 + SLACK, True),
        (T + 6000 + SLACK + 1, False),
    ],
)
def test_a_late_block_is_believed_up_to_a_second_outside_its_hole(tick: int, taken: bool) -> None:
    decoder, batches, _ = told(*(block(n) for n in (0, 1, 6)), block(3, tick, slba=77), block(7))
    assert ((0, 77) in numbers(batches)) is taken
    assert (decoder.counters.late_blocks, decoder.counters.implausible_blocks) == ((1, 0) if taken else (0, 1))
    assert decoder.counters.missing_blocks == (3 if taken else 4)


@pytest.mark.parametrize(("back", "taken"), [(SLACK, True), (SLACK + 1, False)])
def test_a_block_ahead_is_believed_up_to_a_second_behind(back: int, taken: bool) -> None:
    decoder, batches, gaps = told(block(0), block(1), block(3, T + 1000 - back, slba=77), block(2, T + 1000))
    assert ((0, 77) in numbers(batches)) is taken
    assert decoder.counters.implausible_blocks == (0 if taken else 1)
    if taken:  # 2 came in between
        assert decoder.counters.lossless and decoder.counters.late_blocks == 1
    else:
        assert gaps == [(None, *at(T + 1000), -1, ODD)]


def test_the_next_number_at_an_older_tick_is_taken_and_the_newest_tick_stays() -> None:
    _, batches, gaps = told(block(0), block(1), block(2, T - 5), block(3), block(5))
    assert [batch.last_tick for batch in batches if batch.commands] == [T + 1000, T + 1000, T + 3000, T + 5000]
    assert gaps == [(None, T + 3000 - FLUSH, T + 5000 + FLUSH, 1, LOST)]


@pytest.mark.parametrize("pieces", [1, 2, 4])
def test_what_is_no_block_is_told_where_it_stands(pieces: int) -> None:
    """However the stream arrived: a loss after the last block belongs to the end, and a loss between two blocks to neither end."""
    for stream, wanted in (
        ([b"noise", block(0), block(1), block(2)], [(None, T - FLUSH, T, -1, BEGIN)]),
        ([block(0), block(1), block(2), b"noise"], [(None, *at(T + 2000), -1, END)]),
        ([block(0), block(1), b"noise", block(2)], []),
    ):
        parts = [b"".join(stream[k : k + -(-4 // pieces)]) for k in range(0, 4, -(-4 // pieces))]
        decoder, batches, gaps = told(*parts)
        assert (numbers(batches), gaps) == ([(0, 0), (0, 1), (0, 2)], wanted)
        assert (decoder.counters.skipped_bytes, decoder.counters.lossless) == (5, False)


# -- what fits nothing -------------------------------------------------------------------------------------------------


def test_a_stray_block_is_a_gap_around_the_last_tick_seen() -> None:
    for number in (2, 3, 2**31):  # under a number that is due, ahead or far off: another run's in any case
        decoder, batches, gaps = told(block(0), block(1), block(number, run=9), block(2), block(3))
        assert numbers(batches) == [(0, n) for n in range(4)]
        assert gaps == [(None, *at(T + 1000), -1, ODD)]
        assert (decoder.counters.implausible_blocks, decoder.counters.lossless) == (1, False)


def test_the_last_block_of_all_is_believed_alone() -> None:
    """No other can confirm it: the far side of a hole, another run; but nothing under a number that already came."""
    decoder, batches, gaps = told(block(0), block(1), block(10_000))
    assert numbers(batches) == [(0, 0), (0, 1), (0, 10_000)]
    assert gaps == [(None, T + 1000 - FLUSH, T + 10**7 + FLUSH, 9998, LOST)] and decoder.counters.missing_blocks == 9998
    decoder, batches, gaps = told(block(0), block(1), block(7, run=3), block(90, run=4))
    assert numbers(batches) == [(0, 0), (0, 1), (1, 90)]
    assert gaps == [(None, *at(T + 1000), -1, ODD)] and decoder.counters.implausible_blocks == 1
    decoder, batches, gaps = told(block(0), block(1), block(1, slba=77))
    assert numbers(batches) == [(0, 0), (0, 1)]
    assert gaps == [(None, *at(T + 1000), -1, ODD)] and decoder.counters.implausible_blocks == 1


def test_four_strays_are_held_and_a_fifth_displaces_the_first() -> None:
    strays = [block(1000 * k, run=k) for k in range(1, 6)]
    for held, believed in ((4, True), (5, False)):
        behind = [] if believed else [block(2)]
        decoder, batches, _ = told(block(0), block(1), *strays[:held], block(1001, run=1), *behind)
        assert ((1, 1000) in numbers(batches)) is believed
        assert decoder.counters.implausible_blocks == (3 if believed else 6)
        assert decoder.counters.restarts == (1 if believed else 0)


@pytest.mark.parametrize(("apart", "together"), [(60 * SLACK - 1, True), (60 * SLACK, False)])
@pytest.mark.parametrize("sign", [1, -1])
def test_blocks_of_a_new_run_confirm_each_other_within_a_minute(apart: int, together: bool, sign: int) -> None:
    new = 2 * T
    decoder, batches, _ = told(
        block(0), block(1), block(7, new, run=5), block(8, new + sign * apart, run=5), *([] if together else [block(2)])
    )
    assert decoder.counters.restarts == (1 if together else 0)
    assert decoder.counters.implausible_blocks == (0 if together else 2)
    assert numbers(batches) == [(0, 0), (0, 1)] + ([(1, 7), (1, 8)] if together else [(0, 2)])


@pytest.mark.parametrize(("number", "confirmed"), [(7 + 4096, True), (7 + 4097, False), (7, False)])
def test_and_within_the_window_of_numbers_and_not_by_the_same_number(number: int, confirmed: bool) -> None:
    decoder, batches, _ = told(
        block(0), block(1), block(7, 2 * T, run=5), block(number, 2 * T + 1, run=5), *([] if confirmed else [block(2)])
    )
    assert decoder.counters.restarts == (1 if confirmed else 0)
    assert (1, 7) not in numbers(batches) or confirmed


def test_the_first_block_of_all_waits_for_a_second_or_the_end() -> None:
    decoder = StreamDecoder()
    assert decoder.feed(block(5)) == [] and decoder.counters.blocks == 1
    (batch,) = decoder.finish()
    assert numbers([batch]) == [(0, 5)] and decoder.counters.lossless and batch.gaps == []
    # of two that do not fit each other the last stays
    decoder, batches, gaps = told(block(5, run=1), block(90_000, run=2))
    assert numbers(batches) == [(0, 90_000)] and decoder.counters.implausible_blocks == 1
    assert gaps[0][3:] == (-1, ODD)


def test_the_same_block_again_while_it_is_held_is_a_duplicate() -> None:
    decoder, batches, gaps = told(block(5), block(5), block(6))
    assert numbers(batches) == [(0, 5), (0, 6)] and gaps == []
    assert (decoder.counters.duplicate_blocks, decoder.counters.lossless) == (1, True)


@pytest.mark.parametrize(("back", "same"), [(4095, True), (4096, False)])
def test_a_block_is_known_again_within_the_window(back: int, same: bool) -> None:
    """A number n more than the window behind the expected one is not a duplicate: the account remembers nothing certain about it."""
    count = 4200
    stream = b"".join(block(n) for n in range(count))
    decoder, batches, _ = told(stream, block(count - 1 - back), block(count))
    assert len(numbers(batches)) == count + 1
    assert (decoder.counters.duplicate_blocks, decoder.counters.implausible_blocks) == ((1, 0) if same else (0, 1))


# -- restarts ----------------------------------------------------------------------------------------------------------


def test_a_restart_closes_the_holes_of_before_and_its_ticks_begin_anew() -> None:
    decoder = StreamDecoder()
    batches = decoder.feed(b"".join(block(n) for n in (0, 1, 4)))
    batches += decoder.reconnected()
    batches += decoder.feed(block(0, 500) + block(1, 700)) + decoder.finish()
    assert numbers(batches) == [(0, 0), (0, 1), (0, 4), (1, 0), (1, 1)]
    assert [(batch.epoch, tuple_of(gap)) for batch in batches for gap in batch.gaps] == [
        (0, (None, T + 1000 - FLUSH, T + 4000 + FLUSH, 2, LOST))
    ]
    assert [batch.last_tick for batch in batches if batch.epoch] == [700]
    assert (decoder.counters.restarts, decoder.counters.missing_blocks, decoder.counters.duplicate_blocks) == (1, 2, 0)


@pytest.mark.parametrize(
    ("number", "tick", "run", "epoch"),
    [
        (2, T + 2000, 0, 0),
        (2, T + 1000 - SLACK, 0, 0),
        (2, T + 1000 - SLACK - 1, 0, 1),
        (1, T + 2000, 0, 1),
        (2, T + 2000, 3, 1),
    ],
)
def test_after_a_cut_the_next_block_tells_whether_the_rig_restarted(number: int, tick: int, run: int, epoch: int) -> None:
    decoder = StreamDecoder()
    batches = decoder.feed(block(0) + block(1)) + decoder.reconnected()
    batches += decoder.feed(block(number, tick, run, slba=77)) + decoder.finish()
    assert numbers(batches) == [(0, 0), (0, 1), (epoch, 77)]
    assert (decoder.counters.restarts, decoder.counters.implausible_blocks) == (epoch, 0)


def test_the_gap_of_what_a_kind_dropped_does_not_reach_back_over_a_restart() -> None:
    decoder = StreamDecoder()
    gaps = []
    anew = [e.commands(n, tick, [e.Command(tick)], dropped=dropped) for n, tick, dropped in ((0, 500, 3), (1, 900, 2))]
    for piece in (block(0), block(1), None, *anew):
        batches = decoder.feed(piece) if piece else decoder.reconnected()
        gaps += [(batch.epoch, tuple_of(gap)) for batch in batches for gap in batch.gaps]
    assert [epoch for epoch, _ in gaps] == [1, 1]
    assert [gap for _, gap in gaps] == [
        (spec.BlockContent.COMMANDS, 500, last, n, "dropped in the rig") for last, n in ((500, 3), (900, 2))
    ]


# -- what is read and what is not --------------------------------------------------------------------------------------


def test_the_last_tick_that_a_counter_may_show() -> None:
    last = 2**60
    for tick, good in ((last, True), (last + 1, False)):
        for lead in ([block(0, last - 5), block(1, last - 4)], []):  # as the next block, and as one that must be confirmed
            decoder, batches, _ = told(*lead, block(2, tick), *([] if lead else [block(3, tick)]))
            assert len(numbers(batches)) == len(lead) + (good if lead else 2 * good)
            assert decoder.counters.malformed_blocks == (0 if good else 1 if lead else 2)


@pytest.mark.parametrize(("number", "behind"), [(2, 3), (5, 2), (2**32 - 1, 2)])
def test_an_impossible_tick_while_another_block_is_held(number: int, behind: int) -> None:
    """It uses up its number if that is the one that is due, and no other."""
    impossible = e.commands(number, 2**62 + 1, [e.Command(2**62 + 1)])
    decoder, batches, _ = told(block(0), block(1), block(70, run=9), impossible, block(behind))
    assert numbers(batches) == [(0, 0), (0, 1), (0, behind)]
    counters = decoder.counters
    assert (counters.malformed_blocks, counters.implausible_blocks, counters.missing_blocks, counters.restarts) == (1, 1, 0, 0)
    other = e.commands(2, 2**62 + 1, [e.Command(2**62 + 1)], run=9)  # the number that is due, of another run
    assert told(block(0), block(1), other, block(2))[0].counters.missing_blocks == 0


def test_a_stream_without_any_block_is_a_gap_from_its_begin() -> None:
    decoder, batches, gaps = told(b"noise" * 9)
    assert gaps == [(None, 0, FLUSH, -1, END)] and [batch.last_tick for batch in batches] == [0]
    assert (decoder.counters.skipped_bytes, decoder.counters.blocks, decoder.counters.lossless) == (45, 0, False)


@pytest.mark.parametrize(
    "field", ["skipped_bytes", "bad_crc", "missing_blocks", "malformed_blocks", "implausible_blocks", "unknown_kind", "unknown_version"]
)
def test_each_number_alone_is_a_loss(field: str) -> None:
    assert Counters().lossless and not Counters(**{field: 1}).lossless
    assert Counters(late_blocks=1, duplicate_blocks=1, restarts=1, blocks=9, bytes_in=9).lossless
    assert not Counters(dropped={"COMMANDS": 0, "LINK": 1}).lossless


@pytest.mark.parametrize(
    ("made", "size"),
    [
        (lambda n, size: e.block(1, n, T, bytes(size)), 44),
        (lambda n, size: e.block(3, n, T, ((T.to_bytes(8, "little") + bytes(8)) * 3)[:size]), 16),
        (lambda n, size: e.block(6, n, T, bytes(size)), spec.LINK_SIZE),
    ],
)
def test_a_payload_of_no_record_is_none_and_of_a_part_of_one_is_malformed(made: Any, size: int) -> None:
    for length, good in ((0, True), (size, True), (2 * size, True), (size - 4, False), (size + 4, False)):
        decoder, batches, gaps = told(block(0), block(1), made(2, length), block(3))
        assert decoder.counters.malformed_blocks == (0 if good else 1)
        assert gaps == ([] if good else [(None, *at(T + 1000), -1, "a block whose payload is not a whole number of possible records")])
        rows = [part for batch in batches for part in (batch.commands, batch.events, batch.links) if part is not None]
        assert sum(len(part) for part in rows) == 3 + (length // size if good else 0)


def test_what_each_block_that_is_not_read_leaves() -> None:
    strange = [e.block(99, 2, T + 1500, bytes(4)), e.block(1, 3, T + 1600, bytes(44), version=3), e.block(0, 4, T + 1700, b"", dropped=8)]
    decoder, batches, gaps = told(block(0), block(1), *strange, block(5))
    counters = decoder.counters
    assert (counters.unknown_kind, counters.unknown_version, counters.malformed_blocks) == (2, 1, 0)
    assert sum(counters.dropped.values()) == 0  # for an unknown kind, what it dropped is unknown too
    assert [n for _, n in numbers(batches)] == [0, 1, 5] and all(gap[0] is None and gap[3] == -1 for gap in gaps)


def test_status_may_be_longer_than_this_version_knows() -> None:
    known = e.status(0, T, adc_period=1234, commands=7)[28:-4]
    decoder, batches, _ = told(e.block(5, 0, T, known + bytes(12)), e.block(5, 1, T + 9, known))
    rows = [batch.status for batch in batches if batch.status is not None]
    assert [tick for part in rows for tick in part.tick.tolist()] == [T, T + 9]
    assert all(part.columns["commands"].tolist() == [7] * len(part) for part in rows) and decoder.counters.lossless


def test_a_piece_of_any_size_is_decoded_part_by_part() -> None:
    payload = b"".join(e.Command(T, slba=k).pack(T) for k in range(46))
    stream = b"".join(e.block(1, n, T + n, payload) for n in range(600))
    assert len(stream) > 2 << 19
    decoder, batches, gaps = told(stream)
    assert [n for _, n in numbers(batches)] == list(range(46)) * 600 and gaps == []
    assert decoder.counters.bytes_accepted == len(stream) and len(batches) == 3


# -- columns -----------------------------------------------------------------------------------------------------------

EVENT = (T, 0, 0, 0, 0)
RECORDS = (
    ("commands", spec.COMMAND, lambda n: e.block(1, n, T, bytes(44))),
    ("events", spec.EVENT, lambda n: e.events(n, T, [EVENT])),
    ("status", spec.STATUS, lambda n: e.status(n, T)),
    ("links", spec.LINK, lambda n: e.block(6, n, T, bytes(2 * spec.LINK_SIZE))),
    ("rail", spec.RAIL_HEADER, lambda n: e.rail(n, T, [(1, 2)])),
)


@pytest.mark.parametrize(("name", "fields", "made"), RECORDS, ids=[name for name, _, _ in RECORDS])
def test_a_column_has_the_narrowest_type_that_holds_its_field(name: str, fields: tuple[spec.Field, ...], made: Any) -> None:
    found = next(part for batch in told(made(0), made(1))[1] if (part := getattr(batch, name)) is not None)
    for field in fields:
        if field.name not in ("cqe_offset", "tick"):
            width = next(size for size in (1, 2, 4, 8) if field.bits <= 8 * size)
            assert found.columns[field.name].dtype == np.dtype(f"<{'i' if field.signed else 'u'}{width}"), field.name
    assert len(found) == len(next(iter(found.columns.values())))


def test_every_bit_of_a_link_record() -> None:
    """Each of its fields all ones in turn, the others zero: shifts and masks of every width and position."""
    bit = 0
    for field in spec.LINK:
        record = (((1 << field.bits) - 1) << bit).to_bytes(spec.LINK_SIZE, "little")
        bit += field.bits
        found = next(batch.links for batch in told(e.block(6, 0, T, record * 2))[1] if batch.links is not None)
        values = {other.name: found.columns[other.name].tolist() for other in spec.LINK}
        assert values == {other.name: [(1 << other.bits) - 1 if other is field else 0] * 2 for other in spec.LINK}
        assert found.tick.tolist() == [T, T]


# -- framing -----------------------------------------------------------------------------------------------------------


def frames(data: bytes) -> tuple[BlockFramer, int]:
    framer = BlockFramer()
    return framer, len(framer.feed(data))


def test_a_block_has_at_most_2048_bytes_in_words() -> None:
    full = e.block(9, 0, 0, bytes(2048))
    framer, found = frames(full)
    assert (found, framer.bytes_accepted, framer.skipped_bytes, framer.pending_bytes) == (1, 28 + 2048 + 4, 0, 0)
    for length in (2041, 2042, 2043, 2045, 2046, 2047, 2049, 2050, 2052):
        framer, found = frames(e.block(9, 0, 0, bytes(length)) + full)
        assert (found, framer.skipped_bytes, framer.bad_crc) == (1, 28 + length + 4, 0)


def test_bytes_wait_only_while_they_may_become_a_block() -> None:
    whole = block(0)
    for size in range(1, len(whole)):
        framer, found = frames(whole[:size])
        assert (found, framer.pending_bytes, framer.skipped_bytes) == (0, size, 0)
        assert len(framer.feed(whole[size:])) == 1 and framer.pending_bytes == 0
    for tail, kept in ((b"", 0), (b"W", 1), (b"WB", 2), (b"WBE", 3), (b"WBEL", 4), (b"WBE\0", 0), (b"WWB", 2), (b"WBELW", 5)):
        framer, found = frames(b"noise" + tail)
        assert (found, framer.pending_bytes, framer.skipped_bytes) == (0, kept, 5 + len(tail) - kept), tail
        framer.finish()
        assert (framer.pending_bytes, framer.skipped_bytes, framer.bytes_in) == (0, 5 + len(tail), 5 + len(tail))


def test_a_damaged_block_waits_for_the_header_of_the_next_one() -> None:
    """Whether it is skipped whole depends on the next bytes."""
    hurt = bytearray(block(1))
    hurt[40] ^= 1
    for behind in (0, 3, 4, 27, 28, len(block(2)) - 1):
        framer, found = frames(block(0) + bytes(hurt) + block(2)[:behind])
        assert (found, framer.pending_bytes, framer.bad_crc) == (1, len(hurt) + behind, 0), behind
        assert len(framer.feed(block(2)[behind:] + block(3))) == 2
        assert (framer.bad_crc, framer.skipped_bytes, framer.bytes_accepted) == (1, len(hurt), 3 * len(block(0)))
    framer, found = frames(block(0) + bytes(hurt) + b"XXXX")  # nothing of a block there: no need to wait
    assert (found, framer.pending_bytes, framer.bad_crc) == (1, 0, 1)


def test_headers_that_fail_are_counted() -> None:
    """A false magic in noise counts as a header with a bad CRC; so does a damaged magic where a block was due."""
    false = b"WBEL" + bytes(24) + b"\1\2\3\4"
    framer, found = frames(b"x" + false + block(0))
    assert (found, framer.bad_crc, framer.skipped_bytes) == (1, 1, 1 + len(false))
    hurt = bytearray(block(1))
    hurt[0] ^= 1
    framer, found = frames(block(0) + bytes(hurt) + block(2))
    assert (found, framer.bad_crc, framer.skipped_bytes) == (2, 1, len(hurt))


def test_blocks_inside_a_damaged_block_are_taken_when_they_lead_to_its_end() -> None:
    """A flipped length that spans two good blocks hides neither; one carried in a TLP is not accepted."""
    first, second = block(1), block(2)
    forged = bytearray(block(0))
    length = len(block(0)) - 32 + len(first) + len(second)
    forged[6:8] = length.to_bytes(2, "little")
    framer, found = frames(block(0) + bytes(forged) + first + second + block(3) + block(4))
    assert found == 5 and framer.skipped_bytes == len(forged)
    framer, found = frames(bytes(forged) + first + second + block(3) + block(4))  # also where the stream begins with it
    assert found == 4 and framer.skipped_bytes == len(forged)
    carrier = bytearray(e.tlps(1, T, [(T, 1, 0, bytes(16) + block(9) + bytes(8))]))
    carrier[30] ^= 1
    framer, found = frames(block(0) + bytes(carrier) + block(7))  # not its successor, yet nothing inside leads there
    assert (found, framer.skipped_bytes, framer.bad_crc) == (2, len(carrier), 1)


@pytest.mark.parametrize("number", [1, 2, 2**32 - 1])
def test_a_damaged_block_whose_successor_stands_behind_it_is_skipped_whole(number: int) -> None:
    """Good blocks inside it lead up to its end, too: but its own number says that its length is right."""
    inside = block(70) + block(71)
    forged = bytearray(block(number))
    forged[6:8] = (len(block(0)) - 32 + len(inside)).to_bytes(2, "little")
    framer, found = frames(bytes(forged) + inside + block((number + 1) % 2**32) + block((number + 2) % 2**32))
    assert (found, framer.skipped_bytes, framer.bad_crc) == (2, len(forged) + len(inside), 1)


# -- numbers -----------------------------------------------------------------------------------------------------------


def test_ahead_is_half_a_turn() -> None:
    tracker = SequenceTracker()
    tracker.begin(4, 0)
    for offset, ahead in ((0, True), (1, True), (2**31 - 1, True), (2**31, False), (2**32 - 1, False)):
        assert tracker.is_ahead((5 + offset) % 2**32) is ahead
    assert tracker.jump((5 + 2**31 - 1) % 2**32, 1, 2) == 2**31 - 1
    assert tracker.missing == 2**31 - 1


def test_as_many_holes_are_kept_as_the_window_is_wide() -> None:
    """Every second block missing: the number of open holes is bounded, and the oldest is closed first."""
    tracker = SequenceTracker()
    tracker.begin(0, 0)
    for n in range(2, 4094, 2):
        assert tracker.arrive(n, n, n) is Arrival.AHEAD
    assert tracker.take_closed() == [] and tracker.missing == 2046
    for n in range(4094, 4104, 2):
        tracker.arrive(n, n, n)
    assert [hole.first for hole in tracker.take_closed()] == [1, 3, 5]


# -- the page's command ------------------------------------------------------------------------------------------------
