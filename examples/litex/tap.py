"""The tap as a LiteX module behind a PHY of LitePCIe."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from litex.gen import LiteXModule
from litex.soc.interconnect import stream
from migen import Cat, ClockSignal, If, Instance, ResetSignal, Signal

BAR0 = 0
"""Value of `attach_op` for the address of BAR0."""


def ports_of(verilog: Path) -> dict[str, tuple[str, int]]:
    """Return direction and width of each port of the module that the file is named after. Raises ValueError if it has none."""
    text = verilog.read_text(encoding="utf-8")
    found = re.search(rf"^module {verilog.stem}\(.*?^endmodule", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(f"{verilog} has no module {verilog.stem}: make it with `make verilog`")
    declared = re.findall(r"^  (input|output) (?:\[(\d+):0\] )?(\w+);", found[0], re.MULTILINE)
    return {name: (direction, int(high or 0) + 1) for direction, high, name in declared}


def swap_dword(dword: Any) -> Any:
    """Return a double word with its four bytes in reverse order."""
    return Cat(*(dword[8 * byte : 8 * byte + 8] for byte in reversed(range(4))))


class WattbellTap(LiteXModule):
    """Watches the TLPs between a PHY of LitePCIe and its endpoint, in their clock domain `sys`.

    phy: a PHY with one stream a direction, such as S7PCIEPHY; its width must be the tap's
    verilog: file of the tap, named after its module

    Raises ValueError for a PHY that the tap cannot sit behind.

    Attributes
    ----------
    commands : stream of records, a field for each port `command_*`
    now : the present tick; a clock has four
    linked, perst_n : tell the tap of the link's state; 1 at first
    bar0, attach : address of BAR0, and a strobe that tells the tap
    attached : 1 when the tap has the address
    """

    def __init__(self, phy: Any, verilog: Path) -> None:
        if not hasattr(phy, "source") or not hasattr(phy, "sink"):
            raise ValueError("the PHY has requests and completions apart: the tap wants one stream a direction")
        if phy.qword_aligned:
            raise ValueError("the PHY aligns payloads to 64 bits, which the tap does not understand")
        ports = ports_of(verilog)
        width = ports["down_data"][1]
        if phy.data_width != width:
            raise ValueError(f"the PHY has {phy.data_width} bits, the tap {width}")
        signals = {name: Signal(bits, name=f"tap_{name}") for name, (_direction, bits) in ports.items() if name not in ("clk", "rst")}
        self.commands = stream.Endpoint(
            [(name.removeprefix("command_"), len(signal)) for name, signal in signals.items() if _is_field("command", name)]
        )
        self.now = signals["now"]
        self.linked, self.perst_n = Signal(reset=1), Signal(reset=1)
        self.bar0, self.attach, self.attached = Signal(64), Signal(), Signal()

        # # #

        for side, endpoint in (("down", phy.source), ("up", phy.sink)):
            self._watch(side, endpoint, phy.endianness, signals)
        self.comb += [
            self.commands.valid.eq(signals["command_valid"]),
            signals["command_ready"].eq(self.commands.ready),
            *(getattr(self.commands, n.removeprefix("command_")).eq(s) for n, s in signals.items() if _is_field("command", n)),
            signals["event_ready"].eq(1),
            signals["loss_ready"].eq(1),
            signals["linked"].eq(self.linked),
            signals["perst_n"].eq(self.perst_n),
            signals["attach_op"].eq(BAR0),
            signals["attach_address"].eq(self.bar0),
        ]
        self.sync += [
            If(self.attach, signals["attach_valid"].eq(1), self.attached.eq(0)).Elif(
                signals["attach_valid"] & signals["attach_ready"], signals["attach_valid"].eq(0), self.attached.eq(1)
            )
        ]
        wires = {f"{'i' if ports[name][0] == 'input' else 'o'}_{name}": signal for name, signal in signals.items()}
        self.specials += Instance(verilog.stem, i_clk=ClockSignal("sys"), i_rst=ResetSignal("sys"), **wires)

    def _watch(self, side: str, endpoint: Any, endianness: str, signals: dict[str, Any]) -> None:
        """Copy each beat that passes. LitePCIe has headers as numbers; a PHY with big endianness has payloads in the same order."""
        lanes = len(endpoint.dat) // 32
        first, header_left = Signal(reset=1), Signal(3)
        taken = Signal()
        length = Signal(3)  # double words of the header that begin with this beat
        self.comb += [taken.eq(endpoint.valid & endpoint.ready), length.eq(3)]
        self.comb += If(first, If(endpoint.dat[29], length.eq(4))).Else(length.eq(header_left))
        self.sync += If(
            taken,
            first.eq(endpoint.last),
            If(length > lanes, header_left.eq(length - lanes)).Else(header_left.eq(0)),
        )
        for lane in range(lanes):
            dword = endpoint.dat[32 * lane : 32 * lane + 32]
            out = signals[f"{side}_data"][32 * lane : 32 * lane + 32]
            swapped = swap_dword(dword)
            self.comb += out.eq(swapped) if endianness == "big" else If(length > lane, out.eq(swapped)).Else(out.eq(dword))
        self.comb += [
            signals[f"{side}_valid"].eq(taken),
            signals[f"{side}_first"].eq(first),
            signals[f"{side}_last"].eq(endpoint.last),
            signals[f"{side}_dws"].eq(sum((endpoint.be[4 * lane : 4 * lane + 4] != 0) for lane in range(lanes))),
        ]


def _is_field(name: str, port: str) -> bool:
    return port.startswith(f"{name}_") and port not in (f"{name}_valid", f"{name}_ready")
