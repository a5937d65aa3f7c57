"""NVMe is cited in the revision that docs/glossary.md states, but for the exceptions that it names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.pages import ROOT, page

SUFFIXES = {".py", ".rs", ".c", ".h", ".cpp", ".md", ".toml", ".fio", ".js", ".html", ".def", ".cff", ".sh", ".v"}
MADE = {".git", ".venv", "build", "dist", "target", "__pycache__", "sim_build", ".hypothesis"}
"""Folders that builds and tools make."""
MADE_UP = {"tests/docs/test_revisions.py"}
"""Citations that a test made up."""
NAME = r"(?:NVM\s+Express|\bNVMe)(?!-)"
CITED = re.compile(
    rf"""(?x)
    {NAME} [\s,:]* (?:the\s+)? (?:Base)? \s* (?:Specification)? [\s,]* (?:revision|rev\.?|version)? \s*
        (\d\.\d) [a-z]? (?![\d.]*\d|\s*(?:GB|MB|W|V|s|%)\b)
    | {NAME} [^.;()|]{{0,60}} \b(?:revision|Base) \s+ (\d\.\d)"""
)
NUMBERED = re.compile(rf"{NAME}(?:\s+Base)?(?:\s+Specification)?,?\s+(?:sections?\s+\d|figures?\s+\d|\d+\.\d+(?:\.\d+)*\s+and|\d\.\d+\.\d)")
"""A number of a section or a figure without the revision that it is of."""
BARE = re.compile(r"(?<!PCIe )(?<!Express )(?<!NVMe )\bBase(?: Specification)? \d\.\d")
"""A Base specification of PCIe or of NVMe: which?"""


def texts() -> Iterator[tuple[str, str]]:
    """Names and contents of the repository's texts."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in MADE and not name.endswith(".egg-info")]
        for path in (Path(folder, name) for name in names):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in SUFFIXES and name not in MADE_UP:
                yield name, path.read_text(encoding="utf-8", errors="replace")


def cited(text: str) -> set[str]:
    """The revisions of NVMe that a text cites."""
    joined = re.sub(r"\n\s*(?:#|//[/!]?|\*|;)?\s*", " ", text)  # a citation may go on in the next line
    return {first or second for first, second in CITED.findall(joined)}


def stated() -> tuple[str, dict[str, str]]:
    """The revision of the project, and the revision of each file that is an exception."""
    section = page("docs/glossary.md").text.split("## The revision of NVMe")[1]
    [revision] = re.findall(r"\*\*NVM Express Base Specification (\d\.\d)\*\*", section)
    return revision, dict(re.findall(r"^\| `([^`]+)` \| (\d\.\d) \|", section, re.MULTILINE))


def faults(name: str, text: str) -> list[str]:
    """Wrong citations of a file."""
    revision, exceptions = stated()
    folders = [other for folder, other in exceptions.items() if folder.endswith("/") and name.startswith(folder)]
    allowed = {revision, exceptions.get(name, revision), *folders}
    out = [f"{name} cites NVMe {other}" for other in sorted(cited(text) - allowed)]
    out += [f"{name}: {found[0]}: of which revision? Cite the name" for found in NUMBERED.finditer(text)]
    return out + [f"{name}: {found[0]}: PCIe Base or NVM Express Base?" for found in BARE.finditer(text)]


def test_every_file_cites_that_revision() -> None:
    assert [fault for name, text in texts() for fault in faults(name, text)] == []


def test_every_exception_is_one() -> None:
    revision, exceptions = stated()
    assert len(exceptions) >= 5
    for name, other in exceptions.items():
        told = [text for path, text in texts() if path == name or (name.endswith("/") and path.startswith(name))]
        assert other != revision and any(other in cited(text) for text in told), name


def test_a_citation_of_another_revision_is_found() -> None:
    for text in (
        "NVMe 1.4",
        "NVM Express Base 2.0c",
        "NVM Express Base Specification 1.4",
        "NVM Express\n// 1.3",
        "NVMe, revision 2.0",
        "(NVMe Base Specification,\n    revision 2.0)",
        "`NVMe 1.4` semantics",
    ):
        assert faults("x.py", text) and not faults("x.py", re.sub(r"\d\.\d", stated()[0], text)), text
    assert faults("cocotbext/x.py", "NVM Express 1.3") and not faults("cocotbext/x.py", "NVM Express 1.4")
    assert faults("sim/ssd/src/lib.rs", "NVM Express 1.3") and not faults("sim/ssd/src/lib.rs", "NVM Express 1.4")
    for text in ("NVMe, section 5.2", "NVM Express, figure 5", "NVM Express Base Specification, 5.4 and 5.5", "NVMe 5.21.1"):
        assert faults("x.py", text), text
    assert faults("x.py", "(Base 2.1, 3.6.3)") and not faults("x.py", "(PCIe Base 2.1, 3.6.3)")


def test_what_is_no_citation_is_left_alone() -> None:
    for text in (
        "nvme-cli 2.4",
        "NVMe drives draw 2.5 W",
        "an NVMe SSD with PCIe 3.0",
        "PCI Express Base Specification 4.0, 2.2",
        "NVMe 3.3 V",
        "NVMe-MI 1.2",
    ):
        assert not faults("x.py", text), text
