"""The NVMe tap as a part of other designs: a clock of ticks of its own, and a port for each field.

``python -m wattbell_gateware.tap --out FOLDER`` writes Verilog of all variants, for designs without Amaranth, and a core file for FuseSoC.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Shape, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from wattbell_spec.files import write
from wattbell_spec.wire import LossSource

from .layouts import COMMAND, EVENT, tlp_beat
from .nvme import NvmeTracker
from .nvme.layouts import CONFIG, COUNTERS
from .nvme.pagemap import MapSizes
from .side import SIDES
from .toolchain import exit_status
from .verilog import convert

__all__ = ["VARIANTS", "FlatTap", "core_file", "generate"]

_SMALL = {
    "queues": 16,
    "slots": 64,
    "beats": 1024,
    "small": True,
    "sizes": MapSizes(pages=4, sets=512, pieces=2, piece_sets=256),
    "tags": 256,
}
"""Parameters of the tracker in the small variants."""
VARIANTS = {f"wattbell_tap_{width}{'_small' * small}": (width, bool(small)) for width in (64, 128) for small in (0, 1)}
"""Name of the Verilog module and file -> width of the TLP streams, small."""
TRACKED = 128
"""Bits of the tracker's streams."""
_STREAMS = {"command": COMMAND, "event": EVENT, "loss": EVENT}


def fields(layout: data.StructLayout, name: str) -> Iterator[tuple[str, Shape, tuple[str, ...]]]:
    """Yield name of the port, shape and path of each field below `name`; a field of a struct in it has both names."""
    for key, field in layout:
        if isinstance(field.shape, data.StructLayout):
            for port, shape, path in fields(field.shape, f"{name}_{key}"):
                yield port, shape, (str(key), *path)
        else:
            yield f"{name}_{key}", Shape.cast(field.shape), (str(key),)


class FlatTap(wiring.Component):
    """Follows NVMe on two streams of TLPs; each field of a stream is a port.

    A tick is a part of a clock: a TLP's tick is the tick at its first beat. Give TLPs in both directions with the same delay
    behind the link, for the tap takes them in the order of their first beats.

    Throughput: a beat a clock and direction in bursts, and for long the clocks by TLP in docs/gateware-figures.md. TLPs beyond that are
    counted as lost. Latency: a record comes some hundred clocks after its last TLP.

    Parameters
    ----------
    width : bits of the TLP streams, 64 or 128.
    ticks_per_clock : ticks of a clock, 1 .. 256; with 4 ns a clock, 4 makes a tick a nanosecond.
    small : 64 commands in flight, 16 queues, a quarter of the page map, no tags of 10 bits.

    Ports
    -----
    down_* : host to drive; see ``up_*``.
    up_valid : a beat from drive to host. The tap takes each beat at once.
    up_data : byte 0 of the TLP, or of this part of it, is bits 7:0.
    up_dws : valid 32-bit words of the beat; every beat but the last is full.
    up_first : first beat of a TLP.
    up_last : last beat of a TLP.
    up_error : with the last beat: the TLP was nullified or damaged.
    up_lost : with the first beat: TLPs of this direction are missing before it.
    perst_n : level of PERST#.
    linked : low while the link is in Detect or under reset.
    command_* : stream of records: the fields of COMMAND in docs/wire-format.md, with the tick of the CQE.
    event_* : stream of events: the fields of EVENT in docs/wire-format.md.
    loss_* : stream of events of type LOSS: a full queue has lost something.
    attach_* : stream into the tap of facts that the link did not show, such as BAR0 behind a hard PCIe block:
        :data:`~wattbell_gateware.nvme.layouts.CONFIG`.
    count_* : counters; see :data:`~wattbell_gateware.nvme.layouts.COUNTERS`. ``count_lost_raw`` says nothing here.
    now : the present tick.
    """

    def __init__(self, width: int, ticks_per_clock: int = 4, *, small: bool = False) -> None:
        self.width, self.ticks_per_clock, self.small = width, ticks_per_clock, small
        members: dict[str, wiring.Member] = {"perst_n": In(1), "linked": In(1), "now": Out(64)}
        for side in SIDES:
            members[f"{side}_valid"] = In(1)
            members |= {port: In(shape) for port, shape, (name, *_) in fields(tlp_beat(width), side) if name != "tick"}
        for name, layout in _STREAMS.items():
            members |= {f"{name}_valid": Out(1), f"{name}_ready": In(1)}
            members |= {port: Out(shape) for port, shape, _ in fields(layout, name)}
        members |= {"attach_valid": In(1), "attach_ready": Out(1)} | {port: In(shape) for port, shape, _ in fields(CONFIG, "attach")}
        members |= {port: Out(shape) for port, shape, _ in fields(COUNTERS, "count")}
        super().__init__(members)

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        sizes = _SMALL if self.small else {}
        m.submodules.tracker = tracker = NvmeTracker(TRACKED, self.ticks_per_clock, **sizes)  # type: ignore[arg-type]
        m.d.sync += self.now.eq(self.now + self.ticks_per_clock)
        m.d.comb += [
            tracker.now.eq(self.now),
            tracker.perst_n.eq(self.perst_n),
            tracker.unlinked.eq(~self.linked),
            tracker.run.eq(1),
            tracker.kept.eq(1),
            tracker.raw.ready.eq(1),
        ]
        for side in SIDES:
            self._take(m, side, getattr(tracker, side))
        for name, out in (("command", tracker.commands), ("event", tracker.events), ("loss", tracker.loss_events)):
            self._give(m, name, out)
        with m.If(tracker.loss_events.payload.arg8 == LossSource.RAW):  # raw TLPs are no part of the tap
            m.d.comb += [self.loss_valid.eq(0), tracker.loss_events.ready.eq(1)]
        m.d.comb += [tracker.cfg.valid.eq(self.attach_valid), self.attach_ready.eq(tracker.cfg.ready)]
        m.d.comb += [tracker.cfg.payload[name].eq(getattr(self, port)) for port, _, (name,) in fields(CONFIG, "attach")]
        self._ports(m, "count", COUNTERS, tracker.counters)
        return m

    def _take(self, m: Module, side: str, into: wiring.PureInterface) -> None:
        """Give beats of a direction to the tracker, each with the tick of its TLP's first beat."""
        beat = {name: getattr(self, port) for port, _, (name, *_) in fields(tlp_beat(self.width), side) if name != "tick"}
        began, valid = Signal(64, name=f"{side}_began"), getattr(self, f"{side}_valid")
        with m.If(valid & beat["first"]):
            m.d.sync += began.eq(self.now)
        beat["tick"] = Mux(beat["first"], self.now, began)
        if self.width == TRACKED:
            m.d.comb += [into.tlps.valid.eq(valid), *(into.tlps.payload[name].eq(value) for name, value in beat.items())]
        else:
            self._pair(m, side, valid, began, beat, into)

    def _pair(self, m: Module, side: str, valid: Signal, began: Signal, beat: dict[str, Any], into: wiring.PureInterface) -> None:
        """Make a beat of the tracker of two. The first of a pair waits, and so does its TLP (``pending``)."""
        held, low = (
            Signal(name=f"{side}_held"),
            {name: Signal(len(beat[name]), name=f"{side}_low_{name}") for name in ("data", "first", "lost")},
        )
        with m.If(valid):
            m.d.sync += held.eq(~held & ~beat["last"])
            with m.If(~held):
                m.d.sync += [signal.eq(beat[name]) for name, signal in low.items()]
        m.d.comb += [
            into.tlps.valid.eq(valid & (held | beat["last"])),
            into.tlps.payload.data.eq(Mux(held, Cat(low["data"], beat["data"]), beat["data"])),
            into.tlps.payload.dws.eq(beat["dws"] + Mux(held, self.width // 32, 0)),
            into.tlps.payload.first.eq(Mux(held, low["first"], beat["first"])),
            into.tlps.payload.lost.eq(Mux(held, low["lost"], beat["lost"])),
            *(into.tlps.payload[name].eq(beat[name]) for name in ("last", "error", "tick")),
            into.pending.eq(held & low["first"]),
            into.pending_tick.eq(began),
        ]

    def _give(self, m: Module, name: str, out: stream.Interface) -> None:
        m.d.comb += [getattr(self, f"{name}_valid").eq(out.valid), out.ready.eq(getattr(self, f"{name}_ready"))]
        self._ports(m, name, _STREAMS[name], out.payload)

    def _ports(self, m: Module, name: str, layout: data.StructLayout, view: data.View) -> None:
        for port, _, path in fields(layout, name):
            value = view
            for key in path:
                value = value[key]
            m.d.comb += getattr(self, port).eq(value)


def core_file(release: str) -> str:
    """Return a FuseSoC core file (CAPI2) of the variants."""
    lines = ["CAPI=2:", f"name: wattbell:nvme:tap:{release}", "description: Passive NVMe tap on two TLP streams", "filesets:"]
    for name in VARIANTS:
        lines += [f"  {name}:", f"    files: [{name}.v]", "    file_type: verilogSource"]
    lines.append("targets:")
    for number, name in enumerate(VARIANTS):
        lines += [f"  {'default' if not number else name}:", f"    filesets: [{name}]", f"    toplevel: {name}"]
    return "\n".join(lines) + "\n"


def generate(out: Path, names: list[str], release: str) -> None:
    """Write the named variants and the core file into `out`."""
    out.mkdir(parents=True, exist_ok=True)
    for name in names:
        width, small = VARIANTS[name]
        write(out / f"{name}.v", convert(FlatTap(width, small=small), name))
    write(out / "wattbell_tap.core", core_file(release))


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m wattbell_gateware.tap", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("build/tap"), help="folder to write to (default: %(default)s)")
    parser.add_argument("--variant", choices=[*VARIANTS], action="append", help="only this variant (may be repeated)")
    arguments = parser.parse_args()
    return exit_status(lambda: generate(arguments.out, arguments.variant or [*VARIANTS], version("wattbell")))


if __name__ == "__main__":
    sys.exit(main())
