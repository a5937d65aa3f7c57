"""Seeded faults: legal traffic with one TLP changed breaks the rule that forbids it."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from cocotbext.nvmetap import Checker, Direction, Doubt, LinkObserver, Rule

from tests.nvmetap.traffic import BAR, PAGE, Packet, Traffic, traffic

LIMIT_PS = 50_000_000_000
"""Time limit of a command here: 50 ms."""
SEEDS = range(5)
Fault = Callable[[Traffic, random.Random], None]


def _check(played: Traffic, **options: object) -> Checker:
    observer = LinkObserver(timeout_ps=LIMIT_PS)
    checker = Checker(observer, **options)  # type: ignore[arg-type]
    for packet in played.packets:
        observer.feed(packet.time_ps, Direction.DOWN if packet.down else Direction.UP, bytes(packet.data))
    observer.close()
    return checker


def _pick(played: Traffic, choose: random.Random, label: str, wanted: Callable[[Packet], bool] = lambda _packet: True) -> Packet:
    """Choose a TLP of the label that is wanted."""
    found = [packet for packet in played.packets if packet.label == label and wanted(packet)]
    return choose.choice(found)


def _io(packet: Packet) -> bool:
    return bool(packet.facts.get("io"))


def _set_dword(packet: Packet, at: int, value: int) -> None:
    struct.pack_into("<L", packet.data, packet.header + at, value)


def _get_word(packet: Packet, at: int) -> int:
    return int(struct.unpack_from("<H", packet.data, packet.header + at)[0])


def _doorbell_range(played: Traffic, choose: random.Random) -> None:
    packet = _pick(played, choose, choose.choice(("sq_bell", "cq_bell")), _io)
    _set_dword(packet, 0, 24 + choose.randrange(1000))


def _doorbell_repeated(played: Traffic, choose: random.Random) -> None:
    _duplicate(played, _pick(played, choose, choose.choice(("sq_bell", "cq_bell")), _io))


def _duplicate(played: Traffic, packet: Packet) -> None:
    at = played.packets.index(packet)
    played.packets.insert(at + 1, Packet(packet.time_ps + 1, packet.down, bytearray(packet.data), packet.label, packet.facts))


def _doorbell_past_head(played: Traffic, choose: random.Random) -> None:
    packet = _pick(played, choose, "sq_bell", _io)
    follower = Packet(packet.time_ps + 1, True, bytearray(packet.data), "sq_bell")
    _set_dword(follower, 0, packet.facts["before"])
    played.packets.insert(played.packets.index(packet) + 1, follower)


def _doorbell_past_tail(played: Traffic, choose: random.Random) -> None:
    packet = _pick(played, choose, "cq_bell", _io)
    _set_dword(packet, 0, (_get_word(packet, 0) + 1) % packet.facts["size"])


def _doorbell_no_queue(played: Traffic, choose: random.Random) -> None:
    packet = _pick(played, choose, "sq_bell", _io)
    packet.address = BAR + 0x1000 + 4 * choose.randrange(8, 200)


def _doorbell_reserved(played: Traffic, choose: random.Random) -> None:
    packet = _pick(played, choose, choose.choice(("sq_bell", "cq_bell")))
    _set_dword(packet, 0, _get_word(packet, 0) | 1 << choose.randrange(16, 32))


def _no_doorbell(played: Traffic, choose: random.Random) -> None:
    played.packets.remove(_pick(played, choose, "sq_bell", _io))


def _sqe_reserved(played: Traffic, choose: random.Random) -> None:
    packet = _pick(played, choose, "sqe", _io)
    packet.data[packet.header + 1] |= choose.choice((0x04, 0x08, 0x10, 0x20, 0xC0))


def _cc_reserved(played: Traffic, choose: random.Random) -> None:
    packet = _pick(played, choose, "cc")
    packet.data[packet.header + choose.choice((0, 3))] |= choose.choice((2, 4, 8))


def _prp_offset(played: Traffic, choose: random.Random) -> None:
    if choose.random() < 0.5:
        packet = _pick(played, choose, "sqe", lambda p: _io(p) and p.data[p.header] in (1, 2) and not p.data[p.header + 1])
        packet.data[packet.header + 24] |= choose.choice((1, 2, 3))
    else:
        packet = _pick(played, choose, "list_answer")
        packet.data[packet.header] |= 4


def _cid_reused(played: Traffic, choose: random.Random) -> None:
    packet = _pick(played, choose, "sqe", lambda p: _io(p) and p.facts["several"])
    struct.pack_into("<H", packet.data, packet.header + 2, _get_word(packet, 2) - 1)


def _cqe_no_command(played: Traffic, choose: random.Random) -> None:
    packet = _pick(played, choose, "cqe")
    at = choose.choice((10, 12))
    struct.pack_into("<H", packet.data, packet.header + at, _get_word(packet, at) ^ 0x4000)


def _cqe_slot(played: Traffic, choose: random.Random) -> None:
    packet = _pick(played, choose, "cqe", lambda p: _io(p) and p.address & 0xFFF < 16 * 20)
    packet.address += 16 * choose.choice((1, 2))


def _cqe_phase(played: Traffic, choose: random.Random) -> None:
    packet = _pick(played, choose, "cqe")
    packet.data[packet.header + 14] ^= 1


def _cqe_sqhd(played: Traffic, choose: random.Random) -> None:
    packet = _pick(played, choose, "cqe", _io)
    struct.pack_into("<H", packet.data, packet.header + 8, choose.choice(((packet.facts["tail"] + 1) % 24, 24, 0xFFFF)))


def _cqe_queue(played: Traffic, choose: random.Random) -> None:
    following: Packet | None = None
    found = []
    for packet in reversed(played.packets):
        if packet.label == "cqe" and packet.facts["queue"].qid == 2:
            following = packet
        elif packet.label == "cqe" and packet.facts["queue"].qid == 1 and following is not None:
            found.append((packet, following.address))
    packet, address = choose.choice(found)
    packet.address = address


def _cq_overrun(played: Traffic, choose: random.Random) -> None:
    queue = choose.choice((1, 2, 3))
    played.packets = [p for p in played.packets if not (p.label == "cq_bell" and p.address == BAR + 0x1004 + 8 * queue)]


def _write_outside(played: Traffic, choose: random.Random) -> None:
    packet = _pick(played, choose, "data_w", lambda p: _io(p) and len(p.data) > p.header + 4)
    packet.address = 0x7_0000_0000 + (packet.address & 0xFFF)


def _read_outside(played: Traffic, choose: random.Random) -> None:
    packet = _pick(
        played, choose, choose.choice(("data_r", "list", "segment", "fetch")), lambda p: p.label in ("list", "segment") or _io(p)
    )
    packet.address = (packet.address & 0xFFF) | (0x7_0000_0000 if packet.header == 16 else 0x7000_0000)


def _data_short(played: Traffic, choose: random.Random) -> None:
    played.packets.remove(_pick(played, choose, "data_w", _io))


def _data_twice(played: Traffic, choose: random.Random) -> None:
    _duplicate(played, _pick(played, choose, "data_w", _io))


def _interrupt_early(played: Traffic, choose: random.Random) -> None:
    """Send an interrupt once more, before the next CQE, when the host has consumed all."""
    bells = [at for at, p in enumerate(played.packets) if p.label == "cq_bell" and _io(p)]
    at = choose.choice(bells)
    message = next(p for p in reversed(played.packets[:at]) if p.label == "msi" and _io(p))
    played.packets.insert(at + 1, Packet(played.packets[at].time_ps + 1, False, bytearray(message.data), "msi"))


def _admin_while_enabled(played: Traffic, choose: random.Random) -> None:
    packet = _pick(played, choose, "sq_bell", _io)
    packet.address = BAR + choose.choice((0x24, 0x28, 0x2C, 0x30, 0x34))


def _timeout(played: Traffic, choose: random.Random) -> None:
    """Hold everything back from the CQE of a command on."""
    at = played.packets.index(_pick(played, choose, "cqe", _io))
    for packet in played.packets[at:]:
        packet.time_ps += 2 * LIMIT_PS


def _never_done(played: Traffic, choose: random.Random) -> None:
    """Let a command have no CQE until the end."""
    packet = _pick(played, choose, "cqe", _io)
    played.packets.remove(packet)
    for other in played.packets[-1:]:
        other.time_ps += 2 * LIMIT_PS


def _malformed(played: Traffic, choose: random.Random) -> None:
    packet = _pick(played, choose, choose.choice(("data_w", "data_c", "sq_bell", "cqe", "sqe", "fetch")))
    if choose.random() < 0.5 and packet.label != "fetch":
        packet.data[3] ^= 1
    else:
        del packet.data[-2:]


def _crosses_4k(played: Traffic, choose: random.Random) -> None:
    packet = _pick(played, choose, choose.choice(("data_w", "data_r")), lambda p: _io(p) and p.data[3] > 8)
    packet.address = packet.address & ~(PAGE - 1) | PAGE - 16


def _byte_enables(played: Traffic, choose: random.Random) -> None:
    packet = _pick(played, choose, choose.choice(("data_w", "data_r", "sq_bell", "cqe", "msi", "fetch")))
    one = packet.data[3] == 1
    packet.data[7] = 0xFF if one else 0x0F


def _completion_unexpected(played: Traffic, choose: random.Random) -> None:
    packet = _pick(played, choose, choose.choice(("data_c", "sqe", "list_answer", "segment_answer")), lambda p: p.facts["final"])
    if choose.random() < 0.5:
        _duplicate(played, packet)
    else:
        packet.data[10] ^= 0x80


def _tag_reused(played: Traffic, choose: random.Random) -> None:
    _duplicate(played, _pick(played, choose, choose.choice(("data_r", "fetch", "list"))))


FAULTS: dict[str, tuple[Fault, Rule]] = {
    "doorbell beyond the queue": (_doorbell_range, Rule.DOORBELL_RANGE),
    "doorbell twice": (_doorbell_repeated, Rule.DOORBELL_REPEATED),
    "more entries than free": (_doorbell_past_head, Rule.DOORBELL_PAST_HEAD),
    "more CQEs released than there": (_doorbell_past_tail, Rule.DOORBELL_PAST_TAIL),
    "doorbell of no queue": (_doorbell_no_queue, Rule.DOORBELL_NO_QUEUE),
    "doorbell with high bits": (_doorbell_reserved, Rule.DOORBELL_RESERVED),
    "doorbell left out": (_no_doorbell, Rule.FETCH_PAST_TAIL),
    "reserved SQE flags": (_sqe_reserved, Rule.SQE_RESERVED),
    "reserved CC bits": (_cc_reserved, Rule.CC_RESERVED),
    "PRP with an offset": (_prp_offset, Rule.PRP_OFFSET),
    "CID twice": (_cid_reused, Rule.CID_REUSED),
    "CQE of nothing": (_cqe_no_command, Rule.CQE_NO_COMMAND),
    "CQE in another slot": (_cqe_slot, Rule.CQE_SLOT),
    "phase tag flipped": (_cqe_phase, Rule.CQE_PHASE),
    "head past the tail": (_cqe_sqhd, Rule.CQE_SQHD),
    "CQE in another CQ": (_cqe_queue, Rule.CQE_QUEUE),
    "CQ never released": (_cq_overrun, Rule.CQ_OVERRUN),
    "write to memory of nobody": (_write_outside, Rule.WRITE_OUTSIDE),
    "read of memory of nobody": (_read_outside, Rule.READ_OUTSIDE),
    "data left out": (_data_short, Rule.DATA_COUNT),
    "data twice": (_data_twice, Rule.DATA_COUNT),
    "interrupt without a CQE": (_interrupt_early, Rule.INTERRUPT_EARLY),
    "admin registers while enabled": (_admin_while_enabled, Rule.ADMIN_WHILE_ENABLED),
    "late CQE": (_timeout, Rule.TIMEOUT),
    "no CQE": (_never_done, Rule.TIMEOUT),
    "wrong length": (_malformed, Rule.TLP_MALFORMED),
    "across 4 KiB": (_crosses_4k, Rule.TLP_CROSSES_4K),
    "byte enables": (_byte_enables, Rule.TLP_BYTE_ENABLES),
    "completion of nothing": (_completion_unexpected, Rule.COMPLETION_UNEXPECTED),
    "tag twice": (_tag_reused, Rule.TAG_REUSED),
}


def test_every_rule_has_a_fault() -> None:
    assert {rule for _fault, rule in FAULTS.values()} == set(Rule)
    assert len(FAULTS) * len(SEEDS) >= 100


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_found(name: str, seed: int) -> None:
    fault, rule = FAULTS[name]
    played = traffic(1000 + seed, 40)
    fault(played, random.Random(name + str(seed)))
    checker = _check(played)
    assert checker.counts[rule], checker.violations[:5]


def test_rule_can_be_switched_off(tmp_path: Path) -> None:
    played = traffic(3, 20)
    _cqe_phase(played, random.Random(1))
    assert _check(played).counts == {Rule.CQE_PHASE: 1}
    quiet = _check(played, disabled=[Rule.CQE_PHASE])
    assert quiet.passed
    assert not quiet.violations
    quiet.write_junit(tmp_path / "quiet.xml")
    root = ElementTree.parse(tmp_path / "quiet.xml").getroot()
    assert root.attrib["failures"] == "0"
    assert len(root.findall("testcase/skipped")) == 1


def test_junit_has_a_case_for_each_rule(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    played = traffic(4, 20)
    _cqe_phase(played, random.Random(1))
    checker = _check(played)
    checker.write_junit(tmp_path / "rules.xml")
    root = ElementTree.parse(tmp_path / "rules.xml").getroot()
    assert len(root.findall("testcase")) == len(Rule) == int(root.attrib["tests"])
    (failed,) = [case for case in root.findall("testcase") if case.find("failure") is not None]
    assert failed.attrib["name"].startswith("CQE_PHASE")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "CQE_PHASE at" in caplog.text


def test_overrun_begins_at_the_first_cqe_without_room() -> None:
    """A CQ of 24 slots holds 23 CQEs."""
    played = traffic(2000, 60)
    played.packets = [p for p in played.packets if not (p.label == "cq_bell" and p.address == BAR + 0x1004 + 8)]
    written = [p.time_ps for p in played.packets if p.label == "cqe" and p.facts["queue"].qid == 1]
    overruns = [breach.time_ps for breach in _check(played).violations if breach.rule is Rule.CQ_OVERRUN]
    assert overruns[0] == written[23]


@pytest.mark.parametrize("sqid", [0, 0x4002])
def test_wrong_sqid_in_each_cqe_breaks_one_rule_and_leaves_no_command_open(sqid: int) -> None:
    """Simple models of a drive leave SQID at 0."""
    played = traffic(9, 60)
    entries = [packet for packet in played.packets if packet.label == "cqe" and _io(packet)]
    for packet in entries:
        struct.pack_into("<H", packet.data, packet.header + 10, sqid)
    observer = LinkObserver()
    checker = Checker(observer)
    for packet in played.packets:
        observer.feed(packet.time_ps, Direction.DOWN if packet.down else Direction.UP, bytes(packet.data))
    observer.close()
    commands = list(observer.commands())
    assert checker.counts == {Rule.CQE_NO_COMMAND: len(entries)}
    told = sorted((one.sqid, one.cid, one.cqe_ps, one.head_ps) for one in played.truth)
    assert sorted((c.sqid, c.cid, c.cqe_ps, c.head_ps) for c in commands) == told
    assert all(c.doubts == ((Doubt.SQID_WRONG,) if c.sqid else ()) for c in commands)


def test_wrong_head_pointer_in_each_cqe_breaks_one_rule() -> None:
    """The host goes on: a completed command leaves its slot."""
    played = traffic(10, 60)
    entries = [packet for packet in played.packets if packet.label == "cqe" and _io(packet)]
    for packet in entries:
        struct.pack_into("<H", packet.data, packet.header + 8, packet.facts["size"])
    assert _check(played).counts == {Rule.CQE_SQHD: len(entries)}
