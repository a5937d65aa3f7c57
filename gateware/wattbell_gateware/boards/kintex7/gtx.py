"""A quad of GTX as four receivers of raw words."""

from __future__ import annotations

from amaranth import Cat, ClockSignal, Instance, Module, ResetSignal, Signal
from amaranth.lib import data, io, wiring
from amaranth.lib.wiring import In, Out

from ..bringup import ReceiverReset
from .rates import RateChange

__all__ = ["LANES", "QuadReceiver"]

LANES = 4

_CHANNEL = {
    # bits as they come: nothing of the transceiver's own alignment, decoding, gearbox or clock compensation (see boards/ecp5/dcu.py)
    "p_RX_DATA_WIDTH": 20, "p_RX_INT_DATAWIDTH": 0, "i_RX8B10BEN": 0, "p_RXGEARBOX_EN": "FALSE", "p_CLK_CORRECT_USE": "FALSE",
    "p_ALIGN_MCOMMA_DET": "FALSE", "p_ALIGN_PCOMMA_DET": "FALSE", "i_RXCOMMADETEN": 0, "i_RXPCOMMAALIGNEN": 0, "i_RXMCOMMAALIGNEN": 0,
    "p_RXSLIDE_MODE": "OFF", "i_RXSLIDE": 0, "i_RXPOLARITY": 0, "p_PCS_PCIE_EN": "FALSE",
    # the buffer takes each lane's words from its own recovered clock to that of lane 0
    "p_RXBUF_EN": "TRUE", "p_RX_XCLK_SEL": "RXREC", "p_RXBUF_ADDR_MODE": "FAST", "p_RXBUF_RESET_ON_RATE_CHANGE": "TRUE",
    "p_RXBUF_THRESH_OVFLW": 61, "p_RXBUF_THRESH_UNDFLW": 4, "p_RX_DEFER_RESET_BUF_EN": "TRUE", "i_RXDLYBYPASS": 1, "i_RXDDIEN": 0,
    "i_RXOUTCLKSEL": 0b010,  # the recovered clock, divided to words
    # channel PLL: 100 MHz x 5 x 5 = 2.5 GHz, 5 Gb/s with output divider 1
    "p_CPLL_FBDIV": 5, "p_CPLL_FBDIV_45": 5, "p_CPLL_REFCLK_DIV": 1, "p_CPLL_CFG": 0xBC07DC, "p_CPLL_INIT_CFG": 0x00001E,
    "p_CPLL_LOCK_CFG": 0x01E8, "i_CPLLREFCLKSEL": 0b001, "i_CPLLLOCKEN": 1, "i_CPLLPD": 0, "p_RXOUT_DIV": 1, "p_TXOUT_DIV": 1,
    "p_RX_CLK25_DIV": 4, "p_TX_CLK25_DIV": 4,
    # analog settings: those of the vendor's wizard, as open projects publish them; DFE off (short, redriven wires), LPM on
    "p_PMA_RSV": 0x001E7080, "p_PMA_RSV2": 0x2050, "p_RX_BIAS_CFG": 0x004, "p_RX_CM_SEL": 0b11, "p_RX_CM_TRIM": 0b010, "p_RX_OS_CFG": 0x080,
    "p_RXCDR_CFG": 0x03000023FF10400020, "p_RXCDR_LOCK_CFG": 0b010101, "p_RXCDR_HOLD_DURING_EIDLE": 0, "p_RXCDR_FR_RESET_ON_EIDLE": 0,
    "p_RXCDR_PH_RESET_ON_EIDLE": 0, "p_RXLPM_HF_CFG": 0x00F0, "p_RXLPM_LF_CFG": 0x00F0, "p_RX_DFE_LPM_CFG": 0x0954, "i_RXLPMEN": 1,
    "p_RXOOB_CFG": 0b0000110, "i_RXELECIDLEMODE": 0,
    # the transmitter is off
    "i_TXPD": 0b11, "i_TXELECIDLE": 1, "i_TXINHIBIT": 1, "i_TXSYSCLKSEL": 0, "i_GTTXRESET": 1, "i_TXUSERRDY": 0,
    # not used, and not 0
    "i_TSTIN": 0xFFFFF, "i_RXDFELFOVRDEN": 1, "i_RXDFEXYDEN": 1,
    # in use, with their constant
    "i_RXPD": 0, "i_LOOPBACK": 0, "i_GTRESETSEL": 0, "i_RESETOVRD": 0, "i_CFGRESET": 0, "i_RXPMARESET": 0, "i_RXPCSRESET": 0,
}  # fmt: skip


class QuadReceiver(wiring.Component):
    """Receives raw words on the four lanes of quad number ``index``. Other numbers of lanes raise :class:`ValueError`.

    At 2.5 and 5 GT/s a word has 20 bits and its clock 125 or 250 MHz; at 8 GT/s it has 32 bits and 250 MHz. One transmitter drives
    all lanes of a link, so lane 0's clock serves all lanes. Each lane's elastic buffer takes up its phase, and adds up to a word of
    skew.

    The domain ``sync`` is for setting up: at most 175 MHz, the limit of the reconfiguration port (DS182).

    Ports
    -----
    rate : in ``sync``: 0, 1, 2 for 2.5, 5, 8 GT/s.
    clk : the recovered clock of lane 0, buffered; clocks the domain `words`.
    word : in `words`: word of each lane, first received bit in bit 0. At 2.5 and 5 GT/s it is in the lower 20 bits.
    up : in ``sync``: words of each lane are good.
    """

    def __init__(self, index: int, lanes: list[io.DifferentialPort], reference: io.DifferentialPort, *, clock_hz: int, words: str):
        if len(lanes) != LANES:
            raise ValueError(f"a quad has {LANES} lanes, not {len(lanes)}")
        self._index, self._pins, self._reference, self._clock_hz, self._words = index, lanes, reference, clock_hz, words
        super().__init__({"rate": In(2), "clk": Out(1), "word": Out(data.ArrayLayout(32, LANES)), "up": Out(LANES)})

    def elaborate(self, platform):
        m = Module()
        reference, quad_clock, quad_reference, quad_locked = Signal(), Signal(), Signal(), Signal()
        m.submodules.reference = Instance("IBUFDS_GTE2", i_I=self._reference.p, i_IB=self._reference.n, i_CEB=0, o_O=reference)
        # Nothing may be reset within 500 ns of configuration (UG476).
        wait = round(self._clock_hz * 1e-6)
        started = Signal(range(wait + 1))
        with m.If(started != wait):
            m.d.sync += started.eq(started + 1)
        pll_reset = Signal(init=1)
        m.d.sync += pll_reset.eq((started < wait // 2) | ResetSignal("sync"))
        m.submodules.quad = Instance(
            "GTXE2_COMMON",
            # 100 MHz x 80 = 8.0 GHz, the lower oscillator
            p_QPLL_CFG=0x06801C1,
            p_QPLL_FBDIV=0b0100100000,
            p_QPLL_FBDIV_RATIO=1,
            p_QPLL_REFCLK_DIV=1,
            i_GTREFCLK0=reference,
            i_QPLLREFCLKSEL=0b001,
            i_QPLLLOCKDETCLK=ClockSignal("sync"),
            i_QPLLLOCKEN=1,
            i_QPLLPD=0,
            i_QPLLRESET=pll_reset,
            i_QPLLOUTRESET=0,
            i_BGBYPASSB=1,
            i_BGMONITORENB=1,
            i_BGPDB=1,
            i_BGRCALOVRD=0b11111,
            i_RCALENB=1,
            o_QPLLOUTCLK=quad_clock,
            o_QPLLOUTREFCLK=quad_reference,
            o_QPLLLOCK=quad_locked,
        )
        recovered = Signal(LANES)
        m.submodules.buffer = Instance("BUFG", i_I=recovered[0], o_O=self.clk)
        for n, pins in enumerate(self._pins):
            self._channel(m, n, pins, reference, (quad_clock, quad_reference, quad_locked), pll_reset, recovered[n])
        return m

    def _channel(self, m: Module, n: int, pins, reference, quad, pll_reset, recovered) -> None:
        quad_clock, quad_reference, quad_locked = quad
        m.submodules[f"change{n}"] = change = RateChange()
        m.submodules[f"reset{n}"] = reset = ReceiverReset(clock_hz=self._clock_hz)
        idle, done, channel_locked = Signal(name=f"idle{n}"), Signal(name=f"done{n}"), Signal(name=f"channel_locked{n}")
        low, ninth, tenth = Signal(32, name=f"low{n}"), Signal(4, name=f"ninth{n}"), Signal(4, name=f"tenth{n}")
        at_8 = self.rate == 2
        in_reset = reset.cdr_reset | change.busy
        m.d.comb += [
            change.rate.eq(self.rate),
            reset.los.eq(idle),
            reset.rate.eq(self.rate),
            reset.lol.eq(~done | change.busy),
            self.up[n].eq(reset.up),
        ]
        with m.If(at_8):
            m.d.comb += self.word[n].eq(low)
        with m.Else():
            # Bits 8 and 9 of a symbol's place are beside the data (UG476, decoder bypassed).
            m.d.comb += self.word[n].eq(Cat(low[:8], ninth[0], tenth[0], low[8:16], ninth[1], tenth[1]))
        m.submodules[f"channel{n}"] = Instance(
            "GTXE2_CHANNEL", **_CHANNEL,
            i_GTREFCLK0=reference, i_QPLLCLK=quad_clock, i_QPLLREFCLK=quad_reference,
            i_CPLLLOCKDETCLK=ClockSignal("sync"), i_CPLLRESET=pll_reset, o_CPLLLOCK=channel_locked,
            # 11: the quad's PLL, 00: the channel's; RXRATE 1, 2: divided by 1, by 2
            i_RXSYSCLKSEL=Cat(at_8, at_8), i_RXRATE=Cat(self.rate != 0, self.rate == 0, 0),
            i_DRPCLK=ClockSignal("sync"), i_DRPADDR=change.addr, i_DRPDI=change.di, o_DRPDO=change.do, i_DRPEN=change.en,
            i_DRPWE=change.we, o_DRPRDY=change.rdy,
            i_GTXRXP=pins.p, i_GTXRXN=pins.n, o_RXELECIDLE=idle,
            i_GTRXRESET=in_reset, i_RXUSERRDY=~in_reset & ((at_8 & quad_locked) | (~at_8 & channel_locked)), i_RXBUFRESET=reset.word_reset,
            o_RXRESETDONE=done, o_RXOUTCLK=recovered, i_RXUSRCLK=ClockSignal(self._words), i_RXUSRCLK2=ClockSignal(self._words),
            o_RXDATA=Cat(low, Signal(32)), o_RXCHARISK=Cat(ninth, Signal(4)), o_RXDISPERR=Cat(tenth, Signal(4)),
        )  # fmt: skip
