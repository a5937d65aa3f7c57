"""Generator of Rust constants, and of the types of a command: the crate `sim/spec`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum, IntFlag

from . import columns, nvme, units
from . import wire as spec
from .controller_registers import BOARD, RESTART_KEY, WATCHDOG_KEY
from .files import HEAD
from .registers import MAP, VERSION, Access, Register

__all__ = ["FILES", "command", "controller", "nvme_numbers", "registers", "units_of_samples", "wire"]


def registers() -> str:
    """``registers.rs``: an address per register, a mask per bit field (``REGISTER_FIELD``), reset values."""
    version = f"/// Version of the gateware: major, minor, patch.\npub const GATEWARE_VERSION: [u8; 3] = {list(VERSION)};\n"
    return "\n".join([HEAD, version, *_rust(MAP)]) + "\n"


def controller() -> str:
    """``controller.rs``: the same of the controller's own registers."""
    lines = [HEAD]
    for name, key in (("WATCHDOG_KEY", WATCHDOG_KEY), ("RESTART_KEY", RESTART_KEY)):
        lines.append(f"/// See docs/registers.md.\npub const {name}: u32 = {key:#x};")
    return "\n".join([*lines, *_rust(BOARD)]) + "\n"


def _rust(registers: tuple[Register, ...]) -> list[str]:
    lines = []
    for register in registers:
        lines.append(f"/// {register.access.value}: {register.doc}")
        lines.append(f"pub const {register.name}: u8 = {register.address:#04x};")
        if register.access is Access.RW:
            lines.append(f"/// Reset value of {register.name} in the map; the build may have its own (docs/registers.md).")
            lines.append(f"pub const {register.name}_RESET: u32 = {register.reset:#x};")
        for bits in register.bits:
            lines.append(f"/// {bits.doc}")
            mask = ((1 << bits.width) - 1) << bits.low
            lines.append(f"pub const {register.name}_{bits.name}: u32 = {mask:#x};")
            if bits.width > 1:
                lines.append(f"/// Lowest bit of {register.name}_{bits.name}.")
                lines.append(f"pub const {register.name}_{bits.name}_SHIFT: u32 = {bits.low};")
    return lines


def wire() -> str:
    """``wire.rs``: sizes, codes, and for each record a module with ``NAME: (first bit, bits)`` per field."""
    lines = [HEAD]
    magic = ", ".join(f"{byte:#04x}" for byte in spec.MAGIC)
    lines.append(f"pub const MAGIC: [u8; 4] = [{magic}];")
    for name, kind in (
        ("VERSION", "u8"),
        ("HEADER_SIZE", "usize"),
        ("CRC_SIZE", "usize"),
        ("MAX_PAYLOAD", "usize"),
        ("TICK_PS", "u64"),
        ("FLUSH_TICKS", "u64"),
        ("STATUS_PERIOD_TICKS", "u64"),
        ("COMMAND_SIZE", "usize"),
        ("RAIL_HEADER_SIZE", "usize"),
        ("RAIL_SAMPLE_SIZE", "usize"),
        ("EVENT_SIZE", "usize"),
        ("TLP_HEADER_SIZE", "usize"),
        ("STATUS_SIZE", "usize"),
        ("LINK_SIZE", "usize"),
    ):
        lines.append(f"pub const {name}: {kind} = {getattr(spec, name)};")
    for name in ("HEADER", "COMMAND", "RAIL_HEADER", "RAIL_SAMPLE", "EVENT", "TLP_HEADER", "STATUS", "LINK"):
        lines.append(f"\n/// Fields of {name}: (first bit, bits).\npub mod {name.lower()} {{")
        position = 0
        for item in getattr(spec, name):
            lines.append(f"    /// {item.doc}")
            lines.append(f"    pub const {item.name.upper()}: (usize, usize) = ({position}, {item.bits});")
            position += item.bits
        lines.append("}")
    for enum in (
        spec.BlockContent,
        spec.CommandFlag,
        spec.RailFlag,
        spec.EventType,
        spec.LinkState,
        spec.TlpFate,
        spec.ResetCause,
        spec.MarkerSource,
        spec.LossSource,
        spec.GuessReason,
        spec.MalformedClass,
    ):
        assert issubclass(enum, (IntEnum, IntFlag))
        module = "".join(f"_{c.lower()}" if c.isupper() else c for c in enum.__name__).lstrip("_")
        lines.append(f"\npub mod {module}_code {{")
        lines.extend(f"    pub const {member.name}: u8 = {int(member)};" for member in enum)
        lines.append("}")
    return "\n".join(lines) + "\n"


def units_of_samples() -> str:
    """``units.rs``."""
    lines = [HEAD]
    for name, doc in (
        ("VOLTAGE_LSB_UV", "Microvolt in a unit of a corrected voltage."),
        ("CURRENT_LSB_NA", "Nanoampere in a unit of a corrected current."),
        ("OFFSET_FRACTION_BITS", "Fraction bits of an OFFSET register: an offset counts in 2^-8 of a code."),
        ("GAIN_FRACTION_BITS", "Fraction bits of a GAIN register."),
        ("DECIM_FRACTION_BITS", "Fraction bits of DECIM_MUL, before DECIM_SHIFT."),
        ("POWER_SHIFT", "A power of the meter and the trigger is voltage x current without so many bits."),
    ):
        lines.append(f"/// {doc}\npub const {name}: u32 = {getattr(units, name)};")
    lines.append(f"/// Picowatt in a unit of such a power.\npub const POWER_LSB_PW: u64 = {units.POWER_LSB_PW};")
    return "\n".join(lines) + "\n"


def nvme_numbers() -> str:
    """``nvme.rs``: a module of constants for the opcodes of each kind of queue, and for the features; the statuses."""
    lines = [HEAD]
    for module, doc, opcodes in (("io", "Opcodes of the I/O queues", nvme.IO), ("admin", "Opcodes of the admin queue", nvme.ADMIN)):
        lines += _module(module, doc, ((o.name, o.code, o.title) for o in opcodes))
    features = [(f.name, f.fid, f.title) for f in nvme.FEATURES] + [(name, code, title) for code, name, title in nvme.OWN_FEATURES]
    lines += _module("feature", "Feature identifiers", features)
    pages = (*nvme.LOG_PAGES, *nvme.OWN_LOG_PAGES)
    lines += _module("log_page", "Log page identifiers", ((name, code, title) for code, name, title in pages))
    for name, codes in (("LBA_OPCODES", nvme.LBA_OPCODES), ("TRANSFER_OPCODES", nvme.TRANSFER_OPCODES)):
        listed = ", ".join(f"0x{code:02X}" for code in codes)
        what = "carry SLBA and NLB" if name == "LBA_OPCODES" else "move user data over the link"
        lines.append(f"/// I/O opcodes that {what}.\npub const {name}: [u8; {len(codes)}] = [{listed}];")
    lines += [
        "/// Features with a fixed length of data: identifier, double words of Set Features, of Get Features.",
        f"pub const FEATURE_DWS: [(u8, u32, u32); {len(nvme.FEATURE_DWS)}] = [",
        *(f"    (0x{fid:02X}, {set_dws}, {get_dws})," for fid, set_dws, get_dws in nvme.FEATURE_DWS),
        "];",
    ]
    for kind, opcodes in (("io", nvme.IO), ("admin", nvme.ADMIN)):
        lines += [
            "",
            f"/// Name of an opcode of {kind} queues, as the host's figures have it.",
            f"pub fn {kind}_name(code: u8) -> Option<&'static str> {{",
            "    Some(match code {",
            *(f'        0x{o.code:02X} => "{o.name}",' for o in opcodes),
            "        _ => return None,",
            "    })",
            "}",
        ]
    lines += ["", "#[allow(missing_docs)] // names are those of the specification", "impl crate::Status {"]
    for status in nvme.STATUSES:
        value = status.sct << 8 | status.sc
        flags = "".join(f" | Self::{flag}" for flag, on in (("DNR", status.dnr), ("MORE", status.more)) if on)
        lines.append(f"    pub const {status.name.upper()}: Self = Self(0x{value:03x}{flags});")
    return "\n".join([*lines, "}"]) + "\n"


def _module(name: str, doc: str, entries: Iterable[tuple[str, int, str]]) -> list[str]:
    lines = [f"/// {doc}.", f"pub mod {name} {{"]
    for constant, code, title in entries:
        lines.append(f"    /// {title}.\n    pub const {constant.upper()}: u8 = 0x{code:02X};")
    return [*lines, "}", ""]


def _whole(bits: int) -> str:
    return "bool" if bits == 1 else f"u{next(size for size in (8, 16, 32, 64) if bits <= size)}"


def _as_u64(name: str, bits: int) -> str:
    return f"self.{name}" if _whole(bits) == "u64" else f"u64::from(self.{name})"


def _sentence(text: str) -> str:
    plain = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", text).partition("; null")[0]
    return f"    /// {plain[:1].upper()}{plain[1:].removesuffix('.')}."


def command() -> str:
    """``command.rs``: a command as its record describes it, and as the SSD model knows it; each with a list of its fields."""
    return "\n\n".join([f"{HEAD}\nuse crate::wire::command as field;", _struct_of_record(), _struct_of_truth()]) + "\n"


_DERIVED = "#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]"


def _listed(lines: Iterable[str], indent: int) -> str:
    return "\n".join(" " * indent + line for line in lines)


def _struct_of_record() -> str:
    wires = {f.name: f for f in spec.COMMAND}
    facts = [(column.name, wires[column.field]) for column in columns.FACTS]
    instants = [f"{_sentence(i.meaning)}\n    pub {i.name}: Option<u64>," for i in columns.AGES]
    fields = [f"{_sentence(f.doc)}\n    pub {name}: {_whole(f.bits)}," for name, f in facts]
    ages = [f"(field::{i.age.upper()}, self.{i.name}, {str(i.sign > 0).lower()})," for i in columns.AGES]
    values = [f"(field::{f.name.upper()}, {_as_u64(name, f.bits)})," for name, f in facts]
    return f"""\
/// A command as its record describes it, with the ticks that were observed.
{_DERIVED}
pub struct Command {{
    /// The drive's write of the CQE.
    pub cqe: u64,
{_listed([*instants, *fields], 0)}
}}

impl Command {{
    /// Instants that a record has as ages: field, instant, whether it lies behind the CQE.
    #[inline(always)]
    pub fn ages(&self) -> [((usize, usize), Option<u64>, bool); {len(ages)}] {{
        [
{_listed(ages, 12)}
        ]
    }}

    /// The other fields of a record: field, value.
    #[inline(always)]
    pub fn facts(&self) -> [((usize, usize), u64); {len(values)}] {{
        [
{_listed(values, 12)}
        ]
    }}
}}"""


def _instant_of_truth(instant: columns.Instant) -> tuple[str, str, str, str, str]:
    name, value = f"{instant.name}_ps", f"self.{instant.name}_ps"
    kind, value = ("u64", f"Some({value})") if instant.always else ("Option<u64>", value)
    return name, name, instant.meaning, kind, value


def _struct_of_truth() -> str:
    rows = [
        *((c.name, c.name, c.meaning, _whole(c.truth), f"Some({_as_u64(c.name, c.truth)})") for c in columns.TRUTH),
        *(_instant_of_truth(instant) for instant in columns.INSTANTS),
        *((f"{c.name}_fj", f"{c.name}_pj", c.meaning, "u64", f"Some(self.{c.name}_fj / 1000)") for c in columns.SPENT),
    ]
    fields = [f"{_sentence(meaning)}\n    pub {name}: {kind}," for name, _, meaning, kind, _ in rows]
    return f"""\
/// The SSD model's knowledge of a command. Times belong to first symbols, in picoseconds since power-on.
{_DERIVED}
pub struct CommandTruth {{
{_listed(fields, 0)}
}}

impl CommandTruth {{
    /// Names of the columns of its CSV file.
    pub const COLUMNS: [&'static str; {len(rows)}] = [
{_listed((f'"{row[1]}",' for row in rows), 8)}
    ];

    /// Values of these columns; None is empty.
    pub fn values(&self) -> [Option<u64>; {len(rows)}] {{
        [
{_listed((f"{row[4]}," for row in rows), 12)}
        ]
    }}
}}"""


FILES = {
    "registers.rs": registers,
    "controller.rs": controller,
    "wire.rs": wire,
    "units.rs": units_of_samples,
    "nvme.rs": nvme_numbers,
    "command.rs": command,
}
"""Generators of the files in `sim/spec/src`, by file name."""
