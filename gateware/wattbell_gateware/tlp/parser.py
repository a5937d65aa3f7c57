"""Parser of one direction's TLP headers: takes beats, gives intact, valid TLPs.

The parser stores and forwards. A TLP appears at ``headers`` only after its last beat came without error and its length agreed, so a
refused TLP has no effect. The input stream is always ready. If the header FIFO or the payload buffer is full, the whole TLP is
dropped and counted in ``lost``, and the next header has the flag ``lost``. A header also has this flag if the link layer missed
TLPs before it.

Payload stays in a ring of beats, in the place where it arrived; a header holds its place. The parser does not store payload without
a reader: payload of unused TLPs, and of memory writes longer than `KEEP` double words (unless ``keep_long``). Between the beats of
these TLPs ``skip`` is high, and only the last beat's part of their length is checked.

TLP prefixes are removed first (:class:`.prefixes.PrefixSkipper`). The address of a request with a PASID counts as an address without
one. A digest (ECRC) belongs to the length of a TLP; its value is not checked, as the LCRC has covered it on this link.

Latency from a TLP's last beat to its header is 3 clocks, after prefixes 3 or 4. The parser takes a beat in every clock.
"""

from __future__ import annotations

from collections.abc import Callable

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped
from wattbell_spec.wire import MalformedClass

from ..layouts import tlp_beat
from ..queue import Queue
from .headers import HEADER, FirstWord, TlpKind, swap_bytes
from .prefixes import PrefixSkipper

KEEP = 16
"""Longest memory write that keeps its payload, in double words: doorbells, CQEs, interrupts."""
LONG = 20
"""Longest TLP that is never skipped, in double words."""
ASSERT_INTA, DEASSERT_INTA = 0x20, 0x24
"""Message codes. PCIe: INTx Interrupt Signaling."""
TICK_BITS = 28
"""Bits of a tick in the header FIFO."""
INDEXES = ("base", "end")
AS_THEY_ARE = tuple(name for name in HEADER.members if name not in ("tick", *INDEXES))


def iter_bits(value: Value) -> Callable[[int], Value]:
    """Return a function that splits `value`: each call returns the next given number of bits, from bit 0 on."""
    taken = 0

    def take(bits: int) -> Value:
        nonlocal taken
        taken += bits
        return value[taken - bits : taken]

    return take


class TlpParser(wiring.Component):
    """Parses the TLP headers of one direction, as the module's docstring says.

    Parameters
    ----------
    width : bits of a beat, 64 or 128.
    upstream : the direction is drive to host.
    beats : depth of the payload ring.
    headers : depth of the header FIFO.

    Ports
    -----
    beats : :func:`..layouts.tlp_beat`.
    keep_long : keep the payload of long memory writes of the drive.
    headers : :data:`.headers.HEADER`.
    read_index : index of a double word of the payload ring.
    read_data : this double word, one clock later.
    read_beat : the beat with this double word, one clock later.
    free : strobe: free the ring up to ``free_to``.
    free_to : ``end`` of a header.
    pending : a TLP is on its way to ``headers``.
    pending_tick : tick at which that TLP began; 0 if it is complete.
    busy : a TLP is being evaluated, or a header is on its way through the FIFO.
    skip : between the beats of a TLP of more than :data:`LONG` double words whose payload is not stored.
    counted : number of TLPs in this clock (two if a TLP began inside another TLP and ended at once).
    malformed : number of malformed TLPs in this clock.
    lost : this TLP, or TLPs before it, were lost.
    tick : tick of the TLP at ``lost``.
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
        """Return whether the payload of the TLP that begins with `word` will be read."""
        short = word.length <= LONG - 3
        if self.upstream:
            return ((word.kind == TlpKind.MWR) & ((word.length <= KEEP) | keep_long)) | ((word.kind == TlpKind.CPLD) & short)
        return ((word.kind == TlpKind.MWR) & (word.length <= KEEP)) | (word.kind == TlpKind.CPLD) | (word.kind == TlpKind.CFGWR)

    def elaborate(self, _platform) -> Module:
        m = Module()
        lanes = self.width // 32
        lane_bits = (lanes - 1).bit_length()
        ring_bits = (self.depth_beats - 1).bit_length()
        m.submodules.prefixes = prefixes = PrefixSkipper(self.width)
        connect(m, flipped(self.beats), prefixes.i)
        beat, valid = prefixes.o.payload, prefixes.o.valid

        m.submodules.ring = ring = Memory(shape=self.width, depth=self.depth_beats, init=[])
        write, read = ring.write_port(), ring.read_port()
        index_bits = ring_bits + 1

        def pack(of) -> Value:
            """Return the bits of a header that the FIFO keeps.

            Every 36 bits are a block RAM. Bits that are 0 in every index of a beat are left out, and so are the upper bits of the
            tick.
            """
            indexes = (of[name][lane_bits : lane_bits + index_bits] for name in INDEXES)
            return Cat(of.tick[:TICK_BITS], *indexes, *(of[name] for name in AS_THEY_ARE))

        header_out = Signal(HEADER)
        m.submodules.queue = queue = Queue(pack(header_out).shape(), self.depth_headers)

        # --- the incoming TLP -----------------------------------------------------------------------------------
        inside = Signal()
        count = Signal(10)  # its beats so far
        header = Signal(128)
        storing = Signal()
        ragged = Signal()  # a beat that is not the last was not full, or a new TLP began inside this one
        no_room = Signal()
        tick = Signal(64)
        missing = Signal()  # TLPs before it are missing

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

        # --- payload ring: [freed, committed) belongs to TLPs in the FIFO; the incoming TLP grows after it ------
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

        # --- the last beat: check that the TLP is intact --------------------------------------------------------
        dws = Signal(13)
        length_ok, bad, cut = Signal(), Signal(), Signal()
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
            cut.eq(beat.error | (ragged & ~beat.first) | ~(beat.first | inside)),
            bad.eq(cut | prefixes.odd | prefixes.encrypted | ~word.fmt_known | ~length_ok),
        ]

        # --- one stage later (the registers still hold the TLP that ended): make its header -----------------------
        done, broken = Signal(), Signal()  # `broken`: a TLP began before the one before it had ended
        done_bad, fault, done_pasid = Signal(), Signal(MalformedClass), Signal()
        done_base = Signal(ring_bits + 1)
        m.d.sync += [done.eq(valid & beat.last), broken.eq(valid & beat.first & inside)]
        # Ticks of a direction do not decrease, and no entry of the FIFO is 2**(TICK_BITS - 1) ticks (0.13 s) older than the latest
        # TLP. An entry's upper bits are therefore the latest TLP's, or one less.
        upper_before = Signal(64 - TICK_BITS)
        stored = iter_bits(queue.o.payload)
        lower = stored(TICK_BITS)
        turned = ~tick[TICK_BITS - 1] & lower[-1]
        m.d.comb += [
            header_out.tick[:TICK_BITS].eq(lower),
            *(header_out[name][lane_bits:].eq(stored(index_bits)) for name in INDEXES),
            *(Value.cast(header_out[name]).eq(stored(HEADER[name].width)) for name in AS_THEY_ARE),
            header_out.tick[TICK_BITS:].eq(Mux(turned, upper_before, tick[TICK_BITS:])),
        ]
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
                m.d.sync += [done_bad.eq(bad), done_base.eq(committed), fault.eq(MalformedClass.LENGTH), done_pasid.eq(prefixes.pasid)]
                for holds, of in (
                    (~word.fmt_known, MalformedClass.FORMAT),
                    (prefixes.encrypted, MalformedClass.ENCRYPTED),
                    (prefixes.odd, MalformedClass.PREFIXES),
                    (cut, MalformedClass.CUT),
                ):
                    with m.If(holds):
                        m.d.sync += fault.eq(of)
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
            crosses.eq(((decoded.kind == TlpKind.MRD) | (decoded.kind == TlpKind.MWR)) & (entry.address[2:12] + decoded.length > 1024)),
            entry.kind.eq(decoded.kind),
            entry.tick.eq(tick),
            entry.length.eq(decoded.length),
            entry.requester.eq(dw1[16:32]),
            entry.tag.eq(Cat(dw1[8:16], decoded.tag_high)),
            entry.first_be.eq(dw1[0:4]),
            entry.last_be.eq(dw1[4:8]),
            # PCIe, PASID TLP Prefix: such an address is of a process's space. AT 3 is reserved, and stands here for another space.
            entry.at.eq(Mux(done_pasid & (decoded.at == 0), 3, decoded.at)),
            entry.kept.eq(storing),
            entry.four.eq(decoded.four),
            entry.data.eq(decoded.has_data),
            entry.digest.eq(decoded.digest),
            entry.base.eq(done_base << lane_bits),
            entry.end.eq(committed << lane_bits),
        ]
        with m.Switch(decoded.kind):
            with m.Case(TlpKind.CFGRD, TlpKind.CFGWR):
                m.d.comb += entry.address.eq(Cat(dw2[0:12] & 0xFFC, Const(0, 4), dw2[16:32]))
            with m.Case(TlpKind.MSG):
                m.d.comb += entry.address.eq(dw1[0:8])
            with m.Case(TlpKind.CPL, TlpKind.CPLD):
                m.d.comb += [
                    entry.address.eq(dw2[0:7]),
                    entry.requester.eq(dw2[16:32]),
                    entry.tag.eq(Cat(dw2[8:16], decoded.tag_high)),
                ]
                with m.If(dw1[13:16] != 0):
                    m.d.comb += entry.kind.eq(TlpKind.CPL)
            with m.Default():
                with m.If(decoded.four):
                    m.d.comb += entry.address.eq(Cat(dw3 & 0xFFFFFFFC, dw2))
                with m.Else():
                    m.d.comb += entry.address.eq(dw2 & 0xFFFFFFFC)
        of_host = [kind for kind in TlpKind if kind not in (TlpKind.NONE, TlpKind.MSG)]
        wanted = (TlpKind.MRD, TlpKind.MWR, TlpKind.CPLD) if self.upstream else of_host
        is_wire = (decoded.kind == TlpKind.MSG) & ((dw1[0:8] == ASSERT_INTA) | (dw1[0:8] == DEASSERT_INTA))
        m.d.comb += useful.eq((sum(decoded.kind == k for k in wanted) != 0) | (is_wire if self.upstream else 0))

        # --- into the FIFO, with the flags of losses --------------------------------------------------------------
        refused, good, poisoned, why = Signal(), Signal(), Signal(), Signal(MalformedClass)
        dropped, missed = Signal(), Signal()
        lost_flag = Signal()
        pushed = Signal(HEADER)
        push = Signal()
        m.d.comb += [
            refused.eq(done & (done_bad | (crosses & useful) | (decoded.poisoned & ~useful))),
            good.eq(done & ~refused & useful),
            poisoned.eq(good & decoded.poisoned),
            self.malformed.eq((refused | poisoned) + broken),
            self.counted.eq(done + broken),
            dropped.eq(good & (no_room | ~queue.i.ready)),
            missed.eq(done & missing),
            self.lost.eq(dropped | missed),
            pushed.eq(entry),
            pushed.lost.eq(lost_flag | missed),
            pushed.bad.eq(refused | broken | poisoned),
            why.eq(Mux(done_bad, fault, Mux(crosses & useful, MalformedClass.BOUNDARY, MalformedClass.POISONED))),
            pushed.why.eq(Mux(refused | poisoned, why, Mux(broken, MalformedClass.CUT, 0))),
            push.eq(refused | broken | (good & ~no_room) | lost_flag | missed),
        ]
        with m.If(~good | no_room):
            m.d.comb += pushed.kind.eq(TlpKind.NONE)
        with m.If(dropped | (missed & ~queue.i.ready)):
            m.d.sync += lost_flag.eq(1)
        with m.Elif(push & queue.i.ready):
            m.d.sync += lost_flag.eq(0)
        m.d.comb += [
            queue.i.payload.eq(pack(pushed)),
            queue.i.valid.eq(push),
            self.headers.payload.eq(header_out),
            self.headers.valid.eq(queue.o.valid),
            queue.o.ready.eq(self.headers.ready),
            self.tick.eq(tick),
            self.pending.eq(inside | prefixes.holds | done | queue.latent),
            self.pending_tick.eq(Mux(done | queue.latent | (prefixes.holds & ~inside), 0, tick)),
            self.busy.eq(done | broken | prefixes.holds | (lost_flag & queue.i.ready) | queue.latent),
        ]
        return m
