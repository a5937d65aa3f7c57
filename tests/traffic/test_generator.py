"""The generator is legal: every TLP by the rules of PCIe, CQEs by the rules of NVMe; and a tap by another author sees the truth's
instants."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from wattbell_spec.nvme import admin

from tests.sim.guest.tap import Tap
from tests.traffic.follower import Follower
from tests.traffic.generate import Traffic, generate
from tests.traffic.kinds import KINDS, draw
from tests.traffic.link import encode
from tests.traffic.orders import Order
from tests.traffic.truth import INSTANTS, Deed

SEED = 7
ODD_CQES = ("cqe_halves",)
"""Kinds with CQEs that the follower does not take apart."""


def made(kind: str, seed: int = SEED) -> Traffic:
    """A short trace of one kind."""
    while len((setup := draw(seed, (kind,), 80)).kinds) > 1:
        seed += 1000
    setup.commands = min(setup.commands, 400)
    return generate(setup)


@pytest.mark.parametrize("kind", KINDS)
def test_every_tlp_is_legal(kind: str) -> None:
    """Lengths, 4 KiB, tags in flight, sums of completions, RCB; order, phase and room of the admin CQ's CQEs."""
    traffic = made("base" if kind == "late" else kind)
    follower = Follower(traffic.setup, kind not in ODD_CQES)
    follower.follow(traffic.records)
    assert follower.counts["cqes"] >= 5 or kind in ODD_CQES
    assert (follower.counts["prefixes"] > 50) == (kind == "pasid")
    assert follower.counts["tlps"] > 400 and follower.counts["reads"] > 80


CORNERS: dict[str, dict[str, Any]] = {
    "completions cut at RCB": {"unaligned": True, "rcb": 128, "mps": 256, "mrrs": 4096, "completions": "most", "lengths": (16384,)},
    "addresses around 4 GiB": {"zones": ((3 << 30, 4 << 30), (4 << 30, 5 << 30))},
    "SQ read over a page's end": {
        "fetch_burst": 16,
        "mrrs": 4096,
        "batch": 16,
        "depth": 60,
        "entries": 128,
        "think": 1,
        "parallel": 64,
        "commands": 500,
    },
    "CQ full": {"cq_entries": 3, "depth": 16, "batch": 8, "parallel": 64, "media": 1, "think": 1, "irq_delay": 100_000_000},
    "few tags": {"tag_count": 2, "burst": 8, "depth": 16, "mrrs": 128},
}
"""Set-ups in which a rule decides that others seldom need."""


@pytest.mark.parametrize("corner", CORNERS)
def test_corners_are_legal(corner: str) -> None:
    """The same, where the rules bind."""
    setup = replace(draw(SEED, ("one_queue",), 80), aers=0, **{"entries": 64, "commands": 80, **CORNERS[corner]})
    traffic = generate(setup)
    follower = Follower(setup)
    for deed in traffic.deeds:
        if deed.qid == 0 and deed.opcode == admin("create_io_cq"):
            follower.due.append((deed.cqe or 0, deed.slba & 0xFFFF, (deed.slba >> 16) + 1))
    follower.follow(traffic.records)
    assert follower.counts["cqes"] > 80


@pytest.mark.parametrize("kind", KINDS)
def test_instants_of_a_command_are_in_order(kind: str) -> None:
    """Doorbell, fetch, data, CQE, message, CQ head doorbell: no later one comes first (NVMe, Queue Usage)."""
    traffic = made(kind)
    assert traffic.deeds
    for deed in traffic.deeds:
        order = [getattr(deed, name) for name in ("doorbell", "fetch", "first_data", "last_data", "cqe")]
        there = [value for value in order if value is not None]
        assert there == sorted(there), deed
        for name in ("interrupt", "head"):
            value = getattr(deed, name)
            assert value is None or (deed.cqe or 0) < value, deed


def test_a_seed_gives_one_trace() -> None:
    """The same seed gives the same bytes and the same truth; another seed gives others."""
    one, two, other = made("base"), made("base"), made("base", SEED + 1)
    assert one.trace() == two.trace() and one.deeds == two.deeds
    assert one.trace() != other.trace()


WITH_MANY_DELETED = (6, 16, 18)
"""Seeds of traces that delete queues with several commands in flight."""


def test_the_trace_does_not_depend_on_places_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """An order has the hash of its place in memory, which another process makes another one. Other hashes give the same trace."""
    traces = []
    for salt in (1, 2):
        monkeypatch.setattr(Order, "__hash__", lambda order, salt=salt: hash((salt, order.deed.cid)))
        traces.append([generate(draw(seed, ("queues",), 300)).trace() for seed in WITH_MANY_DELETED])
    assert traces[0] == traces[1]


def test_every_instant_is_that_of_a_tlp() -> None:
    """Each instant of the truth is the time of a TLP of the direction that can carry it."""
    traffic = made("base")
    times = {kind: {record[0] for record in traffic.records if record[1] == kind} for kind in (1, 2)}
    where = {"doorbell": 1, "fetch": 2, "cqe": 2, "interrupt": 2, "head": 1}
    for deed in traffic.deeds:
        for name, direction in where.items():
            value = getattr(deed, name)
            assert value is None or value in times[direction], (name, deed)


@pytest.mark.parametrize(
    "kind", ["base", "lba4096", "list_pool", "list_chain", "list_overread", "opcodes", "admin", "sgl_segments", "remapped"]
)
def test_a_tap_by_another_author_sees_the_same(kind: str, tmp_path: Path) -> None:
    """tests/sim/guest/tap.py, written for the guest's traces, finds each command with the truth's doorbell, fetch and CQE."""
    seed = SEED
    while (setup := draw(seed, (kind,), 80)).kinds != (kind,):
        seed += 1000
    setup.bar, setup.dstrd = 0xDF00_0000, 0
    setup.polled, setup.remapped = 0.0, kind == "remapped"
    traffic = generate(setup)
    records = [record for record in traffic.records if record[1] > 2 or record[3][0] not in (0x30, 0x34, 0x70, 0x74)]
    trace = tmp_path / "one.wbt"
    trace.write_bytes(encode(records, {"notes": []}, traffic.end))
    tap = Tap(trace)
    seen = sorted((one.sqid, one.cid, one.doorbell_ps, one.fetch_ps, one.cqe_ps, one.status) for one in tap.commands if one.cqe_ps)
    due = sorted((one.qid, one.cid, one.doorbell, one.fetch, one.cqe, one.status) for one in traffic.deeds if one.cqe)
    assert seen == due and len(seen) > 80
    assert tap.lone_completions == 0


def test_link_down_forgets_what_was_due() -> None:
    """Instants behind the end of a link are none; the data's span ends before."""
    deed = Deed(0, 1, 2, 2, 1, 0, 8, doorbell=10, fetch=20, cqe=90, interrupt=95, pieces=[30, 50, 80], named=25)
    deed.lacks_after(60)
    deed.reset = 60
    deed.settle()
    assert [getattr(deed, name) for name in INSTANTS] == [10, 20, 30, 50, None, None, None]
