"""The firmware's C header of registers and units."""

from __future__ import annotations

from . import units
from .controller_registers import BASE, BOARD, RESTART_KEY, TRIP_BEYOND, WATCHDOG_KEY
from .files import HEAD
from .registers import MAP, VERSION, Access

__all__ = ["header"]


def header() -> str:
    """Return ``registers.h``: units, and for both maps an address of each register (``WB_REGISTER``), a mask and a shift of each
    bit field, and reset values.
    """
    lines = [
        HEAD,
        "#ifndef WB_REGISTERS_H",
        "#define WB_REGISTERS_H",
        "",
        f"#define WB_BASE 0x{BASE:08X}u /* byte address of register 00h */",
        f"#define WB_WATCHDOG_KEY 0x{WATCHDOG_KEY:08X}u",
        f"#define WB_RESTART_KEY 0x{RESTART_KEY:08X}u",
        f"#define WB_TRIP_BEYOND 0x{TRIP_BEYOND:X}u",
    ]
    lines += [
        "",
        f"#define WB_VOLTAGE_LSB_NV {units.VOLTAGE_LSB_UV * 1000} /* nanovolt in a unit of a corrected voltage */",
        f"#define WB_CURRENT_LSB_PA {units.CURRENT_LSB_NA * 1000} /* picoampere in a unit of a corrected current */",
        f"#define WB_PRODUCT_LSB_PW {units.PRODUCT_LSB_PW} /* picowatt in a unit of the product of the two */",
        f"#define WB_POWER_LSB_PW {units.POWER_LSB_PW} /* picowatt in a unit of the product >> {units.POWER_SHIFT} */",
        "",
    ]
    for k, part in enumerate(("MAJOR", "MINOR", "PATCH")):
        lines.append(f"#define WB_GATEWARE_{part} {VERSION[k]}")
    for register in (*MAP, *BOARD):
        lines.append(f"\n/* {register.access.value}: {register.doc} */\n#define WB_{register.name} 0x{register.address:02X}u")
        if register.access is Access.RW:
            lines.append(f"#define WB_{register.name}_RESET 0x{register.reset:X}u")
        for bits in register.bits:
            mask = ((1 << bits.width) - 1) << bits.low
            lines.append(f"#define WB_{register.name}_{bits.name} 0x{mask:X}u /* {bits.doc} */")
            if bits.width > 1:
                lines.append(f"#define WB_{register.name}_{bits.name}_SHIFT {bits.low}")
    lines += ["", "/* name, address, readable, writable, reset value: for models and tests */", "#define WB_REGISTER_LIST(X) \\"]
    for register in (*MAP, *BOARD):
        readable, writable = int(register.access is not Access.WO), int(register.access not in (Access.RO, Access.TAKE))
        lines.append(f"    X({register.name}, 0x{register.address:02X}u, {readable}, {writable}, 0x{register.reset:X}u) \\")
    lines += ["", "#endif"]
    return "\n".join(lines) + "\n"
