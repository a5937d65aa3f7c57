"""Block RAMs of the ECP5 side by side at the same pins, in every width and mode, and their model in Python from the published facts."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from amaranth.hdl import Elaboratable, Instance, Module
from amaranth.lib.wiring import Component, In, Out, Signature

WORDS = {1: 16384, 2: 8192, 4: 4096, 9: 2048, 18: 1024, 36: 512}
"""Words of a port by its width."""


@dataclass(frozen=True)
class Kind:
    """Parameters of a block RAM."""

    widths: tuple[int, int] = (18, 18)
    modes: tuple[str, str] = ("NORMAL", "NORMAL")
    registers: tuple[bool, bool] = (False, False)
    asynchronous: bool = False
    codes: tuple[int, int] = (0, 0)
    seed: int = 0
    """Seed of the initial content; 0: empty."""

    def words(self) -> list[int]:
        """Return the initial content: 1024 words of 18 bits."""
        rng = random.Random(self.seed)
        return [rng.getrandbits(18) if self.seed else 0 for _ in range(1024)]

    def parameters(self) -> dict[str, object]:
        values = {f"p_INITVAL_{k:02X}": sum(word << 20 * j for j, word in enumerate(self.words()[16 * k : 16 * k + 16])) for k in range(64)}
        for i, port in enumerate("AB"):
            values[f"p_DATA_WIDTH_{port}"] = self.widths[i]
            values[f"p_WRITEMODE_{port}"] = self.modes[i]
            values[f"p_REGMODE_{port}"] = "OUTREG" if self.registers[i] else "NOREG"
            values[f"p_CSDECODE_{port}"] = f"0b{self.codes[i]:03b}"
        reset = "ASYNC" if self.asynchronous else "SYNC"
        return {**values, "p_RESETMODE": reset, "p_ASYNC_RESET_RELEASE": reset}


BEFORE, THROUGH = "READBEFOREWRITE", "WRITETHROUGH"
KINDS = [
    Kind(),
    Kind(seed=1),
    Kind((9, 18), (BEFORE, THROUGH), seed=2),
    Kind((18, 9), (THROUGH, BEFORE), (True, False), seed=3),
    Kind((1, 2), seed=4),
    Kind((4, 1), (THROUGH, THROUGH), seed=5),
    Kind((2, 4), (BEFORE, BEFORE), (False, True), seed=6),
    Kind((36, 36), seed=7),
    Kind((36, 9), registers=(False, True), seed=8),
    Kind((36, 18), seed=9),
    Kind((9, 9), asynchronous=True, seed=10),
    Kind((18, 18), registers=(True, True), asynchronous=True, seed=11),
    Kind((9, 1), codes=(0b101, 0b110), seed=12),
]
"""Kinds under test. If one port has 36 bits, the other only reads (pseudo dual port)."""

PORT = {"clk": 1, "ce": 1, "oce": 1, "we": 1, "rst": 1, "cs": 3, "ad": 14, "di": 18}
PINS = {"clk": "CLK", "ce": "CE", "oce": "OCE", "we": "WE", "rst": "RST", "cs": "CS", "ad": "AD", "di": "DI"}


class Bench(Component):
    """All kinds at the same pins, each with its own outputs, and a multiplier beside them."""

    def __init__(self) -> None:
        pins = {f"{name}_{port}": In(width) for port in "ab" for name, width in PORT.items()}
        outs = {f"do_{port}{k}": Out(18) for port in "ab" for k in range(len(KINDS))}
        super().__init__(Signature({**pins, **outs, "a": In(18), "b": In(18), "sign": In(2), "p": Out(36)}))

    def elaborate(self, _platform: object) -> Elaboratable:
        m = Module()
        for k, kind in enumerate(KINDS):
            pins: dict[str, object] = {}
            for port in "ab":
                for name, width in PORT.items():
                    value = getattr(self, f"{name}_{port}")
                    # A port with 36 bits also uses the other port's data pins, and only one of the two writes.
                    if name == "we" and port == "b" and 36 in kind.widths:
                        value = 0
                    if width == 1:
                        pins[f"i_{PINS[name]}{port.upper()}"] = value
                    else:
                        pins |= {f"i_{PINS[name]}{port.upper()}{i}": value[i] for i in range(width)}
                out = getattr(self, f"do_{port}{k}")
                pins |= {f"o_DO{port.upper()}{i}": out[i] for i in range(18)}
            m.submodules[f"ram{k}"] = Instance("DP16KD", **kind.parameters(), **pins)
        factors = {f"i_{name}{i}": value[i] for name, value in (("A", self.a), ("B", self.b)) for i in range(18)}
        unused = {f"i_C{i}": 0 for i in range(18)} | {"i_SOURCEA": 0, "i_SOURCEB": 0}
        m.submodules.multiplier = Instance(
            "MULT18X18D",
            **factors,
            **unused,
            i_SIGNEDA=self.sign[0],
            i_SIGNEDB=self.sign[1],
            **{f"o_P{i}": self.p[i] for i in range(36)},
        )
        return m


@dataclass
class Pins:
    """Levels of a port's pins at an edge."""

    ce: int
    oce: int
    we: int
    rst: int
    cs: int
    ad: int
    di: int


@dataclass
class Model:
    """A block RAM bit by bit: a list of cells, and for each port the cells of each word."""

    kind: Kind
    cells: list[int] = field(init=False)
    read: list[int | None] = field(default_factory=lambda: [0, 0])
    out: list[int | None] = field(default_factory=lambda: [0, 0])

    def __post_init__(self) -> None:
        self.cells = [word >> bit & 1 for word in self.kind.words() for bit in range(18)]

    def places(self, i: int, ad: int) -> list[int]:
        """Return the cells of the word at an address, lowest bit first. A word of less than nine bits is in eight of nine cells."""
        width = self.kind.widths[i]
        if width >= 9:
            word = ad // (16384 // WORDS[width])
            return list(range(word * width, word * width + width))
        first = ad - ad % width
        return [(first + bit) // 8 * 9 + (first + bit) % 8 for bit in range(width)]

    def written(self, i: int, pins: list[Pins]) -> dict[int, int]:
        """Return the bits that a port writes: cell -> bit."""
        port, width = pins[i], self.kind.widths[i]
        blocked = port.rst and not self.kind.asynchronous
        if not (port.we and port.ce and port.cs == self.kind.codes[i]) or blocked:
            return {}
        value = pins[0].di | pins[1].di << 18 if width == 36 else port.di
        places = self.places(i, port.ad)
        # Byte enables use the low address pins, which a wide port does not need.
        return {cell: value >> bit & 1 for bit, cell in enumerate(places) if width < 18 or port.ad >> bit // 9 & 1}

    def edge(self, pins: list[Pins]) -> None:
        """Apply a rising edge of both clocks. A bit without a promised value becomes the wrong one."""
        writes = [self.written(i, pins) for i in (0, 1)]
        for i, port in enumerate(pins):
            out = 0 if port.rst else self.read[i] if port.oce else self.out[i]
            if port.rst:
                self.read[i] = 0
            elif port.ce and port.cs == self.kind.codes[i] and not (port.we and self.kind.modes[i] == "NORMAL"):
                bits = {cell: self.cells[cell] ^ (cell in writes[1 - i]) for cell in self.places(i, port.ad)}
                if self.kind.modes[i] == THROUGH:
                    bits |= writes[i]
                self.read[i] = sum(bit << k for k, bit in enumerate(bits.values()))
            self.out[i] = out
        clash = writes[0].keys() & writes[1].keys()
        wrong = {cell: self.cells[cell] ^ 1 for cell in clash}
        for cell, bit in {**writes[0], **writes[1], **wrong}.items():
            self.cells[cell] = bit

    def reset(self, i: int) -> None:
        """Apply a rising RST of a port, between edges."""
        if self.kind.asynchronous:
            self.read[i] = self.out[i] = 0

    def shown(self) -> tuple[int, int]:
        """Return the levels of the data pins; for a port narrower than the pins, only its bits."""
        a, b = (self.out[i] if self.kind.registers[i] else self.read[i] for i in (0, 1))
        return (b & 0x3FFFF, b >> 18) if self.kind.widths[1] == 36 else (a, b)
