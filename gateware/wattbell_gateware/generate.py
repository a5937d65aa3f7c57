"""``python -m wattbell_gateware.generate --out build/rtl``: the instrument's variants and the controller as Verilog.

Does nothing when no source has changed since the last run; files whose content is the same keep their time stamp.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from wattbell_spec.files import write

from .instrument import Instrument, Options
from .toolchain import digest, exit_status, sources, versions
from .verilog import convert

VARIANTS = {
    f"instrument_x4_{adc}": Options(width=128, ticks_per_clock=4, adc=adc, conversions=True, fine=True) for adc in ("word", "serial")
}
"""Name of the Verilog module and file -> options of the instrument."""
CONTROLLER = "controller"
"""Name of the Verilog module and file of the controller. Its core follows in the same file, and its read-only memory is empty: the
virtual rig loads it.
"""


def sources_digest() -> str:
    """Return the digest of all inputs of the output: our sources and the versions of the two tools."""
    return digest(versions(["amaranth", "pyosys"]), *sources())


def verilog(name: str) -> str:
    """Return the Verilog of a variant, or of the controller."""
    if name == CONTROLLER:
        from .controller import Controller, verilog_path

        return convert(Controller([]), name) + verilog_path().read_text()
    return convert(Instrument(VARIANTS[name]), name)


def generate(out: Path, variants: list[str]) -> None:
    """Write the named variants into ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    now = sources_digest()
    for name in variants:
        stamp = out / f".{name}.digest"
        if stamp.exists() and stamp.read_text() == now and (out / f"{name}.v").exists():
            continue
        stamp.unlink(missing_ok=True)
        write(out / f"{name}.v", verilog(name))
        stamp.write_text(now)


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m wattbell_gateware.generate", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("build/rtl"), help="folder to write to (default: %(default)s)")
    parser.add_argument("--variant", choices=[*VARIANTS, CONTROLLER], action="append", help="only this variant (may be repeated)")
    arguments = parser.parse_args()
    return exit_status(lambda: generate(arguments.out, arguments.variant or [*VARIANTS, CONTROLLER]))


if __name__ == "__main__":
    sys.exit(main())
