"""Amaranth layouts of what the wire format describes, and of a beat of a TLP stream.

The wire format is written once, in :mod:`wattbell_spec.wire`; nothing here repeats a width of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.hdl import Shape, signed, unsigned
from amaranth.lib import data
from wattbell_spec import wire as spec


def from_fields(fields: tuple[spec.Field, ...], replace: Mapping[str, int] | None = None) -> data.StructLayout:
    """A packed layout of `fields`, first field in the least significant bits, as the wire format packs them.

    `replace` maps names of fields to other widths in bits (the member becomes unsigned), for records that travel
    inside the gateware in a wider form than on the wire. An unknown name raises :class:`KeyError`.
    """
    members: dict[str, Shape] = {f.name: signed(f.bits) if f.signed else unsigned(f.bits) for f in fields}
    for name, bits in (replace or {}).items():
        members[name]  # an unknown name is a mistake of the caller
        members[name] = unsigned(bits)
    return data.StructLayout(members)


def tlp_beat(width: int) -> data.StructLayout:
    """One clock of a TLP stream `width` bits wide (64 or 128). See "The instrument's ports" in docs/architecture.md.

    - ``data``: byte 0 of the TLP (or of this part of it) is bits 7:0.
    - ``dws``: valid 32-bit words of this beat, 1 .. width/32; every beat but the last is full.
    - ``first``, ``last``: the first and the last beat of a TLP (both on a TLP of one beat).
    - ``error``: with ``last``: the TLP must be discarded (LCRC, nullified).
    - ``tick``: tick of the TLP's first symbol, the same on every beat.
    - ``lost``: with ``first``: TLPs of this direction are missing before this one (sequence numbers were passed over).
    """
    if width not in (64, 128):
        raise ValueError(f"TLP datapath width must be 64 or 128 bits, not {width!r}")
    return data.StructLayout(
        {
            "data": unsigned(width),
            "dws": range(width // 32 + 1),
            "first": 1,
            "last": 1,
            "error": 1,
            "tick": 64,
            "lost": 1,
        }
    )


EVENT = from_fields(spec.EVENT)
"""An event, as on the wire."""

COMMAND = data.StructLayout({"cqe_tick": unsigned(64)} | {f.name: unsigned(f.bits) for f in spec.COMMAND if f.name != "cqe_offset"})
"""A command record before it is put into a block: the absolute tick of its CQE in place of ``cqe_offset``."""
