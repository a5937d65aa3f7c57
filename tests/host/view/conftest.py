"""A capture with something of everything, a client of the server that shows it, and its page in a browser."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from starlette.exceptions import StarletteDeprecationWarning
from wattbell.capture import Capture
from wattbell.view.server import ViewServer, make_app
from wattbell.view.shown import Shown, align
from wattbell.wire.decode import Gap
from wattbell_spec.wire import BlockContent, EventType, LinkState

from tests import needs
from tests.host.conftest import MS, Builder
from tests.patience import PATIENCE_S

with warnings.catch_warnings():
    warnings.simplefilter("ignore", StarletteDeprecationWarning)  # of httpx, which the project has
    from starlette.testclient import TestClient

TOKEN = "T" * 32
MARKUP = "<script>alert(1)</script>"
Ask = Callable[..., Any]


def build(path: Path) -> Builder:
    """1 s: a phase of reads, an idle time, a phase of writes with a hole in the rail; link states and CLKREQ#."""
    made = Builder(path)
    made.power(0, 1.0)
    made.phase(1, 10 * MS, 210 * MS, f"reads {MARKUP}")
    for i in range(150):
        made.command(11 * MS + i * MS, 200_000 + 1_000 * i, blocks=8, slba=i * 8)
    made.power(300 * MS, 0.1)
    made.events += [(300 * MS, EventType.CLKREQ, 1, 0), (301 * MS, EventType.LINK, int(LinkState.L1_2), 0)]
    made.events += [(590 * MS, EventType.CLKREQ, 0, 0), (591 * MS, EventType.LINK, int(LinkState.L0), 0)]
    made.power(600 * MS, 2.0)
    made.phase(2, 600 * MS, 900 * MS, "writes")
    for i in range(100):
        made.command(601 * MS + i * 2 * MS, 3 * MS, blocks=256, opcode=1, status=0x281 if i == 7 else 0)
    made.hole = (700 * MS, 712 * MS)
    made.gaps.append(Gap(BlockContent.COMMANDS, 850 * MS, 851 * MS, 3, MARKUP))
    return made


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    path = tmp_path_factory.mktemp("view") / "capture"
    build(path).write(1000 * MS, lba=4096)
    return Shown(path)


@pytest.fixture(scope="module")
def client(shown: Shown) -> TestClient:
    return TestClient(make_app([shown], TOKEN), base_url="http://127.0.0.1:5000")


@pytest.fixture(scope="module")
def ask(client: TestClient) -> Ask:
    """``ask("rail", points=10)``: the JSON of a question about the first capture."""

    def question(name: str, code: int = 200, **parameters: Any) -> Any:
        answer = client.get(f"/{TOKEN}/api/0/{name}", params=parameters)
        assert answer.status_code == code, answer.text[:200]
        return answer.json()

    return question


# -- the page in a browser -------------------------------------------------------------------------------------------


in_a_browser = pytest.mark.needs("chromium")


@dataclass
class Served:
    url: str
    capture: Capture
    origin: int


def serve(*paths: Path, at: str | None = None) -> tuple[ViewServer, threading.Thread]:
    shown = [Shown(path) for path in paths]
    if at is not None:
        align(shown, at)
    server = ViewServer(shown)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    return server, thread


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=needs.program("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()


Opened = Callable[..., Page]


@pytest.fixture
def opened(browser: Browser, served: Served) -> Iterator[Opened]:
    """Opens the page at a fragment, of the module's ``served``. A console error (without ``ignore`` in it) and any request to another host
    fail the test."""
    contexts: list[BrowserContext] = []
    wrong: list[str] = []

    def heard(text: str, allowed: bool) -> None:
        if not allowed:
            wrong.append(text)

    def open_page(
        fragment: str = "",
        url: str = served.url,
        ignore: str = "nothing",
        settle: bool = True,
        **options: Any,
    ) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, "color_scheme": "light", **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: heard(message.text, message.type != "error" or ignore in message.text))
        page.on("pageerror", lambda error: heard(f"error: {error}", False))
        page.on("request", lambda request: heard(f"request to {request.url}", request.url.startswith((url, "data:", "blob:"))))
        page.goto(url + fragment)
        if settle:
            settled(page)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


def settled(page: Page) -> None:
    page.wait_for_selector("body[data-busy='0']", timeout=PATIENCE_S * 1000)


def view_of(page: Page) -> tuple[float, float]:
    begin, end = (page.get_attribute("body", "data-drawn") or "").split(",")
    return float(begin), float(end)


def place_of(page: Page, tick: float, row: str) -> tuple[float, float]:
    """Place of a tick in the middle of a row, in pixels of the window."""
    lines, box = page.locator("#lines").bounding_box(), page.locator(f"[data-row='{row}']").bounding_box()
    assert lines is not None and box is not None
    begin, end = view_of(page)
    return lines["x"] + (tick - begin) / (end - begin) * lines["width"], box["y"] + box["height"] * 0.6
