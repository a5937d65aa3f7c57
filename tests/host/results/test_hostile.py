"""Results, captures and registrations of a stranger: their text stays text on every page, in every picture and on the terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from wattbell.analysis import figures_of
from wattbell.capture import open_capture
from wattbell.capture.meta import save
from wattbell.present.pages import write_report
from wattbell.present.pages.suite import write_suite_page
from wattbell.results import provenance, read_run

from tests.host.results import samples

MS = 1_000_000
HOSTILE = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "</script><!--<script>",
    "&lt;b&gt;<a href=javascript:alert(1)>%{x}</a><extra>",
    "[/] [bold]loud[/bold] :smile:",
    "\x1b[31m\x1b]0;title\x07\r\x9b2J\u202e",
    "$\\frac{1}$ $x$",
    "a|b `c` \\[d\\]",
)
EVERYTHING = " ".join(HOSTILE)
Change = Callable[[str], str]


def hostile(text: str) -> str:
    return f"{text} {EVERYTHING}"


def harmless(text: str) -> str:
    """Equally long, with as many words and slashes, but without special meaning."""
    return f"{text} {re.sub(r'[^A-Za-z0-9/ ]', 'x', EVERYTHING)}"


class Shape(HTMLParser):
    """Counts elements with the names of their attributes, and keeps the scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self.scripts: list[str] = []
        self.text = ""
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag, tuple(name for name, _ in attrs)] += 1
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment on the page: {data}")

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        else:
            self.text += data


def same_page(page: str, plain: str, *constants: str) -> Any:
    """Compares a page with one free of anything hostile; returns the data of its script, which makes text and nothing else."""
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", page)
    found, model = Shape(page), Shape(plain)
    assert found.elements == model.elements
    assert len(found.scripts) == 2
    assert HOSTILE[0] in found.text and HOSTILE[4] in found.text, "the text is there, as text"
    data, rest = [], found.scripts[1]
    for name in constants:
        one, end = json.JSONDecoder().raw_decode(rest := rest.removeprefix(f"const {name}="))
        data, rest = [*data, one], rest[end:].removeprefix(";\n")
    assert not re.search('innerHTML|outerHTML|insertAdjacentHTML|document.write|eval|setAttribute\\("on', rest)
    return data


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in (*strings(key), *strings(item))]
    return [text for item in value for text in strings(item)] if isinstance(value, list) else []


def labels_are_text(data: Any) -> None:
    """Labels are drawn, or set as text: they stand there as they are."""
    assert any(HOSTILE[0] in text for text in strings(data))


# -- results ---------------------------------------------------------------------------------------------------------


def spoil(document: dict[str, Any], change: Change) -> None:
    """``change`` to every string of a results.json that may be any string."""
    document["drive"] |= {key: change(document["drive"][key]) for key in ("model", "serial", "firmware", "profile", "profile_hash")}
    document["drive"]["features"]["controller"] = change("SM")
    document["versions"] = {change(k): change(v) for k, v in document["versions"].items()}
    document["conditions"] = {**{change(k): change(str(v)) for k, v in document["conditions"].items()}, "notes": [change("n")]}
    document["uncertainty"] = {"k": change("2"), "source": change("s")}
    document["jobs"] = {change("a.fio"): change("ab")}
    document["notes"] = [change("note")]
    document["lost"] = {change("commands"): 3}
    document |= {key: change(str(document.get(key))) for key in ("suite", "suite_hash", "started_utc", "capture", "condition")}
    for test in document["tests"]:
        test["test"], test["name"] = change(test["test"]), change(test["name"])
        test["condition"] = test["condition"] if test["condition"] == "full" else change(test["condition"])
        test["notes"] = [change("busy for 3 %"), change("no steady state")]
        test["lost"] = {change("commands"): 2}
        for score in test["scores"]:
            score["name"], score["reading"] = change(score["name"]), change("mean")
        test["scores"].append({"name": change("odd"), "unit": change("u"), "value": 3.0, "reading": None})
        for point in test["points"]:
            point["x"][change("axis")] = change("here")
            point[change("quantity")] = {"value": 2.0, "u": 0.1, "n_lost": 1}
    document["energy"] = json.loads(json.dumps(samples.energy()), object_hook=lambda found: _spoilt(found, change))
    document["tests"][-1]["points"].append({"x": {"qd": 1}, change("quantity"): 1.0})


def _spoilt(found: dict[str, Any], change: Change) -> dict[str, Any]:
    """An object of ``energy`` with every string that may be any string changed; classes keep their first word, which is an opcode."""
    texts = {key: change(value) for key, value in found.items() if isinstance(value, str)}
    return {**found, **texts, **({"classes_j": {change(k): v for k, v in found["classes_j"].items()}} if "classes_j" in found else {})}


KEPT = ("burst-random-read", "sustained-random-read", "mixed-random", "whole-drive-fill", "idle", "idle-wake-up", "atsb-heavy-like")


@pytest.fixture
def stranger(samples: Any, tmp_path: Path) -> Callable[..., Path]:
    def make(name: str, change: Change, profile: str = "intel-660p-1tb") -> Path:
        folder: Path = samples.write_results(tmp_path / name, profile)
        document = json.loads((folder / "results.json").read_text())
        document["tests"] = [test for test in document["tests"] if test["test"] in KEPT]
        spoil(document, change)
        (folder / "results.json").write_text(json.dumps(document))
        return folder

    return make


@pytest.mark.parametrize("drives", [["intel-660p-1tb"], ["intel-660p-1tb", "crucial-p1-1tb"]])
def test_a_suite_page_holds_nothing_but_text_of_the_data(stranger: Any, tmp_path: Path, drives: list[str]) -> None:
    pages = []
    for name, change in (("hostile", hostile), ("harmless", harmless)):
        runs = [read_run(stranger(f"{name}{i}", change, drive)) for i, drive in enumerate(drives)]
        pages.append(write_suite_page(runs, tmp_path / f"{name}.html", plots=False)[0].read_text(encoding="utf-8"))
    data = same_page(*pages, "P", "B", "C", "O")
    labels_are_text(data)


def test_pictures_of_a_suite_are_well_formed_and_stay_in_their_folder(stranger: Any, samples: Any, tmp_path: Path) -> None:
    folder = stranger("run", hostile)
    document = json.loads((folder / "results.json").read_text())
    document["suite"] = "../../" + document["suite"]
    twin = {**document["tests"][1], "test": document["tests"][1]["test"].replace(" ", "-")}
    document["tests"] = [document["tests"][1], twin, *document["tests"][3:5]]
    (folder / "results.json").write_text(json.dumps(document))
    html, *pictures = write_suite_page([read_run(folder)], tmp_path / "out" / "page.html")
    assert {p.parent for p in pictures} == {tmp_path / "out" / "page-plots"}
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"page.html", "page-plots"}
    assert len(set(pictures)) == len(pictures) == len(list((tmp_path / "out" / "page-plots").iterdir()))
    ids = re.findall('<div id="([^"]*)"', html.read_text(encoding="utf-8"))
    assert len(set(ids)) == len(ids), "no two charts in one place"
    for picture in pictures:
        if picture.suffix == ".svg":
            root = ElementTree.parse(picture).getroot()
            assert {element.tag.rpartition("}")[2] for element in root.iter()} & {"script", "img", "a"} == set()
            assert "\\frac" in "".join(root.itertext()), "no formula was made of it"


def test_links_and_names_that_lead_out_of_the_folder_are_not_followed(samples: Any, tmp_path: Path) -> None:
    folder = samples.write_results(tmp_path / "run")
    secret = tmp_path / "secret"
    secret.write_text("what is in it is nobody's business")
    (folder / "jobs" / "a.fio").symlink_to(secret)
    (folder / "b.iolog").symlink_to(secret)
    hashes = provenance.job_hashes(folder)
    assert sorted(hashes) == ["jobs/sustained-random-read.fio"]
    assert sha256(secret.read_bytes()).hexdigest() not in hashes.values()


# -- captures --------------------------------------------------------------------------------------------------------


def spoil_capture(path: Path, change: Change) -> None:
    """``change`` to every string of a capture's meta.json that may be any string."""
    meta = json.loads((path / "meta.json").read_text())
    meta["drive"] |= {key: change(key) for key in ("model", "serial", "firmware")}
    meta["rig"] |= {key: change(key) for key in ("model", "serial", "gateware", "firmware")}
    meta["conditions"] |= {key: change(key) for key in ("profile", "timing", "source")}
    meta["conditions"]["notes"] = [change("note")]
    meta["software"] = {change(key): change(str(value)) for key, value in meta["software"].items()}
    for phase in meta["workload"]["phases"]:
        phase["name"] = change(phase["name"])
    meta["workload"] |= {"model": change("model"), "source": change("source")}
    meta["loss"] |= {"lossless": False, "rig_events": {change("kind"): 3}, "dropped": {change("records"): 2}}
    save(path, meta)


@pytest.fixture
def capture(builder: Any) -> Path:
    builder.power(0, 0.6)
    tick = 20 * MS
    for number in (1, 2):
        builder.phase(number, tick, tick + 40 * MS, f"phase {number}")
        builder.power(tick, 2.0)
        for k in range(200):
            builder.command(tick + MS + k * 100_000, 80_000, opcode=number)
        builder.power(tick + 22 * MS, 0.6)
        tick += 60 * MS
    path: Path = builder.write(200 * MS).path
    return path


def test_a_report_holds_nothing_but_text_of_the_data(capture: Path, tmp_path: Path) -> None:
    original = (capture / "meta.json").read_bytes()
    pages = []
    for name, change in (("hostile", hostile), ("harmless", harmless)):
        (capture / "meta.json").write_bytes(original)
        spoil_capture(capture, change)
        opened = open_capture(capture)
        pages.append(write_report(opened, figures_of(opened), tmp_path / f"{name}.html", name == "hostile").read_text(encoding="utf-8"))
    labels_are_text(same_page(*pages, "P", "B", "D", "C", "O", "VIEW"))
    for picture in (tmp_path / "hostile-plots").glob("*.svg"):
        ElementTree.parse(picture)


# -- the terminal ----------------------------------------------------------------------------------------------------


@pytest.fixture
def wattbell(tmp_path: Path) -> Any:
    def run(*arguments: object, code: int = 0) -> str:
        env = {**os.environ, "XDG_DATA_HOME": str(tmp_path / "home"), "WATTBELL_RUNTIME": str(tmp_path / "runtime"), "COLUMNS": "4000"}
        for name in ("WATTBELL_DEBUG", "WATTBELL_STORE"):
            env.pop(name, None)
        command = [sys.executable, "-m", "wattbell", *map(str, arguments)]
        done = subprocess.run(command, env=env, cwd=tmp_path, text=True, capture_output=True, check=False)
        assert done.returncode == code, (done.stdout, done.stderr)
        said = done.stdout + done.stderr
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", said), arguments
        assert "Traceback" not in said and "bug:" not in said
        return said

    return run


def test_commands_on_results_print_data_as_it_stands(wattbell: Any, stranger: Any, tmp_path: Path) -> None:
    stranger("run", hostile)
    stranger("other", hostile, "crucial-p1-1tb")
    added = wattbell("results", "import", "run", "other")
    assert HOSTILE[4] in added and HOSTILE[0] in added
    identity = added.split()[0]
    assert "[/]" in wattbell("results", "list")
    assert HOSTILE[4] in wattbell("results", "show", identity)
    wattbell("results", "show", identity, "--json")
    wattbell("results", "export")
    wattbell("compare", "run", "other", "--no-plots", "--out", "both.html")
    wattbell("report", "run", "--no-plots", "--out", "one.html")
    wattbell("results", "delete", identity)
    assert "[/]" in wattbell("results", "delete", "[/]", code=1)


def test_commands_on_captures_print_data_as_it_stands(wattbell: Any, capture: Path, tmp_path: Path) -> None:
    spoil_capture(capture, hostile)
    shown = wattbell("info", capture)
    assert HOSTILE[4] in shown and HOSTILE[0] in shown
    assert "[/]" in wattbell("analyze", capture)
    wattbell("analyze", capture, "--json")
    wattbell("report", capture, "--no-plots", "--out", "r.html")
    wattbell("compare", capture, "--no-plots", "--out", "c.html")
    wattbell("export", "csv", capture, "--out", "csv")
    strange = capture.rename(tmp_path / "[red]x[bold] \x1b[31m")
    wattbell("report", strange, "--no-plots", "--out", "here.html")
    assert "[bold]a[/]" in wattbell("report", strange, "--no-plots", "--out", "[bold]a[/]b.html")
    assert "[red]none[/]" in wattbell("info", "[red]none[/]", code=1)


def test_a_strangers_suite_is_listed_as_it_stands(wattbell: Any, tmp_path: Path) -> None:
    manifest = 'name = "s"\ntitle = {title}\n[[test]]\nid = "t"\nname = {title}\nkind = "idle"\nconditions = ["full"]\nidle_s = 1\n'
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "manifest.toml").write_text(manifest.format(title=json.dumps(f"{HOSTILE[0]} {HOSTILE[4]}")))
    said = wattbell("suites", "./s")
    assert HOSTILE[4] in said and HOSTILE[0] in said


def test_a_rigs_own_words_are_printed_as_they_stand(wattbell: Any, tmp_path: Path) -> None:
    (tmp_path / "runtime" / "rigs").mkdir(parents=True)
    entry = {"serial": "A [/] \x1b[31m", "data": "/dev/null", "control": "/dev/null", "pid": os.getpid()}
    (tmp_path / "runtime" / "rigs" / "a.json").write_text(json.dumps(entry))
    assert "A [/] \ufffd[31m" in wattbell("rigs")
    assert "A [/]" in wattbell("info", "--rig", "B", code=1)
