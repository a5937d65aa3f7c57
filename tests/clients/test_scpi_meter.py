"""`--meter scpi` on an instrument with other SCPI: our own firmware, behind its bridge."""

from __future__ import annotations

import pytest
from wattbell.meters.meter import open_meter

from tests.clients.terminal import Bridged, Terminal
from tests.host.meters.measuring import measured


@pytest.mark.parametrize("dialect", ["measure", "dc"])
def test_a_rig_that_is_asked_as_any_supply(terminal: Terminal, bridged: Bridged, dialect: str) -> None:
    terminal.rig.lib.model_set_rail(3.3, 0.75)
    host, port = bridged.address
    with open_meter(f"scpi:{host}:{port},gain=0.01,offset=0.001,dialect={dialect}") as meter:
        assert meter.about.model.startswith("Wattbell")
        _, volts, amperes = measured(meter, 5)
    assert volts == pytest.approx(3.3, abs=1e-3) and amperes == pytest.approx(0.75, abs=1e-3)
