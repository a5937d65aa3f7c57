"""The peripherals behind the controller's registers, without the soft core."""

from wattbell_gateware.controller import Peripherals

from tests.gateware import harness
from tests.gateware.controller.load_top import LoadTop


def test_peripherals():
    harness.run(Peripherals(), name="controller_peripherals", test_module="cocotb_peripherals", here=__file__)


def test_trigger():
    harness.run(Peripherals(), name="controller_peripherals", test_module="cocotb_trigger", here=__file__)


def test_load():
    harness.run(LoadTop(), name="controller_load", test_module="cocotb_load", here=__file__)
