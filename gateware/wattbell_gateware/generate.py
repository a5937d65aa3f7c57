"""``python -m wattbell_gateware.generate --out build/rtl``: the instrument's variants and the controller as Verilog.

Does nothing when no source has changed since the last run; files whose content is the same keep their time stamp.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from importlib.metadata import version
from pathlib import Path

import wattbell_spec
from wattbell_spec.files import write

from .verilog import ConversionError, convert

VARIANTS: dict[str, dict[str, object]] = {
    "instrument_x4_word": {"width": 128, "ticks_per_clock": 4, "adc": "word", "conversions": True, "fine": True},
    "instrument_x4_serial": {"width": 128, "ticks_per_clock": 4, "adc": "serial", "conversions": True, "fine": True},
}
"""Name of the Verilog module and file -> parameters of the instrument."""
CONTROLLER = "controller"
"""The same of the controller, with its core behind it and nothing in its read-only memory: the virtual rig loads it."""


def sources_digest() -> str:
    """Digest of everything the output depends on: our sources and the versions of the two tools."""
    digest = hashlib.sha256(f"amaranth {version('amaranth')} pyosys {version('pyosys')}".encode())
    for path in sorted(path for package in (__file__, wattbell_spec.__file__) for path in Path(str(package)).parent.rglob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def verilog(name: str) -> str:
    """Verilog of a variant, or of the controller."""
    if name == CONTROLLER:
        from .controller import Controller, verilog_path

        return convert(Controller([]), name) + verilog_path().read_text()
    from .instrument import Instrument

    return convert(Instrument(**VARIANTS[name]), name)


def generate(out: Path, variants: list[str]) -> None:
    """Write the named variants into ``out``."""
    out.mkdir(parents=True, exist_ok=True)
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
    arguments = parser.parse_args()
    try:
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
