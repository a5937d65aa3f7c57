"""Fields of TLP headers (PCI Express Base Specification, 2.2) and their form after the parser."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal, Value, unsigned
from amaranth.lib import data, enum


class TlpKind(enum.Enum, shape=3):
    """Kinds of TLP that the tracker can use. Every other TLP is counted and dropped."""

    NONE = 0  # no TLP; carries only the flags `lost` and `bad`
    MRD = 1
    MWR = 2
    CFGWR = 3  # configuration write, type 0
    CPL = 4  # completion without data, or not successful
    CPLD = 5  # successful completion with data
    CFGRD = 6  # configuration read, type 0
    MSG = 7  # Assert_INTA or Deassert_INTA of the drive


HEADER = data.StructLayout(
    {
        "kind": TlpKind,
        "lost": unsigned(1),  # one or more TLPs of this direction were lost before this one
        "bad": unsigned(1),  # a TLP was refused here (kind is NONE), or this one is poisoned
        "why": unsigned(3),  # with `bad`: MalformedClass of the wire format
        "tick": unsigned(64),
        # Address of the first byte's double word; configuration: register offset, and the function from bit 16 on; completions: lower
        # address; MSG: message code.
        "address": unsigned(64),
        "length": unsigned(11),  # double words, 1 .. 1024
        "tag": unsigned(10),
        "requester": unsigned(16),
        "first_be": unsigned(4),
        "last_be": unsigned(4),
        "at": unsigned(2),  # of a memory request: 0 untranslated address, 1 translation request, 2 translated address, 3 of a PASID
        "four": unsigned(1),  # the header has four double words, not three
        "data": unsigned(1),  # there is payload
        "digest": unsigned(1),  # there is a digest (ECRC) after it
        "kept": unsigned(1),  # the TLP is in the payload buffer
        "base": unsigned(14),  # double-word index of the TLP's first byte in the payload buffer
        "end": unsigned(14),  # double-word index after the TLP: the buffer may be freed up to here
    }
)
"""A TLP after the parser."""


def payload_start(header) -> Value:
    """Return the double-word index of a TLP's first payload byte (:data:`HEADER`) in the payload buffer."""
    return (header.base + 3 + header.four)[:14]


def total_dws(header) -> Value:
    """Return the double words of the whole TLP from its header on, with its digest."""
    return ((header.four + 3) + (header.length & header.data.replicate(11)) + header.digest)[:11]


def swap_bytes(word: Value) -> Value:
    """Return a header double word as a number: header fields are big-endian on the wire."""
    return Cat(word[24:32], word[16:24], word[8:16], word[0:8])


class FirstWord:
    """Combinational decoder of the first double word of a header (``word``, byte 0 in bits 7:0)."""

    def __init__(self, m: Module, name: str) -> None:
        self.word = Signal(32, name=f"{name}_word")
        w = swap_bytes(self.word)
        fmt, kind = w[29:32], w[24:29]
        self.fmt_known = Signal(name=f"{name}_fmt_known")
        self.four = Signal(name=f"{name}_four")
        self.has_data = Signal(name=f"{name}_has_data")
        self.poisoned = Signal(name=f"{name}_poisoned")
        self.digest = Signal(name=f"{name}_digest")
        self.length = Signal(11, name=f"{name}_length")
        self.total = Signal(11, name=f"{name}_total")
        self.kind = Signal(TlpKind, name=f"{name}_kind")
        self.tag_high = Signal(2, name=f"{name}_tag_high")
        self.at = Signal(2, name=f"{name}_at")
        m.d.comb += [
            self.fmt_known.eq(~fmt[2]),
            self.four.eq(fmt[0]),
            self.has_data.eq(fmt[1]),
            self.poisoned.eq(w[14]),
            self.digest.eq(w[15]),
            self.length.eq(Cat(w[0:10], w[0:10] == 0)),
            self.total.eq((self.four + 3) + (self.length & self.has_data.replicate(11)) + self.digest),
            self.tag_high.eq(Cat(w[19], w[23])),
            self.at.eq(w[10:12]),
        ]
        with m.Switch(Cat(kind, fmt)):
            for pattern, value in (
                ("00000000", TlpKind.MRD),
                ("00100000", TlpKind.MRD),
                ("01000000", TlpKind.MWR),
                ("01100000", TlpKind.MWR),
                ("00000100", TlpKind.CFGRD),
                ("01000100", TlpKind.CFGWR),
                ("00110100", TlpKind.MSG),
                ("00001010", TlpKind.CPL),
                ("01001010", TlpKind.CPLD),
            ):
                with m.Case(pattern):
                    m.d.comb += self.kind.eq(value)
