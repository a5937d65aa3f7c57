"""The judge finds faults put into a stream, and agrees with another author's findings on the shared traces."""

from __future__ import annotations

import struct
import tarfile
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from tests.traffic.cases import SHARED, known, truth
from tests.traffic.generate import generate
from tests.traffic.judge import ABORTED, DATA_PARTIAL, NO_SQE, Account, Bound, Stream, Verdict, judge, read
from tests.traffic.kinds import KINDS, draw
from tests.traffic.rig import Playing
from tests.traffic.session import Draw, run
from tests.traffic.truth import Deed

DEED = Deed(0, 1, 7, 2, 1, 4096, 8, 0, 1_000_999, 2_000_001, 3_000_000, 4_000_000, 5_000_000, 6_000_000, 7_000_000, named=2_500_000)
RIGHT = {
    "doorbell": 1000,
    "fetch": 2000,
    "first_data": 3000,
    "last_data": 4000,
    "cqe": 5000,
    "interrupt": 6000,
    "head": 7000,
    "opcode": 2,
    "status": 0,
    "nsid": 1,
    "slba": 4096,
    "blocks": 8,
}
"""Values of a record of ``DEED``: ps cut to ns."""


def verdict(flags: int = 0, deed: Deed = DEED, in_flight: int = 0, lost: int = 0, **values: object) -> Verdict:
    """The verdict on one record of one command."""
    stream = Stream([Account(1, 7, flags, {**RIGHT, **values})], {"lost_commands": lost}, in_flight)
    return judge([deed], stream)


def test_a_right_record_is_right() -> None:
    """All instants and fields equal: right; nothing else is counted."""
    one = verdict()
    assert (one.right, one.commands, one.silent, one.overcounted) == (1, 1, 0, 0)


@pytest.mark.parametrize("name", [*RIGHT])
def test_one_off_is_silently_wrong(name: str) -> None:
    """Each instant a tick off, and each field one off."""
    one = verdict(**{name: RIGHT[name] + 1})
    assert (one.right, one.wrong, dict(one.names)) == (0, 1, {name: 1})


@pytest.mark.parametrize("name", ["doorbell", "fetch", "first_data", "last_data", "interrupt", "head"])
def test_an_absent_instant_is_unsaid(name: str) -> None:
    """The trace has the instant, the record has not, and no flag says so."""
    one = verdict(**{name: None})
    assert (one.unsaid, one.wrong) == (1, 0)
    lacking = replace(DEED, **{name: None})
    assert verdict(deed=lacking, **{name: None}).right == 1
    assert verdict(deed=lacking).wrong == 1


def test_flags_cover_what_they_name() -> None:
    """DATA_PARTIAL covers the data's instants and no others; a flag on a right record still makes the record flagged."""
    assert verdict(DATA_PARTIAL, last_data=3999).flagged == 1
    assert verdict(DATA_PARTIAL).flagged == 1
    assert verdict(DATA_PARTIAL, head=6999).wrong == 1
    assert verdict(NO_SQE, opcode=0, slba=0).flagged == 1


def test_bounds() -> None:
    """A lower bound of an age is right where the instant is at least so far away."""
    assert verdict(doorbell=Bound(1000)).right == 1
    assert verdict(doorbell=Bound(999)).wrong == 1
    assert verdict(head=Bound(6999)).right == 1


def test_resets() -> None:
    """A command that a reset ended: ABORTED within the reset's interval is right; outside flagged; without the flag wrong."""
    ended = replace(DEED, cqe=None, interrupt=None, head=None, reset=8_000_000, reset_until=9_000_000)
    end = {"interrupt": None, "head": None}
    assert verdict(ABORTED, ended, cqe=8500, **end).right == 1
    assert verdict(ABORTED, ended, cqe=9500, **end).flagged == 1
    assert verdict(0, ended, cqe=8500, **end).wrong == 1
    assert verdict(ABORTED, ended, cqe=8500, last_data=3500, **end).wrong == 1


def test_losses() -> None:
    """A command without a record: counted, in flight, or lost in silence. A record without a command is invented."""
    other = replace(DEED, cid=8)

    def two(**counters: int) -> Verdict:
        stream = Stream([Account(1, 7, 0, RIGHT)], {"lost_commands": counters.get("lost", 0)}, counters.get("in_flight", 0))
        return judge([DEED, other], stream)

    assert (two().lost_silent, two().right) == (1, 1)
    assert (two(lost=1).lost_counted, two(lost=1).silent) == (1, 0)
    assert (two(lost=2).lost_counted, two(lost=2).overcounted) == (1, 1)
    assert two(in_flight=1).lost_silent == 1, "a command with CQE and CQ head doorbell is not in flight"
    both = judge([DEED], Stream([Account(1, 7, 0, RIGHT), Account(1, 9, 0, RIGHT), Account(1, 9, NO_SQE, RIGHT)]))
    assert (both.invented, both.invented_flagged, both.silent) == (1, 1, 1)


def test_records_of_a_cid_that_comes_again() -> None:
    """Two commands of one CID are matched by their CQEs, and if one's is wrong by doorbell or order."""
    later = replace(DEED, doorbell=11_000_000, fetch=12_000_000, cqe=15_000_000, head=17_000_000, interrupt=16_000_000)
    first = {**RIGHT, "cqe": 5001}
    second = {**RIGHT, "doorbell": 11_000, "fetch": 12_000, "cqe": 15_000, "interrupt": 16_000, "head": 17_000}
    one = judge([DEED, later], Stream([Account(1, 7, 0, second), Account(1, 7, 0, first)]))
    assert (one.wrong, dict(one.names)) == (1, {"cqe": 1, "first_data": 1, "last_data": 1}) or one.names == {"cqe": 1}


def test_a_record_that_names_no_command_takes_none_from_another_record() -> None:
    """A reset ends two commands. The SQE of the second had not passed, and its record comes first and has the CID by chance."""
    ended = replace(DEED, cqe=None, interrupt=None, head=None, reset=5_000_000)
    later = replace(ended, doorbell=7_500_000, fetch=7_600_000, first_data=None, last_data=None, named=7_700_000, reset=9_000_000)
    unnamed = replace(ended, cid=9, doorbell=1_500_000, fetch=None, first_data=None, last_data=None, named=None)
    none = {**RIGHT, "interrupt": None, "head": None}
    nothing = dict.fromkeys(("fetch", "first_data", "last_data", "opcode", "nsid", "slba", "blocks"))
    records = [
        Account(1, 7, ABORTED | NO_SQE, {**none, **nothing, "doorbell": 1500}),
        Account(1, 7, ABORTED, none),
        Account(1, 7, ABORTED, {**none, "doorbell": 7500, "fetch": 7600, "first_data": None, "last_data": None, "cqe": 9000}),
    ]
    found = judge([ended, unnamed, later], Stream(records))
    assert (found.right, found.flagged, found.silent, found.overcounted) == (2, 1, 0, 0)


def test_data_in_the_tick_of_a_reset_may_be_on_either_side() -> None:
    """A tick does not tell which of the two came first."""
    for reset, silent in ((3_000_900, 0), (3_001_000, 1)):
        ended = replace(DEED, cqe=None, interrupt=None, head=None, reset=reset, pieces=[3_000_000], may_lack=[])
        ended.settle()
        record = {**RIGHT, "cqe": reset // 1000, "first_data": None, "last_data": None, "interrupt": None, "head": None}
        assert judge([ended], Stream([Account(1, 7, ABORTED, record)])).silent == silent


def test_a_command_whose_sqe_passes_behind_its_reset_has_no_name() -> None:
    """The drive goes on for a while behind the write of a Function Level Reset. The record at the reset cannot name the command."""
    ended = replace(DEED, reset=1_500_000, head=None, interrupt=None)
    nothing = dict.fromkeys(("fetch", "first_data", "last_data", "opcode", "nsid", "slba", "blocks", "interrupt", "head"))
    record = Account(1, 0, ABORTED | NO_SQE, {**RIGHT, **nothing, "cqe": 1500})
    found = judge([ended], Stream([record]))
    assert (found.flagged, found.silent, found.invented_flagged) == (1, 0, 0)
    assert judge([replace(ended, reset=2_600_000)], Stream([record])).lost_silent == 1


def blocks(stream: bytes) -> list[tuple[int, int]]:
    """Offsets and lengths of the payloads of COMMANDS blocks."""
    at, found = 0, []
    while at < len(stream):
        magic, _, kind, length = struct.unpack_from("<4sBBH", stream, at)
        assert magic == b"WBEL"
        if kind == 1:
            found.append((at, length))
        at += 28 + length + 4
    return found


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Deed], bytes]:
    """A drawn trace through the fast twin."""
    trace = tmp_path_factory.mktemp("judge") / "one.wbt"
    traffic = generate(draw(11, ("one_queue",), 120))
    trace.write_bytes(traffic.trace())
    return traffic.deeds, Playing(trace, []).stream()[0]


@pytest.mark.parametrize("field", [4, 8, 12, 16, 20, 23, 26, 28, 30, 32, 34, 38])
def test_a_stream_with_one_field_moved(played: tuple[list[Deed], bytes], field: int) -> None:
    """One unit in one field of one record of a real stream, its CRC made good again, makes one record wrong."""
    deeds, stream = played
    assert judge(deeds, read(stream)).silent == 0
    at, length = blocks(stream)[-1]
    changed = bytearray(stream)
    record = at + 28 + next(k for k in range(0, length, 44) if stream[at + 28 + k + 12 : at + 28 + k + 16] != b"\xff" * 4)
    changed[record + field] ^= 1
    struct.pack_into("<L", changed, at + 28 + length, zlib.crc32(changed[at : at + 28 + length]))
    found = judge(deeds, read(bytes(changed)))
    assert found.wrong == 1 or (found.invented, found.lost_silent) == (1, 1)


SILENT = {"opcodes": 1}
"""Silent faults that are left in traces of another author: upper bounds. A Set Features there moves data that its feature has not."""
PARTIAL = {"aer_5s", "over1024", "sq_deleted"}
"""Traces with commands that their truth lacks."""


@pytest.mark.skipif(not SHARED.exists(), reason="no ../shared")
def test_the_shared_traces(tmp_path: Path) -> None:
    """Each record is right or flagged, or its command is counted as lost."""
    with tarfile.open(SHARED) as archive:
        archive.extractall(tmp_path)
    found = {}
    for trace in sorted(tmp_path.rglob("*.wbt")):
        beside = trace.with_suffix(".truth.json")
        found[trace.stem] = judge(truth(beside), read(Playing(trace, []).stream()[0]), known(beside))
    assert len(found) == 54
    assert not {name: one.names for name, one in found.items() if name not in PARTIAL and one.silent > SILENT.get(name, 0)}
    assert not any(one.wrong or one.unsaid for name, one in found.items() if name in PARTIAL - {"over1024"})


def test_a_short_draw() -> None:
    """No kind has a silent fault, and traffic of the supported kinds is not flagged."""
    table = run(2500, Draw(42, tuple(name for name in KINDS if name != "deep"), size=60))
    assert not table.failed, {name: (one.names, table.failed[name]) for name, one in table.rows.items() if one.silent}
    assert table.flagged_share() == 0 and table.supported.commands > 700


def test_a_draw_in_two_processes_is_the_same() -> None:
    alone, together = (run(600, Draw(5, ("base", "polled"), size=60), jobs) for jobs in (1, 2))
    assert list(alone.lines()) == list(together.lines()) and alone.traces == together.traces > 2
