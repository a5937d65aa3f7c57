"""Builds the site (see the package's head)."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from sphinx.cmd.build import main

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def build(pages: Path, out: Path) -> int:
    """Build the site of all pages anew. Return Sphinx's exit code: 0, or another one after an error or a warning."""
    os.environ["WATTBELL_CONFIG"] = ""  # the program's own defaults, not those of the user
    cache = out.with_name(f"{out.name}-cache")
    return main(["-b", "html", "-c", str(HERE), "-E", "-W", "-q", "-d", str(cache), str(pages), str(out)])


def command() -> int:
    """Build the site by the options of the command line, and print its place."""
    parser = argparse.ArgumentParser(prog="python -m tools.docsite", description="Builds the documentation site.")
    parser.add_argument("--pages", type=Path, default=ROOT, help="folder with README.md and docs/ (default: this checkout)")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "docs", help="folder to write (default: build/docs)")
    wanted = parser.parse_args()
    if not (wanted.pages / "docs" / "README.md").is_file():
        parser.error(f"{wanted.pages} has no docs/README.md: name a folder with the pages of a checkout")
    if build(wanted.pages.resolve(), wanted.out.resolve()):
        print("docs: error: each message above is an error: mend the page that it names", file=sys.stderr)
        return 1
    print(f"docs: {os.path.relpath(wanted.out / 'index.html')}")
    return 0


if __name__ == "__main__":
    sys.exit(command())
