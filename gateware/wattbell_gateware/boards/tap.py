"""Top of a board: lanes -> TLPs -> instrument -> USB, and the controller's bus."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace

from amaranth import Cat, DomainRenamer, Elaboratable, Module, Signal
from amaranth.lib import io
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import connect
from wattbell_spec.wire import LinkState

from ..controller import Controller
from ..instrument import Instrument
from ..rail.config import CONVERSION
from ..side import sides
from ..skid import SkidBuffer
from .board import Board
from .direction import link_state
from .speed import SpeedSearch
from .spi import SpiBridge
from .transceiver import Transceiver
from .usb import UsbPorts

__all__ = ["Tap"]

_SHOWN = 2
"""Lanes of each direction in ``LINK``."""


def _buffers(m: Module, platform, name: str, **directions: str) -> SimpleNamespace:
    """Request resource 0 of this name, and add an I/O buffer for each pin."""
    ports = platform.request(name, 0, dir=dict.fromkeys(directions, "-"))
    buffers = {pin: io.Buffer(direction, getattr(ports, pin)) for pin, direction in directions.items()}
    for pin, buffer in buffers.items():
        m.submodules[f"{name}_{pin}"] = buffer
    return SimpleNamespace(**buffers)


class Tap(Elaboratable):
    """Joins all parts on a board.

    | bits of ``LINK`` (see docs/bitstream.md) | |
    |---|---|
    | 3:0, 7:4 | state of the host's and of the drive's direction (``LinkState`` of the wire format) |
    | 9:8, 11:10 | lanes 0 and 1 with symbol lock, host's and drive's |
    | 12, 13 | lanes deskewed, host's and drive's |
    | 14 | 2.5 GT/s |
    | 15 | beats were lost between the clocks since power-on |
    | 19:16 | receivers up: lanes 0 and 1 of the host's direction, of the drive's |

    Parameters
    ----------
    board : the descriptor.
    transceiver : transceivers of the board; None: the descriptor's.
    firmware : little-endian words (``firmware.hex``) for the soft core; None: no soft core, a microcontroller drives the bus
        (:class:`.spi.SpiBridge`).
    instrument : replaces :class:`~wattbell_gateware.instrument.Instrument` in tests of the parts around it.
    """

    def __init__(
        self,
        board: Board,
        transceiver: Transceiver | None = None,
        *,
        firmware: Iterable[int] | None = None,
        instrument: type[Instrument] = Instrument,
    ):
        self._board, self._transceiver, self._firmware = board, transceiver or board.transceiver(), firmware
        options = board.instrument if firmware is None else replace(board.instrument, conversions=True, fine=True)
        self._instrument = instrument(options)

    def elaborate(self, platform):
        m = Module()
        instrument, transceiver = self._instrument, self._transceiver
        m.domains += self._board.clocks.domains()
        m.submodules.clocks = clocks = self._board.clocks()
        m.submodules.instrument = DomainRenamer({"bus": "sync"})(instrument)
        setup = DomainRenamer(transceiver.domain)
        search = SpeedSearch(2 * transceiver.lanes, clock_hz=transceiver.clock_hz, rates=transceiver.rates)
        m.submodules.speed = speed = setup(search)
        m.submodules.clk25 = clk25 = io.Buffer("i", platform.request("clk25", 0, dir="-"))
        m.d.comb += clocks.board.eq(clk25.i)
        rate = speed.rate
        if transceiver.domain != "sync":
            rate = Signal(2)  # may show a wrong rate for a moment during a change
            m.submodules.rate = FFSynchronizer(speed.rate, rate)

        directions, ups = [], []
        for n in range(2):
            direction, receiving = transceiver.receive(m, platform, clocks, n, speed.rate)
            m.d.comb += [
                direction.rate.eq(rate),
                direction.now.eq(instrument.now),
                speed.rates[n].eq(direction.rates),
                speed.leaving[n].eq(direction.leaving),
                speed.heard[n].eq(direction.heard),
            ]
            directions.append(direction)
            ups.append(receiving)
        m.d.comb += [speed.up.eq(Cat(ups)), speed.locked.eq(Cat(direction.locked for direction in directions))]
        up = Cat(receiving[:_SHOWN] for receiving in ups)
        if transceiver.domain != "sync":
            shown, up = up, Signal(2 * _SHOWN)
            m.submodules.up = FFSynchronizer(shown, up)

        host, drive = directions
        m.d.comb += [host.other.eq(drive.agreement), drive.other.eq(host.agreement)]
        for direction, side in zip(directions, sides(instrument), strict=True):
            connect(m, direction.tlps, side.tlps)
            connect(m, direction.link, side.link)
        self._sidebands(m, platform, instrument, directions)
        lost = Signal()
        m.d.sync += lost.eq(host.lost | drive.lost)
        aligned, locked = Signal(2), Signal(2 * _SHOWN)
        m.submodules.aligned = FFSynchronizer(Cat(host.aligned, drive.aligned), aligned)
        m.submodules.locked = FFSynchronizer(Cat(direction.locked[:_SHOWN] for direction in directions), locked)
        self._transport(m, platform, clocks, instrument, Cat(host.state, drive.state, locked, aligned, rate == 0, lost, up))
        for n, shown in enumerate((1, aligned[0], aligned[1], lost)):
            m.submodules[f"led{n}"] = led = io.Buffer("o", platform.request("led", n, dir="-"))
            m.d.comb += led.o.eq(shown)
        return m

    def _sidebands(self, m: Module, platform, instrument, directions) -> None:
        pins = _buffers(m, platform, "sideband", perst_n="i", clkreq_n="i")
        m.submodules.perst = FFSynchronizer(pins.perst_n.i, instrument.perst_n)
        m.submodules.clkreq = FFSynchronizer(pins.clkreq_n.i, instrument.clkreq_n, init=1)
        state = link_state(m, *(direction.state for direction in directions))
        m.d.sync += instrument.link_state.eq(state)
        # CLKREQ# is released in L1.1 as in L1.2; these pins do not show the difference.
        with m.If((state == LinkState.L1) & instrument.clkreq_n):
            m.d.sync += instrument.link_state.eq(LinkState.L1_2)
        m.d.comb += [direction.down.eq(~instrument.perst_n) for direction in directions]
        adc = _buffers(m, platform, "adc", cnv="o", sck="o", sdo_v="i", sdo_i="i")
        # Both outputs leave from registers of the instrument; SDO is timed to the clock by the board (rail/front.py).
        m.d.comb += [
            adc.cnv.o.eq(instrument.adc_cnv),
            adc.sck.o.eq(instrument.adc_sck),
            instrument.adc_sdo_v.eq(adc.sdo_v.i),
            instrument.adc_sdo_i.eq(adc.sdo_i.i),
        ]

    def _transport(self, m: Module, platform, clocks, instrument, link) -> None:
        ulpi = _buffers(m, platform, "ulpi", data="io", clk="i", dir="i", nxt="i", stp="o", rst="o")
        # LUNA would drive the PHY's reset from a domain that has no clock while the PHY is in reset.
        # All boards of a type have one serial number: a number of its own needs a place to keep it, which no board has yet.
        serial = f"{self._board.facts.name.upper()}-0001"
        m.submodules.usb = usb = UsbPorts(SimpleNamespace(data=ulpi.data, clk=ulpi.clk, dir=ulpi.dir, nxt=ulpi.nxt, stp=ulpi.stp), serial)
        controller = self._spi(m, platform) if self._firmware is None else self._soft_core(m, platform, instrument)
        m.d.comb += [
            clocks.ulpi.eq(ulpi.clk.i),
            ulpi.rst.o.eq(clocks.phy_reset),
            instrument.reg_addr.eq(controller.reg_addr),
            instrument.reg_wdata.eq(controller.reg_wdata),
            instrument.reg_we.eq(controller.reg_we),
            controller.reg_rdata.eq(instrument.reg_rdata),
            controller.link.eq(link),
            instrument.step.eq(0),
        ]
        m.submodules.stage = skid = SkidBuffer(instrument.out.payload.shape())
        connect(m, instrument.out, skid.i)
        connect(m, skid.o, usb.blocks)
        connect(m, usb.console_in, controller.console_in)
        connect(m, controller.console_out, usb.console_out)

    def _spi(self, m: Module, platform) -> SpiBridge:
        m.submodules.controller = controller = SpiBridge()
        pins = _buffers(m, platform, "controller", cs="i", sck="i", copi="i", cipo="o", irq="o")
        m.d.comb += [
            controller.cs.eq(pins.cs.i),
            controller.sck.eq(pins.sck.i),
            controller.copi.eq(pins.copi.i),
            pins.cipo.o.eq(controller.cipo),
            pins.irq.o.eq(controller.irq),
        ]
        return controller

    def _soft_core(self, m: Module, platform, instrument) -> Controller:
        assert self._firmware is not None
        m.submodules.controller = controller = Controller(self._firmware, halved=self._board.instrument.slow)
        power = _buffers(m, platform, "power", load_switch="o", rail_good="i", perst_low="o", clkreq_low="o")
        front, i2c = _buffers(m, platform, "afe", zero="o"), _buffers(m, platform, "i2c", scl="io", sda="io")
        load, fine = _buffers(m, platform, "load", gate="o"), _buffers(m, platform, "adc_fine", sdo="i")
        m.submodules.rail_good = FFSynchronizer(power.rail_good.i, controller.rail_good)
        conversion = instrument.conversion
        m.d.comb += [
            power.load_switch.o.eq(controller.load_switch),
            power.perst_low.o.eq(controller.perst_low),
            power.clkreq_low.o.eq(controller.clkreq_low),
            front.zero.o.eq(controller.zero),
            load.gate.o.eq(controller.load),
            instrument.adc_sdo_f.eq(fine.sdo.i),
            instrument.adc_fine.eq(1),
            i2c.scl.o.eq(0),
            i2c.scl.oe.eq(controller.scl_low),
            controller.scl_i.eq(i2c.scl.i),
            i2c.sda.o.eq(0),
            i2c.sda.oe.eq(controller.sda_low),
            controller.sda_i.eq(i2c.sda.i),
            controller.now.eq(instrument.now),
            controller.link_state.eq(instrument.link_state),
            controller.perst_n.eq(instrument.perst_n),
            controller.clkreq_n.eq(instrument.clkreq_n),
            instrument.convert.eq(controller.convert),
            controller.rail_valid.eq(instrument.converted),
            *(getattr(controller, f"rail_{name}").eq(conversion[name]) for name in CONVERSION.members),
        ]
        return controller
