"""Markup in every field that a file of a stranger controls: on the terminal, on pages, in pictures, in CSV and in Markdown it stays text.

The fields are found by a walk over the schemas and over whole examples, so that a new field is tried without being named here.
"""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
from markdown_it import MarkdownIt
from playwright.sync_api import Browser
from typer.testing import CliRunner
from wattbell.capture.meta import save
from wattbell.capture.metamodel import MetaModel
from wattbell.cli.app import app
from wattbell.errors import ResultsError
from wattbell.results import read_run
from wattbell.results.document import Document
from wattbell.results.model import parse
from wattbell.virtual.simulator import profiles_dir

from studies.seeds import check, load_statements
from studies.seeds.markdown import markdown
from tests.host.results import samples

MS = 1_000_000
MARK = (
    "<wb-x onclick=pwned=1></wb-x>\"'><wb-x><img src=x onerror=pwned=1><script>pwned=1</script>--><![CDATA[<wb-x>]]> [red]r[/red]"
    " ${\\it x}$ `|c|` [a](javascript:pwned=1) \x1b[31m\x9b31m\u202eturned\u2066 in\u200bvis\u2060ible\ufeff\xad\u061c \0 &lt;wb-x&gt;"
    "\n0123456789ab  forged\r\nforged\u2028forged\ttab"
)
FORMULA = "=cmd|'/c calc'!A1 "
Path_ = tuple[Any, ...]


def hostile(text: str) -> str:
    return f"{FORMULA}{text} {MARK}"


def harmless(text: str) -> str:
    """Equally long, with as many words, but without special meaning."""
    plain = f"{FORMULA}{text} {MARK}".replace("\r\n", " ").replace("\n", " ").replace("\t", " ")
    return re.sub("[^A-Za-z0-9/. ]", "x", plain)


# -- the walk ----------------------------------------------------------------------------------------------------------


def filled(kind: Any) -> Any:
    """An example of a type with each text that it may hold; None where it holds none. Numbers are left out, and texts with a pattern."""
    found = kind if isinstance(kind, msgspec.inspect.Type) else msgspec.inspect.type_info(kind)
    if isinstance(found, msgspec.inspect.StrType):
        return "text" if found.pattern is None else None
    if isinstance(found, msgspec.inspect.StructType):
        fields = {field.encode_name: filled(field.type) for field in found.fields}
        return {name: value for name, value in fields.items() if value is not None} or None
    if isinstance(found, msgspec.inspect.UnionType):
        return next((value for one in found.types if (value := filled(one)) is not None), None)
    if isinstance(found, msgspec.inspect.DictType):
        return {"key": value} if (value := filled(found.value_type)) is not None else None
    if isinstance(found, msgspec.inspect.ListType):
        return [value] if (value := filled(found.item_type)) is not None else None
    return "any" if isinstance(found, msgspec.inspect.AnyType) else None


def joined(example: Any, more: Any) -> Any:
    """``example`` with what ``more`` has besides; lists of objects get it in each."""
    if isinstance(example, dict) and isinstance(more, dict):
        return {**more, **{key: joined(value, more.get(key)) for key, value in example.items()}}
    if isinstance(example, list) and isinstance(more, list) and more:
        return [joined(value, more[0]) for value in example] or (more if isinstance(more[0], str) else example)
    return more if example is None and more is not None else example


def texts(value: Any, at: Path_ = ()) -> Iterator[Path_]:
    """Place of each text; a path that ends with None means a key of an object."""
    if isinstance(value, str):
        yield at
    elif isinstance(value, dict):
        for key, item in value.items():
            yield (*at, key, None)
            yield from texts(item, (*at, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from texts(item, (*at, number))


def changed(value: Any, at: set[Path_], change: Callable[[str], str], here: Path_ = ()) -> Any:
    """A copy with ``change`` made to the texts at these places."""
    if isinstance(value, str):
        return change(value) if here in at else value
    if isinstance(value, dict):
        return {change(k) if (*here, k, None) in at else k: changed(v, at, change, (*here, k)) for k, v in value.items()}
    if isinstance(value, list):
        return [changed(item, at, change, (*here, number)) for number, item in enumerate(value)]
    return value


def shape(at: Path_) -> Path_:
    """A place without the numbers in it: fields that differ in these alone are one."""
    return tuple("*" if isinstance(part, int) else part for part in at)


def free(document: Any, whole: Callable[[Any], bool], keep: Callable[[Path_], bool]) -> set[Path_]:
    """Places of the texts that may be any text, and that ``whole`` still accepts; known names of objects are not texts of anybody."""
    kinds: dict[Path_, list[Path_]] = {}
    for at in texts(document):
        if not keep(at):
            kinds.setdefault(shape(at), []).append(at)
    taken: set[Path_] = set()
    for places in kinds.values():
        if whole(changed(document, {*taken, *places}, hostile)):
            taken |= set(places)
    return taken


# -- what is shown -----------------------------------------------------------------------------------------------------


def is_text(said: str) -> None:
    bad = {f"U+{ord(c):04X}" for c in said if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    assert not bad, sorted(bad)


def on_terminal(*arguments: object) -> str:
    environment = {"COLUMNS": "20000", "WATTBELL_STORE": "/nonexistent/store"}
    result = CliRunner().invoke(app, [str(one) for one in arguments], env=environment, terminal_width=20000)
    assert result.exit_code == 0, (arguments, result.output, result.exception)
    return result.output


def same_lines(command: Callable[[str], tuple[object, ...]], shows: bool = True) -> None:
    """A command's words about something hostile: only text, and not a line more than about something harmless."""
    said, plain = (on_terminal(*command(name)) for name in ("hostile", "harmless"))
    is_text(said)
    assert len(said.splitlines()) == len(plain.splitlines()), command("hostile")
    assert not shows or "[red]" in said, command("hostile")


class Elements(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not any(name.startswith("on") or (value or "").startswith("javascript:") for name, value in attrs), (tag, attrs)


def is_a_clean_page(browser: Browser, path: Path) -> None:
    page = browser.new_page()
    try:
        page.goto(path.as_uri())
        page.wait_for_load_state()
        assert page.evaluate("typeof pwned") == "undefined", "a script of the data ran"
        assert page.evaluate("document.querySelectorAll('wb-x, img').length") == 0, "the data made an element"
        shown = page.evaluate("document.documentElement.textContent")
        assert "[red]" in shown
        is_text(re.sub(r"[\t\r]", " ", page.evaluate("document.body.innerText")))
    finally:
        page.close()


def are_clean_pictures(folder: Path) -> None:
    pictures = list(folder.glob("*.svg"))
    assert pictures
    for picture in pictures:
        root = ElementTree.parse(picture).getroot()
        assert {element.tag.rpartition("}")[2] for element in root.iter()} & {"wb-x", "script", "img", "a"} == set()
        is_text("".join(root.itertext()))


def is_clean_csv(path: Path) -> None:
    for row in csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline="")):
        for cell in row:
            is_text(cell)
            if cell.lstrip()[:1] in tuple("=+-@"):
                float(cell)


# -- results -----------------------------------------------------------------------------------------------------------

KEPT = ("burst-random-read", "mixed-random", "whole-drive-fill", "idle", "idle-wake-up")
FIXED = {"profile", "series"}
"""``profile`` chooses the other side of a comparison; ``series`` is the name of a file that is read."""


def of_results(folder: Path) -> Any:
    samples.write_results(folder)
    document = json.loads((folder / "results.json").read_text())
    document["tests"] = [test for test in document["tests"] if test["test"] in KEPT]
    document["energy"] = samples.energy()
    for test in document["tests"]:
        test |= {"notes": ["a note"], "lost": {"commands": 1}}
    return joined(document, filled(Document))


def accepted(document: Any) -> bool:
    try:
        parse(document, "here")
    except ResultsError:
        return False
    return True


def known_key(at: Path_) -> bool:
    """Keys are words of the format, except where the values are by the names of something."""
    open_ended = {"versions", "conditions", "jobs", "lost", "features", "classes_j", "mix", "x"}
    return at[-1] is None and (len(at) < 3 or at[-3] not in open_ended)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders ``hostile`` and ``harmless``, with results that have it in every field, and as many of another drive (``-2``)."""
    folder = tmp_path_factory.mktemp("runs")
    document = of_results(folder / "hostile")
    places = free(document, accepted, lambda at: known_key(at) or at[-1] in FIXED or (at[-1] is None and at[-2] in FIXED))
    # what must be free, or this test looks at nothing
    fields = {shape(at) for at in places}
    for field in (
        ("suite",),
        ("drive", "model"),
        ("drive", "serial"),
        ("started_utc",),
        ("tests", "*", "name"),
        ("tests", "*", "notes", "*"),
    ):
        assert field in fields, field
    assert len(fields) > 40
    for name, change in (("hostile", hostile), ("harmless", harmless)):
        for more in ("", "-2"):
            place = folder / f"{name}{more}"
            samples.write_results(place)
            spoilt = changed(document, places, change)
            spoilt["drive"]["serial"] += more
            (place / "results.json").write_text(json.dumps(spoilt))
    return folder


def test_results_on_the_terminal(runs: Path, tmp_path: Path) -> None:
    for name in ("hostile", "harmless"):
        said = on_terminal("results", "import", runs / name, runs / f"{name}-2", "--store", tmp_path / f"{name}.sqlite")
        is_text(said)
        assert len(said.splitlines()) == 2
    same_lines(lambda name: ("results", "list", "--store", tmp_path / f"{name}.sqlite"))
    identity = json.loads(on_terminal("results", "list", "--json", "--store", tmp_path / "hostile.sqlite"))[0]["id"]
    other = json.loads(on_terminal("results", "list", "--json", "--store", tmp_path / "harmless.sqlite"))[0]["id"]
    ids = {"hostile": identity, "harmless": other}
    same_lines(lambda name: ("results", "show", ids[name], "--store", tmp_path / f"{name}.sqlite"))
    kept = json.loads(on_terminal("results", "export", ids["hostile"], "--store", tmp_path / "hostile.sqlite"))
    assert kept[0]["results"] == json.loads((runs / "hostile/results.json").read_text()), "the document is kept as it was written"


def test_results_on_pages_and_in_pictures(runs: Path, tmp_path: Path, browser: Browser) -> None:
    same_lines(lambda name: ("compare", runs / name, runs / f"{name}-2", "--out", tmp_path / name / "both.html"))
    is_a_clean_page(browser, tmp_path / "hostile/both.html")
    are_clean_pictures(tmp_path / "hostile/both-plots")


def test_results_in_markdown(runs: Path) -> None:
    pages = {}
    for name in ("hostile", "harmless"):
        text = markdown(check(load_statements(), [read_run(runs / name)], profiles_dir()))
        is_text(text)
        pages[name] = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    assert "[red]" in pages["hostile"]
    found = Elements(pages["hostile"])
    assert found.tags == Elements(pages["harmless"]).tags and "wb-x" not in found.tags
    assert pages["hostile"].count("<td") == pages["harmless"].count("<td")


# -- captures ----------------------------------------------------------------------------------------------------------


def takes(meta: Any) -> bool:
    try:
        msgspec.convert(meta, MetaModel)
    except msgspec.ValidationError:
        return False
    return True


@pytest.fixture
def captures(builder: Any, tmp_path: Path) -> Path:
    """Folders ``hostile`` and ``harmless``, captures with it in every field of meta.json."""
    builder.power(0, 0.6)
    for number in (1, 2):
        tick = (60 * number - 40) * MS
        builder.phase(number, tick, tick + 40 * MS, f"phase {number}")
        builder.power(tick, 2.0)
        for k in range(200):
            builder.command(tick + MS + k * 100_000, 80_000, opcode=number)
        builder.power(tick + 22 * MS, 0.6)
    path: Path = builder.write(200 * MS).path
    meta = json.loads((path / "meta.json").read_text())
    example = filled(MetaModel)
    for name in ("files", "units", "self", "clock"):
        example.pop(name, None)
    for name in ("fio", "fio_json", "fio_parts", "job", "jobs"):  # names of files that are read
        example["workload"]["phases"][0].pop(name, None)
    meta = joined(meta, example)
    fixed = {"files", "units", "self", "id", "state", "utc", "kind", "counts"}
    open_ended = {"software", "dropped", "gaps", "rig_events"}
    places = free(meta, takes, lambda at: bool(fixed & set(at)) or (at[-1] is None and (len(at) < 3 or at[-3] not in open_ended)))
    fields = {shape(at) for at in places}
    for field in (("drive", "model"), ("rig", "serial"), ("workload", "phases", "*", "name"), ("conditions", "notes", "*")):
        assert field in fields, field
    for name, change in (("hostile", hostile), ("harmless", harmless)):
        place = tmp_path / name
        place.mkdir()
        for file in path.iterdir():
            if file.is_file():
                (place / file.name).write_bytes(file.read_bytes())
        save(place, changed(meta, places, change))
    return tmp_path


def test_captures_everywhere(captures: Path, browser: Browser) -> None:
    same_lines(lambda name: ("info", captures / name))
    same_lines(lambda name: ("analyze", captures / name))
    same_lines(lambda name: ("report", captures / name, "--out", captures / f"{name}.html"), shows=False)
    is_a_clean_page(browser, captures / "hostile.html")
    are_clean_pictures(captures / "hostile-plots")
    same_lines(lambda name: ("export", "csv", captures / name, "--out", captures / f"{name}-csv"), shows=False)
    for path in (captures / "hostile-csv").iterdir():
        is_clean_csv(path)
    assert "'=cmd" in (captures / "hostile-csv/figures.csv").read_text(encoding="utf-8")
    for kind in ("vcd", "perfetto", "sigrok"):
        same_lines(lambda name, kind=kind: ("export", kind, captures / name, "--out", captures / f"{name}.{kind}"), shows=False)
