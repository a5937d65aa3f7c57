"""pyvisa with pyvisa-py, over the serial device and over the bridge."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import needs
from tests.clients.terminal import Bridged, Terminal
from tests.patience import PATIENCE_S

pyvisa = needs.library("pyvisa")


@pytest.fixture(params=["serial", "socket"])
def instrument(request: pytest.FixtureRequest, terminal: Terminal, bridged: Bridged) -> Iterator[pyvisa.resources.MessageBasedResource]:
    """Open the rig with pyvisa."""
    host, port = bridged.address
    name = f"ASRL{terminal.control}::INSTR" if request.param == "serial" else f"TCPIP::{host}::{port}::SOCKET"
    manager = pyvisa.ResourceManager("@py")
    with manager.open_resource(name, read_termination="\n", write_termination="\n", timeout=PATIENCE_S * 1000) as opened:
        assert isinstance(opened, pyvisa.resources.MessageBasedResource)
        yield opened
    manager.close()


def test_it_is_an_instrument(instrument: pyvisa.resources.MessageBasedResource) -> None:
    maker, model, _, _ = instrument.query("*IDN?").split(",")
    assert (maker, model != "") == ("Wattbell", True)
    instrument.write("*CLS;*ESE 60")
    assert instrument.query("*ESE?") == "60"
    assert instrument.query_ascii_values("MEAS:VOLT?")[0] == pytest.approx(3.3, abs=1e-3)
    instrument.write("SENS:APER 10 MS;:SENS:FUNC 'POW'")
    power, voltage, current = instrument.query_ascii_values("READ?;:FETC:VOLT?;:FETC:CURR?", separator=";")
    assert current == pytest.approx(0.5, abs=1e-3)
    assert power == pytest.approx(voltage * current, rel=1e-6)


def test_errors_are_in_the_queue(instrument: pyvisa.resources.MessageBasedResource) -> None:
    instrument.write("*CLS;:SENS:APER -1")
    instrument.write("NONSENSE 1")
    assert [int(instrument.query("SYST:ERR?").split(",")[0]) for _ in range(3)] == [-222, -113, 0]
    assert int(instrument.query("*ESR?")) & 0x30 == 0x30


def test_every_header_comes_as_a_block(instrument: pyvisa.resources.MessageBasedResource) -> None:
    instrument.write("SYST:HELP:HEAD?")
    headers = instrument.read_raw()
    size = int(headers[2 : 2 + int(headers[1:2])])
    while len(headers) < 2 + int(headers[1:2]) + size + 1:
        headers += instrument.read_raw()
    assert b"MEASure[:SCALar]:VOLTage[:DC]?" in headers


def test_a_program_sends_the_token_first(terminal: Terminal) -> None:
    """The test follows the user's guide on pyvisa and the token."""
    bridged = Bridged(terminal.control, "T" * 32)
    manager = pyvisa.ResourceManager("@py")
    host, port = bridged.address
    name = f"TCPIP::{host}::{port}::SOCKET"
    with manager.open_resource(name, read_termination="\n", write_termination="\n", timeout=PATIENCE_S * 1000) as rig:
        rig.write("T" * 32)
        assert rig.query("*IDN?").startswith("Wattbell,")
        rig.write("OUTP OFF")
        assert rig.read().startswith("-203,")
    with manager.open_resource(name, read_termination="\n", write_termination="\n", timeout=PATIENCE_S * 1000) as rig:
        assert rig.query("*IDN?").startswith("-203,")
    manager.close()
    bridged.stop()
