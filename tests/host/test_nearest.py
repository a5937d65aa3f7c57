"""The name that was meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from wattbell.nearest import did_you_mean, did_you_mean_folder, nearest

DRIVES = ("intel-600p", "intel-660p-1tb", "samsung-960")


@pytest.mark.parametrize(
    ("given", "known", "meant"),
    [
        ("intel-660", DRIVES, "intel-660p-1tb"),
        ("INTEL-600P", DRIVES, "intel-600p"),
        ("samsnug-960", DRIVES, "samsung-960"),
        ("intel", DRIVES, "intel-600p"),
        ("maxtor", DRIVES, None),
        ("", DRIVES, None),
        ("--json", ("--version", "--verbose"), None),
        ("--fidelty", ("--fidelity", "--force"), "--fidelity"),
        ("x", (), None),
    ],
)
def test_the_name_that_was_meant(given: str, known: tuple[str, ...], meant: str | None) -> None:
    assert nearest(given, known) == meant
    assert did_you_mean(given, known) == ("" if meant is None else f" Did you mean {meant}?")


def test_a_folder_beside_the_one_that_is_not_there(tmp_path: Path) -> None:
    for name in ("run-before", "run-after", "run-befor2"):
        (tmp_path / name).mkdir()
    for name in ("run-before", "run-after"):
        (tmp_path / name / "meta.json").touch()
    assert did_you_mean_folder(tmp_path / "run-befor", "meta.json") == f" Did you mean {tmp_path / 'run-before'}?"
    assert did_you_mean_folder(tmp_path / "run-befor", "results.json", "meta.json").endswith("run-before?")
    assert did_you_mean_folder(tmp_path / "other", "meta.json") == ""
    assert did_you_mean_folder(tmp_path / "none" / "run-befor", "meta.json") == ""
    assert did_you_mean_folder(Path("."), "meta.json") == ""
