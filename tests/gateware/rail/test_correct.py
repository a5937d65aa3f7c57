"""Correction and energy against exact arithmetic."""

from wattbell_gateware.rail import Corrector, Decimator, EnergyAccumulator

from tests.gateware import harness


def test_voltage_channel():
    harness.run(Corrector(), name="corrector", test_module="cocotb_correct", here=__file__, env={"SIGNED": "0"})


def test_current_channel():
    harness.run(Corrector(), name="corrector", test_module="cocotb_correct", here=__file__, env={"SIGNED": "1"})


def test_energy_is_exact():
    harness.run(EnergyAccumulator(), name="energy_accumulator", test_module="cocotb_energy", here=__file__)


def test_decimator():
    harness.run(Decimator(), name="decimator", test_module="cocotb_cic", here=__file__)
