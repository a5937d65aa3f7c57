"""Resets, interrupts without MSI-X, unknown formats, host memory buffer, shadow doorbells, reformatting, late starts and gaps."""

from __future__ import annotations

import struct

import pytest
from cocotbext.nvmetap import Checker, Command, Direction, Doubt, LinkObserver, Rule

from tests.nvmetap.traffic import BAR, DRIVE, Packet, Queue, Traffic, Truth, traffic

INSTANTS = ("doorbell_ps", "fetch_ps", "first_data_ps", "last_data_ps", "cqe_ps", "interrupt_ps", "head_ps")


def _watch(packets: list[Packet], observer: LinkObserver) -> tuple[list[Command], Checker]:
    checker = Checker(observer)
    for packet in packets:
        observer.feed(packet.time_ps, Direction.DOWN if packet.down else Direction.UP, bytes(packet.data))
    observer.close()
    return list(observer.commands()), checker


def _wrong(commands: list[Command], truth: list[Truth]) -> list[tuple[Command, dict[str, tuple[int | None, int | None]]]]:
    """Return the commands that differ from the truth, which has the same CQEs."""
    told = {(one.sqid, one.cid, one.cqe_ps): one for one in truth}
    done = [command for command in commands if command.cqe_ps is not None]
    assert {(c.sqid, c.cid, c.cqe_ps) for c in done} == set(told)
    assert len(done) == len(truth)
    found = []
    for command in done:
        one = told[command.sqid, command.cid, command.cqe_ps]
        differences = {n: (getattr(command, n), getattr(one, n)) for n in INSTANTS if getattr(command, n) != getattr(one, n)}
        if differences:
            found.append((command, differences))
    return found


@pytest.mark.parametrize("way", ["cc", "flr", "d3", "nssr"])
def test_reset_ends_what_is_in_flight(way: str) -> None:
    played = traffic(5, 10)
    played.hang(3)
    played.restart(way)
    for _ in range(10):
        played.batch()
    observer = LinkObserver()
    commands, checker = _watch(played.packets, observer)
    assert _wrong(commands, played.truth) == []
    ended = [command for command in commands if command.cqe_ps is None]
    assert [(c.sqid, c.cid, c.doorbell_ps, c.fetch_ps) for c in ended] == [
        (o.sqid, o.cid, o.doorbell_ps, o.fetch_ps) for o in played.left_open
    ]
    assert {command.doubts for command in ended} == {(Doubt.NOT_COMPLETED,)}
    assert all(not command.doubts for command in commands if command not in ended)
    assert checker.passed, checker.violations[:3]
    assert not observer.unmatched


def test_unseen_reset_is_told() -> None:
    """Without the capability list, a function-level reset shows in new admin queues only."""
    played = traffic(6, 5)
    played.hang(2)
    played.restart("flr")
    played.batch()
    hidden = [packet for packet in played.packets if packet.label != "config" or packet.data[0] == 0x44]
    observer = LinkObserver()
    commands, checker = _watch(hidden, observer)
    assert _wrong(commands, played.truth) == []
    assert [c.doubts for c in commands if c.cqe_ps is None] == [(Doubt.NOT_COMPLETED, Doubt.RESET_UNSEEN)] * 2
    assert observer.unmatched == {"reset that was not on the link": 1, "doorbell of no queue": 64}  # 32 words of the MSI-X table, twice
    assert checker.passed, checker.violations[:3]


@pytest.mark.parametrize("seed", range(4))
def test_msi_capability_gives_the_vectors(seed: int) -> None:
    played = traffic(seed, 30, messages="msi")
    observer = LinkObserver()
    commands, checker = _watch(played.packets, observer)
    assert _wrong(commands, played.truth) == []
    assert not any(command.doubts for command in commands)
    assert checker.passed, checker.violations[:3]


@pytest.mark.parametrize("seed", range(4))
def test_vectors_are_learnt_where_nobody_tells_them(seed: int) -> None:
    played = traffic(seed, 30, messages="elsewhere")
    commands, checker = _watch(played.packets, LinkObserver())
    assert _wrong(commands, played.truth) == []
    assert not any(command.doubts for command in commands)
    assert checker.passed, checker.violations[:3]


@pytest.mark.parametrize("seed", range(30))
def test_without_identify_all_is_right_or_doubtful(seed: int) -> None:
    played = traffic(seed, 40, identify=False)
    commands, checker = _watch(played.packets, LinkObserver())
    assert [(command, found) for command, found in _wrong(commands, played.truth) if not command.doubts] == []
    doubtful = sum(1 for command in commands if command.doubts)
    assert doubtful < len(commands) / 3
    assert checker.passed, checker.violations[:3]


def _set_hmb(played: Traffic, enable: bool) -> tuple[int, int]:
    """Give the drive two pieces of 64 KiB, or take them back. Returns their addresses."""
    queue = played.queues[0]
    table, first, second = (played.buffer(size) for size in (4096, 65536, 65536))
    content = struct.pack("<QLLQLL", first, 16, 0, second, 16, 0)
    entry = played.sqe(
        queue, 9, cdw10=0x0D, cdw11=int(enable), cdw12=32, cdw13=table & 0xFFFF_FFFF, cdw14=table >> 32, cdw15=2 if enable else 0
    )
    told = played.submit(queue, [entry])
    if enable:
        played.drive_reads(table, content, "hmb", "hmb_answer")  # a list, which is no data of the command
    played.complete(queue, told[0])
    played.release(queue, told)
    return first, second


def test_host_memory_buffer_belongs_to_the_drive() -> None:
    played = traffic(8, 5)
    places = _set_hmb(played, True)
    for place in places:
        played.memory(False, place + 65532, bytes(4), "hmb_write")
        played.memory(False, place, bytes(256), "hmb_write")
        played.drive_reads(place + 4096, bytes(4096), "hmb_read", "hmb_answer")
        played.batch()
    observer = LinkObserver()
    commands, checker = _watch(played.packets, observer)
    assert _wrong(commands, played.truth) == []
    assert checker.passed, checker.violations[:3]
    assert not observer.unmatched
    _set_hmb(played, False)
    played.memory(False, places[0] + 256, bytes(256), "hmb_write")
    observer = LinkObserver()
    _commands, checker = _watch(played.packets, observer)
    assert checker.counts == {Rule.WRITE_OUTSIDE: 1}
    assert observer.unmatched == {"write to unknown memory": 1}


def test_shadow_doorbells_leave_the_doorbell_unknown() -> None:
    played = traffic(9, 3)
    before = len(played.truth)
    played.admin(0x7C, prp1=played.buffer(4096), prp2=played.buffer(4096))
    for _ in range(5):
        played.batch()
    io_bells = [packet for packet in played.packets if packet.label == "sq_bell" and packet.facts["io"]]
    late = {packet.time_ps for packet in io_bells if packet.time_ps > (played.truth[before].cqe_ps or 0)}
    played.packets = [packet for packet in played.packets if packet.label != "sq_bell" or packet.time_ps not in late]
    observer = LinkObserver()
    commands, checker = _watch(played.packets, observer)
    wrong = _wrong(commands, played.truth)
    assert {tuple(differences) for _command, differences in wrong} == {("doorbell_ps",)}
    assert all(command.doorbell_ps is None and Doubt.SHADOW_DOORBELL in command.doubts for command, _differences in wrong)
    assert len(wrong) == len(played.truth) - before - 1
    assert checker.passed, checker.violations[:3]


def test_format_changes_the_length_of_blocks() -> None:
    played = traffic(10, 5)
    played.admin(0x80, nsid=1, cdw10=1)
    played.formats[1] = (4096, 0)
    for _ in range(20):
        played.batch()
    observer = LinkObserver()
    commands, checker = _watch(played.packets, observer)
    assert _wrong(commands, played.truth) == []
    assert not any(command.doubts for command in commands)
    assert checker.passed, checker.violations[:3]


def test_late_start_understands_nothing_until_the_next_reset() -> None:
    played = traffic(11, 5)
    begin = len(played.packets)
    played.batch()
    first = len(played.truth)
    played.restart("cc")
    for _ in range(5):
        played.batch()
    observer = LinkObserver(bar0={DRIVE: BAR})
    commands, _checker = _watch(played.packets[begin:], observer)
    told = played.truth[first:]
    right = [command for command in commands if command.cqe_ps is not None]
    assert _wrong(right, told) == []
    assert observer.unmatched["write of an unknown or disabled function"] > 0
    assert all(Doubt.STRIDE_ASSUMED in command.doubts for command in right)


def test_gap_of_the_source_makes_doubtful() -> None:
    played = traffic(12, 3)
    played.hang(2)
    observer = LinkObserver()
    for packet in played.packets:
        observer.feed(packet.time_ps, Direction.DOWN if packet.down else Direction.UP, bytes(packet.data))
    observer.missed(played.now)
    observer.close()
    doubtful = [command for command in observer.commands() if Doubt.TLPS_MISSED in command.doubts]
    assert [command.cid for command in doubtful] == [one.cid for one in played.left_open]
    assert observer.unmatched == {"missed by the source": 1}


def _play(played: Traffic, entry: bytes, moves: list[tuple[int, int]]) -> Truth:
    """Submit a read, let the drive write ``moves`` (address, bytes), and complete it."""
    queue = played.queues[1]
    (told,) = played.submit(queue, [entry])
    for address, size in moves:
        when = played.memory(False, address, bytes(size), "data_w")
        told.first_data_ps, told.last_data_ps = told.first_data_ps or when, when
    played.complete(queue, told)
    played.release(queue, [told])
    return told


CMB = BAR + 0x3000
"""Controller memory in BAR0, which has 16 KiB."""
ELSEWHERE = 0x92_0000_0000
"""Another BAR, or a controller memory buffer at an address that CMBMSC gives it."""


@pytest.mark.parametrize("place", ["bar0", "bar2", "bar4", "cmbmsc"])
def test_data_in_the_controllers_memory_breaks_no_rule(place: str) -> None:
    """A command has a block in host memory, and one in the controller's memory, which is not on the link."""
    played = traffic(8, 3)
    own = CMB if place == "bar0" else ELSEWHERE
    if place == "bar2":  # 32 bits, 64 KiB
        own = 0x8800_0000
        _place_bar(played, 0x18, own, 0xFFFF_0000)
    elif place == "bar4":  # 64 bits, 64 KiB
        _place_bar(played, 0x20, own & 0xFFFF_FFFF, 0xFFFF_0004)
        _place_bar(played, 0x24, own >> 32, 0xFFFF_FFFF)
    elif place == "cmbmsc":
        tag = played.read(True, BAR + 0x3C, 4, "register")
        played.completion(False, tag, struct.pack("<L", 16 << 12), 4, 0x3C, "register")
        played.memory(True, BAR + 0x50, struct.pack("<Q", own | 3), "register")
    host = played.buffer(4096)
    there = _play(played, played.sqe(played.queues[1], 2, nsid=2, prp1=own, cdw12=0), [])
    half = _play(
        played, played.sqe(played.queues[1], 2, nsid=2, prp1=host, prp2=own + 0x1000 if place != "bar0" else own, cdw12=1), [(host, 256)]
    )
    last = _play(played, played.sqe(played.queues[1], 2, nsid=1, prp1=host, cdw12=0), [(host, 256), (host + 256, 256)])
    observer = LinkObserver()
    commands, checker = _watch(played.packets, observer)
    assert checker.passed, checker.violations[:3]
    found = {command.cid: (command.doubts, command.data_bytes) for command in commands if command.sqid == 1}
    assert [found[one.cid] for one in (there, half, last)] == [
        ((Doubt.CONTROLLER_MEMORY,), 0),
        ((Doubt.CONTROLLER_MEMORY,), 256),
        ((), 512),
    ]


def _place_bar(played: Traffic, register: int, value: int, mask: int) -> None:
    """Size and place a BAR as a host does."""
    played.config_write(register, 0xFFFF_FFFF)
    played.config_read(register, mask)
    played.config_write(register, value)


def test_a_list_in_the_controllers_memory_is_doubted() -> None:
    """The list is hidden: data to any page is legal, and no rule fires. The rules are strict for the next command."""
    played = traffic(8, 3)
    pages = [played.buffer(4096) for _ in range(3)]
    entry = played.sqe(played.queues[1], 2, nsid=2, prp1=pages[0], prp2=CMB, cdw12=2)
    told = _play(played, entry, [(page + at, 256) for page in pages for at in range(0, 4096, 256)])
    observer = LinkObserver()
    commands, checker = _watch(played.packets, observer)
    (found,) = [command for command in commands if command.cid == told.cid and command.sqid == 1]
    assert (found.doubts, found.first_data_ps) == ((Doubt.CONTROLLER_MEMORY,), told.first_data_ps)
    assert checker.passed, checker.violations[:3]
    _play(played, played.sqe(played.queues[1], 2, nsid=2, prp1=pages[0], cdw12=0), [(pages[1], 256)])
    assert _watch(played.packets, LinkObserver())[1].counts.keys() == {Rule.WRITE_OUTSIDE, Rule.DATA_COUNT}


def test_queues_of_a_cq_in_the_controllers_memory_are_counted_and_not_followed() -> None:
    """Its CQEs are in answers to the host's reads. Without them, no rule may fire for its commands."""
    played = traffic(8, 3)
    played.admin(5, prp1=CMB, cdw10=7 << 16 | 9, cdw11=1)
    played.admin(1, prp1=played.buffer(4096), cdw10=7 << 16 | 9, cdw11=9 << 16 | 1)
    queue = Queue(9, 0, CMB, 8)
    for value in (1, 2, 3):
        played.bell(queue, False, value)
        played.bell(queue, True, value)
    observer = LinkObserver()
    commands, checker = _watch(played.packets, observer)
    assert checker.passed, checker.violations[:3]
    assert _wrong(commands, played.truth) == []
    assert observer.unmatched == {"CQ in the controller's memory": 1, "SQ of a CQ that is not followed": 1, "doorbell of no queue": 6}


def test_opcodes_with_data_both_ways_are_doubted() -> None:
    """The two lowest bits of a vendor's opcode say so (NVMe 1.4, 4.2): first and last data are of either way."""
    played = traffic(8, 3)
    page = played.buffer(4096)
    told = _play(played, played.sqe(played.queues[1], 0x83, nsid=1, prp1=page), [(page, 256)])
    commands, _ = _watch(played.packets, LinkObserver())
    (found,) = [command for command in commands if command.cid == told.cid and command.sqid == 1]
    assert Doubt.DATA_SPLIT_DIRECTION in found.doubts
