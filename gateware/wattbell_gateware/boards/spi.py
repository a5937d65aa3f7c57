"""A microcontroller's SPI to the register bus and to the bytes of the USB control port, in the place of the soft core."""

from amaranth import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

__all__ = ["BOARD_PAGE", "CONSOLE_IN", "CONSOLE_OUT", "LINK", "READ", "WRITE", "SpiBridge"]

WRITE, READ = 0x02, 0x03
"""First byte of a frame."""
BOARD_PAGE = 0x80
"""Addresses from here on are the board's; below them the instrument's registers (docs/registers.md)."""
CONSOLE_IN = 0x80
"""Read: bit 8: there is a byte from the USB control port, bits 7:0 the byte; the read takes it."""
CONSOLE_OUT = 0x81
"""Write: bits 7:0 go to the USB control port. Read: bit 0: there is room for one."""
LINK = 0x82
"""Read: what the board sees of the link, see docs/bitstream.md."""


class SpiBridge(wiring.Component):
    """SPI mode 0, most significant bit first, one frame a word:

    - write: ``02h``, address, 4 bytes;
    - read: ``03h``, address, one byte of anything, then 4 bytes come.

    SCK at most an eighth of the clock. A frame that ends early does nothing. Bytes of the control port are SCPI, which the
    microcontroller speaks; ``irq`` is high while there are some.

    Ports
    -----
    cs, sck, copi, cipo, irq : pins, active high.
    reg_addr, reg_wdata, reg_we, reg_rdata : the instrument's register bus.
    console_in, console_out : bytes from and to the USB control port.
    link : what ``LINK`` shows.
    """

    cs: In(1)
    sck: In(1)
    copi: In(1)
    cipo: Out(1)
    irq: Out(1)
    reg_addr: Out(8)
    reg_wdata: Out(32)
    reg_we: Out(1)
    reg_rdata: In(32)
    console_in: In(stream.Signature(8))
    console_out: Out(stream.Signature(8))
    link: In(32)

    def elaborate(self, platform):
        m = Module()
        cs, sck, copi, before = Signal(), Signal(), Signal(), Signal()
        m.submodules += [FFSynchronizer(self.cs, cs), FFSynchronizer(self.sck, sck), FFSynchronizer(self.copi, copi)]
        m.d.sync += before.eq(sck)
        rises, falls = Signal(), Signal()
        m.d.comb += [rises.eq(cs & sck & ~before), falls.eq(cs & ~sck & before)]

        count = Signal(range(57))  # bits that have come; a read is the longest frame, 56
        into, out = Signal(32), Signal(32)
        now_in = Signal(32)
        command, address = Signal(8), Signal(8)
        m.d.comb += now_in.eq(Cat(copi, into))
        with m.If(~cs):
            m.d.sync += count.eq(0)
        with m.Elif(rises & (count != 56)):
            m.d.sync += [into.eq(now_in), count.eq(count + 1)]
            with m.If(count == 7):
                m.d.sync += command.eq(now_in)
            with m.If(count == 15):
                m.d.sync += address.eq(now_in)

        # The word is fetched in the middle of the byte of anything, and leaves with the falling edges after it.
        fetch, put = Signal(), Signal()
        m.d.sync += [
            fetch.eq(rises & (count == 19) & (command == READ)),
            put.eq(rises & (count == 47) & (command == WRITE)),
        ]
        m.d.comb += [
            self.reg_addr.eq(address), self.reg_wdata.eq(into), self.cipo.eq(out[31]),
            self.reg_we.eq(put & (address < BOARD_PAGE)),
            self.console_out.payload.eq(into[:8]), self.console_out.valid.eq(put & (address == CONSOLE_OUT)),
            self.console_in.ready.eq(fetch & (address == CONSOLE_IN)), self.irq.eq(self.console_in.valid),
        ]  # fmt: skip
        # A stream's `valid` stays until taken. The controller asks for room before it writes, so it is always taken at once.
        with m.If(fetch):
            with m.Switch(address):
                with m.Case(CONSOLE_IN):
                    m.d.sync += out.eq(Cat(self.console_in.payload, self.console_in.valid))
                with m.Case(CONSOLE_OUT):
                    m.d.sync += out.eq(self.console_out.ready)
                with m.Case(LINK):
                    m.d.sync += out.eq(self.link)
                with m.Default():
                    m.d.sync += out.eq(self.reg_rdata)
        with m.Elif(falls & (count > 24)):
            m.d.sync += out.eq(out << 1)
        return m
