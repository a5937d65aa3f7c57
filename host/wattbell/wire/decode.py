"""The streaming decoder: bytes in, numpy columns out, every loss counted, no exception for any input.

Framing is in :mod:`.framing`, the tracking of sequence numbers in :mod:`.sequence`, the records in :mod:`.records`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wattbell_spec import wire as spec

from .framing import Block, BlockFramer, crc32
from .records import (
    Buffer,
    CommandRecords,
    EventRecords,
    RailRecords,
    Statuses,
    Tlps,
    decode_commands,
    decode_events,
    decode_links,
    decode_rail,
    decode_status,
    events_near,
    rail_payload_ok,
    split_tlps,
    status_tick_ps,
)
from .sequence import Arrival, SequenceTracker, near

__all__ = ["Batch", "Counters", "Gap", "StreamDecoder", "crc32"]

_HELD = 4
_SLACK_TICKS = 100 * spec.FLUSH_TICKS
"""Ticks by which a block's first tick may lag behind an earlier block's of the same run.

Blocks of one kind wait for blocks of another, but never a second.
"""
_REMEMBERED = 2 * spec.SEQUENCE_WINDOW
"""Number of accepted blocks with a remembered CRC, to distinguish a repeated block from a restarted rig's."""
_LAST_TICK = spec.LAST_TICK
_SILENT_TICKS = spec.STATUS_PERIOD_TICKS + _SLACK_TICKS
"""How far the next block may lie ahead: a rig that captures sends a STATUS in every period."""
_PAUSE_TICKS = 60 * _SLACK_TICKS
"""Longest silence of a rig on a stalled line that is believed without the host's clock. Behind a longer one a new epoch begins."""
_CLOCKS_DIFFER = 1000
"""Two clocks differ by less than one part in so many."""
_MOST_TICK_PS = 1_000_000_000
"""A millisecond: no clock of a rig is slower."""
_PIECE = 1 << 19
"""Larger pieces fall out of the cache and cost page faults: half the speed."""


@dataclass(frozen=True)
class Gap:
    """An interval in which something is missing.

    ``kind`` is None if blocks of unknown kind are missing. ``count`` is the number of missing records (rail: samples), or
    of blocks where `kind` is None; -1 if unknown. The interval is conservative: an open block may have begun
    ``FLUSH_TICKS`` before it would have been sent.
    """

    kind: spec.BlockContent | None
    first_tick: int
    last_tick: int
    count: int
    reason: str


@dataclass
class Counters:
    """Counts of received and lost data. ``bytes_in`` = ``bytes_accepted`` + ``skipped_bytes`` + bytes pending."""

    bytes_in: int = 0
    bytes_accepted: int = 0
    skipped_bytes: int = 0
    """Bytes that belong to no accepted block."""
    blocks: int = 0
    """Blocks with a good CRC, duplicates included."""
    bad_crc: int = 0
    """Headers with a bad CRC: damaged blocks, and false magics found while searching."""
    missing_blocks: int = 0
    """Sequence numbers that have not arrived (so far)."""
    late_blocks: int = 0
    """Blocks that arrived after a later one; their records are kept."""
    duplicate_blocks: int = 0
    """Blocks that arrived again with the same CRC; dropped."""
    implausible_blocks: int = 0
    """Blocks that fit neither sequence, ticks nor run of the others, and that no other block confirmed; dropped."""
    unknown_kind: int = 0
    unknown_version: int = 0
    malformed_blocks: int = 0
    """Blocks with a good CRC and a bad payload: not a whole number of records, or a record at an impossible time."""
    restarts: int = 0
    """Number of times the rig restarted its counter."""
    dropped: dict[str, int] = field(default_factory=lambda: {kind.name: 0 for kind in spec.BlockContent})
    """Per kind: records (rail: samples) that the rig itself reports as lost."""

    @property
    def lossless(self) -> bool:
        """True when nothing is known to be missing or damaged."""
        damaged = self.skipped_bytes or self.bad_crc or self.missing_blocks or self.malformed_blocks
        damaged = damaged or self.implausible_blocks
        unread = self.unknown_kind or self.unknown_version
        return not (damaged or unread or any(self.dropped.values()))


@dataclass
class Batch:
    """Result of one call of :meth:`StreamDecoder.feed`; a kind that did not occur is None."""

    epoch: int = 0
    """Number of rig restarts before these records: ticks of different epochs do not compare."""
    commands: CommandRecords | None = None
    rail: RailRecords | None = None
    events: EventRecords | None = None
    tlps: Tlps | None = None
    status: Statuses | None = None
    links: Statuses | None = None
    gaps: list[Gap] = field(default_factory=list)
    last_tick: int = 0
    """Largest first tick of any block so far."""


class _Pending:
    """Payloads of one batch, by kind, as views into the buffer."""

    def __init__(self) -> None:
        self.commands: list[Buffer] = []
        self.command_ticks: list[int] = []
        self.rail: list[Buffer] = []
        self.rail_ticks: list[int] = []
        self.rail_dropped: list[int] = []
        self.events: list[Buffer] = []
        self.status: list[Buffer] = []
        self.status_ticks: list[int] = []
        self.links: list[Buffer] = []
        self.link_ticks: list[int] = []
        self.tlps = Tlps()

    def batch(self, epoch: int, gaps: list[Gap], last_tick: int) -> Batch | None:
        """Columns of everything collected, or None if there is nothing."""
        batch = Batch(epoch, gaps=gaps, last_tick=last_tick)
        if self.commands:
            batch.commands = decode_commands(self.commands, self.command_ticks)
        if self.rail:
            batch.rail = decode_rail(self.rail, self.rail_ticks, self.rail_dropped)
        if self.events:
            batch.events = decode_events(self.events)
        if self.status:
            batch.status = decode_status(self.status, self.status_ticks)
        if self.links:
            batch.links = decode_links(self.links, self.link_ticks)
        if self.tlps:
            batch.tlps = self.tlps
        filled = batch.commands or batch.rail or batch.events or batch.status or batch.links or batch.tlps or gaps
        return batch if filled else None


class StreamDecoder:
    """Decodes a byte stream that may start anywhere and be damaged anywhere.

    Feed it bytes as they arrive, in pieces of any size; some hundred KiB at a time are fastest. Call :meth:`finish` when no
    more will come.
    """

    def __init__(self) -> None:
        self.pauses: list[int] = []
        """Sequence numbers of the blocks that followed a longer silence than :data:`_PAUSE_TICKS`, which the host's clock had confirmed. To
        be set before a stream is decoded again."""
        self._now_ns: int | None = None
        self._accepted_ns: int | None = None
        """When the host had the last block that was accepted."""
        self._lag: tuple[int, int] | None = None
        """The least time, ns, by which the host's clock was ahead of the ticks of a block that came, and when that was. A block comes no
        sooner than its tick: a recorder that was held up finds old blocks, which came late, and then new ones."""
        self._tick_ps = 0
        """Tick in ps from a STATUS; 0: none came yet."""
        self._framer = BlockFramer()
        self._sequence = SequenceTracker()
        self._counters = Counters()
        self._last_tick = -1
        self._epoch = 0
        self._run: int | None = None
        """Identifier of the current run."""
        self._restart_possible = False
        self._held: list[Block] = []
        """Blocks that do not fit what came before (or the very first one), held until another confirms them."""
        self._remembered = [-1] * _REMEMBERED
        """Sequence number and CRC of accepted blocks."""
        self._skipped_at_block = 0
        """Bytes skipped before the last accepted block."""
        self._kind_tick: dict[int, int] = {}
        self._gaps: list[Gap] = []
        self._pending = _Pending()
        self._done: list[Batch] = []

    @property
    def counters(self) -> Counters:
        """Counters so far."""
        counters, framer = self._counters, self._framer
        counters.bytes_in, counters.bytes_accepted = framer.bytes_in, framer.bytes_accepted
        counters.skipped_bytes, counters.bad_crc = framer.skipped_bytes, framer.bad_crc
        counters.missing_blocks = self._sequence.missing
        counters.late_blocks = self._sequence.late
        counters.duplicate_blocks = self._sequence.duplicates
        return counters

    @property
    def pending_bytes(self) -> int:
        """Bytes held back until more arrive."""
        return self._framer.pending_bytes

    def feed(self, data: Buffer, now_ns: int | None = None) -> list[Batch]:
        """Decode what `data` completes: no batch, one, or several (a large piece is decoded in parts). ``now_ns``: the host's clock."""
        self._now_ns = now_ns
        if len(data) <= _PIECE:
            return self._decode(self._framer.feed(data))
        view = memoryview(data)
        parts = (view[start : start + _PIECE] for start in range(0, len(data), _PIECE))
        return [batch for part in parts for batch in self._decode(self._framer.feed(part))]

    def reconnected(self) -> list[Batch]:
        """Note that the line was cut and is back: pending bytes will not be continued, and the rig may have restarted.

        The rig has restarted if the next block is of another run, or lies behind earlier blocks by number or tick. Sequence numbers and
        ticks then begin again, in a new epoch.
        """
        batches = self._decode(self._framer.finish(), final=True)
        self._restart_possible = True
        return batches

    def finish(self) -> list[Batch]:
        """End the stream: decode the rest and close the holes. Blocks that arrive late after this count as duplicates."""
        batches = self._decode(self._framer.finish(), final=True)
        self._sequence.finish()
        self._collect_holes()
        if self._framer.skipped_bytes > self._skipped_at_block:
            self._note_unread("bytes at the end are no whole block")
        if self._gaps:
            batches.append(Batch(self._epoch, gaps=self._take_gaps(), last_tick=max(self._last_tick, 0)))
        return batches

    def _decode(self, blocks: list[Block], *, final: bool = False) -> list[Batch]:
        tracker, remembered = self._sequence, self._remembered
        self._counters.blocks += len(blocks)
        for block in blocks:
            version, kind, sequence, dropped, tick, run, payload, crc, skipped = block
            odd = sequence != tracker.expected or run != self._run or self._held or self._restart_possible
            if odd or not -_SLACK_TICKS <= tick - self._last_tick <= _SILENT_TICKS:
                self._judge(block)
                continue
            tracker.expected = (sequence + 1) & 0xFFFFFFFF
            remembered[sequence % _REMEMBERED] = sequence << 32 | crc
            if kind != 1 or dropped or version != spec.VERSION or tick > _LAST_TICK or len(payload) % 44:
                self._file(block)
                continue
            # nearly all of a busy stream: COMMANDS with nothing special; does the same as _file
            self._kind_tick[1] = tick
            self._skipped_at_block = skipped
            if tick > self._last_tick:
                self._last_tick = tick
            self._pending.commands.append(payload)
            self._pending.command_ticks.append(tick)
        if final and self._held:
            *strays, last = self._held
            self._held = []
            self._refuse(len(strays))
            if self._sequence.expected is None or not self._known(last):
                self._settle(last)
            else:
                self._refuse(1)
        if blocks and not self._held:
            self._note_arrival()
        self._collect_holes()
        self._publish()
        done, self._done = self._done, []
        return done

    def _judge(self, block: Block) -> None:
        """Accept, hold or refuse a block that is not simply the next one."""
        tracker = self._sequence
        _, _, sequence, _, tick, run, _, crc, _ = block
        if tick > _LAST_TICK:
            self._file(block)  # for its counter
            if sequence == tracker.expected and run == self._run:
                tracker.expected = (sequence + 1) & 0xFFFFFFFF
            return
        if self._restart_possible:
            self._restart_possible = False
            # a rig that was only unplugged carries on: no number repeats
            fits = run == self._run and tick >= self._last_tick - _SLACK_TICKS
            if tracker.expected is not None and not (fits and tracker.is_ahead(sequence)):
                self._begin_epoch(block)
                self._file(block)
                return
        believed = tracker.expected is not None and run == self._run and near(sequence, tracker.expected)
        came = believed and self._remembered[sequence % _REMEMBERED] == sequence << 32 | crc
        if came or any(held[2] == sequence and held[7] == crc for held in self._held):
            tracker.duplicates += 1
            return
        believed = believed and self._fits(sequence, tick)
        confirmed = None if believed else next((held for held in self._held if _confirms(held, block)), None)
        if confirmed is None and not believed:
            self._held.append(block)
            if len(self._held) > _HELD:
                del self._held[0]
                self._refuse(1)
            return
        strays = len(self._held) - (confirmed is not None)
        self._held = []
        if strays:
            self._refuse(strays)
        if confirmed is not None:
            self._settle(confirmed)
        if tracker.arrive(sequence, self._last_tick, tick) is Arrival.DUPLICATE:
            self._refuse(1)
        else:
            self._file(block)

    def _fits(self, sequence: int, tick: int) -> bool:
        """Return whether a block of this run near the expected number is plausible by its tick and by the blocks around its number."""
        hole = self._sequence.hole_of(sequence)
        if hole is not None:
            before, behind = hole
            return before - _SLACK_TICKS <= tick <= behind + _SLACK_TICKS
        return self._sequence.is_ahead(sequence) and -_SLACK_TICKS <= tick - self._last_tick <= self._silence(sequence)

    def _goes_on(self, sequence: int, tick: int) -> bool:
        """Whether the counter of a block that others confirm is the one of the blocks before it. Where the rig was silent for long, the
        host's clock must have seen as much time."""
        ahead = tick - self._last_tick
        if -_SLACK_TICKS <= ahead <= max(_PAUSE_TICKS, self._silence(sequence)) or sequence in self.pauses:
            return True
        if self._now_ns is None or self._accepted_ns is None:
            return False
        waited = (self._now_ns - self._accepted_ns) * 1000 // (self._tick_ps or spec.TICK_PS)
        if self._lag is not None:
            held_up_ns = self._now_ns - self._lag[0] - self._ns(self._last_tick)
            waited = max(waited, held_up_ns * 1000 // (self._tick_ps or spec.TICK_PS))
        if not 0 <= ahead <= waited + _SLACK_TICKS:
            return False
        self.pauses.append(sequence)
        return True

    def _ns(self, tick: int) -> int:
        return tick * (self._tick_ps or spec.TICK_PS) // 1000

    def _note_arrival(self) -> None:
        """The blocks so far have come by now."""
        self._accepted_ns = now = self._now_ns
        if now is None:
            self._lag = None
            return
        lag = now - self._ns(self._last_tick)
        if self._lag is None or lag <= self._lag[0] + (now - self._lag[1]) // _CLOCKS_DIFFER:
            self._lag = lag, now

    def _silence(self, sequence: int) -> int:
        """How far a block may lie ahead of the last one: each missing block may have been the STATUS of its period."""
        assert self._sequence.expected is not None
        return _SILENT_TICKS + (sequence - self._sequence.expected) % (1 << 32) * spec.STATUS_PERIOD_TICKS

    def _known(self, block: Block) -> bool:
        """Whether a held block that nothing confirmed contradicts what already came under its number in this run."""
        assert self._sequence.expected is not None
        return block[5] == self._run and near(block[2], self._sequence.expected)

    def _settle(self, held: Block) -> None:
        """Accept a held block: the very first one, the far side of a long hole, or the first of a restarted rig."""
        _, _, sequence, _, tick, run, _, _, skipped = held
        if self._sequence.expected is None:
            self._run = run
            self._sequence.begin(sequence, tick)
            if skipped:
                self._gaps.append(Gap(None, max(tick - spec.FLUSH_TICKS, 0), tick, -1, "bytes at the beginning are no whole block"))
        elif run != self._run or not self._sequence.is_ahead(sequence) or not self._goes_on(sequence, tick):
            self._begin_epoch(held)
        else:
            if tick - self._last_tick > self._silence(sequence):
                self._gaps.append(Gap(None, max(self._last_tick, 0), tick, -1, "the rig was silent longer than it ever is"))
            self._sequence.jump(sequence, self._last_tick, tick)
        self._file(held)

    def _refuse(self, blocks: int) -> None:
        """Drop blocks that nothing confirmed. If they were real, their contents are missing from about now."""
        if blocks:
            self._counters.implausible_blocks += blocks
            self._note_unread("blocks that fit nothing around them")

    def _note_unread(self, reason: str) -> None:
        last = max(self._last_tick, 0)
        self._gaps.append(Gap(None, max(last - _SLACK_TICKS, 0), last + spec.FLUSH_TICKS, -1, reason))

    def _publish(self) -> None:
        batch = self._pending.batch(self._epoch, self._take_gaps(), self._last_tick)
        self._pending = _Pending()
        if batch is not None:
            self._done.append(batch)

    def _file(self, block: Block) -> None:
        """Add the payload of an accepted block to the payloads of its kind, or count why not."""
        version, kind, sequence, dropped, tick, _, payload, crc, skipped = block
        self._remembered[sequence % _REMEMBERED] = sequence << 32 | crc
        self._skipped_at_block = skipped
        if tick > _LAST_TICK:
            self._counters.malformed_blocks += 1
            self._note_unread("a block with an impossible tick")
            return
        if tick > self._last_tick:
            self._last_tick = tick
        if version != spec.VERSION:
            self._counters.unknown_version += 1
            self._note_unread("a block of another version of the format")
            return
        if dropped:
            self._note_dropped(kind, tick, dropped)
        self._kind_tick[kind] = tick
        pending, length = self._pending, len(payload)
        good = True
        if kind == 1:  # COMMANDS; plain numbers, since an enum attribute costs as much as a record
            good = not length % spec.COMMAND_SIZE
            if good and length:
                pending.commands.append(payload)
                pending.command_ticks.append(tick)
        elif kind == 2:  # RAIL
            good = rail_payload_ok(payload, _SLACK_TICKS)
            if good:
                pending.rail.append(payload)
                pending.rail_ticks.append(tick)
                pending.rail_dropped.append(dropped)
        elif kind == spec.BlockContent.EVENTS:
            good = not length % spec.EVENT_SIZE and events_near(payload, tick, _SLACK_TICKS)
            if good and length:
                pending.events.append(payload)
        elif kind == spec.BlockContent.TLP:
            good = split_tlps(payload, tick, pending.tlps)
        elif kind == spec.BlockContent.STATUS:
            good = length >= spec.STATUS_FIRST_SIZE and self._tick_agrees(status_tick_ps(payload))
            if good:
                pending.status.append(payload)
                pending.status_ticks.append(tick)
        elif kind == spec.BlockContent.LINK:
            good = not length % spec.LINK_SIZE
            if good and length:
                pending.links.append(payload)
                pending.link_ticks.append(tick)
        else:
            self._counters.unknown_kind += 1
        if not good:
            self._counters.malformed_blocks += 1
            self._note_unread("a block whose payload is not a whole number of possible records")

    def _tick_agrees(self, tick_ps: int) -> bool:
        """Whether a STATUS states a possible length of a tick, and the same as those before it; 0 states none."""
        if tick_ps > _MOST_TICK_PS or (tick_ps and self._tick_ps and tick_ps != self._tick_ps):
            return False
        self._tick_ps = tick_ps or self._tick_ps
        return True

    def _note_dropped(self, kind: int, tick: int, dropped: int) -> None:
        try:
            known = spec.BlockContent(kind)
        except ValueError:
            return
        self._counters.dropped[known.name] += dropped
        first = min(self._kind_tick.get(kind, tick), tick)
        self._gaps.append(Gap(known, first, tick, dropped, "dropped in the rig"))

    def _collect_holes(self) -> None:
        for hole in self._sequence.take_closed():
            first = min(hole.after_tick, hole.before_tick) - spec.FLUSH_TICKS
            last = max(hole.after_tick, hole.before_tick) + spec.FLUSH_TICKS
            self._gaps.append(Gap(None, max(first, 0), last, hole.count, "blocks lost on the way to the host"))

    def _take_gaps(self) -> list[Gap]:
        gaps, self._gaps = self._gaps, []
        return gaps

    def _begin_epoch(self, block: Block) -> None:
        self._publish()
        self._sequence.begin(block[2], block[4])
        self._collect_holes()
        self._publish()
        self._counters.restarts += 1
        self._epoch += 1
        self._run = block[5]
        self._last_tick = -1
        self._lag = None
        self._kind_tick.clear()
        self._remembered = [-1] * _REMEMBERED


def _confirms(held: Block, block: Block) -> bool:
    """True when two blocks that fit nothing before them fit each other."""
    apart = abs(block[4] - held[4])
    return held[5] == block[5] and held[2] != block[2] and near(block[2], held[2]) and apart < 60 * _SLACK_TICKS
