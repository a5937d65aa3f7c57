"""NVMe traffic of a bus trace through lanes, receivers and instrument, and the same TLPs into the instrument alone."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.gateware import blockparser
from tests.gateware.lanes import judge
from tests.gateware.lanes import lane_player as lp
from tests.gateware.lanes.bus_trace import Timed
from tests.gateware.lanes.sender import BIT_PS, Copy, Sender, Wiring
from tests.host.wire import encoder

START = 4000
"""Tick at which the links begin to train."""
TIMES = ("cqe_tick", *(name for name, _ in encoder.COMMAND[1:7]))


@dataclass
class Faults:
    """Faults: `errors`, `heard` as in :class:`Sender`; `replays`, `spoilt`, `acks` per TLP; TLPs per retraining; a hot reset."""

    errors: float = 0.0
    heard: float = 1.0
    replays: float = 0.0
    spoilt: float = 0.0
    acks: float = 0.3
    retrain_every: int = 0
    hot_reset: bool = False
    """One behind the last TLP."""
    wired: bool = False
    """Any skew, polarity and order of the lanes."""


@dataclass
class Sent:
    """Both directions, and for each TLP the copy that the other end accepted."""

    senders: tuple[Sender, Sender]
    accepted: tuple[list[Copy], list[Copy]] = field(default_factory=lambda: ([], []))

    def clean(self, direction: int) -> list[tuple[int, bytes]]:
        """Return the TLPs as seen by a tap without lanes. Ticks are available after a call of :meth:`Sender.wires`."""
        return [(copy.tick, copy.raw) for copy in self.accepted[direction]]


def send(tlps: Iterable[Timed], speed: str, lanes: int, *, seed: int, faults: Faults = Faults()) -> Sent:  # noqa: B008
    """Send TLPs in the order of the trace, both directions together: none begins before the previous one, however slow the link."""
    r = random.Random(seed)
    sent = Sent(
        tuple(
            Sender(
                speed,
                lanes,
                seed=r.getrandbits(32),
                tick=START,
                errors=faults.errors,
                heard=faults.heard,
                wiring=Wiring.some(r, lanes, speed) if faults.wired else None,
            )
            for _ in range(2)
        )
    )
    bit = BIT_PS[speed]
    late = [s.wiring.late[0] * bit for s in sent.senders]
    begin = max(s.now_ps() for s in sent.senders) + 1_000_000
    before = 0
    for number, (ns, direction, raw) in enumerate(tlps):
        sender = sent.senders[direction]
        if r.random() < faults.acks:  # not before the last arrival
            other = sent.senders[1 - direction]
            other.wait_until(before - late[1 - direction])
            other.acknowledge()
        if r.random() < faults.replays and sender.serial:
            sender.replay(r.randrange(1, 12))
        if r.random() < faults.spoilt:
            r.choice([sender.nullify, sender.spoil])()
        sender.wait_until(max(begin + ns * 1000, before + 1000) - late[direction])
        copy = sender.deliver(raw)
        before = sender.stretch.tick * 1000 + copy.first * bit + late[direction]
        sent.accepted[direction].append(copy)
        if faults.retrain_every and number % faults.retrain_every == faults.retrain_every - 1:
            for each in sent.senders:
                each.retrain()
    end = max(s.now_ps() for s in sent.senders)
    for each in sent.senders:
        each.wait_until(end)
        if faults.hot_reset:
            each.hot_reset()
        each.finish()
    return sent


@dataclass
class Played:
    """Records and events with and without the lanes, and the receivers' results."""

    sent: Sent

    lanes: lp.Run
    alone: lp.Run
    tallies: list[judge.Tally]


def play(player: Path, sent: Sent, folder: Path, *, after_ns: int = 120_000) -> Played:
    """Play through the lanes, judged by :func:`judge.judge`, and bypassing them.

    The capture ends half of `after_ns` before the player: a stop takes 33 us, and the rest has to be sent.
    """
    ends = []
    for name, sender in zip(("down", "up"), sent.senders):
        ends.append(lp.write_lanes(folder / f"{name}.lanes", sender.wires(), reverse=sender.wiring.reverse))
    for direction, name in enumerate(("down", "up")):
        lp.write_tlps(folder / f"{name}.tlps", sent.clean(direction))
    end = max(ends) // 4 * 4 + after_ns
    script = lp.Script(end=end, stop=end - after_ns // 2)
    if sent.senders[0].rate:
        script.without_link_events()
    runs = [lp.play(player, mode, folder / f"down.{mode}", folder / f"up.{mode}", script, folder / mode) for mode in ("lanes", "tlps")]
    tallies = [judge.judge(sender, runs[0].tlps[d], runs[0].events[d], runs[0].counters[d]) for d, sender in enumerate(sent.senders)]
    return Played(sent, *runs, tallies)


def records(stream: bytes, *, whole: bool = True) -> list[dict[str, int]]:
    """Return command records in stream order, with the tick of the CQE in place of its offset. `whole`: none was dropped."""
    out = []
    for block in blockparser.blocks(stream):
        if block.kind == blockparser.COMMANDS:
            assert not whole or block.dropped == 0
            out += [vars(command) for command in encoder.unpacked(block.payload, block.first_tick)]
    return out


def events(stream: bytes) -> list[blockparser.Event]:
    """Return events in stream order."""
    return [event for block in blockparser.blocks(stream) if block.kind == blockparser.EVENTS for event in blockparser.events(block)]


def command_bytes(stream: bytes) -> bytes:
    """Return ticks and payloads of all COMMANDS blocks."""
    return b"".join(struct.pack("<Q", b.first_tick) + b.payload for b in blockparser.blocks(stream) if b.kind == blockparser.COMMANDS)
