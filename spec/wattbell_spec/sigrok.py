"""Generator of the sigrok decoders' tables. sigrok loads a decoder only from its own folder, so the tables are a generated file
there.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from . import columns, nvme, units
from . import wire as spec

__all__ = ["PATH", "tables"]

PATH = "host/wattbell/export/decoders/wattbell/tables.py"
_STATES = {"L0S": "L0s", "L1_1": "L1.1", "L1_2": "L1.2", "RECOVERY": "Recovery", "DETECT": "Detect"}
"""Link states as the PCIe specification writes them."""


def _dictionary(name: str, entries: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{name} = {{", *(f"    {key}: {value!r}," for key, value in entries), "}", ""]


def _names(kind: type[IntEnum]) -> tuple[str, ...]:
    assert [int(member) for member in kind] == list(range(len(kind))), f"{kind.__name__} has gaps"
    return tuple(member.name for member in kind)


def tables() -> str:
    """``tables.py``."""
    lines = ["# mypy: ignore-errors", '"""Made by `python -m wattbell_spec` from spec/. Do not edit."""', ""]
    lines += _dictionary("KINDS", ((str(int(kind)), kind.name) for kind in spec.BlockContent))
    lines += _dictionary("EVENTS", ((str(int(kind)), kind.name) for kind in spec.EventType))
    lines += _dictionary("ADMIN", ((f"0x{o.code:02X}", o.title) for o in nvme.ADMIN))
    lines += _dictionary("IO", ((f"0x{o.code:02X}", o.title) for o in nvme.IO))
    lines += [
        f"LINK_STATES = {tuple(_STATES.get(name, name) for name in _names(spec.LinkState))!r}",
        f"PLACED = {(*nvme.LBA_OPCODES, nvme.io('dsm'))!r}",
        f"LOSSES = {_names(spec.LossSource)!r}",
        f"COMMAND_FLAGS = {tuple(flag.name for flag in spec.CommandFlag)!r}",
        f"RAIL_FLAGS = {tuple(flag.name for flag in spec.RailFlag)!r}",
        "",
    ]
    lines += ["# fields of a command: lowest bit, bits", "COMMAND_FIELDS = {"]
    bit = 0
    for field in spec.COMMAND:
        lines.append(f'    "{field.name}": ({bit}, {field.bits}),')
        bit += field.bits
    shown = tuple((column.field, column.title) for column in columns.SHOWN)
    lines += ["}", f"SHOWN = {shown!r}", ""]
    for name in ("COMMAND", "EVENT", "RAIL_HEADER", "RAIL_SAMPLE", "LINK", "STATUS"):
        lines.append(f"{name}_BYTES = {getattr(spec, f'{name}_SIZE')}")
    lines += [f"VOLTAGE_V, CURRENT_A = {units.VOLTAGE_LSB_UV}e-6, {units.CURRENT_LSB_NA}e-9"]
    return "\n".join(lines) + "\n"
