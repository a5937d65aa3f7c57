"""The documentation site, built once: no warning, no dead link, no request to another host, and every command and public name.

The HTML is read by Python's own parser and shown by Chromium. The expected commands come from the program, the names from the package.
"""

from __future__ import annotations

import functools
import http.server
import importlib
import inspect
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import typer
import wattbell
from wattbell.cli.app import app

from cocotbext import nvmetap
from tests import needs
from tests.docs.pages import ROOT, pages

sync_playwright = needs.library("playwright.sync_api").sync_playwright
pytestmark = pytest.mark.xdist_group("docsite")
FETCHED = {
    ("link", "href"),
    ("script", "src"),
    ("img", "src"),
    ("source", "src"),
    ("iframe", "src"),
    ("object", "data"),
    ("form", "action"),
}
"""Tags and attributes with addresses that a browser fetches without a click, or sends the user's words to."""


def build(folder: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.docsite", "--pages", str(folder), "--out", str(out)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


class Html(HTMLParser):
    """A page of HTML: its anchors, links, and the addresses that a browser fetches."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.add(str(value))
            elif (tag, name) in FETCHED and dict(attrs).get("rel") not in ("next", "prev"):
                self.fetched.append(str(value))
            elif (tag, name) == ("a", "href") or tag == "link":
                self.links += [str(value)] if name == "href" else []

    def handle_data(self, data: str) -> None:
        self.text += data


@dataclass
class Site:
    """A built site; ``pages``: by path from its folder."""

    folder: Path
    done: subprocess.CompletedProcess[str] = field(repr=False)

    @cached_property
    def pages(self) -> dict[str, Html]:
        return {path.relative_to(self.folder).as_posix(): Html(path) for path in self.folder.rglob("*.html")}

    def dead(self) -> list[str]:
        """Links within the site that lead nowhere."""
        out = []
        for name, page in self.pages.items():
            for target in (*page.links, *page.fetched):
                path, _, anchor = unquote(target).partition("#")
                if re.match(r"[a-z]+:", target):
                    continue
                found = (self.folder / name).parent / path.partition("?")[0] if path else self.folder / name
                if not found.is_file():
                    out.append(f"{name}: {target}: no such file")
                elif anchor and found.suffix == ".html":
                    other = self.pages[found.resolve().relative_to(self.folder).as_posix()]
                    out += [] if anchor in other.ids else [f"{name}: {target}: no such anchor"]
        return out

    def foreign(self) -> list[str]:
        """Addresses of other hosts that a page or a style sheet fetches."""
        wanted = [(name, address) for name, page in self.pages.items() for address in page.fetched]
        for path in self.folder.rglob("*.css"):
            wanted += [
                (path.name, address) for address in re.findall(r"(?:url\(|@import)\s*[\"']?([^\"')]+)", path.read_text(encoding="utf-8"))
            ]
        return [f"{name}: {address}" for name, address in wanted if re.match(r"(?!data:)([a-z]+:|//)", address)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("site") / "docs"
    return Site(folder, build(ROOT, folder))


def test_it_builds_without_a_warning(site: Site) -> None:
    assert (site.done.returncode, site.done.stderr) == (0, "")
    assert (site.folder / "index.html").read_bytes() == (site.folder / "README.html").read_bytes()


def test_every_link_leads_somewhere_and_no_page_asks_another_host(site: Site) -> None:
    assert len(site.pages) > 70 and sum(len(page.links) for page in site.pages.values()) > 5000
    assert site.dead() == [] and site.foreign() == []


def test_dead_links_and_foreign_addresses_are_found(tmp_path: Path) -> None:
    text = """<link rel="stylesheet" href="https://fonts.example/a.css"><script src="//cdn.example/x.js"></script><img src="no.png">
    <a href="https://example.org">elsewhere</a><a href="#here" id="here"></a><a href="#gone"></a><a href="b.html"></a>"""
    (tmp_path / "a.html").write_text(text)
    (tmp_path / "a.css").write_text(
        '@import "https://a.example/"; p { background: url(x.png) url("http://b.example/") url(data:image/png,x) }'
    )
    made = Site(tmp_path, subprocess.CompletedProcess([], 0))
    assert [found.split(": ")[1] for found in made.dead()] == ["#gone", "b.html", "//cdn.example/x.js", "no.png"]
    assert [found.split(": ")[1] for found in made.foreign()] == [
        "https://fonts.example/a.css",
        "//cdn.example/x.js",
        "https://a.example/",
        "http://b.example/",
    ]


def test_the_navigation_has_the_sections_and_pages_of_the_index(site: Site) -> None:
    text = (site.folder / "index.html").read_text(encoding="utf-8")
    sidebar = text[text.index('class="sidebar-tree"') : text.index("</aside>")]
    found = re.findall(r'caption-text">([^<]+)|href="([^"#]+)', sidebar)
    assert [caption for caption, _ in found if caption] == ["Tutorial", "How-to", "Reference", "Explanation", "Log"]
    linked = {target.removesuffix(".html") for _, target in found if target}
    assert {each.name.removesuffix(".md") for each in pages() if each.name != "README.md"} <= linked


def below(command: Any, context: Any) -> Iterator[tuple[Any, Any]]:
    yield command, context
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            yield from below(inner, inner.context_class(inner, info_name=name, parent=context))


def test_every_command_and_option_of_the_program_is_there(site: Site) -> None:
    root = typer.main.get_command(app)
    ids, text, options = site.pages["docs/cli.html"].ids, site.pages["docs/cli.html"].text, 0
    for command, context in below(root, root.context_class(root, info_name="wattbell")):
        path = context.command_path
        assert path == "wattbell" or path.replace(" ", "-") in ids
        for param in command.get_params(context):
            names = [*param.opts, *param.secondary_opts] if param.param_type_name == "option" and not param.hidden else []
            for name in set(names) - {"--help", "-h"}:
                anchor = "-".join(["cmdoption", *path.split(), name.lstrip("-")]) if name.startswith("--") else ""
                assert anchor in ids or name in text, f"{path} {name}"
                options += 1
    assert options > 200


def test_every_public_name_of_the_package_is_there(site: Site) -> None:
    ids = site.pages["docs/api.html"].ids
    names = {f"wattbell.{name}" for name in wattbell.__all__ if not name.startswith("__") and name != "WattbellError"}
    names |= {f"wattbell.OpenCapture.{name}" for name, _ in inspect.getmembers(wattbell.OpenCapture) if not name.startswith("_")}
    names |= {f"wattbell.errors.{of.__name__}" for of in (wattbell.WattbellError, *wattbell.WattbellError.__subclasses__())}
    names |= {"wattbell.measure.figure.Figure", "wattbell.analysis.result.Analysis"}
    assert len(names) > 25 and names <= ids, names - ids


def test_every_public_name_of_the_monitor_is_there(site: Site) -> None:
    """Those that the package exports, and each class and function of its models; with the parameters of a constructor."""
    found = site.pages["docs/nvmetap-api.html"]
    names = {f"cocotbext.nvmetap.{name}" for name in nvmetap.__all__ if name != "TlpSink"}
    for name in ("capture", "coverage", "drive", "entries", "host", "stream"):
        module = importlib.import_module(f"cocotbext.nvmetap.{name}")
        public = {
            one: of for one, of in vars(module).items() if not one.startswith("_") and getattr(of, "__module__", "") == module.__name__
        }
        names |= {f"{module.__name__}.{one}" for one, of in public.items() if inspect.isclass(of) or inspect.isfunction(of)}
    assert len(names) >= 45 and names <= found.ids, names - found.ids
    assert "for a start after enumeration" in found.text


FAULTS = {
    "link": ("[x](nowhere.md)", "nowhere.md"),
    "anchor": ("[x](sound.md#nowhere)", "nowhere"),
    "own-anchor": ("[x](#nowhere)", "nowhere"),
    "file": ("[x](../hw/nowhere.toml)", "nowhere.toml"),
    "picture": ("![x](img/nowhere.png)", "nowhere.png"),
}
"""Pages with one fault each, and a word of the message."""


def test_each_fault_of_a_page_fails_the_build(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "docs").mkdir(parents=True)
    (tree / "README.md").write_text("# Start\n\n[all](docs/README.md)\n")
    (tree / "data.toml").write_text("")
    (tree / "docs" / "sound.md").write_text(
        "# Sound\n\n## A part\n\n[1](#a-part), [2](../data.toml), [3](sound.md#a-part), [4](README.md)\n"
    )
    index = "# All\n\n## Reference\n\n| page | subject |\n|---|---|\n| [Sound](sound.md) | x |\n"
    (tree / "docs" / "README.md").write_text(index)
    done = build(tree, tmp_path / "sound")
    assert (done.returncode, done.stderr) == (0, "") and (tmp_path / "sound" / "index.html").is_file()

    for name, (text, _) in FAULTS.items():
        (tree / "docs" / f"{name}.md").write_text(f"# Page\n\n{text}\n")
        index += f"| [Page]({name}.md) | x |\n"
    (tree / "docs" / "README.md").write_text(index + "| [Gone](gone.md) | x |\n")
    (tree / "docs" / "alone.md").write_text("# Of no table\n")
    done = build(tree, tmp_path / "faulty")
    assert done.returncode == 1 and "docs: error: " in done.stderr
    for name, word in (*((name, word) for name, (_, word) in FAULTS.items()), ("alone", "toctree"), ("README", "gone")):
        assert re.search(rf"{name}\.md.*{word}", done.stderr), f"{name}: {done.stderr}"


def test_a_folder_without_pages(tmp_path: Path) -> None:
    done = build(tmp_path, tmp_path / "out")
    assert done.returncode == 2 and "has no docs/README.md: name a folder with the pages of a checkout" in done.stderr


@pytest.fixture(scope="module")
def address(site: Site) -> Iterator[str]:
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(site.folder))
    handler.log_message = lambda *_: None  # type: ignore[attr-defined]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@pytest.mark.needs("chromium")
def test_in_a_browser_search_finds_pages_and_nothing_is_wider_than_the_window(site: Site, address: str) -> None:
    wrong: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=needs.program("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 390, "height": 800})
        page.on("request", lambda request: wrong.append(request.url) if not request.url.startswith((address, "data:")) else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        for name in (
            "index.html",
            "docs/cli.html",
            "docs/api.html",
            "docs/nvmetap-api.html",
            "docs/registers.html",
            "docs/energy.html",
            "hw/README.html",
        ):
            for width in (390, 1280):
                page.set_viewport_size({"width": width, "height": 800})
                page.goto(address + name)
                widest = page.evaluate("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)")
                assert widest <= width, f"{name} is {widest} px wide in {width} px"
        page.goto(f"{address}search.html?q=shunt")
        found = page.locator("#search-results ul.search li a").first
        found.wait_for()
        assert "docs/" in str(found.get_attribute("href"))
        browser.close()
    assert wrong == []
