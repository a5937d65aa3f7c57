"""Names that a user is asked to install: a checkout, a wheel's file, or libraries by their own names; never a name of ours from the
index."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from wattbell.extras import install_command

ROOT = Path(__file__).resolve().parents[2]
METADATA = """\
Metadata-Version: 2.4
Name: wattbell
Version: 9.9
Requires-Dist: numpy<3,>=2.1
Requires-Dist: far-library<1,>=0.9.2; extra == "far"
Requires-Dist: beside_it<3,>=2; extra == 'far'
Requires-Dist: farther<2; extra == "farther"
Provides-Extra: far
Provides-Extra: farther
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in which Python looks for installed packages: it has one, and pip has not said where that is from."""
    folder = tmp_path / "site"
    (folder / "wattbell-9.9.dist-info").mkdir(parents=True)
    (folder / "wattbell-9.9.dist-info" / "METADATA").write_text(METADATA)
    monkeypatch.setattr(sys, "path", [str(folder)])
    return folder


def came_from(site: Path, **origin: object) -> None:
    (site / "wattbell-9.9.dist-info" / "direct_url.json").write_text(json.dumps(origin))


def arguments(extra: str = "far") -> list[str]:
    """The command's words behind ``pip install``, as a shell takes them."""
    words = shlex.split(install_command(extra))
    assert words[0] == "pip" or words[:3] == [sys.executable, "-m", "pip"]
    return words[words.index("install") + 1 :]


def test_a_checkout(site: Path, tmp_path: Path) -> None:
    checkout = tmp_path / "my checkout"
    checkout.mkdir()
    (checkout / "pyproject.toml").touch()
    came_from(site, url=checkout.as_uri(), dir_info={"editable": True})
    assert arguments() == ["-e", f"{checkout}[far]"]
    came_from(site, url=checkout.as_uri(), dir_info={})
    assert arguments() == [f"{checkout}[far]"]


def test_a_checkout_with_a_list_of_the_extra(site: Path, tmp_path: Path) -> None:
    checkout = tmp_path / "my checkout"
    (checkout / "requirements").mkdir(parents=True)
    (checkout / "pyproject.toml").touch()
    (checkout / "requirements" / "far.txt").touch()
    came_from(site, url=checkout.as_uri(), dir_info={"editable": True})
    assert arguments() == ["-r", f"{checkout}/requirements/far.txt"]
    assert arguments("farther") == ["-e", f"{checkout}[farther]"]


def test_a_wheel_as_long_as_it_is_there(site: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "wattbell-9.9-py3-none-any.whl"
    wheel.touch()
    came_from(site, url=wheel.as_uri(), archive_info={})
    assert arguments() == [f"{wheel}[far]"]
    wheel.unlink()
    assert arguments() == ["far-library<1,>=0.9.2", "beside_it<3,>=2"]


@pytest.mark.parametrize(
    "origin", ["", "[]", "{", '{"url": 3}', '{"url": "https://example.org/wattbell-9.9-py3-none-any.whl", "archive_info": {}}']
)
def test_from_anywhere_else_the_libraries_by_name(site: Path, origin: str) -> None:
    if origin:
        (site / "wattbell-9.9.dist-info" / "direct_url.json").write_text(origin)
    assert arguments() == ["far-library<1,>=0.9.2", "beside_it<3,>=2"]
    assert arguments("farther") == ["farther<2"]


def test_a_record_that_says_where_it_is_from_goes_before_one_that_does_not(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = tmp_path / "checkout" / "wattbell.egg-info"
    beside.mkdir(parents=True)
    (beside / "PKG-INFO").write_text(METADATA)
    (beside.parent / "pyproject.toml").touch()
    monkeypatch.setattr(sys, "path", [str(beside.parent), *sys.path])
    came_from(site, url=beside.parent.as_uri(), dir_info={"editable": True})
    assert arguments() == ["-e", f"{beside.parent}[far]"]


def test_from_sources_alone_their_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert arguments() == ["-e", f"{ROOT}[far]"]
    assert arguments("ppk2") == ["-r", f"{ROOT}/requirements/ppk2.txt"]


def test_this_pip_or_by_its_path(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pips = [tmp_path / "ours" / "pip", tmp_path / "other" / "pip"]
    for pip in pips:
        pip.parent.mkdir()
        pip.touch(0o755)
    monkeypatch.setattr(sys, "executable", str(pips[0].with_name("python")))
    monkeypatch.setenv("PATH", str(pips[0].parent))
    assert install_command("farther") == "pip install 'farther<2'"
    monkeypatch.setenv("PATH", str(pips[1].parent))
    assert install_command("farther") == f"{sys.executable} -m pip install 'farther<2'"


NAMES = re.compile(r"""wattbell([-_]sim)?(\[.*)?([=<>~!@].*)?""")


def asked_of_the_index(text: str) -> list[str]:
    """Our names where an installer would look for them in its index; also an extra behind a name, whatever stands before."""
    found = re.findall(r"(?<![/\w])wattbell(?:[-_]sim)?\\*\[\\?[a-z{]\S*", text)
    for command in re.finditer(
        r"""\b(?:pip3?|pipx|uvx?)\s+(?:(?:pip|tool)\s+)?(?:install|add|run|download|wheel)\b\s*((?:[^\n`"#&;|\\]|\\\s*)*)""", text
    ):
        words = (word.strip("'(),.;:") for word in command[1].split())
        found += [word for word in words if NAMES.fullmatch(word)]
    return found


@pytest.mark.parametrize(
    "text",
    [
        "pip install wattbell",
        "type `pip install -U wattbell` there",
        "pip install 'wattbell==0.2.0'",
        "pip3 install \\\n  wattbell-sim",
        "(pip install\n    'wattbell\\\\[cluster]')",
        "f\"pip install 'wattbell[{kind.extra}]'\"",
        "uv pip install wattbell_sim",
        "pipx run wattbell",
        "| `wattbell[ppk2]` |",
    ],
)
def test_the_search_finds_what_it_is_for(text: str) -> None:
    assert asked_of_the_index(text)


@pytest.mark.parametrize(
    "text",
    [
        "pip install wattbell-*.whl wattbell_sim-*.whl && wattbell run quick",
        "pip install 'dist/wattbell-0.2.0-py3-none-any.whl[ppk2]'",
        "`pip install` the file wattbell_sim-0.2.0-....whl, and run `wattbell`",
        "pip install -e '/home/me/wattbell[ppk2]'",
        "pip install 'ppk2-api>=0.9.2,<1'   # for wattbell",
    ],
)
def test_the_search_leaves_the_rest(text: str) -> None:
    assert not asked_of_the_index(text)


def test_nothing_tells_a_user_to_ask_the_index_for_our_names() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    ends = (".md", ".py", ".sh", ".rs", ".toml", ".html", ".js", ".ipynb", "Makefile")
    read = [name for name in listed if name.endswith(ends) and not name.startswith("tests/") and name != "pyproject.toml"]
    assert {"README.md", "docs/meters.md", "host/wattbell/api/fleet/run.py", "Makefile"} <= set(read)
    found = {name: words for name in read if (words := asked_of_the_index((ROOT / name).read_text(encoding="utf-8")))}
    assert not found, "pip install a checkout, a wheel's file or the library itself (wattbell.extras)"
