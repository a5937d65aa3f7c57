"""Set-ups and completions that belong together, and those that do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell.capture.hostcommands import HostCommands
from wattbell.capture.marking import Marking
from wattbell.hostlog.events import COMPLETE, SETUP, Events, Pairing, WantedCommands
from wattbell.wire.decode import Gap

from tests.host.fuzzing import examples

READ, WRITE, FLUSH, DSM = 2, 1, 0, 9
NAMES = ("ns", "kind", "controller", "qid", "cid", "opcode", "nsid", "lba", "cdw12", "status", "disk")
ALL = WantedCommands(0, 1, ("nvme0n1", "nvme0c0n1"))


def setup(ns: int, cid: int, **more: Any) -> dict[str, Any]:
    return {"ns": ns, "kind": SETUP, "cid": cid, "opcode": READ, "nsid": 1, **more}


def complete(ns: int, cid: int, **more: Any) -> dict[str, Any]:
    return {"ns": ns, "kind": COMPLETE, "cid": cid, **more}


def events(*rows: dict[str, Any]) -> Events:
    types = dict(zip(NAMES, ("i8", "u1", "i4", "i4", "u2", "u1", "u4", "u8", "u4", "u2", "S32")))
    default = {"qid": 1, "disk": b"nvme0n1"}
    return Events(**{name: np.array([row.get(name, default.get(name, 0)) for row in rows], kind) for name, kind in types.items()})


def table(commands: HostCommands) -> pl.DataFrame:
    found = pl.from_arrow(commands.table)
    assert isinstance(found, pl.DataFrame)
    return found


def pairs(commands: HostCommands) -> list[tuple[int | None, int]]:
    return table(commands).select("doorbell_tick", "cqe_tick").rows()


def test_a_command_has_the_shape_of_a_taps() -> None:
    found = Pairing(ALL).add(
        events(
            setup(10, 5, lba=0x1_2345_6789_ABCD, cdw12=0x8000_0007),
            setup(11, 6, opcode=DSM, lba=3 | 4 << 32),
            setup(12, 7, opcode=FLUSH, lba=99),
            setup(13, 8, qid=0, opcode=9, lba=2 | 4 << 32, nsid=0, disk=b""),
            complete(20, 5, status=0x4281),
            complete(21, 6),
            complete(22, 7),
            complete(23, 8, qid=0, disk=b""),
        )
    )
    rows = table(found).select("opcode", "qid", "cid", "status", "nsid", "slba", "blocks", "flags", "source", "instant_u_ns").rows()
    assert rows == [
        (READ, 1, 5, 0x4281, 1, 0x1_2345_6789_ABCD, 8, 0, 1, 1),
        (DSM, 1, 6, 0, 1, 0, 0, 0x80, 1, 1),
        (FLUSH, 1, 7, 0, 1, 0, 0, 0, 1, 1),
        (9, 0, 8, 0, 0, 2, 4, 0, 1, 1),
    ]
    assert table(found)["fetch_tick"].null_count() == 4


def test_a_reused_tag_is_another_command() -> None:
    first, second = 0x1005, 0x2005
    found = Pairing(ALL).add(events(setup(1, first), complete(2, first), setup(3, second), complete(4, second), setup(5, first)))
    assert pairs(found) == [(1, 2), (3, 4)]


def test_a_completion_of_an_earlier_use_of_the_tag_is_not_this_commands() -> None:
    pairing = Pairing(ALL)
    found = pairing.add(events(setup(1, 0x1005), complete(9, 0x3005)))
    assert pairs(found) == [(None, 9)] and table(found)["flags"].to_list() == [0x10]
    assert pairing.notes() == [
        "1 commands were set up and no completion followed: not submitted in the end, or the event is lost.",
        "1 completions are of commands whose set-up is not in the log (flag NO_SQE).",
    ]


def test_a_command_that_is_set_up_again_counts_from_the_second_time() -> None:
    pairing = Pairing(ALL)
    found = pairing.add(events(setup(1, 5), setup(4, 5), complete(9, 5)))
    assert pairs(found) == [(4, 9)] and pairing.unfinished == 1


def test_what_is_cut_at_the_ends_of_the_log() -> None:
    pairing = Pairing(ALL)
    found = pairing.add(events(complete(1, 3), setup(2, 4)))
    assert pairs(found) == [(None, 1)] and pairing.in_flight == 1
    assert pairs(pairing.add(events(complete(8, 4)))) == [(2, 8)]
    assert pairing.in_flight == 0


def test_queues_do_not_mix() -> None:
    found = Pairing(ALL).add(events(setup(1, 5), setup(2, 5, qid=2), complete(3, 5, qid=2), complete(4, 5)))
    assert pairs(found) == [(2, 3), (1, 4)]


def test_another_controller_and_another_namespace_stay_out() -> None:
    pairing = Pairing(ALL)
    found = pairing.add(
        events(
            setup(1, 5),
            setup(2, 5, controller=1),
            complete(3, 5, controller=1),
            complete(4, 5),
            setup(5, 6, nsid=2, disk=b"nvme0n2"),
            complete(6, 6, disk=b"nvme0n2"),
            complete(7, 9, disk=b"nvme0n2"),
            complete(8, 9, disk=b"nvme0c0n1", qid=3),
            setup(9, 1, qid=0, opcode=6, nsid=2, disk=b""),
            complete(10, 1, qid=0, disk=b""),
        )
    )
    assert pairs(found) == [(1, 4), (None, 8), (9, 10)]
    assert pairing.notes()[-1] == "3 commands of other namespaces or controllers are left out."
    whole = Pairing(WantedCommands(0)).add(events(setup(5, 6, nsid=2), complete(6, 6)))
    assert pairs(whole) == [(5, 6)]


def test_a_command_that_the_host_gave_up_has_no_cqe() -> None:
    found = Pairing(ALL).add(events(setup(1, 5), complete(9, 5, status=0x371), setup(2, 6), complete(8, 6, status=0x286)))
    assert table(found).select("cid", "flags").rows() == [(6, 0), (5, 0x08)]


def test_markers_stand_at_the_start_also_of_a_command_whose_completion_is_lost() -> None:
    def marker(ns: int, cid: int, value: int) -> dict[str, Any]:
        return setup(ns, cid, qid=0, opcode=0x0A, lba=0xD0 | value << 32, nsid=0xFFFFFFFF, disk=b"")

    pairing = Pairing(ALL)
    found = pairing.add(events(marker(1, 5, 0x101), complete(2, 5, qid=0, status=0x4002), marker(3, 6, 0x102)))
    assert found.markers == [(1, 0x101)]
    assert pairing.end().markers == [(3, 0x102)]
    other = Pairing(ALL, marking=Marking(6, 0xEF))
    found = other.add(
        events(setup(1, 5, qid=0, opcode=6, lba=0xEF | 7 << 32), complete(2, 5, qid=0), marker(3, 6, 1), complete(4, 6, qid=0))
    )
    assert found.markers == [(1, 7)]


def test_what_is_lost_is_counted_and_doubted() -> None:
    lost = [Gap(None, 3, 6, 11, "overran")]
    found = Pairing(ALL).add(events(setup(1, 1), complete(2, 1), setup(2, 2), complete(9, 2), complete(7, 3)), lost)
    (gap,) = found.lost
    # one of the eleven is the set-up of a completion that is there
    assert (gap.first_tick, gap.last_tick, gap.count) == (3, 6, 5) and gap.kind is not None
    assert table(found).select("cid", "flags").rows() == [(1, 0), (3, 0x10), (2, 0x40)]


@examples(200)
@given(st.data())
def test_in_any_interleaving_and_in_any_pieces_every_command_is_found(data: st.DataObject) -> None:
    """A driver with a few tags a queue: a tag has one command in flight, its count goes up with each use."""
    rows: list[dict[str, Any]] = []
    expected: list[tuple[int, int]] = []
    flying: dict[tuple[int, int], tuple[int, int]] = {}
    uses: dict[tuple[int, int], int] = {}
    for ns in range(1, data.draw(st.integers(1, 60))):
        key = (data.draw(st.integers(0, 2)), data.draw(st.integers(0, 3)))
        if key in flying:
            begun, cid = flying.pop(key)
            rows.append(complete(ns, cid, qid=key[0]))
            expected.append((begun, ns))
        else:
            uses[key] = (uses.get(key, -1) + 1) % 16
            cid = uses[key] << 12 | key[1]
            rows.append(setup(ns, cid, qid=key[0], opcode=READ))
            flying[key] = (ns, cid)
    pairing, found = Pairing(ALL), []
    while rows:
        cut = data.draw(st.integers(1, len(rows)))
        part, rows = rows[:cut], rows[cut:]
        found += pairs(pairing.add(events(*data.draw(st.permutations(part)))))
    assert sorted(found) == sorted(expected)
    assert pairing.in_flight == len(flying) and pairing.unfinished == pairing.unstarted == 0


def test_no_events_make_no_commands() -> None:
    assert len(Pairing(ALL).add(events())) == 0


def test_queues_above_255_are_told() -> None:
    pairing = Pairing(ALL)
    found = pairing.add(events(setup(1, 5, qid=300), complete(2, 5, qid=300)))
    assert table(found)["qid"].to_list() == [255] and "255" in pairing.notes()[0]
    with pytest.raises(IndexError):
        _ = pairing.notes()[1]
