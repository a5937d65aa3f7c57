"""Judgement of a tap's output against the output of :class:`sender.Sender`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from tests.gateware.lanes.lane_player import Delivered, Told
from tests.gateware.lanes.sender import Sender

REMEMBERED = 64
"""Distance behind the newest TLP up to which a lost TLP is still accepted when replayed (docs/phy.md)."""


@dataclass
class Tally:
    """One direction, in TLPs.

    - `copies`: sent over the link, replays included.
    - `lost`: none of their copies delivered.
    - `late`: delivered from a replay.
    - `excused`: intact copies not delivered because of an error before them.
    """

    sent: int = 0
    copies: int = 0
    damaged: int = 0
    delivered: int = 0
    duplicates: int = 0
    lost: int = 0
    late: int = 0
    excused: int = 0
    spoilt: int = 0
    nullified: int = 0

    def __iadd__(self, other: Tally) -> Tally:
        for field in fields(Tally):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
        return self


def judge(sender: Sender, tlps: Iterable[Delivered], events: Iterable[Told], counters: dict[str, int]) -> Tally:
    """Check that every delivered TLP was sent, is intact, unique and at its tick.

    Every intact copy was delivered or reported as a duplicate, unless an error just before it explains its absence. Missing TLPs
    are counted. Without bit errors every DLLP came too, at its tick.
    """
    events = list(events)
    copies = sender.copies
    of_tick = {copy.tick: copy for copy in copies}
    assert len(of_tick) == len(copies)
    delivered: dict[int, int] = {}
    for number, (tick, _, raw) in enumerate(tlps):
        copy = of_tick.get(tick)
        assert copy is not None, f"phantom TLP {number} at {tick}: {raw.hex()}"
        assert raw == copy.raw, f"TLP {number} at {tick} is not what was sent: {raw.hex()}, {copy}"
        assert copy.serial not in delivered, f"delivered twice: {copy}"
        delivered[copy.serial] = tick
    duplicates = {told.tick for told in events if told.kind == "DUPLICATE"}
    came = duplicates | set(delivered.values())
    excused = _missing_are_excused(sender, came, delivered)
    tally = Tally(
        sent=sender.serial,
        copies=len(copies),
        damaged=sum(c.damaged for c in copies),
        delivered=len(delivered),
        duplicates=len(duplicates),
        lost=sender.serial - len(delivered),
        late=counters["late"],
        excused=excused,
        spoilt=sender.spoilt,
        nullified=sender.nullified,
    )
    assert counters["tlps"] == len(delivered) and counters["duplicates"] == len(duplicates)
    assert counters["dropped"] == counters["lost_events"] == 0, counters
    if not sender.rate:
        _dllps_came(sender, events)
        assert counters["dllps"] == len(sender.dllps) and counters["bad_dllps"] == 0, (counters, len(sender.dllps))
    behind_the_last = sender.serial - 1 - max(delivered, default=-1)
    assert counters["lost"] - counters["late"] == tally.lost - behind_the_last, (counters, tally)
    return tally


def _dllps_came(sender: Sender, events: Iterable[Told]) -> None:
    """Check DLLPs by PCIe Base 2.1, table 3-1 and figure 3-7: type in the first byte; the 12 bits of the sequence number at the end
    of an Ack or Nak.
    """
    kinds = {0x00: "ACK", 0x10: "NAK"}
    sent = [(tick, kinds[body[0]], body[2] % 16 * 256 + body[3]) for tick, body in sender.dllps if body[0] in kinds]
    assert [(told.tick, told.kind, told.argument) for told in events if told.kind in kinds.values()] == sent


def _missing_are_excused(sender: Sender, came: set[int], delivered: dict[int, int]) -> int:
    excused, newest = 0, -1
    for stretch in sender.stretches:
        wrong, since = stretch.errors, 0
        for copy in stretch.copies:
            if copy.tick in came:
                since = copy.behind
                newest = max(newest, copy.serial)
                continue
            if copy.damaged:
                continue
            too_old = copy.serial not in delivered and newest - copy.serial >= REMEMBERED
            explained = copy.excused if stretch.speed != "8" else wrong.any(since, copy.first)
            assert too_old or explained, f"missing: {copy}"
            excused += 1
    return excused


__all__ = ["Tally", "judge"]
