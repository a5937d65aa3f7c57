"""Build of the file that programs a board, and of its table in the docs: ``python -m wattbell_gateware.build --board ecp5``.

Each board brings its own flow and options (``boards/BOARD/build.py``): ``--board ecp5 --help`` lists them.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

from .toolchain import ROOT, BuildError

BOARDS = sorted(path.parent.name for path in Path(__file__).parent.glob("boards/*/build.py"))


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    which = argparse.ArgumentParser(add_help=False)
    which.add_argument("--board", choices=BOARDS, default="ecp5", help="what to build for (default: ecp5)")
    board = which.parse_known_args(arguments)[0].board
    flow = import_module(f".boards.{board}.build", __package__)
    parser = argparse.ArgumentParser(
        prog="python -m wattbell_gateware.build", description=(flow.__doc__ or "").split("\n")[0], parents=[which]
    )
    parser.add_argument("--out", type=Path, default=ROOT / "build" / flow.OUT, help=f"folder to build in (default: build/{flow.OUT})")
    parser.add_argument("--docs", action="store_true", help=f"write the table of {flow.DOCS.relative_to(ROOT)}")
    flow.add_options(parser)
    try:
        return flow.build(parser.parse_args(arguments))
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
    except OSError as error:
        print(f"error: cannot use {error.filename}: {error.strerror}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
