"""Traffic that leaves a tracker in doubt: right, or flagged, and alike in both fidelities."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from wattbell_spec.wire import EventType, ResetCause

from tests.sim.rig.rig_process import column, decode, play
from tests.sim.rig.test_fidelity import compare
from tests.traffic import packets
from tests.traffic.generate import Traffic, generate
from tests.traffic.judge import ABORTED, DATA_PARTIAL, GUESS, INTERRUPT_GUESSED, NO_SQE, Account, Stream, judge, match, read
from tests.traffic.kernel import US
from tests.traffic.kinds import KINDS, draw
from tests.traffic.packets import DOWN, UP
from tests.traffic.rig import FIDELITIES, Playing
from tests.traffic.root import DEVICE

_AQA = 0x24


def played(traffic: Traffic, folder: Path) -> Stream:
    """The stream of the fast twin, which the RTL gives, too."""
    trace = folder / "one.wbt"
    trace.write_bytes(traffic.trace())
    stream = read(Playing(trace, traffic.attach).stream()[0])
    assert compare(trace)["caveat"] is None
    return stream


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("same_buffer+data_ca+opcodes", 5000),
        ("same_buffer+data_ca+opcodes", 5001),
        ("same_buffer+data_ca+opcodes", 5003),
        ("same_buffer+data_ca+opcodes", 5005),
        ("same_buffer+unaligned", 5002),
        ("same_buffer+sgl_segments", 5001),
        ("same_buffer+poisoned", 5001),
        ("same_buffer+late+unaligned", 6009),
        ("same_buffer+late+opcodes", 6000),
        ("same_buffer+late", 6007),
        ("same_buffer+late+data_ca", 6005),
        ("same_buffer+late+opcodes", 6005),
    ],
)
def test_commands_on_one_buffer_are_right_or_flagged(kind: str, seed: int, tmp_path: Path) -> None:
    traffic = generate(draw(seed, (kind,), 200 if seed == 5005 else 150))
    stream = played(traffic, tmp_path)
    found = judge(traffic.deeds, stream)
    assert found.silent == 0, found
    assert any(account.flags & DATA_PARTIAL for account in stream.accounts)


@pytest.mark.parametrize(("kind", "seed"), [("pasid", 8), ("pasid+hmb_bulk", 30), ("pasid+unaligned", 32), ("pasid+reset_en", 13)])
def test_an_address_of_a_process_makes_every_record_a_guess(kind: str, seed: int, tmp_path: Path) -> None:
    """The same number may be a page of the host's pointers, of a queue, or of the host memory buffer."""
    traffic = generate(draw(seed, (kind,), 200))
    stream = played(traffic, tmp_path)
    found = judge(traffic.deeds, stream)
    assert found.silent == 0, found
    first = next(time_ps for time_ps, direction, _, body in traffic.records if direction == UP and body[0] == 0x91)
    late = [account for account in stream.accounts if account.values["cqe"] > first // 1000]
    assert stream.spaces and len(late) > 50 and all(account.flags & GUESS for account in late)
    early = [account for account in stream.accounts if account.values["head"] and account.values["head"] < first // 1000]
    assert early and not any(account.flags & GUESS for account in early)


@pytest.mark.parametrize(
    ("kind", "seed", "doubted"),
    [
        ("intx+second_function", 4, INTERRUPT_GUESSED),
        ("reset_en", 12, INTERRUPT_GUESSED),
        ("reset_link+prefetch", 8, GUESS),
        ("reset_link+prefetch", 14, GUESS),
    ],
)
def test_what_a_reset_or_another_function_hides_is_flagged(kind: str, seed: int, doubted: int, tmp_path: Path) -> None:
    """INTx of either function, a message behind CC.EN = 0, and the second read of an SQE behind a reset."""
    traffic = generate(draw(seed, (kind,), 60))
    stream = played(traffic, tmp_path)
    found = judge(traffic.deeds, stream)
    assert found.silent == 0, found
    assert any(account.flags & doubted for account in stream.accounts)


@pytest.mark.parametrize(
    ("kind", "seed", "fidelities"),
    [
        ("late+sqe128", 3, FIDELITIES),
        ("late+sqe128", 8, FIDELITIES),
        ("late+sqe128", 22, ("fast",)),  # what follows SQEs looks like long commands, and overloads the gateware
        ("late", 5, FIDELITIES),
    ],
)
def test_the_size_of_sqes_is_doubted_until_a_read_shows_it(kind: str, seed: int, fidelities: tuple[str, ...], tmp_path: Path) -> None:
    """A trace that begins late does not show CC.IOSQES. A read of an odd number of 64 bytes does."""
    traffic = generate(draw(seed, (kind,), 100))
    trace = tmp_path / "one.wbt"
    trace.write_bytes(traffic.trace())
    fast, *others = (read(Playing(trace, traffic.attach, fidelity).stream()[0]) for fidelity in fidelities)
    assert all(fast.accounts == other.accounts for other in others)
    found = judge(traffic.deeds, fast)
    assert found.silent == 0, found
    guesses = [bool(account.flags & (GUESS | NO_SQE)) for account in fast.accounts if account.qid]
    assert all(guesses) if "sqe128" in kind else not all(guesses)


def test_a_first_doorbell_behind_the_reads_announces_nothing(tmp_path: Path) -> None:
    """After a late attach, the drive has read beyond the first doorbell that is seen. No reset was missed."""
    traffic = generate(draw(870011900039, tuple(kind for kind in KINDS if kind != "pasid"), 300))
    assert {"late", "prefetch"} <= set(traffic.setup.kinds)
    trace = tmp_path / "one.wbt"
    trace.write_bytes(traffic.trace())
    fast, rtl = (read(Playing(trace, traffic.attach, fidelity).stream()[0]) for fidelity in FIDELITIES)
    assert fast.accounts == rtl.accounts
    found = judge(traffic.deeds, fast)
    assert found.silent == 0, found


def test_an_entry_read_again_takes_no_count_of_another(tmp_path: Path) -> None:
    """Each of the commands beyond the slots has a record or counts as lost, though the drive reads entries twice."""
    traffic = generate(draw(609177812568, ("deep+prefetch",), 300))
    trace = tmp_path / "one.wbt"
    trace.write_bytes(traffic.trace())
    found = judge(traffic.deeds, read(Playing(trace, []).stream()[0]))
    assert found.lost_counted and found.silent == 0, found


def test_admin_commands_find_a_slot_beside_any_number_of_others(tmp_path: Path) -> None:
    """Queues are deleted and created while more I/O commands are in flight than there are slots."""
    traffic = generate(draw(51008, ("deep+queues",), 2400))
    trace = tmp_path / "one.wbt"
    trace.write_bytes(traffic.trace())
    stream = read(Playing(trace, []).stream()[0])
    found = judge(traffic.deeds, stream)
    assert found.lost_counted and found.wrong == found.unsaid == found.invented == 0, found
    admin = [account for account in stream.accounts if account.qid == 0 and not account.flags & ABORTED]
    assert len(admin) == 16 and not any(account.flags for account in admin)


def test_failed_commands_may_have_data_at_translated_addresses(tmp_path: Path) -> None:
    """SQs are deleted amid commands of a drive with ATS: what they moved belongs to nothing, and a failed command may lack data."""
    traffic = generate(draw(133756240233, ("queues+ats",), 200))
    assert any(deed.status and deed.first_data for deed in traffic.deeds)
    found = judge(traffic.deeds, played(traffic, tmp_path))
    assert found.silent == 0, found


@pytest.mark.parametrize("kind", ["unaligned", "list_pool", "list_chain", "mptr", "sgl_segments", "admin"])
def test_buffers_that_do_not_overlap_flag_nothing(kind: str, tmp_path: Path) -> None:
    traffic = generate(draw(9, (kind,), 120))
    found = judge(traffic.deeds, played(traffic, tmp_path))
    assert found.silent == found.flagged == 0, found


@pytest.mark.parametrize("pointer", [0, 0x7100_0000])
def test_data_of_a_feature_that_has_none_is_flagged(pointer: int, tmp_path: Path) -> None:
    """Set Features lends memory by CDW13 and CDW14 (NVMe, Host Memory Buffer). Where PRP1 names data all the same, the drive reads them."""
    traffic = generate(draw(11, ("hmb_bulk",), 30))
    number, body = next((k, row[3]) for k, row in enumerate(traffic.records) if is_lending(row))
    rows = list(traffic.records)
    rows[number] = (*rows[number][:3], body[:36] + pointer.to_bytes(8, "little") + body[44:])
    if pointer:
        at = rows[number][0]
        rows.append((at + 20_000, UP, 0, packets.memory(True, pointer, 2, 0x0100, 1023)))
        rows.append((at + 60_000, DOWN, 0, packets.completion(2, DEVICE, 0x0100, 1023, 8, 0) + bytes(8)))
        rows.sort(key=lambda row: row[0])
    trace = tmp_path / "one.wbt"
    trace.write_bytes(replace(traffic, records=rows).trace())
    accounts = [account for account in read(Playing(trace, []).stream()[0]).accounts if is_of_feature(account)]
    assert [bool(account.flags & DATA_PARTIAL) for account in accounts] == [pointer != 0]
    assert compare(trace)["caveat"] is None


def is_lending(row: tuple[int, int, int, bytes]) -> bool:
    """Whether a completion begins with the SQE of a Set Features that lends memory."""
    tlp = row[3]
    return row[1] == DOWN and tlp[0] == 0x4A and len(tlp) == 76 and tlp[12] == 0x09 and tlp[52] == 0x0D and tlp[56] & 1 == 1


@pytest.mark.parametrize(("kind", "opcode", "failed"), [("opcodes", 0x7A, False), ("opcodes", 0x0E, False), ("data_ca", 0x01, True)])
def test_data_against_the_direction_of_its_command_is_flagged(kind: str, opcode: int, failed: bool, tmp_path: Path) -> None:
    """The drive reads in the buffer of a command that brings data, or writes in one that takes data. No length shows it.

    NVMe, Opcode, bits 1:0: the lengths of 7Ah and 0Eh are not known here, and a failed write may move less than its length.
    """
    traffic = generate(draw(4, (kind,), 120))
    deed = next(d for d in traffic.deeds if d.opcode == opcode and d.qid and d.fetch and d.cqe and bool(d.status) == failed)
    assert deed.fetch is not None and deed.cqe is not None
    sqes = (row for row in traffic.records if row[1] == DOWN and row[3][0] == 0x4A and len(row[3]) == 76)
    cid = deed.cid.to_bytes(2, "little")
    sqe = next(row[3][12:] for row in sqes if deed.fetch <= row[0] <= deed.cqe and (row[3][12], row[3][14:16]) == (opcode, cid))
    pointer, before_ps = int.from_bytes(sqe[24:32], "little"), deed.cqe - 2000
    if opcode & 1:
        added = [(before_ps, UP, 0, packets.memory(False, pointer, 8, 0x0100) + bytes(32))]
    else:
        answer = packets.completion(32, DEVICE, 0x0100, 1023, 128, pointer & 0x7F) + bytes(128)
        added = [(deed.cqe - US, UP, 0, packets.memory(True, pointer, 32, 0x0100, 1023)), (before_ps, DOWN, 0, answer)]
    flags = []
    for rows in (traffic.records, sorted([*traffic.records, *added], key=lambda row: row[0])):
        stream = played(replace(traffic, records=rows), tmp_path)
        flags += [account.flags for found, account in match(traffic.deeds, stream.accounts)[0] if found is deed]
    assert flags == [0, DATA_PARTIAL]


def is_of_feature(account: Account) -> bool:
    """Whether a record is of such a command."""
    return account.qid == 0 and account.values["opcode"] == 0x09 and account.values["slba"] == 0x0D


def test_a_missed_reset_shows_at_a_doorbell(tmp_path: Path) -> None:
    """The tap misses how the host sets up the controller after a reset. The drive then reads no entry of the queues that are known."""
    traffic = generate(replace(draw(5, ("reset_en",), 400), queues=1, entries=16, depth=2, batch=1, polled=0.0, aers=0))
    writes = [row for row in traffic.records if row[1] == DOWN and is_register_write(traffic, row[3])]
    setups = [row[0] for row in writes if register(traffic, row[3]) == _AQA]
    first, second = setups[:2]
    begin = max(deed.reset for deed in traffic.deeds if deed.reset is not None and deed.reset < second) - 1
    rows = [row for row in traffic.records if not (begin <= row[0] and row[1] == DOWN and is_register_write(traffic, row[3]))]
    trace = tmp_path / "one.wbt"
    trace.write_bytes(replace(traffic, records=rows).trace())
    batches, _ = decode(play(trace, tmp_path, "--fidelity", "fast"))
    kinds, args = column(batches, "events", "type"), column(batches, "events", "arg8")
    resets = [arg for kind, arg in zip(kinds, args, strict=True) if kind == EventType.TRACKER_RESET]
    assert ResetCause.UNSEEN in resets, (first, second, resets)
    stream = read(Playing(trace, []).stream()[0])
    pairs, _, _ = match(traffic.deeds, stream.accounts)
    later = [account for deed, account in pairs if deed.doorbell is not None and deed.doorbell > begin]
    assert all(account.flags & (ABORTED | NO_SQE) for account in later)
    assert stream.status["unmatched"] > 20
    assert compare(trace)["caveat"] is None


def register(traffic: Traffic, tlp: bytes) -> int:
    """Offset in BAR0 of a memory request."""
    address = int.from_bytes(tlp[8:16] if tlp[0] & 0x20 else tlp[8:12], "big") & ~3
    return address - traffic.setup.bar


def is_register_write(traffic: Traffic, tlp: bytes) -> bool:
    """Whether a TLP of the host writes a register of the controller."""
    return tlp[0] in (0x40, 0x60) and 0 <= register(traffic, tlp) < 0x1000


@pytest.mark.parametrize("function", [1, 4])
def test_a_reset_of_another_function_ends_nothing(function: int, tmp_path: Path) -> None:
    """FLR, D3hot and D0 of another function amid traffic: all commands are right."""
    traffic = generate(draw(7, ("one_queue",), 60))
    rows = list(traffic.records)
    power, control = capability_places(rows)
    at = rows[len(rows) * 3 // 4][0] + 1000
    writes = ((power, 3, 0x3), (power, 0, 0x3), (control, 0x8000 | 0x2810, 0x3))
    for number, (place, value, enables) in enumerate(writes):
        header = packets.configuration(True, place, DEVICE, 0x0100 | function, 31, enables)
        rows.append((at + number * US // 10, DOWN, 0, header + value.to_bytes(4, "little")))
    rows.sort(key=lambda row: row[0])
    found = judge(traffic.deeds, played(replace(traffic, records=rows), tmp_path))
    assert found.silent == found.flagged == 0, found


def capability_places(rows: list[tuple[int, int, int, bytes]]) -> tuple[int, int]:
    """Registers with the power state and with Device Control, as the host read them."""
    asked, found = {}, {}
    for _, direction, _, tlp in rows:
        if direction == DOWN and tlp[0] == 0x04:
            asked[tlp[6]] = int.from_bytes(tlp[10:12], "big") & 0xFFC
        elif direction == UP and tlp[0] == 0x4A and tlp[10] in asked:
            place = asked.pop(tlp[10])
            if place >= 0x40:
                found.setdefault(tlp[12], place)
    return found[0x01] + 4, found[0x10] + 8


@pytest.mark.parametrize("seed", [7300, 7303, 7311])
def test_entries_read_twice_make_no_second_command(seed: int, tmp_path: Path) -> None:
    """The drive reads entries ahead in several requests, and again after their doorbell."""
    traffic = generate(draw(seed, ("prefetch",), 120))
    found = judge(traffic.deeds, played(traffic, tmp_path))
    assert found.silent == found.invented_flagged == found.overcounted == 0, found
