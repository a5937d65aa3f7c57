"""Drives a TlpParser beat by beat. The expected values come from the cocotbext-pcie object each TLP was packed from."""

from __future__ import annotations

import os
import random
import zlib
from dataclasses import dataclass

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge
from cocotbext.pcie.core.tlp import CplStatus, Tlp, TlpAt, TlpType
from cocotbext.pcie.core.utils import PcieId
from wattbell_gateware.layouts import tlp_beat
from wattbell_gateware.tlp import HEADER, TlpKind
from wattbell_spec.wire import MalformedClass

from tests.gateware.packing import pack, unpack

WIDTH = int(os.environ["WIDTH"])
UPSTREAM = bool(int(os.environ["UPSTREAM"]))
BEATS, HEADERS = int(os.environ["BEATS"]), int(os.environ["HEADERS"])
LANES = WIDTH // 32
BEAT = tlp_beat(WIDTH)
SHORT = 16
"""Double words of the longest memory write with a payload that the tracker needs: doorbells, CQEs, interrupts."""

Beat = tuple[int, int, int, int, int]  # data, dws, first, last, error


def beats(raw: bytes, error: bool = False) -> list[Beat]:
    words = [int.from_bytes(raw[i : i + 4], "little") for i in range(0, len(raw), 4)]
    out = []
    for i in range(0, len(words), LANES):
        part = words[i : i + LANES]
        last = i + LANES >= len(words)
        out.append((sum(w << 32 * n for n, w in enumerate(part)), len(part), i == 0, last, error and last))
    return out


@dataclass
class Item:
    """Beats to play, and their expected result: `tlp` if a header is due, `refused` times ``malformed``."""

    beats: list[Beat]
    tlp: Tlp | None = None
    refused: int = 0
    counted: int = 1
    missing: bool = False
    """The link layer missed TLPs before it."""
    poisoned: bool = False
    """It comes out, and counts as malformed."""
    prefixes: int = 0
    pasid: bool = False
    """A prefix names a process's address space."""
    digest: int = 0
    why: str = ""
    """The class of a refused or poisoned TLP, in the words of the wire format."""


def make(r: random.Random) -> Tlp:
    """Return any TLP of the kinds that the tracker knows but messages, and one that it does not."""
    tlp = Tlp()
    tlp.requester_id, tlp.completer_id = PcieId(r.randrange(256), r.randrange(32), r.randrange(8)), PcieId(1, 0, 0)
    kind = r.randrange(8)
    length = 4 * r.choice((1, 1, 2, 4, 16, 17, 18, r.randrange(1, 60)))
    address = r.choice((r.randrange(1 << 30) << 2, r.randrange(1 << 30, 1 << 62) << 2))
    address -= max(0, address % 4096 + length - 4096)
    wide = address >= 1 << 32
    if kind < 2:
        tlp.fmt_type = TlpType.MEM_READ_64 if wide else TlpType.MEM_READ
        room = 4096 - address % 4096
        tlp.set_addr_be(address, r.choice((4, min(64, room), room)))
    elif kind < 4:
        tlp.fmt_type = TlpType.MEM_WRITE_64 if wide else TlpType.MEM_WRITE
        tlp.set_addr_be_data(address, r.randbytes(length))
    elif kind == 4:
        tlp.fmt_type = TlpType.CPL_DATA
        tlp.status = r.choice((CplStatus.SC, CplStatus.SC, CplStatus.SC, CplStatus.CA))  # the last one breaks the rules
        tlp.byte_count, tlp.lower_address = length, r.randrange(32) * 4
        tlp.set_data(r.randbytes(length))
    elif kind == 5:
        tlp.fmt_type = TlpType.CPL
        tlp.status, tlp.byte_count = r.choice((CplStatus.UR, CplStatus.SC, CplStatus.CA)), 4
    elif kind == 6:
        tlp.fmt_type = TlpType.CFG_WRITE_0
        tlp.address, tlp.first_be = r.randrange(1024) * 4, r.randrange(1, 16)
        tlp.set_data(r.randbytes(4))
    else:
        tlp.fmt_type = r.choice((TlpType.CFG_READ_0, TlpType.IO_READ))
        tlp.address, tlp.length, tlp.first_be = r.randrange(64) * 4, 1, 0xF
    tlp.tag = r.randrange(1024)
    if kind < 4:
        tlp.at = TlpAt(r.choice((0, 0, 1, 2)))
    return tlp


def kind_of(tlp: Tlp) -> TlpKind:
    """Return the tracker's kind for a TLP; NONE if the tracker ignores it."""
    kinds = {
        TlpType.MEM_READ: TlpKind.MRD,
        TlpType.MEM_READ_64: TlpKind.MRD,
        TlpType.MEM_WRITE: TlpKind.MWR,
        TlpType.MEM_WRITE_64: TlpKind.MWR,
        TlpType.CPL_DATA: TlpKind.CPLD,
        TlpType.CPL: TlpKind.CPL,
        TlpType.CFG_READ_0: TlpKind.CFGRD,
        TlpType.CFG_WRITE_0: TlpKind.CFGWR,
    }
    kind = kinds.get(tlp.fmt_type, TlpKind.NONE)
    return TlpKind.NONE if UPSTREAM and kind in (TlpKind.CPL, TlpKind.CFGRD, TlpKind.CFGWR) else kind


def local(r: random.Random) -> bytes:
    """Return a local TLP prefix: Fmt 100, Type 0LLLL (PCIe Base 4.0, 2.2.10.1): MR-IOV, vendors' two, or a type without a meaning."""
    return bytes([0x80 | r.choice((0x0, 0xE, 0xF, r.randrange(16)))]) + r.randbytes(3)


def end_to_end(r: random.Random) -> bytes:
    """Return an end-to-end prefix: Fmt 100, Type 1EEEE (2.2.10.2): extended TPH, PASID, vendors' two, or a type without a meaning."""
    return bytes([0x90 | r.choice((0x0, 0x1, 0x1, 0xE, 0xF, r.choice([n for n in range(16) if n != 2])))]) + r.randbytes(3)


def dressed(r: random.Random, raw: bytes) -> tuple[bytes, list[bytes], int]:
    """Return a TLP as packed with prefixes (local, then end-to-end) and a digest, its prefixes, and the number of digests."""
    ends = r.choice((0, 0, 0, 1, 1, 2, 3, 4))
    prefixes = [local(r) for _ in range(r.choice((0, 0, 0, 0, 1, 2, 3)))] + [end_to_end(r) for _ in range(ends)]
    digest = r.random() < 0.3
    if digest:
        raw = raw[:2] + bytes([raw[2] | 0x80]) + raw[3:]
        raw += zlib.crc32(raw).to_bytes(4, "little")  # any four bytes: the parser does not check them
    return b"".join(prefixes) + raw, prefixes, int(digest)


def whole(r: random.Random, tlp: Tlp) -> Item:
    raw, prefixes, digest = dressed(r, bytes(tlp.pack()))
    pasid = any(prefix[0] == 0x91 for prefix in prefixes)  # Fmt 100, Type 10001 (6.20, PASID TLP Prefix)
    return Item(beats(raw), tlp if kind_of(tlp) is not TlpKind.NONE else None, prefixes=len(prefixes), pasid=pasid, digest=digest)


def badly_dressed(r: random.Random, raw: bytes) -> Item:
    """Return a TLP that is refused for its prefixes."""
    choice = r.randrange(6)
    if choice == 0:  # an end-to-end prefix too many
        prefixes = [local(r) for _ in range(r.randrange(3))] + [end_to_end(r) for _ in range(r.randrange(5, 9))]
        return Item(beats(b"".join(prefixes) + raw), refused=1, why="PREFIXES")
    if choice == 1:  # a local prefix behind an end-to-end one
        prefixes = [end_to_end(r) for _ in range(r.randrange(1, 4))] + [local(r)]
        return Item(beats(b"".join(prefixes) + raw), refused=1, why="PREFIXES")
    if choice == 2:  # more than the parser counts
        return Item(beats(b"".join(local(r) for _ in range(r.randrange(8, 20))) + raw), refused=1, why="PREFIXES")
    if choice == 3:  # IDE: encrypted, with or without a MAC of three double words
        prefixes = (
            [local(r) for _ in range(r.randrange(2))] + [bytes([0x92]) + r.randbytes(3)] + [end_to_end(r) for _ in range(r.randrange(2))]
        )
        return Item(beats(b"".join(prefixes) + raw + bytes(r.choice((0, 12)))), refused=1, why="ENCRYPTED")
    if choice == 4:  # nothing but prefixes
        return Item(beats(b"".join(end_to_end(r) for _ in range(r.randrange(1, 5)))), refused=1, why="PREFIXES")
    prefixed = b"".join(end_to_end(r) for _ in range(r.randrange(1, 5))) + raw  # a double word too many
    return Item(beats(prefixed + bytes(4)), refused=1, why="LENGTH")


def damaged(r: random.Random, tlp: Tlp) -> Item:
    """Return a TLP that must be refused, or one that is poisoned."""
    raw = bytearray(tlp.pack())
    payload = len(raw) // 4 - tlp.get_header_size_dw()
    choice = r.randrange(10)
    if choice > 6:
        return badly_dressed(r, bytes(raw))
    if choice == 0:
        return Item(beats(raw, error=True), refused=1, why="CUT")
    if choice == 1:  # poisoned
        raw[2] |= 0x40
        return Item(beats(raw), tlp if kind_of(tlp) is not TlpKind.NONE else None, refused=1, poisoned=True, why="POISONED")
    if choice == 2:  # no such format
        raw[0] |= 0xA0
        return Item(beats(raw), refused=1, why="FORMAT")
    if choice == 3:  # a double word too many (of a payload that is not stored only the last beat is compared)
        return Item(beats(raw + bytes(4)), refused=1, why="LENGTH")
    if choice == 4 and payload > 1:  # a double word too few
        return Item(beats(raw[:-4]), refused=1, why="LENGTH")
    if choice == 5 and len(beats(raw)) > 1:  # a beat inside it is not full
        part = beats(raw)
        at = r.randrange(len(part) - 1)
        part[at] = (part[at][0], LANES - 1, *part[at][2:])
        return Item(part, refused=1, why="CUT")
    if choice == 6 and len(beats(raw)) > 1:  # cut short: the next TLP begins inside it. That one is whole
        following = make(r)
        return Item(
            beats(raw)[:-1] + beats(bytes(following.pack())),
            following if kind_of(following) is not TlpKind.NONE else None,
            refused=1,
            counted=2,
            why="CUT",
        )
    if tlp.fmt_type in (TlpType.MEM_READ, TlpType.MEM_READ_64):  # crosses a 4 KiB boundary
        tlp.address |= 0xFF8
        tlp.length = 3
        return Item(beats(bytes(tlp.pack())), refused=1, why="BOUNDARY")
    return Item(beats(raw, error=True), refused=1, why="CUT")


class Bench:
    def __init__(self, dut, r: random.Random) -> None:
        self.dut, self.r = dut, r
        self.now = (5 << 28) - 4000  # the upper bits of ticks change soon: the FIFO does not keep them
        self.counts = {"counted": 0, "malformed": 0, "lost": 0}
        self.take = 1.0  # how often headers are taken
        self.got: list[tuple[dict[str, int], list[int] | None]] = []
        self.last_tick = 0

    async def start(self) -> None:
        dut = self.dut
        for name in ("beats__valid", "beats__payload", "keep_long", "headers__ready", "free", "read_index", "free_to"):
            getattr(dut, name).value = 0
        dut.rst.value = 0
        Clock(dut.clk, 4, unit="ns").start()
        await RisingEdge(dut.clk)
        cocotb.start_soon(self.watch())
        cocotb.start_soon(self.consume())

    async def watch(self) -> None:
        while True:
            await ReadOnly()
            for name in self.counts:
                self.counts[name] += int(getattr(self.dut, name).value)
            await RisingEdge(self.dut.clk)

    async def consume(self) -> None:
        """Take headers, read their payload as the engine does, and give the ring's room back."""
        dut = self.dut
        while True:
            dut.headers__ready.value = willing = self.r.random() < self.take
            await ReadOnly()
            valid, value = int(dut.headers__valid.value), int(dut.headers__payload.value)
            await RisingEdge(dut.clk)
            if not (willing and valid):
                continue
            dut.headers__ready.value = 0
            header = unpack(HEADER, value)
            payload = [] if header["kept"] and header["kind"] else None
            if payload is not None:
                for n in range(header["length"] * header["data"] + header["digest"]):
                    dut.read_index.value = header["base"] + 3 + header["four"] + n & 0x3FFF
                    await RisingEdge(dut.clk)
                    await ReadOnly()
                    payload.append(int(dut.read_data.value))
                    await RisingEdge(dut.clk)
            dut.free_to.value, dut.free.value = header["end"], 1
            await RisingEdge(dut.clk)
            dut.free.value = 0
            self.got.append((header, payload))

    async def play(self, items: list[Item], gap: float) -> list[int]:
        """Play items; return the tick of each item's last first beat."""
        dut, ticks = self.dut, []
        for item in items:
            for data, dws, first, last, error in item.beats:
                while self.r.random() < gap:
                    dut.beats__valid.value = 0
                    self.now += 4
                    await RisingEdge(dut.clk)
                if first:
                    tick = self.now
                lost = item.missing and first
                beat = pack(BEAT, data=data, dws=dws, first=first, last=last, error=error, tick=tick, lost=lost)
                dut.beats__payload.value = beat
                dut.beats__valid.value = 1
                self.now += 4
                await RisingEdge(dut.clk)
            ticks.append(tick)
        dut.beats__valid.value = 0
        return ticks

    async def drain(self) -> None:
        self.take = 1.0
        idle = 0
        while idle < 200:
            await ReadOnly()
            idle = 0 if int(self.dut.headers__valid.value) else idle + 1
            await RisingEdge(self.dut.clk)


def check(header: dict[str, int], payload: list[int] | None, item: Item, tick: int) -> None:
    assert item.tlp is not None
    tlp, kind = item.tlp, kind_of(item.tlp)
    assert header["digest"] == item.digest
    if kind is TlpKind.CPLD and tlp.status != CplStatus.SC:
        kind = TlpKind.CPL
    assert (header["kind"], header["tick"], header["tag"]) == (kind.value, tick, tlp.tag)
    assert header["requester"] == int(tlp.requester_id)
    if kind in (TlpKind.MRD, TlpKind.MWR):
        assert (header["address"], header["first_be"], header["last_be"]) == (tlp.address & ~3, tlp.first_be, tlp.last_be)
        assert header["at"] == (int(tlp.at) or (3 if item.pasid else 0))
    if kind in (TlpKind.CFGRD, TlpKind.CFGWR):
        assert header["address"] == int(tlp.completer_id) << 16 | tlp.address and header["first_be"] == tlp.first_be
    if kind is TlpKind.CPLD:
        assert header["address"] == tlp.lower_address
    if kind is not TlpKind.CPL:
        assert header["length"] == tlp.length
    data = list(tlp.get_data()) if tlp.has_data() else []
    needed = (kind is TlpKind.MWR and tlp.length <= SHORT) or (kind in (TlpKind.CPLD, TlpKind.CFGWR) and not UPSTREAM)
    if needed:
        assert payload is not None
    if payload and len(payload) > item.digest:
        came = b"".join(w.to_bytes(4, "little") for w in payload)
        assert came[: len(came) - 4 * item.digest] == bytes(data)


@cocotb.test()
async def whole_and_damaged(dut):
    """Every whole TLP comes out with the fields of its cocotbext-pcie object. A damaged one is refused and only counted.

    If the link layer missed TLPs, the next TLP reports it, used or not.
    """
    r = random.Random(7)
    bench = Bench(dut, r)
    await bench.start()
    items, expected = [], []
    for _ in range(400):
        item = damaged(r, make(r)) if r.random() < 0.25 else whole(r, make(r))
        item.missing = r.random() < 0.1
        items.append(item)
    ticks = []
    for item in items:
        ticks += await bench.play([item], gap=0.3)
        while bench.dut.headers__valid.value:  # the ring of this test is small
            await RisingEdge(dut.clk)
        for _ in range(4):
            await RisingEdge(dut.clk)
    await bench.drain()
    expected = [(i, t) for i, t in zip(items, ticks, strict=True) if i.tlp]
    real = [(h, p) for h, p in bench.got if h["kind"]]
    ticks_seen = {h["tick"] for h, _ in real}
    missing = [(t, tick) for t, tick in expected if tick not in ticks_seen]
    assert len(expected) > 150 and not missing and len(real) == len(expected), f"missing {missing}, {bench.counts}"
    for (header, payload), (item, tick) in zip(real, expected, strict=True):
        check(header, payload, item, tick)
    refused = sum(i.refused for i in items)
    assert refused > 50
    missed = sum(i.missing for i in items)
    assert bench.counts == {"counted": sum(i.counted for i in items), "malformed": refused, "lost": missed} and missed > 20
    classes = [MalformedClass(h["why"]).name for h, _ in bench.got if h["bad"]]
    assert classes == [i.why for i in items if i.refused] and set(classes) >= {c.name for c in MalformedClass} - {"BOUNDARY"}
    assert not any(h["why"] for h, _ in bench.got if not h["bad"])
    assert (
        {i.prefixes for i in items if i.tlp} >= set(range(6))
        and sum(h["bad"] for h, _ in bench.got) == refused
        and sum(h["lost"] for h, _ in bench.got) == missed
    )
    assert [h["lost"] for h, _ in real] == [i.missing for i in items if i.tlp]
    # A TLP of one beat that begins inside another one shares that one's mark.
    marked = [i.poisoned or (i.counted == 2 and i.beats[-1][2]) for i in items if i.tlp]
    assert [h["bad"] for h, _ in real] == marked and any(i.poisoned for i in items if i.tlp)


@cocotb.test()
async def more_than_fits(dut):
    """If nobody takes headers, TLPs are lost whole. They are counted, and the next header reports it."""
    r = random.Random(8)
    bench = Bench(dut, r)
    await bench.start()
    for round_ in range(6):
        bench.got.clear()
        bench.counts = dict.fromkeys(bench.counts, 0)
        bench.take = 0.0
        tlps = []
        while len(tlps) < 3 * HEADERS + (BEATS if round_ % 2 else 0):
            tlp = make(r)
            if kind_of(tlp) is not TlpKind.NONE and (round_ % 2 or tlp.length <= 4 or not tlp.has_data()):
                tlps.append(tlp)
        items = [whole(r, tlp) for tlp in tlps]
        ticks = await bench.play(items, gap=0.0)
        await bench.drain()
        tlps.append(make(r))
        while kind_of(tlps[-1]) is TlpKind.NONE:
            tlps[-1] = make(r)
        items.append(whole(r, tlps[-1]))
        ticks += await bench.play(items[-1:], gap=0.0)
        await bench.drain()
        by_tick = dict(zip(ticks, items, strict=True))
        real = [(h, p) for h, p in bench.got if h["kind"]]
        assert bench.counts["lost"] == len(tlps) - len(real) > 0
        assert bench.counts["malformed"] == 0 and bench.counts["counted"] == len(tlps)
        for header, payload in real:
            check(header, payload, by_tick[header["tick"]], header["tick"])
        # Between two headers either nothing is missing, or the later header reports a loss.
        order = sorted(ticks)
        told = [h["tick"] for h, _ in bench.got if h["lost"]]
        assert told
        seen = {h["tick"] for h, _ in real}
        missing = False
        flagged = False
        for tick in order:
            if tick in seen:
                header = next(h for h, _ in real if h["tick"] == tick)
                assert not missing or flagged or header["lost"], f"a loss before tick {tick} was not told"
                missing = flagged = False
            else:
                missing = True
                flagged = flagged or any(not h["kind"] and h["lost"] for h, _ in bench.got)


@cocotb.test()
async def back_to_back(dut):
    """TLPs with and without prefixes, and some that are refused for them, without a clock between: each is judged by its own prefixes."""
    r = random.Random(9)
    bench = Bench(dut, r)
    await bench.start()
    refused = 0
    for _ in range(120):
        bench.got.clear()
        items = []
        while len(items) < 7:
            tlp = make(r)
            if len(tlp.pack()) <= 28:
                items.append(badly_dressed(r, bytes(tlp.pack())) if r.random() < 0.3 else whole(r, tlp))
        ticks = await bench.play(items, gap=r.choice((0.0, 0.0, 0.3)))
        await bench.drain()
        due = [(tick, i.why, i.tlp is not None) for i, tick in zip(items, ticks, strict=True) if i.refused or i.tlp]
        refused += sum(i.refused for i in items)
        got = [(h["tick"], MalformedClass(h["why"]).name if h["bad"] else "", h["kind"] != 0) for h, _ in bench.got]
        assert got == due
        for header, payload in bench.got:
            if header["kind"]:
                check(header, payload, next(i for i, tick in zip(items, ticks, strict=True) if tick == header["tick"]), header["tick"])
    assert refused > 100
