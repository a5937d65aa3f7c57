"""How long from the wheel to the pixel: zooming a long capture in headless Chromium, as JSON.

``python -m tests.bench.view_page [CAPTURE] [--steps N] [--urgent]``; without a capture it makes one of 24 h (100 samples a second, 2
million commands). A step is a turn of the wheel at a random place, inwards down to a microsecond, then outwards again; it ends with the
frame after the one in which every row has been drawn from the server's answers for the new view. Beside it, because other work on the
machine does not count there: processor time a step of the page's thread in the browser, and of this process, which is the server (and
Playwright); both with the figures of the panel, which come after the picture. Needs Debian's ``chromium``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, sync_playwright
from wattbell.view.server import ViewServer
from wattbell.view.shown import Shown

from tests.bench import view_capture

SCREEN = (1280, 800)
_STEP = """([x, y, turn]) => new Promise((done) => {
    const painted = () => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - start)));
    const watcher = new MutationObserver(() => { watcher.disconnect(); painted(); });
    watcher.observe(document.body, { attributes: true, attributeFilter: ['data-drawn'] });
    const start = performance.now();
    document.querySelector('#stage').dispatchEvent(
        new WheelEvent('wheel', { deltaY: turn, clientX: x, clientY: y, bubbles: true, cancelable: true }));
})"""


def steps_ms(page: Page, steps: int) -> list[float]:
    """Milliseconds of each step."""
    box = page.locator("#lines").bounding_box()
    assert box is not None
    random = np.random.default_rng(1)
    taken = []
    for turn in [-300] * (steps // 2) + [300] * (steps // 2):
        place = [box["x"] + box["width"] * random.uniform(0.1, 0.9), box["y"] + 200, turn]
        taken.append(float(page.evaluate(_STEP, place)))
        page.wait_for_timeout(50)
    return taken


def measure(path: Path, steps: int, chromium: str) -> dict[str, float]:
    """The figures of one capture."""
    server = ViewServer([Shown(path)])
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": SCREEN[0], "height": SCREEN[1]})
        page.goto(server.url)
        page.wait_for_selector("body[data-drawn]")
        first = float(page.evaluate("performance.now()"))
        page.wait_for_selector("body[data-busy='0']")
        probe = page.context.new_cdp_session(page)
        probe.send("Performance.enable")

        def page_s() -> float:
            return float({row["name"]: row["value"] for row in probe.send("Performance.getMetrics")["metrics"]}["ThreadTime"])

        before_s, server_s = page_s(), time.process_time()
        taken = steps_ms(page, steps)
        page.wait_for_selector("body[data-busy='0']")
        server_s, of_page_s = time.process_time() - server_s, page_s() - before_s
        browser.close()
    server.stop()
    thread.join(10)
    p50, p95 = np.quantile(taken, (0.5, 0.95))
    return {
        "first_picture_ms": round(first),
        "steps": len(taken),
        "p50_ms": round(p50),
        "p95_ms": round(p95),
        "max_ms": round(max(taken)),
        "page_cpu_ms_a_step": round(of_page_s / len(taken) * 1000, 1),
        "server_cpu_ms_a_step": round(server_s / len(taken) * 1000, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("capture", nargs="?", type=Path)
    parser.add_argument("--steps", type=int, default=80, help="half of them inwards; at most 88, as a view is not less than 20 ns")
    parser.add_argument("--urgent", action="store_true", help="browser and server before everything else on the machine (root)")
    arguments = parser.parse_args()
    chromium = shutil.which("chromium") or sys.exit("view_page: chromium is missing: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.capture or Path(folder, "day")
        if arguments.capture is None:
            view_capture.make(path, 86_400, 100, 2_000_000)
        if arguments.urgent:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))  # the server's threads and the browser inherit it
        load = os.getloadavg()[0]
        result = measure(path, arguments.steps, chromium)
    print(json.dumps({**result, "load_before": load, "load_after": os.getloadavg()[0]}, indent=2))


if __name__ == "__main__":
    main()
