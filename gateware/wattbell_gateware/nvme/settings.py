"""The host's settings, as far as they were seen on the bus."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value

__all__ = ["Settings"]


_MORE_BITS = 3
"""Logarithm of an SQE's chunks of 64 bytes, at most."""


class Settings:
    """Registers that the host's writes, or late attach, fill.

    bar0, dstrd, enabled, shadow : see :data:`.layouts.COUNTERS`; ports of the engine.
    mps : CC.MPS.
    cc : CC as written.
    function : low byte of the followed function's identifier.
    function_known : ``function`` is known from the bus.
    other_functions : there is another function behind the link.
    reads_ahead : the drive reads SQEs beyond the tail, or twice.
    unsized : nobody saw the size of SQEs in I/O queues.
    db_buffers : PRP1 and PRP2 of the last Doorbell Buffer Config.
    dirty : something is tracked that a reset would end.
    translated : the drive uses another address space than the host's pointers: translated addresses (PCIe: Address Translation
        Services), or a process's (PCIe: PASID TLP Prefix).
    spaces : a request of a process was seen. Any address may mean another page than the host's pointers.
    """

    def __init__(self, *, key_bits: int, bar0: Signal, dstrd: Signal, enabled: Signal, shadow: Signal) -> None:
        self.bar0, self.dstrd, self.enabled, self.shadow = bar0, dstrd, enabled, shadow
        self.mps = Signal(3)
        self.cc = Signal(32)
        self.function, self.function_known = Signal(8), Signal()
        self.other_functions, self.reads_ahead, self.unsized = Signal(), Signal(), Signal()
        self.db_buffers = [Signal(64, name=f"db_buffer_{i}") for i in range(2)]
        self.dirty = Signal()
        self.translated, self.spaces = Signal(), Signal()
        self._key_bits = key_bits
        self._in_page = Signal(4)  # which of the bits from 12 on of an address are of an offset in its page

    def connect(self, m: Module) -> None:
        m.d.comb += self._in_page.eq(Cat(self.mps > bit for bit in range(4)))

    def follow(self, m: Module, identifier: Value) -> None:
        """Follow the function with this identifier, from the present state on."""
        m.d.sync += [self.function.eq(identifier[:8]), self.function_known.eq(1)]

    def is_other(self, identifier: Value) -> Value:
        """Return whether the identifier is of a function that is not followed."""
        return self.function_known & (identifier[:8] != self.function)

    def is_other_than_0(self) -> Value:
        """Return whether the followed function is another than function 0."""
        return self.function_known & (self.function[:3] != 0)

    def more_chunks(self, qid: Value) -> Value:
        """Return the chunks of 64 bytes in an SQE of SQ `qid`, less one: a power of two less one."""
        return Cat((qid != 0) & (self.cc[16:20] > 6 + bit) for bit in range(_MORE_BITS))

    def is_followed(self, *, is_cq: Value, qid: Value) -> Value:
        """Return whether the tracker follows the entry size of this queue."""
        return (qid == 0) | Mux(is_cq, self.cc[20:24] <= 4, self.cc[16:20] <= 6 + _MORE_BITS)

    def page_key(self, address: Value) -> Value:
        """Page number of a byte address, for the memory page size in use (at most 64 KiB)."""
        return Cat((address[12 + bit] & ~self._in_page[bit] for bit in range(4)), address[16 : 12 + self._key_bits])

    def page_offset(self, address: Value) -> Value:
        """Offset in its page, in double words."""
        return Cat(address[2:12], (address[12 + bit] & self._in_page[bit] for bit in range(4)))

    def page_size(self) -> Value:
        """Return the page size in double words."""
        return (1 << (self.mps + 10))[:15]
