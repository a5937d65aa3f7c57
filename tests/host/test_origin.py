"""Every output says whether its figures were measured: all commands, export formats, pages, pictures and tables, for a run on a model, for
one of a drive, and for one whose document does not say."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pyjls
import pytest
from PIL import Image
from typer.testing import CliRunner
from wattbell.api import open as open_in_python
from wattbell.capture import open_capture
from wattbell.capture.meta import load, save
from wattbell.cli.app import app
from wattbell.cli.captures import export_app
from wattbell.cli.commands import PLACES
from wattbell.export.formats import FORMATS
from wattbell.results import read_run
from wattbell.virtual.simulator import profiles_dir

from studies.seeds import check, load_statements
from studies.seeds.markdown import markdown
from tests.host.conftest import MS, Builder
from tests.host.results import samples

MARKS = {
    "virtual": re.compile(r"\bMODEL\b|\((?:[^()]*, )?model\)|\bmodel `|\"virtual\": true|\bvirtual\b(?!\":)"),
    "unknown": re.compile(r"ORIGIN UNKNOWN|origin unknown|\"virtual\": null|\bunknown\b"),
}
"""How each origin may be said. The oracle's own words: nothing of wattbell.origin."""
STATED = {"virtual": True, "measured": False, "unknown": None}
NONE_OF_A_RUN = {
    "record",
    "run",
    "import",
    "suites",
    "rigs",
    "meters",
    "calibrate",
    "bridge",
    "sump",
    "sim",
    "trace",
    "sigrok-decoders",
    "check",
    "config",
    "requirements",
}
"""Commands that print no figures of a capture or a run that is there already, or only pass on what the commands below print."""


@dataclass
class Made:
    """A capture, a suite's run and a store with that run, all of one origin."""

    origin: str
    folder: Path

    @property
    def capture(self) -> Path:
        return self.folder / "capture"

    def call(self, *words: object) -> str:
        """Output of `wattbell WORDS`."""
        environment = {"COLUMNS": "100", "WATTBELL_STORE": str(self.folder / "store.sqlite"), "WATTBELL_CONFIG": ""}
        done = CliRunner().invoke(app, [str(word) for word in words], env=environment)
        assert done.exit_code == 0, (words, done.output, done.exception)
        return done.output


def build(folder: Path, origin: str, power: float = 2.0) -> None:
    made = Builder(folder)
    made.power(0, 0.6)
    made.phase(1, 10 * MS, 110 * MS, "reads")
    made.power(20 * MS, power)
    tick = 20 * MS
    for k in range(300):
        tick = made.command(tick, 80_000 + 100 * (k % 7)) + 20_000
    made.power(tick, 0.6)
    made.write(300 * MS, conditions={"virtual": STATED[origin], "timing": None})
    meta = load(folder)
    meta["drive"] |= {"model": "Drive X", "serial": "S1", "firmware": "F1"}
    if origin == "unknown":
        del meta["conditions"]["virtual"]  # as an older capture has it
    save(folder, meta)


@pytest.fixture(scope="module", params=STATED)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    found = Made(request.param, tmp_path_factory.mktemp(request.param))
    build(found.capture, found.origin)
    build(found.folder / "second", found.origin, 2.5)
    for name, profile in (("run", "intel-660p-1tb"), ("other", "crucial-p1-1tb")):
        results = samples.write_results(found.folder / name, profile) / "results.json"
        document = json.loads(results.read_text())
        document["conditions"] = {"ambient_c": 25.0}
        document |= {"versions": {"host": "0.1.0"}, "virtual": STATED[found.origin]}
        if found.origin == "unknown":
            del document["virtual"]
        if found.origin != "virtual":
            document["drive"] |= {"profile": None, "profile_hash": None}
        results.write_text(json.dumps(document))
    found.call("results", "import", found.folder / "other")
    return found


def says(made: Made, what: str, text: str) -> None:
    """Holds a text to its origin: the mark of a model or of the unknown; of a measured drive neither."""
    marked = {origin: found[0] for origin, mark in MARKS.items() if (found := mark.search(text))}
    if made.origin == "measured":
        marked.pop("unknown", None)  # much may be unknown of a drive that was measured
        assert not marked and "ORIGIN UNKNOWN" not in text and "origin unknown" not in text, (what, marked)
    else:
        assert made.origin in marked, (what, text[:600])


def text_of(page: str) -> str:
    """The page without its scripts and styles."""
    return re.sub(r"<(script|style)>.*?</\1>", "", page, flags=re.DOTALL)


def pictures(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*.png")):
        yield path.name, str(Image.open(path).info.get("Description", ""))
    for path in sorted(folder.rglob("*.svg")):
        yield path.name, " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text(encoding="utf-8")))


# -- exports ---------------------------------------------------------------------------------------------------------


def rows_each(name: str, data: bytes) -> list[str]:
    lines = data.decode().splitlines()
    at = lines[0].split(",").index("origin")
    return [f"{name}: {line.split(',')[at]}" for line in lines[1:]] or [name + lines[0]]


def parquet(data: bytes) -> str:
    about = pq.read_metadata(io.BytesIO(data)).metadata
    return about[b"wattbell.origin"].decode()


def jls(path: Path) -> str:
    noted: list[str] = []

    def note(_time: int, _y: float, _kind: object, _group: int, text: object) -> bool:
        noted.append(str(text))
        return False

    with pyjls.Reader(str(path)) as reader:
        source = [f"{one.model} {one.version}" for one in reader.sources.values() if one.vendor == "Wattbell"]
        signal = next(one.signal_id for one in reader.signals.values() if one.name == "power")
        reader.annotations(signal, 0, note)
    return " ".join(source + noted)


def read_export(form: str, path: Path) -> list[str]:
    """Origin that each part of an export states: each is found without the others."""
    if form in ("csv", "parquet"):
        with zipfile.ZipFile(path) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        assert len(parts) >= 2
        return (
            [each for name, data in parts.items() for each in rows_each(name, data)] if form == "csv" else [*map(parquet, parts.values())]
        )
    if form == "jls":
        return [jls(path)]
    if form == "sr":
        with zipfile.ZipFile(path) as archive:
            return [archive.read("metadata").decode()]
    if form == "perfetto":
        return [path.read_bytes().decode("utf-8", "replace")]
    if form == "vcd":
        return [path.read_text().partition("$end")[0] + path.read_text().partition("$scope")[0]]
    raise AssertionError(f"{form} is new: say here how its origin is read")


@pytest.mark.parametrize("form", FORMATS)
def test_an_export_says_where_it_comes_from(made: Made, form: str, tmp_path: Path) -> None:
    path = FORMATS[form].write(open_capture(made.capture), 0, 250 * MS, tmp_path / f"x{FORMATS[form].suffix}")
    for part in read_export(form, path):
        says(made, form, part)


@pytest.mark.parametrize("command", [str(one.name) for one in export_app.registered_commands])
def test_so_does_each_export_of_the_command_line(made: Made, command: str, tmp_path: Path) -> None:
    known = {"csv": "csv", "parquet": "parquet", "jls": "jls", "sigrok": "sr", "perfetto": "perfetto", "vcd": "vcd", "as": "vcd"}
    out = tmp_path / "x"
    made.call("export", *((command, "vcd") if command == "as" else (command,)), made.capture, "--out", out)
    if command == "csv":
        assert (out / "figures.csv").is_file()
        for path in out.iterdir():
            for row in rows_each(path.name, path.read_bytes()):
                says(made, path.name, row)
    elif command == "parquet":
        for path in out.iterdir():
            says(made, path.name, parquet(path.read_bytes()))
    else:
        for part in read_export(known[command], out):
            says(made, command, part)


@pytest.mark.parametrize(("command", "name"), [("csv", "x/rail.csv"), ("jls", "x"), ("sigrok", "x")])
def test_what_was_exported_and_imported_again_is_what_it_was(made: Made, command: str, name: str, tmp_path: Path) -> None:
    made.call("export", command, made.capture, "--out", tmp_path / "x")
    source = tmp_path / name
    if command == "sigrok":
        source = source.rename(tmp_path / "x.sr")
    made.call("import", source, "--out", tmp_path / "again", "--accuracy", "gain=0.001,offset=1e-5")
    assert load(tmp_path / "again")["conditions"]["virtual"] is STATED[made.origin]


def test_the_captures_own_files_say_it(made: Made) -> None:
    says(made, "rail.jls", jls(made.capture / "rail.jls"))
    for path in made.capture.glob("*.parquet"):
        says(made, path.name, parquet(path.read_bytes()))


# -- commands --------------------------------------------------------------------------------------------------------


def power_states(made: Made, folder: Path) -> Path:
    """The run, with figures of a non-operational state."""
    document = json.loads((made.folder / "run/results.json").read_text())
    known = {"value": 0.01, "u": 0.001, "n_lost": 0}
    names = (("idle in PS0, the base of the break-even time", "W"), ("mean latency of the same read when awake", "s"))
    document["tests"] = [
        {
            "test": "non-operational",
            "name": "Non-operational states",
            "kind": "non-operational-states",
            "condition": "test-data",
            "points": [{"x": {"ps": ps}, **dict.fromkeys(("settled_w", "entry_s", "entry_j", "exit_s", "exit_j"), known)} for ps in (3, 4)],
            "scores": [{"name": name, "unit": unit, "value": known, "reading": None} for name, unit in names],
            "series": None,
        }
    ]
    (folder / "states").mkdir()
    (folder / "states/results.json").write_text(json.dumps(document))
    return folder / "states"


def idle_times(folder: Path) -> Path:
    (folder / "idle.csv").write_text("idle_s\n5\n")
    return folder / "idle.csv"


WHATEVER = "fail=0,conditional fail=0,conditional pass=0,not measured=0"
COMMANDS: dict[str, list[Callable[[Made, Path], list[object]]]] = {
    "info": [lambda m, _: ["info", m.capture], lambda m, _: ["info", m.capture, "--json"]],
    "analyze": [
        lambda m, _: ["analyze", m.capture],
        lambda m, _: ["analyze", m.capture, "--json"],
        lambda m, _: ["analyze", m.capture, m.folder / "second", "--workers", "0"],
        lambda m, _: ["analyze", m.capture, m.folder / "second", "--workers", "0", "--json"],
    ],
    "judge": [
        lambda m, t: ["judge", m.capture, m.folder / "run", "--exit-codes", WHATEVER],
        lambda m, t: ["judge", m.capture, "--exit-codes", WHATEVER, "--json"],
    ],
    "compare": [
        lambda m, t: ["compare", m.folder / "run", m.folder / "other", "--no-plots", "--out", t / "a.html", "--json"],
        lambda m, t: ["compare", m.capture, m.folder / "second", "--no-plots", "--out", t / "b.html"],
        lambda m, t: ["compare", m.capture, m.folder / "second", "--no-plots", "--out", t / "c.html", "--json"],
    ],
    "policies": [
        lambda m, t: ["policies", power_states(m, t), idle_times(t)],
        lambda m, t: ["policies", power_states(m, t), idle_times(t), "--json"],
    ],
    "results": [
        lambda m, _: ["results", "list"],
        lambda m, _: ["results", "list", "--json"],
        lambda m, _: ["results", "show", m.folder / "run"],
        lambda m, _: ["results", "show", m.folder / "run", "--json"],
        lambda m, _: ["results", "export"],
        lambda m, t: ["results", "import", m.folder / "run", "--store", t / "new.sqlite"],
    ],
}
ELSEWHERE = {"view": "test_the_view_says_it", "report": "test_pages_and_pictures_say_it", "export": "above"}


def test_every_command_is_looked_at_or_known_to_print_no_figures() -> None:
    assert set(PLACES) == NONE_OF_A_RUN | set(COMMANDS) | set(ELSEWHERE)


@pytest.mark.parametrize(("command", "number"), [(name, i) for name, calls in COMMANDS.items() for i in range(len(calls))])
def test_a_command_says_it(made: Made, command: str, number: int, tmp_path: Path) -> None:
    words = COMMANDS[command][number](made, tmp_path)
    told = made.call(*words)
    if "--json" in words and command != "results" and made.origin == "measured":
        assert '"virtual": false' in told and '"virtual": true' not in told
    elif made.origin == "unknown" and "--json" in words and command in ("info", "analyze"):
        # a document of the capture's own: what is not stated stays absent, or null
        assert '"virtual": true' not in told and '"virtual": false' not in told
    elif made.origin == "unknown" and command == "results" and words[1] in ("show", "export") and words[-1] != made.folder / "run":
        assert '"virtual": null' in told or '"virtual"' not in told
    elif made.origin != "measured" or "--json" not in words:
        says(made, " ".join(map(str, words)), told)


def test_figures_of_many_captures_have_it_in_each_row(made: Made, tmp_path: Path) -> None:
    made.call("analyze", made.capture, made.folder / "second", "--workers", "0", "--out", tmp_path / "f.parquet")
    assert set(pq.read_table(tmp_path / "f.parquet")["origin"].to_pylist()) == {made.origin}


def test_pages_and_pictures_say_it(made: Made, tmp_path: Path) -> None:
    """Each heading, caption, legend and copied text of a page has it where figures are of a model."""
    for name, words in {
        "capture": ["report", made.capture],
        "suite": ["report", made.folder / "run"],
        "compare": ["compare", made.folder / "run", made.folder / "other"],
        "captures": ["compare", made.capture, made.folder / "second"],
    }.items():
        out = tmp_path / name / "page.html"
        made.call(*words, "--out", out)
        page = out.read_text(encoding="utf-8")
        title = re.search(r"<h1>(.*?)</h1>(?:<p class=sub>.*?</p>)?(?:<p class=stamps>.*?</p>)?", page, re.DOTALL)
        assert title
        says(made, f"{name}: heading", title[0])
        (copied,) = re.findall(r'^const C=(".*");$', page, re.MULTILINE)
        says(made, f"{name}: copied conditions", "\n".join(json.loads(copied).split("\n")[:4]))
        (of_rows,) = re.findall(r'^const O=(".*");$', page, re.MULTILINE)
        says(made, f"{name}: copied rows", json.loads(of_rows))
        if name in ("suite", "compare", "captures") and made.origin == "virtual":
            own = re.sub(r'<span class="stamp.*?</span>', "", text_of(page), flags=re.DOTALL)
            for drive in ("Intel SSD 660p 1TB", "Crucial P1 1TB", "Drive X"):
                for at in re.finditer(re.escape(drive), own):
                    assert "(model)" in own[at.start() : at.start() + 70], own[at.start() - 40 : at.start() + 70]
        drawn = list(pictures(tmp_path / name))
        assert len(drawn) >= 4
        for picture, text in drawn:
            says(made, f"{name}: {picture}", text)


def test_a_run_of_the_store_behind_another_is_marked(made: Made, tmp_path: Path) -> None:
    """Which was lost: in grey, under the model's plain name."""
    made.call("compare", made.folder / "run", "--out", tmp_path / "p.html", "--no-plots")
    names = set(re.findall(r"Crucial P1 1TB[^<\".;]*", text_of((tmp_path / "p.html").read_text(encoding="utf-8"))))
    mark = {"virtual": "(model)", "unknown": "(origin unknown)", "measured": ""}[made.origin]
    assert names and all(mark in name and ("(" in name) == bool(mark) for name in names), names


def test_python_and_notebooks_say_it(made: Made) -> None:
    with open_in_python(made.capture) as capture:
        says(made, "card", capture._repr_html_())
        for title in (None, "My own title"):
            says(made, f"plot {title}", capture.plot(title=title).figure.get_suptitle())


def test_the_view_says_it(made: Made) -> None:
    from starlette.testclient import TestClient
    from wattbell.view.server import make_app
    from wattbell.view.shown import Shown

    client = TestClient(make_app([Shown(made.capture)], "T" * 32), base_url="http://127.0.0.1:5000")
    about = client.get(f"/{'T' * 32}/api/0/capture").json()
    assert about["origin"]["mark"] == {"virtual": "model", "measured": "", "unknown": "origin unknown"}[made.origin]
    says(
        made, "view", " ".join([about["origin"]["words"], *about["conditions"]]) if made.origin != "measured" else about["origin"]["words"]
    )


def test_the_page_of_the_seeds_says_it(made: Made) -> None:
    runs = [read_run(made.folder / "run"), read_run(made.folder / "other")]
    if made.origin == "virtual":
        page = markdown(check(load_statements(), runs, profiles_dir()))
        assert "**models** of the drives" in page and "| model intel-660p-1tb |" in page
