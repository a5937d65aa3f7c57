"""The example's SoC: PHY, LitePCIe's endpoint, a drive behind it, and the tap between PHY and endpoint."""

from __future__ import annotations

import shutil
from pathlib import Path

from drive import Drive, SimulatedPhy
from litepcie.core.endpoint import LitePCIeEndpoint
from litex.build.generic_platform import Pins, Subsignal
from litex.build.sim.platform import SimPlatform
from litex.gen import LiteXModule
from litex.soc.integration.soc_core import SoCMini
from migen import ClockDomain
from tap import WattbellTap, ports_of

WIDTH = 64
"""Bits of the PHY's streams."""
CLOCK_HZ = 125_000_000
FUNCTION = 0x0100
"""Bus, device and function number of the drive; in hardware the hard block tells it."""


def pads(verilog: Path) -> list[tuple[object, ...]]:
    """Return the ports of the top module: what the hard block and the rest of a design are in hardware."""
    fields = {name: bits for name, (_direction, bits) in ports_of(verilog).items() if name.startswith("command_")}
    groups = {
        "down": {"valid": 1, "ready": 1, "last": 1, "dat": WIDTH, "be": WIDTH // 8},
        "up": {"valid": 1, "ready": 1, "last": 1, "dat": WIDTH, "be": WIDTH // 8},
        "attach": {"bar0": 64, "strobe": 1, "done": 1},
        "record": {name.removeprefix("command_"): bits for name, bits in fields.items() if name != "command_ready"},
    }
    single = {"clk": 1, "rst": 1, "msi": 1, "tick": 64}
    made: list[tuple[object, ...]] = [(name, 0, Pins(bits)) for name, bits in single.items()]
    return made + [(name, 0, *(Subsignal(part, Pins(bits)) for part, bits in parts.items())) for name, parts in groups.items()]


class Clocks(LiteXModule):
    """One clock for everything."""

    def __init__(self, platform: SimPlatform) -> None:
        self.cd_sys = ClockDomain()
        self.comb += [self.cd_sys.clk.eq(platform.request("clk")), self.cd_sys.rst.eq(platform.request("rst"))]


class Soc(SoCMini):
    """A drive whose TLPs the tap watches."""

    def __init__(self, platform: SimPlatform, verilog: Path, endianness: str) -> None:
        SoCMini.__init__(self, platform, CLOCK_HZ, ident="drive with a tap")
        self.crg = Clocks(platform)
        self.phy = phy = SimulatedPhy(WIDTH, endianness, FUNCTION)
        self.endpoint = LitePCIeEndpoint(phy, endianness=endianness, max_pending_requests=4)
        self.drive = Drive(self.endpoint)

        # The tap: this is all that a design of your own needs.
        platform.add_source(str(verilog))
        self.tap = tap = WattbellTap(phy, verilog)

        down, up, attach, record = (platform.request(name) for name in ("down", "up", "attach", "record"))
        for name in ("valid", "last", "dat", "be"):
            self.comb += getattr(phy.source, name).eq(getattr(down, name))
            self.comb += getattr(up, name).eq(getattr(phy.sink, name))
        self.comb += [
            down.ready.eq(phy.source.ready),
            phy.sink.ready.eq(up.ready),
            phy.msi.ready.eq(1),
            platform.request("msi").eq(phy.msi.valid),
            platform.request("tick").eq(tap.now),
            tap.bar0.eq(attach.bar0),
            tap.attach.eq(attach.strobe),
            attach.done.eq(tap.attached),
            tap.commands.ready.eq(1),
            record.valid.eq(tap.commands.valid),
            *(getattr(record, name).eq(getattr(tap.commands, name)) for name, *_ in tap.commands.description.payload_layout),
        ]


def write_verilog(folder: Path, tap_file: Path, endianness: str) -> list[Path]:
    """Write the SoC into `folder`, module `drive_soc`, and return all Verilog files of a simulation."""
    folder.mkdir(parents=True, exist_ok=True)
    platform = SimPlatform("SIM", pads(tap_file))
    soc = Soc(platform, tap_file, endianness)
    soc.finalize()
    top = folder / "drive_soc.v"
    # As LiteX's own simulator: the other form, for synthesis, wakes itself without end at time 0 in Icarus Verilog.
    made = platform.get_verilog(soc, name="drive_soc", regular_comb=False)
    top.write_text(made.main_source, encoding="utf-8")
    for name, content in made.data_files.items():
        (folder / name).write_text(content, encoding="utf-8")
    return [top, Path(shutil.copy(tap_file, folder))]
