"""README.md and its sisters describe the tree truly: board, versions, models, picture, output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from matplotlib import rc_context
from matplotlib.figure import Figure
from PIL import Image
from wattbell import __version__
from wattbell.errors import SimError
from wattbell.present.chart import ChartSection
from wattbell.present.pictures import STYLE, figures
from wattbell.virtual import programs

from tests.docs.pages import ROOT, page, pages
from tests.patience import PATIENCE_S
from tools import power_picture

README = page("README.md").text
HARDWARE = page("hw/README.md").text
MODELLED = page("docs/real-and-modelled.md").text


def routed(unrouted: str, board: str) -> bool:
    """Whether the board's file has tracks, and the list of connections without one is empty."""
    return len(unrouted.splitlines()) == 1 and "(segment" in board


def contradictions(state: bool) -> list[str]:
    """Untrue statements of the pages on the board, if all of it is routed (``state``) or not."""
    said = {
        "README.md": "the board is designed and routed" in README,
        "hw/README.md": bool(re.search(r"All connections of the board's \d+ nets are routed", HARDWARE)),
        "docs/real-and-modelled.md": "layout and every connection routed" in MODELLED,
    }
    out = [f"{name} says that the board {'is' if says else 'is not'} routed" for name, says in said.items() if says != state]
    stale = re.compile(r"no layout|without a layout|schematic,? in part|not yet routed", re.IGNORECASE)
    return out + [f"{each.name}: {found[0]}" for each in pages() if state and (found := stale.search(each.text))]


def test_the_pages_and_the_boards_file_agree_on_the_layout() -> None:
    folder = ROOT / "hw" / "board"
    unrouted = (folder / "layout" / "unrouted.tsv").read_text(encoding="utf-8")
    board = (folder / "kicad" / "wattbell.kicad_pcb").read_text(encoding="utf-8")
    assert contradictions(routed(unrouted, board)) == []
    assert len(contradictions(routed(unrouted + "GND\t3\n", board))) == 3
    assert not routed(unrouted, board.replace("(segment", "(line"))


def test_the_bitstreams_clocks_are_met_on_as_many_seeds_as_is_said() -> None:
    """The tables of docs/bitstream.md are written by the build."""
    tables = page("docs/bitstream.md").text.split("<!-- generated:")[1:]
    assert len(tables) == 2 and "every clock is met on three placement seeds of three" in MODELLED
    for table in tables:
        [seeds] = re.findall(r"--seeds (\S+)", table)
        slack = re.findall(r"\| ([+-]?\d+) % \|$", table.split("<!-- end")[0].split("| cells |")[0], re.MULTILINE)
        assert len(seeds.split(",")) == 3 and len(slack) == 10 and all(each.startswith("+") for each in slack)


def test_no_page_says_that_hardware_was_measured_while_another_says_that_there_is_none() -> None:
    assert "not built; nothing has been measured on hardware" in README
    assert "**Nothing has been built or measured.**" in HARDWARE
    assert "Nobody has built a board yet, or tried a meter or drive on hardware" in MODELLED


def test_the_models_are_as_many_as_readme_says() -> None:
    profiles = [path for path in (ROOT / "sim" / "profiles").glob("*.toml") if path.stem != "common"]
    assert re.findall(r"(\d+) models of drives", README) == [str(len(profiles))]


def test_there_is_one_version() -> None:
    assert re.findall(r"Version (\d\S*) ", README) == [__version__]
    released = re.findall(r"^## \[(\d[^\]]*)\]", page("CHANGELOG.md").text, re.MULTILINE)
    assert released[0] == __version__ and released == sorted(released, key=lambda v: [int(n) for n in v.split(".")], reverse=True)
    assert page("CHANGELOG.md").text.index("## [Unreleased]") < page("CHANGELOG.md").text.index(f"## [{__version__}]")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"] and "version" not in project["project"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "wattbell.__version__"}


def test_wheels_that_pages_name_are_of_this_version() -> None:
    named = [(each.name, version) for each in pages() for version in re.findall(r"wattbell(?:_sim)?-(\d+(?:\.\d+)+)-py3", each.text)]
    assert [(name, version) for name, version in named if version != __version__] == []


CFF = {
    "abstract",
    "authors",
    "cff-version",
    "commit",
    "contact",
    "date-released",
    "doi",
    "identifiers",
    "keywords",
    "license",
    "license-url",
    "message",
    "preferred-citation",
    "references",
    "repository",
    "repository-artifact",
    "repository-code",
    "title",
    "type",
    "url",
    "version",
}
"""Keys of the Citation File Format 1.2.0."""
BOTH = {"address", "alias", "city", "country", "email", "fax", "orcid", "post-code", "region", "tel", "website"}
PERSON = BOTH | {"affiliation", "family-names", "given-names", "name-particle", "name-suffix"}
ENTITY = BOTH | {"date-end", "date-start", "location", "name"}


def test_the_citation_is_valid_and_of_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert set(cited) <= CFF and {"authors", "cff-version", "message", "title"} <= set(cited)
    assert cited["cff-version"] == "1.2.0" and cited["type"] in ("software", "dataset")
    assert cited["authors"] and all(("name" in each and set(each) <= ENTITY) or set(each) <= PERSON for each in cited["authors"])
    assert all(isinstance(word, str) for word in cited["keywords"]) and len(set(cited["keywords"])) == len(cited["keywords"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (cited["version"], cited["license"], cited["abstract"]) == (__version__, project["license"], project["description"] + ".")


def test_the_simulator_is_of_this_version() -> None:
    assert tomllib.loads((ROOT / "sim/Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"] == __version__


def test_readmes_picture_is_of_the_reference_set_as_it_is() -> None:
    with Image.open(power_picture.OUT) as picture:
        assert picture.info.get("Comment") == power_picture.digest(), "make picture"
        assert picture.width >= 2 * 830
    assert f"({power_picture.OUT.relative_to(ROOT).as_posix()})" in README and "models" in README.lower().split("![")[1].split("##")[0]


def test_no_text_of_readmes_picture_lies_on_another() -> None:
    with rc_context(STYLE):
        [(_, figure)] = figures([ChartSection("", blocks=[power_picture.chart()])], power_picture.STAMP)
        assert power_picture.faults(figure) == []


@pytest.mark.parametrize(
    ("x", "y", "fault"),
    [(0.5, 0.5, "'one' and 'two' overlap"), (0.2, 0.2, "'two' and 'a point' overlap"), (0.98, 0.9, "'two' leaves the picture")],
)
def test_an_overlap_would_be_found(x: float, y: float, fault: str) -> None:
    figure = Figure(figsize=(4, 3))
    axes = figure.add_axes((0.2, 0.2, 0.7, 0.7))
    axes.set(xlim=(0, 1), ylim=(0, 1), xticks=[], yticks=[])
    axes.plot([0.2], [0.2], "o")
    axes.annotate("one", (0.48, 0.5))
    axes.annotate("two", (x - 0.01, y), annotation_clip=False)
    if "leaves" in fault:
        axes.texts[-1].set_position((1.2, y))
    assert power_picture.faults(figure) == [fault]


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= 60
    assert len(README.split("![")[0].split()) <= 30, "the picture comes within thirty words"


def built() -> bool:
    try:
        return all(programs.find_program(name) for name in ("wattbell-rig", "wattbell-ssd"))
    except SimError:
        return False


@pytest.mark.needs_built(built, "make sim controller")
@pytest.mark.xdist_group("virtual-rig")
def test_readmes_output_is_what_its_command_prints(tmp_path: Path) -> None:
    block = README.split("```text\n")[1].split("```")[0].splitlines()
    assert len(block) == 8 and sum("(" in line for line in block) >= 4
    command = next(line for line in README.splitlines() if line.startswith("wattbell run quick")).split()[1:]
    command += ["--out", str(tmp_path / "out")]
    told = subprocess.run(
        [sys.executable, "-m", "wattbell", *command, "--no-store"],
        env={**os.environ, "WATTBELL_RUNTIME": str(tmp_path / "runtime"), "COLUMNS": "160"},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    printed = [line.rstrip().replace("\u202f", " ") for line in told.stdout.splitlines()]  # a narrow space within numbers
    assert not [line for line in block if line not in printed], told.stdout + told.stderr
    places = [printed.index(line) for line in block]
    assert places == sorted(places)
