"""Everything on the ECP5: lanes -> TLPs -> instrument -> USB, and the controller's bus."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace

from amaranth import Cat, DomainRenamer, Elaboratable, Module, Signal
from amaranth.lib import io
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import connect
from wattbell_spec.wire import LinkState

from ...controller import Controller
from ...instrument import Instrument
from ...nvme import MapSizes
from ...rail.config import CONVERSION
from ...stage import Stage
from ..controller import Controller as SpiController
from ..direction import Direction, link_state
from ..speed import SpeedSearch
from ..usb import UsbPorts
from .clocks import CORE_HZ, Clocks
from .dcu import DualReceiver
from .lanes import GEARED, LATE_TICKS, LanePair

__all__ = ["INSTRUMENT", "Ecp5Tap", "board_direction"]

_LINK_TICKS = 8
INSTRUMENT = {"width": 128, "ticks_per_clock": 2 * _LINK_TICKS, "adc": "serial", "slots": 512, "queues": 32, "beats": 1024,
              "beats_up": 512, "slow": True, "lanes": True, "sizes": MapSizes(pages=4, pieces=2, key_bits=42), "tags": 256}  # fmt: skip
"""Parameters of the instrument on this board: two lanes at 5 GT/s are 128 bits at 62.5 MHz. Commands in flight, queues and the ways of
the page map are half of what the larger target has, and the payload kept: this part has 208 block RAMs, and every one of them costs 60 long
wires. There are no tags of 10 bits at its speeds. Addresses are below 2**54 (those of x86 and ARM are
below 2**52)."""
_KEPT = 4096
"""Bytes of TLPs that wait for their LCRC; the longest TLP. Drives have a Max_Payload_Size of 128 to 512 bytes."""
_LANES = 2
_SERIAL = "ECP5-0001"
"""Of the one board; a number a board wants a place to keep it, which firmware and hw/ will bring."""


def _buffers(m: Module, platform, name: str, **directions: str) -> SimpleNamespace:
    """Resource 0 of this name with an I/O buffer for each pin."""
    ports = platform.request(name, 0, dir=dict.fromkeys(directions, "-"))
    buffers = {pin: io.Buffer(direction, getattr(ports, pin)) for pin, direction in directions.items()}
    for pin, buffer in buffers.items():
        m.submodules[f"{name}_{pin}"] = buffer
    return SimpleNamespace(**buffers)


def board_direction() -> Direction:
    """One direction, as this board has it behind a :class:`.lanes.LanePair`."""
    return Direction(_LANES, GEARED, ticks_per_clock=_LINK_TICKS, late_ticks=LATE_TICKS, half=True, bytes_kept=_KEPT)

class Ecp5Tap(Elaboratable):
    """The tap.

    | bits of ``LINK`` (see docs/bitstream.md) | |
    |---|---|
    | 3:0, 7:4 | state of the host's and of the drive's direction (``LinkState`` of the wire format) |
    | 9:8, 11:10 | lanes with symbol lock, host's and drive's |
    | 12, 13 | lanes side by side, host's and drive's |
    | 14 | 2.5 GT/s |
    | 15 | beats were lost between the clocks since power-on |
    | 19:16 | receivers up: host's lanes, drive's lanes |

    Parameters
    ----------
    instrument : with the ports of :class:`~wattbell_gateware.instrument.Instrument` of :data:`INSTRUMENT`; the default is that one.
        With ``firmware`` it has ``conversions`` and ``fine`` too.
    firmware : little-endian words (``firmware.hex``) for the soft core; None: there is none, the bus is a microcontroller's
        (:class:`..controller.Controller`).
    """

    def __init__(self, instrument=None, *, firmware: Iterable[int] | None = None):
        self._firmware = firmware
        soft = {} if firmware is None else {"conversions": True, "fine": True}
        self._instrument = Instrument(**INSTRUMENT, **soft) if instrument is None else instrument

    def elaborate(self, platform):
        m = Module()
        m.domains += Clocks.domains()
        m.submodules.clocks = clocks = Clocks()
        instrument = self._instrument
        m.submodules.instrument = DomainRenamer({"bus": "sync"})(instrument)
        m.submodules.speed = speed = SpeedSearch(2 * _LANES, clock_hz=CORE_HZ)
        m.submodules.clk25 = clk25 = io.Buffer("i", platform.request("clk25", 0, dir="-"))
        m.d.comb += clocks.board.eq(clk25.i)

        # Lanes to TLPs.
        directions, ups = [], []
        for n in range(2):
            lanes = [platform.request("lane", _LANES * n + lane, dir="-") for lane in range(_LANES)]
            reference = platform.request("dcu_reference", n, dir="-")
            m.submodules[f"dcu{n}"] = dcu = DualReceiver(n, lanes, reference, clock_hz=CORE_HZ)
            own = DomainRenamer({"words": f"words{n}", "other": f"other{n}", "link": f"link{n}"})
            m.submodules[f"lanes{n}"] = pair = own(LanePair())
            m.submodules[f"direction{n}"] = direction = own(board_direction())
            m.d.comb += [
                dcu.slow.eq(speed.rate == 0), *(clocks.words[n][lane].eq(dcu.clk[lane]) for lane in range(_LANES)),
                pair.word.eq(dcu.word), pair.up.eq(dcu.up), clocks.halves[n].eq(pair.half),
                direction.raw.eq(pair.raw), direction.raw_valid.eq(pair.raw_valid), direction.rate.eq(speed.rate),
                direction.now.eq(instrument.now), speed.rates[n].eq(direction.rates), speed.leaving[n].eq(direction.leaving),
                speed.heard[n].eq(direction.heard),
            ]  # fmt: skip
            directions.append(direction)
            ups.append(dcu.up)
        m.d.comb += [speed.up.eq(Cat(ups)), speed.locked.eq(Cat(direction.locked for direction in directions))]
        self._behind(m, platform, clocks, directions, slow=speed.rate == 0, up=Cat(ups))
        return m

    def _behind(self, m: Module, platform, clocks, directions, *, slow, up) -> None:
        """Everything behind the receivers. `slow` (2.5 GT/s) and `up` (two lanes of each direction) are in ``sync``."""
        instrument, (host, drive) = self._instrument, directions
        for direction, tlps, link in ((host, instrument.tlp_down, instrument.link_down), (drive, instrument.tlp_up, instrument.link_up)):
            connect(m, direction.tlps, tlps)
            connect(m, direction.link, link)
        self._sidebands(m, platform, instrument, directions)
        lost = Signal()
        m.d.sync += lost.eq(host.lost | drive.lost)
        aligned, locked = Signal(2), Signal(4)
        m.submodules.aligned = FFSynchronizer(Cat(host.aligned, drive.aligned), aligned)
        m.submodules.locked = FFSynchronizer(Cat(host.locked[:2], drive.locked[:2]), locked)
        self._transport(m, platform, clocks, instrument, Cat(host.state, drive.state, locked, aligned, slow, lost, up))
        for n, shown in enumerate((1, aligned[0], aligned[1], lost)):
            m.submodules[f"led{n}"] = led = io.Buffer("o", platform.request("led", n, dir="-"))
            m.d.comb += led.o.eq(shown)

    def _sidebands(self, m: Module, platform, instrument, directions) -> None:
        pins = _buffers(m, platform, "sideband", perst_n="i", clkreq_n="i")
        m.submodules.perst = FFSynchronizer(pins.perst_n.i, instrument.perst_n)
        m.submodules.clkreq = FFSynchronizer(pins.clkreq_n.i, instrument.clkreq_n, init=1)
        state = link_state(m, *(direction.state for direction in directions))
        m.d.sync += instrument.link_state.eq(state)
        # CLKREQ# is let go in L1.1 as in L1.2; what tells them apart is not on these pins.
        with m.If((state == LinkState.L1) & instrument.clkreq_n):
            m.d.sync += instrument.link_state.eq(LinkState.L1_2)
        m.d.comb += [direction.down.eq(~instrument.perst_n) for direction in directions]
        adc = _buffers(m, platform, "adc", cnv="o", sck="o", sdo_v="i", sdo_i="i")
        # Both outputs leave from registers of the instrument; SDO is timed to the clock by the board (rail/front.py).
        m.d.comb += [
            adc.cnv.o.eq(instrument.adc_cnv), adc.sck.o.eq(instrument.adc_sck),
            instrument.adc_sdo_v.eq(adc.sdo_v.i), instrument.adc_sdo_i.eq(adc.sdo_i.i),
        ]  # fmt: skip

    def _transport(self, m: Module, platform, clocks, instrument, link) -> None:
        ulpi = _buffers(m, platform, "ulpi", data="io", clk="i", dir="i", nxt="i", stp="o", rst="o")
        # LUNA would drive the PHY's reset from a domain that has no clock while the PHY is in reset.
        m.submodules.usb = usb = UsbPorts(SimpleNamespace(data=ulpi.data, clk=ulpi.clk, dir=ulpi.dir, nxt=ulpi.nxt, stp=ulpi.stp), _SERIAL)
        controller = self._spi(m, platform) if self._firmware is None else self._soft_core(m, platform, instrument)
        m.d.comb += [
            clocks.ulpi.eq(ulpi.clk.i), ulpi.rst.o.eq(clocks.phy_reset),
            instrument.reg_addr.eq(controller.reg_addr), instrument.reg_wdata.eq(controller.reg_wdata),
            instrument.reg_we.eq(controller.reg_we), controller.reg_rdata.eq(instrument.reg_rdata), controller.link.eq(link),
            instrument.step.eq(0),
        ]  # fmt: skip
        m.submodules.stage = stage = Stage(instrument.out.payload.shape())
        connect(m, instrument.out, stage.i)
        connect(m, stage.o, usb.blocks)
        connect(m, usb.console_in, controller.console_in)
        connect(m, controller.console_out, usb.console_out)

    def _spi(self, m: Module, platform) -> SpiController:
        m.submodules.controller = controller = SpiController()
        pins = _buffers(m, platform, "controller", cs="i", sck="i", copi="i", cipo="o", irq="o")
        m.d.comb += [
            controller.cs.eq(pins.cs.i), controller.sck.eq(pins.sck.i), controller.copi.eq(pins.copi.i),
            pins.cipo.o.eq(controller.cipo), pins.irq.o.eq(controller.irq),
        ]  # fmt: skip
        return controller

    def _soft_core(self, m: Module, platform, instrument) -> Controller:
        m.submodules.controller = controller = Controller(self._firmware, halved=True)
        power = _buffers(m, platform, "power", load_switch="o", rail_good="i", perst_low="o", clkreq_low="o")
        front, i2c = _buffers(m, platform, "afe", zero="o"), _buffers(m, platform, "i2c", scl="io", sda="io")
        load, fine = _buffers(m, platform, "load", gate="o"), _buffers(m, platform, "adc_fine", sdo="i")
        m.submodules.rail_good = FFSynchronizer(power.rail_good.i, controller.rail_good)
        conversion = instrument.conversion
        m.d.comb += [
            power.load_switch.o.eq(controller.load_switch), power.perst_low.o.eq(controller.perst_low),
            power.clkreq_low.o.eq(controller.clkreq_low), front.zero.o.eq(controller.zero),
            load.gate.o.eq(controller.load), instrument.adc_sdo_f.eq(fine.sdo.i), instrument.adc_fine.eq(1),
            i2c.scl.o.eq(0), i2c.scl.oe.eq(controller.scl_low), controller.scl_i.eq(i2c.scl.i),
            i2c.sda.o.eq(0), i2c.sda.oe.eq(controller.sda_low), controller.sda_i.eq(i2c.sda.i),
            controller.now.eq(instrument.now), controller.link_state.eq(instrument.link_state),
            controller.perst_n.eq(instrument.perst_n), controller.clkreq_n.eq(instrument.clkreq_n),
            instrument.convert.eq(controller.convert), controller.rail_valid.eq(instrument.converted),
            *(getattr(controller, f"rail_{name}").eq(conversion[name]) for name in CONVERSION.members),
        ]  # fmt: skip
        return controller
