"""One name, one class: no two files of the house define a public class of the same name.

The house is every package that Wattbell imports: host, specification, gateware, hardware, guest, and ``studies/seeds``. The other
programs in ``studies/``, ``tools/`` and ``firmware/`` are in no package, and tests name their doubles as they like.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOUSE = ("host/wattbell", "spec/wattbell_spec", "gateware/wattbell_gateware", "hw", "sim/guest", "studies/seeds")
DECODERS = "host/wattbell/export/decoders"
EXCEPTIONS = {
    "Decoder": (
        {f"{DECODERS}/nvme/pd.py", f"{DECODERS}/wattbell/pd.py"},
        "libsigrokdecode looks for this name in each decoder",
    ),
}
"""Files that may share a name, and the reason."""


def classes(node: ast.AST) -> Iterator[str]:
    """Public class names of a module, also those under ``if``, ``try`` and ``with``; none from within a class or a function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            if not child.name.startswith("_"):
                yield child.name
        elif not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield from classes(child)


def shared(root: Path, folders: Iterable[str]) -> dict[str, set[str]]:
    """Public class names that several files define, with these files (relative to ``root``)."""
    found: dict[str, set[str]] = defaultdict(set)
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            for name in classes(ast.parse(path.read_bytes())):
                found[name].add(path.relative_to(root).as_posix())
    return {name: files for name, files in found.items() if len(files) > 1}


def test_no_public_class_name_is_in_two_files() -> None:
    """A name here needs a second name, or, if others prescribe it, a line in EXCEPTIONS. A line without a pair of files must go."""
    assert shared(ROOT, HOUSE) == {name: files for name, (files, _reason) in EXCEPTIONS.items()}


def test_every_folder_has_classes() -> None:
    """A folder that moved is not silently left out."""
    for folder in HOUSE:
        names = {name for path in (ROOT / folder).rglob("*.py") for name in classes(ast.parse(path.read_bytes()))}
        assert names, folder


@pytest.mark.parametrize(
    "second",
    [
        "class Window: ...",
        "if TYPE_CHECKING:\n    class Window: ...",
        "try:\n    import polars\nexcept ImportError:\n    class Window: ...",
    ],
)
def test_a_second_class_of_a_name_is_found(tmp_path: Path, second: str) -> None:
    for name, text in {"a/one.py": "class Window: ...\nclass Only: ...", "b/two.py": second}.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    assert shared(tmp_path, ["a", "b"]) == {"Window": {"a/one.py", "b/two.py"}}
    assert shared(tmp_path, ["a"]) == {}


def test_private_and_inner_classes_may_share_a_name(tmp_path: Path) -> None:
    text = "class _Window: ...\nclass {0}:\n    class Key: ...\ndef {1}():\n    class Local: ..."
    (tmp_path / "one.py").write_text(text.format("One", "first"))
    (tmp_path / "two.py").write_text(text.format("Two", "second"))
    assert shared(tmp_path, ["."]) == {}
