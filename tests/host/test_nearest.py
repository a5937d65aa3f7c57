"""The name that was meant."""

from __future__ import annotations

import pytest
from wattbell.nearest import did_you_mean, nearest

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
