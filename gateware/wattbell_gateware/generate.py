"""``python -m wattbell_gateware.generate --out build/rtl``: everything that others build from the gateware.

Writes the instrument's variants and the controller as Verilog, and Rust constants of the register map and the wire format. Does nothing
when no source has changed since the last run; files whose content is the same keep their time stamp. With ``--docs``,
writes the tables in docs/registers.md instead, with ``--header FILE`` the firmware's C header.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from importlib.metadata import version
from pathlib import Path

import wattbell.wire.spec as spec

from . import constants
from .verilog import ConversionError, convert

VARIANTS: dict[str, dict[str, object]] = {
    "instrument_x4_word": {"width": 128, "ticks_per_clock": 4, "adc": "word", "conversions": True, "fine": True},
    "instrument_x4_serial": {"width": 128, "ticks_per_clock": 4, "adc": "serial", "conversions": True, "fine": True},
}
"""Name of the Verilog module and file -> parameters of the instrument."""
CONTROLLER = "controller"
"""The same of the controller, with its core behind it and nothing in its read-only memory: the virtual rig loads it."""
DOCS = Path(__file__).parents[2] / "docs" / "registers.md"


def sources_digest() -> str:
    """Digest of everything the output depends on: our sources and the versions of the two tools."""
    digest = hashlib.sha256(f"amaranth {version('amaranth')} pyosys {version('pyosys')}".encode())
    for path in sorted([*Path(__file__).parent.rglob("*.py"), Path(spec.__file__)]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def write(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` unless it holds that already."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def verilog(name: str) -> str:
    """Verilog of a variant, or of the controller."""
    if name == CONTROLLER:
        from .controller import Controller, verilog_path

        return convert(Controller([]), name) + verilog_path().read_text()
    from .instrument import Instrument

    return convert(Instrument(**VARIANTS[name]), name)


def generate(out: Path, variants: list[str]) -> None:
    """Write the named variants and the Rust constants into ``out``."""

    out.mkdir(parents=True, exist_ok=True)
    write(out / "registers.rs", constants.rust_registers())
    write(out / "controller.rs", constants.rust_controller())
    write(out / "wire.rs", constants.rust_wire())
    digest = sources_digest()
    for name in variants:
        stamp = out / f".{name}.digest"
        if stamp.exists() and stamp.read_text() == digest and (out / f"{name}.v").exists():
            continue
        stamp.unlink(missing_ok=True)
        write(out / f"{name}.v", verilog(name))
        stamp.write_text(digest)


def main() -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m wattbell_gateware.generate", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("build/rtl"), help="folder to write to (default: %(default)s)")
    parser.add_argument("--variant", choices=[*VARIANTS, CONTROLLER], action="append", help="only this variant (may be repeated)")
    parser.add_argument("--docs", action="store_true", help="write the generated tables of docs/registers.md instead")
    parser.add_argument("--header", type=Path, help="write the firmware's C header of the registers to this file instead")
    arguments = parser.parse_args()
    try:
        if arguments.docs:
            write(DOCS, constants.markdown_registers())
        elif arguments.header:
            arguments.header.parent.mkdir(parents=True, exist_ok=True)
            write(arguments.header, constants.c_registers())
        else:
            generate(arguments.out, arguments.variant or [*VARIANTS, CONTROLLER])
    except OSError as error:
        print(f"error: cannot write {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except ConversionError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
