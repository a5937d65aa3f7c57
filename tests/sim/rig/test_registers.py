"""The rig's copy of the register map."""

from rig_process import ROOT
from wattbell_gateware.constants import rust_controller, rust_registers


def test_the_rigs_registers_are_the_gatewares() -> None:
    """If this fails: python -m wattbell_gateware.generate --out build/rtl && cp build/rtl/registers.rs sim/rig/src/"""
    assert (ROOT / "sim/rig/src/registers.rs").read_text() == rust_registers()


def test_the_rigs_controller_registers_are_the_gatewares() -> None:
    """If this fails: python -m wattbell_gateware.generate --out build/rtl && cp build/rtl/controller.rs
    sim/rig/src/controller_registers.rs"""
    assert (ROOT / "sim/rig/src/controller_registers.rs").read_text() == rust_controller()
