"""The version recorded in results follows the code."""

from __future__ import annotations

from pathlib import Path

from wattbell import __version__
from wattbell.version import described


def test_the_version_follows_names_and_contents(tmp_path: Path) -> None:
    def package(name: str, **files: str) -> str:
        folder = tmp_path / name
        folder.mkdir()
        for stem, text in files.items():
            (folder / f"{stem}.py").write_text(text)
        return described(folder)

    first = package("a", x="1\n", y="2\n")
    assert first.startswith(f"{__version__} (sha256 ")
    assert package("b", y="2\n", x="1\n") == first
    assert package("c", x="1\n", y="3\n") != first
    assert package("d", x="1\n", z="2\n") != first
    assert described() not in (first, __version__)
