"""Declarations of a drive, read from somebody else's results."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from wattbell.results.declared import power_states


@pytest.mark.parametrize("odd", [10**400, -(10**400), float("nan"), float("inf"), True, "5", None, [1]])
def test_what_no_drive_declares_is_no_figure(odd: Any) -> None:
    declared = {"state": 4, "max_power_w": odd, "entry_latency_us": odd, "exit_latency_us": 25_000}
    (state,) = power_states(SimpleNamespace(drive={"power_states": [declared]}))  # type: ignore[arg-type]
    assert (state.number, state.max_w, state.entry_s) == (4, None, None)
    assert state.exit_s == pytest.approx(0.025)
