#!/usr/bin/env python3
"""The picture of `wattbell view` in docs/view.md: `make demo` first, then

tools/view_picture.py build/demo/capture [--fragment t=...] [--dark]      writes docs/img/view.png; needs Debian's chromium
"""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
from pathlib import Path

from playwright.sync_api import sync_playwright
from wattbell.view.server import ViewServer
from wattbell.view.shown import Shown

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "img" / "view.png"
LATE_PHASES = "t=1700000000,2060000000&a=1850000000&b=1908000000"
"""View of the demo: sequential reads and writes at rising depth, two cursors around one phase."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("capture", type=Path)
    parser.add_argument("--fragment", default=LATE_PHASES, help="the view: what stands behind # in the page's address")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--out", type=Path, default=PICTURE)
    arguments = parser.parse_args()
    chromium = shutil.which("chromium") or sys.exit("view_picture: chromium is missing: apt-get install chromium")
    server = ViewServer([Shown(arguments.capture)])
    threading.Thread(target=server.serve, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 860}, color_scheme="dark" if arguments.dark else "light")
        page.goto(f"{server.url}#{arguments.fragment}")
        page.wait_for_selector("body[data-busy='0']")
        page.screenshot(path=arguments.out)
        browser.close()
    server.stop()
    print(f"{arguments.out}: {arguments.out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
