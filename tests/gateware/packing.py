"""Pack and unpack words by Amaranth's layouts."""

from __future__ import annotations

from amaranth.lib.data import Layout


def unpack(layout: Layout, value: int) -> dict[str, int]:
    """Return the members of a packed struct."""
    return {name: (value >> f.offset) & ((1 << f.width) - 1) for name, f in layout}


def pack(layout: Layout, **members: int) -> int:
    """Return a packed struct; members that are not given are 0."""
    value = 0
    for name, f in layout:
        value |= (int(members.pop(name, 0)) & ((1 << f.width) - 1)) << f.offset
    assert not members, members
    return value
