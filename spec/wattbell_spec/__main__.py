"""``python -m wattbell_spec [--check | --header FILE]``; see the package."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import c, capture_page, registers_page, rust, sigrok, view, wire_page
from .files import write

ROOT = Path(__file__).resolve().parents[2]


def texts() -> dict[str, str]:
    """Return the generated files: path from the repository's root -> content."""
    made = {f"sim/spec/src/{name}": text() for name, text in rust.FILES.items()}
    made["docs/wire-format.md"] = wire_page.markdown()
    made["docs/registers.md"] = registers_page.markdown()
    made[capture_page.PATH] = capture_page.markdown((ROOT / capture_page.PATH).read_text(encoding="utf-8"))
    made[sigrok.PATH] = sigrok.tables()
    made[view.PATH] = view.fields()
    return made


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m wattbell_spec", description="Write what is made from spec/.")
    parser.add_argument("--check", action="store_true", help="write nothing; say what is out of date, with exit status 1")
    parser.add_argument("--header", type=Path, help="write the firmware's C header to this file instead")
    arguments = parser.parse_args()
    try:
        if arguments.header:
            write(arguments.header, c.header())
            return 0
        made = texts()
        if arguments.check:
            kept = {name: (ROOT / name).read_text(encoding="utf-8") if (ROOT / name).is_file() else None for name in made}
            stale = [name for name, text in made.items() if kept[name] != text]
            print("".join(f"{name} is out of date: run python -m wattbell_spec\n" for name in stale), end="", file=sys.stderr)
            return 1 if stale else 0
        for name, text in made.items():
            write(ROOT / name, text)
    except OSError as error:
        print(f"error: cannot write {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
