"""A DCU of the ECP5-5G as two receivers of raw words."""

from amaranth import Instance, Module, ResetSignal, Signal
from amaranth.lib import data, io, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from ..bringup import ReceiverReset
from .clocks import clock_buffer

__all__ = ["SYMBOLS", "DualReceiver"]

SYMBOLS = 2
"""Symbols of a word: the DCU's 1:2 gearing, 250 MHz at 5 GT/s. Without gearing the fabric would run at 500 MHz."""

_DUAL = {
    # power, common to both channels. The transmit PLL is not used for sending; it stays on as in every configuration known to
    # work (the receivers' calibration may hang on it), which costs power, not correctness.
    "p_D_MACROPDB": "0b1", "p_D_IB_PWDNB": "0b1", "p_D_TXPLL_PWDNB": "0b1", "i_D_FFC_MACROPDB": 1,
    "p_D_REFCK_MODE": "0b000",  # reference x 20
    "p_D_TX_MAX_RATE": "5.0", "p_D_TX_VCO_CK_DIV": "0b000", "p_D_BITCLK_LOCAL_EN": "0b1",
    # analog settings without public documentation: those published for 5 Gb/s PCIe, as open ECP5 projects use them
    "p_D_CMUSETBIASI": "0b00", "p_D_CMUSETI4CPP": "0d4", "p_D_CMUSETI4CPZ": "0d3", "p_D_CMUSETI4VCO": "0b00",
    "p_D_CMUSETICP4P": "0b01", "p_D_CMUSETICP4Z": "0b101", "p_D_CMUSETINITVCT": "0b00", "p_D_CMUSETISCL4VCO": "0b000",
    "p_D_CMUSETP1GM": "0b000", "p_D_CMUSETP2AGM": "0b000", "p_D_CMUSETZGM": "0b100", "p_D_PD_ISET": "0b11",
    "p_D_RG_EN": "0b0", "p_D_RG_SET": "0b00", "p_D_SETICONST_AUX": "0b01", "p_D_SETICONST_CH": "0b10",
    "p_D_SETIRPOLY_AUX": "0b10", "p_D_SETIRPOLY_CH": "0b10", "p_D_SETPLLRC": "0d1", "p_D_REQ_ISET": "0b011",
    "p_D_DCO_CALIB_TIME_SEL": "0b00",
    # lock is lost beyond 7000 ppm, found within 4000 ppm: spread spectrum may be 5000 ppm low
    "p_D_CDR_LOL_SET": "0b10",
    # not used: the client interface
    "i_D_SCIENAUX": 0, "i_D_SCISELAUX": 0, "i_D_SCIRD": 0, "i_D_SCIWSTN": 1,
}  # fmt: skip

_CHANNEL = {
    # ten bits as they come: no word alignment, decoding or clock compensation in the DCU; `pcs/` does the first two and
    # counts what is wrong, and nothing here needs the third
    "p_CHX_PROTOCOL": "10BSER", "p_CHX_UC_MODE": "0b1", "p_CHX_PCIE_MODE": "0b0", "p_CHX_LSM_DISABLE": "0b1",
    "p_CHX_ENC_BYPASS": "0b1", "p_CHX_DEC_BYPASS": "0b1", "p_CHX_WA_BYPASS": "0b1", "p_CHX_CTC_BYPASS": "0b1",
    "p_CHX_ENABLE_CG_ALIGN": "0b0", "i_CHX_FFC_SIGNAL_DETECT": 0, "i_CHX_FFC_ENABLE_CGALIGN": 0,
    "p_CHX_MATCH_2_ENABLE": "0b0", "p_CHX_MATCH_4_ENABLE": "0b0",
    # the transmitter is off
    "p_CHX_TPWDNB": "0b0", "i_CHX_FFC_TXPWDNB": 0, "i_CHX_FFC_EI_EN": 1, "i_CHX_FFC_LANE_TX_RST": 1,
    # the receiver: a tap is high-impedance or behind a redriver, but the redriver's output wants its 50 ohms
    "p_CHX_RPWDNB": "0b1", "i_CHX_FFC_RXPWDNB": 1, "p_CHX_RTERM_RX": "0d22", "p_CHX_RXTERM_CM": "0b11", "p_CHX_RXIN_CM": "0b11",
    "p_CHX_REQ_EN": "0b1", "p_CHX_REQ_LVL_SET": "0b01", "p_CHX_RX_RATE_SEL": "0d09",
    # clocks: word and FIFO by the recovered clock, 1:2
    "p_CHX_RX_GEAR_MODE": "0b1", "p_CHX_FF_RX_H_CLK_EN": "0b1", "p_CHX_FF_RX_F_CLK_DIS": "0b1", "p_CHX_SEL_SD_RX_CLK": "0b1",
    "p_CHX_CDR_MAX_RATE": "5.0", "p_CHX_RX_DCO_CK_DIV": "0b000",
    # analog settings without public documentation, as above
    "p_CHX_DCOATDCFG": "0b00", "p_CHX_DCOATDDLY": "0b00", "p_CHX_DCOBYPSATD": "0b1", "p_CHX_DCOCALDIV": "0b010",
    "p_CHX_DCOCTLGI": "0b011", "p_CHX_DCODISBDAVOID": "0b1", "p_CHX_DCOFLTDAC": "0b00", "p_CHX_DCOFTNRG": "0b001",
    "p_CHX_DCOIOSTUNE": "0b010", "p_CHX_DCOITUNE": "0b00", "p_CHX_DCOITUNE4LSB": "0b010", "p_CHX_DCOIUPDNX2": "0b1",
    "p_CHX_DCONUOFLSB": "0b101", "p_CHX_DCOSCALEI": "0b01", "p_CHX_DCOSTARTVAL": "0b010", "p_CHX_DCOSTEP": "0b11",
    "p_CHX_BAND_THRESHOLD": "0d0", "p_CHX_AUTO_FACQ_EN": "0b1", "p_CHX_AUTO_CALIB_EN": "0b1", "p_CHX_CALIB_CK_MODE": "0b1",
    "p_CHX_REG_BAND_OFFSET": "0d0", "p_CHX_REG_BAND_SEL": "0d0", "p_CHX_REG_IDAC_SEL": "0d0", "p_CHX_REG_IDAC_EN": "0b0",
    # loss of signal
    "p_CHX_RLOS_SEL": "0b1", "p_CHX_RX_LOS_EN": "0b1", "p_CHX_RX_LOS_LVL": "0b100", "p_CHX_RX_LOS_CEQ": "0b11",
    "p_CHX_RX_LOS_HYST_EN": "0b0", "p_CHX_PDEN_SEL": "0b1",
    "i_CHX_SCIEN": 0, "i_CHX_SCISEL": 0,
}  # fmt: skip


class DualReceiver(wiring.Component):
    """Receives raw words on the two lanes of DCU number ``index`` (0 or 1; otherwise :class:`ValueError`).

    Ports
    -----
    slow : 2.5 GT/s instead of 5 GT/s.
    clk : clock of each lane, 250 MHz at 5 GT/s, 125 MHz at 2.5 GT/s. It follows the data; without data it stops or wanders.
    word : word of each lane, 20 bits, first received bit in bit 0, on its ``clk``.
    up : words of each lane are good; in ``sync``.
    los : each lane has lost its signal; in ``sync``.
    """

    def __init__(self, index: int, lanes: list[io.DifferentialPort], reference: io.DifferentialPort, *, clock_hz: int):
        if index not in (0, 1) or len(lanes) != 2:
            raise ValueError("there are DCUs 0 and 1, with two lanes each")
        self._index, self._lanes, self._reference, self._clock_hz = index, lanes, reference, clock_hz
        super().__init__(
            {
                "slow": In(1),
                "clk": Out(2),
                "word": Out(data.ArrayLayout(10 * SYMBOLS, 2)),
                "up": Out(2),
                "los": Out(2),
            }
        )

    def elaborate(self, platform):
        m = Module()
        reference = Signal()
        m.submodules.reference = Instance(
            "EXTREFB",
            a_LOC=f"EXTREF{self._index}",
            p_REFCK_PWDNB="0b1",
            p_REFCK_RTERM="0b1",
            p_REFCK_DCBIAS_EN="0b0",
            i_REFCLKP=self._reference.p,
            i_REFCLKN=self._reference.n,
            o_REFCLKO=reference,
        )
        parameters: dict[str, object] = dict(_DUAL)
        parameters |= {
            "a_LOC": f"DCU{self._index}",
            "i_D_REFCLKI": reference,
            "i_D_FFC_TRST": 0,
            "i_D_FFC_MACRO_RST": ResetSignal("sync"),
            "i_D_FFC_DUAL_RST": ResetSignal("sync"),
        }
        for n, pins in enumerate(self._lanes):
            m.submodules[f"reset{n}"] = reset = ReceiverReset(clock_hz=self._clock_hz)
            bus, los, lol = Signal(24, name=f"bus{n}"), Signal(name=f"los{n}"), Signal(name=f"lol{n}")
            recovered = Signal(name=f"recovered{n}")
            m.submodules[f"buffer{n}"] = clock_buffer(recovered, self.clk[n])
            m.d.comb += [
                reset.los.eq(los),
                reset.lol.eq(lol),
                reset.rate.eq(self.slow),
                self.up[n].eq(reset.up),
                # A half word of the DCU has twelve bits; ten are data.
                self.word[n][:10].eq(bus[:10]),
                self.word[n][10:].eq(bus[12:22]),
            ]
            m.submodules[f"los{n}"] = FFSynchronizer(los, self.los[n], init=1)
            channel: dict[str, object] = dict(_CHANNEL)
            channel |= {
                "i_CHX_HDINP": pins.p,
                "i_CHX_HDINN": pins.n,
                "i_CHX_RX_REFCLK": reference,
                "i_CHX_FFC_RRST": reset.cdr_reset,
                "i_CHX_FFC_LANE_RX_RST": reset.word_reset,
                "i_CHX_FFC_RATE_MODE_RX": self.slow,
                "o_CHX_FFS_RLOS": los,
                "o_CHX_FFS_RLOL": lol,
                "o_CHX_FF_RX_PCLK": recovered,
                "i_CHX_FF_RXI_CLK": self.clk[n],
                "i_CHX_FF_EBRD_CLK": 0,
            }
            channel |= {f"o_CHX_FF_RX_D_{bit}": bus[bit] for bit in range(24)}
            parameters |= {name.replace("CHX", f"CH{n}"): value for name, value in channel.items()}
        m.submodules.dcu = Instance("DCUA", **parameters)
        return m
