"""The user's own defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
from wattbell.cli import config
from wattbell.cli.app import app
from wattbell.errors import UsageError


@pytest.fixture(scope="module")
def tree() -> Any:
    return typer.main.get_command(app)


@pytest.fixture
def load(tree: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def read(text: str | bytes | None) -> config.ConfigFile:
        file = tmp_path / "config.toml"
        if text is not None:
            file.write_bytes(text if isinstance(text, bytes) else text.encode())
        monkeypatch.setenv("WATTBELL_CONFIG", str(file))
        return config.load(lambda: tree)

    return read


def given(tree: Any, settings: config.ConfigFile, *arguments: str) -> dict[str, Any]:
    """The options of a command as it would get them."""
    context = tree.make_context("wattbell", list(arguments), default_map=settings.defaults)
    while context.protected_args if hasattr(context, "protected_args") else context._protected_args:
        name, command, rest = context.command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)
    return dict(context.params)


def test_a_default_of_the_file_counts_and_the_command_line_wins(load: Any, tree: Any) -> None:
    settings = load(
        '[record]\nduration = "1min"\nlba-size = "4KiB"\nkeep-stream = true\nrig = "B1"\n[export.csv]\nfrom = 2\nrail-every = 7'
    )
    found = given(tree, settings, "record", "--out", "c")
    assert (found["duration"], found["lba_size"], found["keep_stream"], found["rig"]) == (60.0, 4096, True, "B1")
    assert given(tree, settings, "record", "--out", "c", "--duration", "5")["duration"] == 5.0
    below = given(tree, settings, "export", "csv", "c", "--out", "d")
    assert (below["start"], below["rail_every"]) == (2.0, 7)
    assert given(tree, settings, "export", "sigrok", "c", "--out", "d")["start"] is None
    assert list(settings.values) == [
        "record --duration",
        "record --lba-size",
        "record --keep-stream",
        "record --rig",
        "export csv --from",
        "export csv --rail-every",
    ]


def test_flags_by_both_of_their_names_and_lists(load: Any, tree: Any) -> None:
    settings = load("[run]\nno-page = true\nplots = true\n[calibrate]\npoint = ['1.0,0', '4.5,3.5']")
    found = given(tree, settings, "run", "quick", "--virtual", "p", "--out", "o")
    assert (found["page"], found["plots"]) == (False, True)
    assert given(tree, settings, "calibrate")["point"] == ["1.0,0", "4.5,3.5"]


def test_a_home_directory_is_one(load: Any, tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/anna")
    settings = load('[results.list]\nstore = "~/drives.sqlite"')
    assert given(tree, settings, "results", "list")["store"] == Path("/home/anna/drives.sqlite")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("durration = 3", "durration is not a command"),
        ("[recrod]\nduration = 3", "Did you mean record?"),
        ("[record]\ndurration = 3", "Did you mean duration?"),
        ("[record]\nduration = [1]", "record duration takes one value"),
        ("[record]\nduration = true", "takes a value, not true or false"),
        ("[record]\nkeep-stream = 1", "takes true or false"),
        ("[calibrate]\npoint = '1,0'", "takes a list"),
        ("[record.duration]\nx = 1", "record duration is not an option"),
        ("record = 3", "write its options below [record]"),
        ("[run]\nyes = true", "run yes is to be said on the command line"),
        ("[run]\nserial = 'S1'", "run serial is to be said on the command line"),
        ("[record]\nforce = true", "record force is to be said"),
        ("[record\n", "is not TOML"),
        (b"\xff\xfe", "is not TOML"),
        ("[record]\nduration = 1979-05-27", "takes one value"),
    ],
)
def test_what_is_no_default_is_one_clear_error(load: Any, text: str | bytes, words: str) -> None:
    with pytest.raises(UsageError) as error:
        load(text)
    assert words in str(error.value)
    assert "config.toml" in str(error.value)


def test_without_a_file_nothing_changes(tree: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WATTBELL_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    settings = config.load(lambda: tree)
    assert (settings.found, settings.path, settings.defaults) == (False, tmp_path / "wattbell" / "config.toml", {})
    (tmp_path / "wattbell").mkdir()
    (tmp_path / "wattbell" / "config.toml").write_text("[record]\nduration = 1")
    assert config.load(lambda: tree).defaults == {"record": {"duration": "1"}}
    monkeypatch.setenv("WATTBELL_CONFIG", "")
    assert config.load(lambda: tree).defaults == {}


def test_a_file_that_is_named_has_to_be_there(load: Any) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        load(None)


def test_completion_does_not_stumble_over_it(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(config.COMPLETING, "complete_bash")
    assert load("[record\n").defaults == {}
