"""Amaranth layouts of the wire format's structures, and of a beat of a TLP stream.

:mod:`wattbell_spec.wire` is the only definition of the wire format; this module repeats none of its widths.
"""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.hdl import Shape, signed, unsigned
from amaranth.lib import data
from wattbell_spec import wire as spec


def from_fields(fields: tuple[spec.Field, ...], replace: Mapping[str, int] | None = None) -> data.StructLayout:
    """Return the packed layout of `fields`, the first field in the least significant bits, as in the wire format.

    `replace` maps names of fields to other widths in bits (the member becomes unsigned). It serves records that are wider inside
    the gateware than on the wire. An unknown name raises :class:`KeyError`.
    """
    members: dict[str, Shape] = {f.name: signed(f.bits) if f.signed else unsigned(f.bits) for f in fields}
    for name, bits in (replace or {}).items():
        members[name]  # raises KeyError for an unknown name
        members[name] = unsigned(bits)
    return data.StructLayout(members)


def tlp_beat(width: int) -> data.StructLayout:
    """Return the layout of one clock of a TLP stream, `width` bits wide (64 or 128; others raise :class:`ValueError`).

    See "The instrument's ports" in docs/architecture.md.

    - ``data``: byte 0 of the TLP (or of this part of it) is bits 7:0.
    - ``dws``: valid 32-bit words of this beat, 1 .. width/32; every beat but the last is full.
    - ``first``: first beat of a TLP.
    - ``last``: last beat of a TLP; a TLP of one beat has both.
    - ``error``: with ``last``: the TLP must be discarded (bad LCRC, nullified).
    - ``tick``: tick of the TLP's first symbol, the same on every beat.
    - ``lost``: with ``first``: TLPs of this direction are missing before this TLP (sequence numbers were passed over).
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
"""A command record before it enters a block: it has the absolute tick of its CQE in place of ``cqe_offset``."""
