"""Bridge from a microcontroller's SPI to the register bus and the bytes of the USB control port, in place of the soft core."""

from amaranth import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

__all__ = ["BOARD_PAGE", "CONSOLE_IN", "CONSOLE_OUT", "LINK", "READ", "WRITE", "SpiBridge"]

WRITE, READ = 0x02, 0x03
"""First byte of a frame."""
BOARD_PAGE = 0x80
"""First address of the board's own registers. The instrument's registers are below it (docs/registers.md)."""
CONSOLE_IN = 0x80
"""Read: bit 8: a byte from the USB control port is available; bits 7:0: the byte. The read takes it."""
CONSOLE_OUT = 0x81
"""Write: bits 7:0 go to the USB control port. Read: bit 0: there is room for a byte."""
LINK = 0x82
"""Read: state of the link as the board sees it, see docs/bitstream.md."""


class SpiBridge(wiring.Component):
    """Bridges SPI mode 0, most significant bit first, to the register bus. One frame is one word:

    - write: ``02h``, address, 4 bytes;
    - read: ``03h``, address, one byte of any value, then 4 bytes come.

    SCK may have at most an eighth of the clock's frequency. A frame that ends early has no effect. Bytes of the control port are
    SCPI, which the microcontroller speaks.

    Ports
    -----
    cs : chip select pin, active high.
    sck : clock pin.
    copi : data pin from the microcontroller.
    cipo : data pin to the microcontroller.
    irq : pin, high while bytes of the control port wait.
    reg_addr : address on the instrument's register bus.
    reg_wdata : value to write.
    reg_we : write strobe.
    reg_rdata : value read.
    console_in : bytes from the USB control port.
    console_out : bytes to the USB control port.
    link : value of ``LINK``.
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

        count = Signal(range(57))  # received bits; a read is the longest frame, 56
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

        # The word is fetched in the middle of the filler byte, and leaves with the falling edges after this byte.
        fetch, put = Signal(), Signal()
        m.d.sync += [
            fetch.eq(rises & (count == 19) & (command == READ)),
            put.eq(rises & (count == 47) & (command == WRITE)),
        ]
        m.d.comb += [
            self.reg_addr.eq(address),
            self.reg_wdata.eq(into),
            self.cipo.eq(out[31]),
            self.reg_we.eq(put & (address < BOARD_PAGE)),
            self.console_out.payload.eq(into[:8]),
            self.console_out.valid.eq(put & (address == CONSOLE_OUT)),
            self.console_in.ready.eq(fetch & (address == CONSOLE_IN)),
            self.irq.eq(self.console_in.valid),
        ]
        # A stream's `valid` stays until taken. The controller asks for room before it writes, so each byte is taken at once.
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
