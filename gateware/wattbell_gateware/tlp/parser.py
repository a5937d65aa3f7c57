"""One direction's TLP header parser: beats in, whole and valid TLPs out.

Store and forward: a TLP appears at ``headers`` only after its last beat came without error and its length agreed, so
nothing a refused TLP says can become visible. The stream in is always ready; when the header FIFO or the payload
buffer is full the whole TLP is dropped, counted in ``lost``, and the next header carries the flag ``lost``. So does the header
of a TLP before which the link layer missed some.

Payload stays where it arrived, in a ring of beats; a header holds its place. Payload that nobody will read is not
stored: that of memory writes longer than `KEEP` double words (unless ``keep_long``) and of TLPs that are of no use.
For those, ``skip`` is high between their beats, and of their length only the last beat's part is checked.

Latency from a TLP's last beat to its header: 3 clocks. Throughput: every beat of the input.
"""

from __future__ import annotations

from collections.abc import Callable

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..layouts import tlp_beat
from .headers import HEADER, FirstWord, Kind, swap_bytes

KEEP = 16
"""Memory writes of up to this many double words keep their payload: doorbells, CQEs, interrupts."""
LONG = 20
"""TLPs of up to this many double words are never skipped."""
TICK_BITS = 28
"""Of a tick, in the header FIFO."""
INDEXES = ("base", "end")
AS_THEY_ARE = tuple(name for name in HEADER.members if name not in ("tick", *INDEXES))


def iter_bits(value: Value) -> Callable[[int], Value]:
    """Takes `value` apart: every call gives so many bits more, from bit 0 on."""
    taken = 0

    def take(bits: int) -> Value:
        nonlocal taken
        taken += bits
        return value[taken - bits : taken]

    return take


class TlpParser(wiring.Component):
    """See above.

    Ports
    -----
    read_index, read_data : a double word of the payload ring, one clock later. read_beat : the beat it is in.
    free, free_to : gives the ring's space back up to a header's ``end``.
    pending, pending_tick : a TLP that began at that tick is on its way to ``headers``.
    counted, malformed : how many TLPs in this clock (two where one began inside another and ended at once).
    lost, tick : the TLP of that tick was lost, or some before it were.

    Parameters
    ----------
    upstream : the direction is drive to host. beats, headers : depths of payload ring and header FIFO.
    """

    def __init__(self, width: int, *, upstream: bool, beats: int = 2048, headers: int = 512) -> None:
        self.width = width
        self.upstream = upstream
        self.depth_beats = beats
        self.depth_headers = headers
        super().__init__(
            {
                "beats": In(stream.Signature(tlp_beat(width), always_ready=True)),
                "keep_long": In(1),
                "headers": Out(stream.Signature(HEADER)),
                "read_index": In(14),
                "read_data": Out(32),
                "read_beat": Out(width),
                "free": In(1),
                "free_to": In(14),
                "pending": Out(1),
                "pending_tick": Out(64),
                "busy": Out(1),
                "skip": Out(1),
                "counted": Out(2),
                "malformed": Out(2),
                "lost": Out(1),
                "tick": Out(64),
            }
        )

    def _stores(self, word: FirstWord, keep_long: Value) -> Value:
        """Whether the payload of the TLP that begins with `word` will be wanted."""
        short = word.total <= LONG
        if self.upstream:
            return ((word.kind == Kind.MWR) & ((word.length <= KEEP) | keep_long)) | ((word.kind == Kind.CPLD) & short)
        return ((word.kind == Kind.MWR) & (word.length <= KEEP)) | (word.kind == Kind.CPLD) | (word.kind == Kind.CFGWR)

    def elaborate(self, _platform) -> Module:
        m = Module()
        lanes = self.width // 32
        lane_bits = (lanes - 1).bit_length()
        ring_bits = (self.depth_beats - 1).bit_length()
        beat, valid = self.beats.payload, self.beats.valid

        m.submodules.ring = ring = Memory(shape=self.width, depth=self.depth_beats, init=[])
        write, read = ring.write_port(), ring.read_port()
        index_bits = ring_bits + 1

        def pack(of) -> Value:
            """What the FIFO keeps of a header, as every 36 bits are block RAMs: neither what is 0 in every index of a beat nor the upper
            bits of the tick."""
            indexes = (of[name][lane_bits : lane_bits + index_bits] for name in INDEXES)
            return Cat(of.tick[:TICK_BITS], *indexes, *(of[name] for name in AS_THEY_ARE))

        header_out = Signal(HEADER)
        m.submodules.fifo = fifo = SyncFIFOBuffered(width=pack(header_out).shape().width, depth=self.depth_headers)

        # --- the TLP that is coming in ------------------------------------------------------------------------
        inside = Signal()
        count = Signal(10)  # beats of it so far
        header = Signal(128)
        storing = Signal()
        ragged = Signal()  # a beat that is not the last was not full, or a new TLP began inside this one
        no_room = Signal()
        tick = Signal(64)
        missing = Signal()  # TLPs are, before it

        word = FirstWord(m, "first")
        m.d.comb += word.word.eq(Mux(beat.first, beat.data[:32], header[:32]))
        header_now = Signal(128)
        if self.width == 128:
            m.d.comb += header_now.eq(Mux(beat.first, beat.data, header))
        else:
            m.d.comb += [
                header_now[:64].eq(Mux(beat.first, beat.data, header[:64])),
                header_now[64:].eq(Mux(~beat.first & (count == 1), beat.data, header[64:])),
            ]
        count_now = Signal(10)
        storing_now = Signal()
        m.d.comb += [
            count_now.eq(Mux(beat.first, 0, count)),
            storing_now.eq(Mux(beat.first, self._stores(word, self.keep_long), storing & inside)),
        ]

        # --- payload ring: [freed, committed) belongs to TLPs in the FIFO, after it grows the one coming in ----
        committed = Signal(ring_bits + 1)
        freed = Signal(ring_bits + 1)
        at = Signal(ring_bits + 1)
        room, no_room_now = Signal(), Signal()
        m.d.comb += [
            at.eq(committed + count_now),
            room.eq((at - freed)[: ring_bits + 1] < self.depth_beats),
            no_room_now.eq((no_room & ~beat.first) | (storing_now & ~room)),
            write.addr.eq(at[:ring_bits]),
            write.data.eq(beat.data),
            write.en.eq(valid & storing_now & room),
        ]
        lane = Signal(lane_bits)
        m.d.sync += lane.eq(self.read_index[:lane_bits])
        m.d.comb += [
            read.addr.eq(self.read_index[lane_bits : lane_bits + ring_bits]),
            self.read_data.eq(read.data.word_select(lane, 32)),
            self.read_beat.eq(read.data),
        ]
        with m.If(self.free):
            m.d.sync += freed.eq(self.free_to[lane_bits : lane_bits + ring_bits + 1])

        # --- the last beat: whole? ------------------------------------------------------------------------------
        dws = Signal(13)
        length_ok, bad = Signal(), Signal()
        full = beat.dws == lanes
        m.d.comb += [
            dws.eq((count_now << lane_bits) + beat.dws),
            length_ok.eq(
                Mux(
                    storing_now | (word.total <= LONG),
                    dws == word.total,
                    (beat.dws[:lane_bits] == word.total[:lane_bits]) & (beat.dws != 0),
                )
            ),
            bad.eq(beat.error | (ragged & ~beat.first) | ~(beat.first | inside) | ~word.fmt_known | word.poisoned | ~length_ok),
        ]

        # --- one stage later (the registers still hold the TLP that ended): make a header of it -------------------
        done, broken = Signal(), Signal()  # `broken`: a TLP began before the one before it had ended
        done_bad = Signal()
        done_base = Signal(ring_bits + 1)
        m.d.sync += [done.eq(valid & beat.last), broken.eq(valid & beat.first & inside)]
        # Ticks of a direction do not decrease, and what is in the FIFO is never 2**(TICK_BITS - 1) ticks (0.13 s) older than
        # what came last: that one has the upper bits, or one more.
        upper_before = Signal(64 - TICK_BITS)
        stored = iter_bits(fifo.r_data)
        lower = stored(TICK_BITS)
        turned = ~tick[TICK_BITS - 1] & lower[-1]
        m.d.comb += [
            header_out.tick[:TICK_BITS].eq(lower),
            *(header_out[name][lane_bits:].eq(stored(index_bits)) for name in INDEXES),
            *(Value.cast(header_out[name]).eq(stored(HEADER[name].width)) for name in AS_THEY_ARE),
            header_out.tick[TICK_BITS:].eq(Mux(turned, upper_before, tick[TICK_BITS:])),
        ]  # fmt: skip
        with m.If(valid):
            m.d.sync += [
                header.eq(header_now),
                tick.eq(beat.tick),
                upper_before.eq(beat.tick[TICK_BITS:] - 1),
                storing.eq(storing_now),
                no_room.eq(no_room_now),
                count.eq(Mux(count_now == 1023, count_now, count_now + 1)),
                inside.eq((inside | beat.first) & ~beat.last),
                ragged.eq((ragged & ~beat.first) | (~beat.last & ~full)),
            ]
            with m.If(beat.first):
                m.d.sync += missing.eq(beat.lost)
            with m.If(beat.last):
                m.d.sync += [done_bad.eq(bad), done_base.eq(committed)]
                with m.If(storing_now & ~no_room_now & ~bad):
                    m.d.sync += committed.eq(at + 1)

        decoded = FirstWord(m, "done")
        m.d.comb += decoded.word.eq(header[:32])
        m.d.comb += self.skip.eq(inside & ~storing & (decoded.total > LONG) & (count >= 128 // self.width))

        entry = Signal(HEADER)
        dw1, dw2, dw3 = (swap_bytes(header.word_select(i, 32)) for i in (1, 2, 3))
        crosses = Signal()  # a memory request must not cross a 4 KiB boundary
        useful = Signal()
        m.d.comb += [
            crosses.eq(((decoded.kind == Kind.MRD) | (decoded.kind == Kind.MWR)) & (entry.address[2:12] + decoded.length > 1024)),
            entry.kind.eq(decoded.kind),
            entry.tick.eq(tick),
            entry.length.eq(decoded.length),
            entry.requester.eq(dw1[16:32]),
            entry.tag.eq(Cat(dw1[8:16], decoded.tag_high)),
            entry.first_be.eq(dw1[0:4]),
            entry.kept.eq(storing),
            entry.four.eq(decoded.four),
            entry.data.eq(decoded.has_data),
            entry.digest.eq(decoded.digest),
            entry.base.eq(done_base << lane_bits),
            entry.end.eq(committed << lane_bits),
        ]
        with m.Switch(decoded.kind):
            with m.Case(Kind.CFGWR):
                m.d.comb += entry.address.eq(Cat(dw2[0:12] & 0xFFC))
            with m.Case(Kind.CPL, Kind.CPLD):
                m.d.comb += [
                    entry.address.eq(dw2[0:7]),
                    entry.requester.eq(dw2[16:32]),
                    entry.tag.eq(Cat(dw2[8:16], decoded.tag_high)),
                ]
                with m.If(dw1[13:16] != 0):
                    m.d.comb += entry.kind.eq(Kind.CPL)
            with m.Default():
                with m.If(decoded.four):
                    m.d.comb += entry.address.eq(Cat(dw3 & 0xFFFFFFFC, dw2))
                with m.Else():
                    m.d.comb += entry.address.eq(dw2 & 0xFFFFFFFC)
        wanted = (Kind.MRD, Kind.MWR, Kind.CPLD) if self.upstream else tuple(k for k in Kind if k is not Kind.NONE)
        m.d.comb += useful.eq(sum(decoded.kind == k for k in wanted) != 0)

        # --- into the FIFO, with the flags of what is missing -----------------------------------------------------
        refused, good = Signal(), Signal()
        dropped, missed = Signal(), Signal()
        lost_flag = Signal()
        pushed = Signal(HEADER)
        push, latent = Signal(), Signal()
        m.d.comb += [
            refused.eq(done & (done_bad | (crosses & useful))),
            good.eq(done & ~refused & useful),
            self.malformed.eq(refused + broken),
            self.counted.eq(done + broken),
            dropped.eq(good & (no_room | ~fifo.w_rdy)),
            missed.eq(done & missing),
            self.lost.eq(dropped | missed),
            pushed.eq(entry),
            pushed.lost.eq(lost_flag | missed),
            pushed.bad.eq(refused | broken),
            push.eq(refused | broken | (good & ~no_room) | lost_flag | missed),
            latent.eq((fifo.level != 0) & ~fifo.r_rdy),
        ]
        with m.If(~good | no_room):
            m.d.comb += pushed.kind.eq(Kind.NONE)
        with m.If(dropped | (missed & ~fifo.w_rdy)):
            m.d.sync += lost_flag.eq(1)
        with m.Elif(push & fifo.w_rdy):
            m.d.sync += lost_flag.eq(0)
        m.d.comb += [
            fifo.w_data.eq(pack(pushed)),
            fifo.w_en.eq(push),
            self.headers.payload.eq(header_out),
            self.headers.valid.eq(fifo.r_rdy),
            fifo.r_en.eq(self.headers.ready),
            self.tick.eq(tick),
            self.pending.eq(inside | done | latent),
            self.pending_tick.eq(Mux(done | latent, 0, tick)),
            self.busy.eq(done | broken | (lost_flag & fifo.w_rdy) | latent),
        ]
        return m
