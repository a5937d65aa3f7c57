"""What the host has set, as far as the bus told it."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal, Value

__all__ = ["Settings"]


class Settings:
    """Registers that the host's writes, or late attach, fill.

    bar0, dstrd, enabled, shadow : as in the package's docstring; of ports of the engine.
    mps : CC.MPS. db_buffers : PRP1 and PRP2 of the last Doorbell Buffer Config. dirty : something is tracked that a reset would end.
    """

    def __init__(self, *, key_bits: int, bar0: Signal, dstrd: Signal, enabled: Signal, shadow: Signal) -> None:
        self.bar0, self.dstrd, self.enabled, self.shadow = bar0, dstrd, enabled, shadow
        self.mps = Signal(3)
        self.db_buffers = [Signal(64, name=f"db_buffer_{i}") for i in range(2)]
        self.dirty = Signal()
        self._key_bits = key_bits
        self._in_page = Signal(4)  # which of the bits from 12 on of an address are of an offset in its page

    def connect(self, m: Module) -> None:
        m.d.comb += self._in_page.eq(Cat(self.mps > bit for bit in range(4)))

    def page_key(self, address: Value) -> Value:
        """Page number of a byte address, for the memory page size in use (at most 64 KiB)."""
        return Cat((address[12 + bit] & ~self._in_page[bit] for bit in range(4)), address[16 : 12 + self._key_bits])

    def page_offset(self, address: Value) -> Value:
        """Offset in its page, in double words."""
        return Cat(address[2:12], (address[12 + bit] & self._in_page[bit] for bit in range(4)))

    def page_size(self) -> Value:
        """In double words."""
        return (1 << (self.mps + 10))[:15]
