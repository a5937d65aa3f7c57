"""The text of the NVMe driver's tracepoints: tracefs' ``trace`` and ``trace_pipe``, and what ``trace-cmd report`` prints.

``fio-184 [001] ..... 6.481747: nvme_setup_cmd: nvme0: disk=nvme0n1, qid=2, cmdid=768, nsid=1, flags=0x0, meta=0x0, cmd=(nvme_cmd_read
slba=8, ...)`` and ``... nvme_complete_rq: nvme0: disk=nvme0n1, qid=2, cmdid=768, res=0x0, retries=0, flags=0x0, status=0x0``; without
``disk=`` for admin commands.
trace-cmd cannot follow how the kernel prints a set-up; it says so and prints the fields: ``[FAILED TO PARSE] disk=nvme0n1 ctrl_id=0 qid=2
opcode=2 flags=0 fctype=1 cid=1 nsid=1 metadata=0 cdw10=ARRAY[58, bb, 01, 00, ...]``. The seconds are those of the trace clock that was
chosen, which the text does not name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from wattbell_spec.nvme import ADMIN, IO
from wattbell_spec.wire import Kind

from wattbell.capture.hostcommands import HostCommands, joined
from wattbell.wire.decode import Gap

from ..errors import CaptureError, UsageError
from .events import COMPLETE, SETUP, Events, Pairing, Wanted
from .lines import numbered, shown

_LINE = re.compile(
    r".*?\s\[(?P<cpu>\d{1,5})\](?:\s+\S{4,8})?\s+(?P<s>\d{1,9})\.(?P<part>\d{6}|\d{9}):\s+(?P<event>[a-z]\w*):\s*(?P<rest>.*)$"
)
_COMMAND = re.compile(
    r"nvme(?P<controller>\d{1,5}): (?:disk=(?P<disk>\w{1,31}), )?qid=(?P<qid>\d{1,5}), cmdid=(?P<cid>\d{1,5}), nsid=(?P<nsid>\d{1,10}), "
    r"flags=0x[0-9a-f]+, meta=0x[0-9a-f]+, cmd=\((?P<name>\w+) (?P<fields>[^)]*)\)$"
)
_COMPLETION = re.compile(
    r"nvme(?P<controller>\d{1,5}): (?:disk=(?P<disk>\w{1,31}), )?qid=(?P<qid>\d{1,5}), cmdid=(?P<cid>\d{1,5}), "
    r"res=(?:0x)?[0-9a-f]+, retries=\d+, flags=0x[0-9a-f]+, status=0x(?P<status>[0-9a-f]{1,4})$"
)
_FIELDS_SAID = r"(?:\[FAILED TO PARSE\]\s+)?disk=(?P<disk>\w{0,31}) ctrl_id=(?P<controller>\d{1,5}) qid=(?P<qid>\d{1,5}) "
_COMMAND_FIELDS = re.compile(
    _FIELDS_SAID + r"opcode=(?P<opcode>\d{1,3}) flags=\d+ fctype=\d+ cid=(?P<cid>\d{1,5}) nsid=(?P<nsid>\d{1,10}) metadata=\d+ "
    r"cdw10=ARRAY\[(?P<bytes>[0-9a-f]{2}(?:, [0-9a-f]{2}){23})\]$"
)
_COMPLETION_FIELDS = re.compile(
    _FIELDS_SAID + r"cid=(?P<cid>\d{1,5}) result=(?:0x)?[0-9a-f]+ retries=\d+ flags=\d+ status=(?P<decimal>\d{1,5})$"
)
_FIELD = re.compile(r"(\w+)=(0x[0-9a-f]{1,16}|\d{1,20})")
_DWORDS = re.compile(r"cdw10=((?:[0-9a-f]{2} ){7,23}[0-9a-f]{2})")
_LOST = re.compile(r"CPU:(?P<cpu>\d+) \[(?:LOST (?P<lost>\d+) EVENTS|(?P<dropped>\d+) EVENTS DROPPED|EVENTS DROPPED)\]")
_ENTRIES = re.compile(r"# entries-in-buffer/entries-written: (\d+)/(\d+)")
_ABBREVIATED = {
    "write_uncor": "write_uncorrectable", "resv_register": "reservation_register", "resv_report": "reservation_report",
    "resv_acquire": "reservation_acquire", "resv_release": "reservation_release", "zone_mgmt_send": "zone_management_send",
    "zone_mgmt_recv": "zone_management_receive", "delete_sq": "delete_io_sq", "create_sq": "create_io_sq", "delete_cq": "delete_io_cq",
    "create_cq": "create_io_cq", "abort_cmd": "abort", "async_event": "async_event_request", "ns_mgmt": "namespace_management",
    "activate_fw": "firmware_commit", "download_fw": "firmware_download", "dev_self_test": "device_self_test",
    "ns_attach": "namespace_attachment", "directive_recv": "directive_receive", "virtual_mgmt": "virtualization_management",
    "nvme_mi_recv": "nvme_mi_receive", "dbbuf": "doorbell_buffer_config", "security_recv": "security_receive", "sanitize_nvm": "sanitize",
}  # fmt: skip
"""Names of the kernel (include/linux/nvme.h) that are not the specification's."""
_CODES = {("nvme_cmd_", op.name): op.code for op in IO} | {("nvme_admin_", op.name): op.code for op in ADMIN}
_UNKNOWN = 0xFF
_LIMIT = {"controller": 1 << 16, "qid": 1 << 16, "cid": 1 << 16, "nsid": 1 << 32}


@dataclass
class _Columns:
    rows: list[tuple[int, ...]] = field(default_factory=list)
    disks: list[bytes] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)
    lost: list[Gap] = field(default_factory=list)
    microseconds: bool = False

    def events(self) -> Events:
        ns, kind, controller, qid, cid, opcode, nsid, lba, cdw12, status = (
            np.array(column, object) for column in zip(*self.rows, strict=True)
        )
        return Events(
            ns.astype(np.int64),
            kind.astype(np.uint8),
            controller.astype(np.int32),
            qid.astype(np.int32),
            cid.astype(np.uint16),
            opcode.astype(np.uint8),
            nsid.astype(np.uint32),
            lba.astype(np.uint64),
            cdw12.astype(np.uint32),
            status.astype(np.uint16),
            np.array(self.disks, "S32"),
        )


def matches(lines: Iterable[str]) -> bool:
    """Whether a text begins like one of tracefs or trace-cmd."""
    return any(line.startswith(("# tracer:", "cpus=", "version = ")) or _LINE.match(line) for line in lines)


def read_trace_text(path: Path, wanted: Wanted | None = None) -> HostCommands:
    """The commands of a text of the NVMe tracepoints, in ns of its trace clock. ``wanted``: whose; needed where there are several
    controllers. CaptureError with the line for a foreign or cut file."""
    columns = _Columns()
    cut: tuple[int, str] | None = None
    overwritten = 0
    for number, line in numbered(path):
        if cut:
            raise CaptureError(f"{path}, line {cut[0]}: {cut[1]}")
        if entries := _ENTRIES.match(line):
            overwritten = max(0, int(entries[2]) - int(entries[1]))
        try:
            _read(line, columns, f"{path}, line {number}")
        except ValueError as error:
            # only the last line of a file may be a part of one
            cut = number, str(error)
    if not columns.rows:
        raise CaptureError(
            f"{path}{f', line {cut[0]}: {cut[1]}' if cut else ': there is no event nvme_setup_cmd or nvme_complete_rq in it.'}"
        )
    events = columns.events()
    controllers = sorted(set(events.controller.tolist()))
    if wanted is None and len(controllers) > 1:
        names = " and ".join(f"nvme{number}" for number in controllers)
        raise UsageError(f"{path}: it has commands of {names}; filter it: grep ': nvme{controllers[0]}: ' {path}.")
    first, last = int(events.ns.min()), int(events.ns.max())
    if overwritten and not columns.lost:
        columns.lost.append(Gap(Kind.COMMANDS, first, first, overwritten, "the trace buffer overran before it was read"))
    pairing = Pairing(wanted or Wanted(), 500 if columns.microseconds else 1)
    parts = [pairing.add(events, [_inside(gap, first, last) for gap in columns.lost])]
    in_flight = pairing.in_flight
    notes = pairing.notes()
    parts.append(pairing.end())
    if cut:
        notes.append(f"line {cut[0]}, the last one, is cut: {cut[1]}")
    if in_flight and not len(parts[0]):
        raise CaptureError(f"{path}: no command is completed in it: record nvme_complete_rq, too.")
    if columns.unknown:
        notes.append(f"commands of kinds that are not known here have opcode {_UNKNOWN:02X}h: {', '.join(sorted(columns.unknown))}")
    whole = joined(parts)
    return HostCommands(whole.table, whole.markers, whole.lost, whole.source, notes, "trace")


def _inside(gap: Gap, first: int, last: int) -> Gap:
    return Gap(Kind.COMMANDS, max(gap.first_tick, first), min(max(gap.last_tick, first), last), gap.count, gap.reason)


def _read(line: str, columns: _Columns, where: str) -> None:
    """One line. ValueError where it is no event, CaptureError where its numbers are wrong."""
    if not line.strip() or line.lstrip().startswith("#") or line.startswith(("cpus=", "version = ", "trace-cmd")):
        return
    if lost := _LOST.match(line.strip()):
        at = columns.rows[-1][0] if columns.rows else 0
        count = int(lost["lost"] or lost["dropped"] or -1)
        columns.lost.append(Gap(Kind.COMMANDS, at, at, count, "the trace buffer overran"))
        return
    found = _LINE.match(line)
    if not found:
        raise ValueError(f"no line of a trace: {shown(line)}")
    setup = found["event"] == "nvme_setup_cmd"
    if not setup and found["event"] != "nvme_complete_rq":
        return
    rest = found["rest"].strip()
    forms = (_COMMAND, _COMMAND_FIELDS) if setup else (_COMPLETION, _COMPLETION_FIELDS)
    said = forms[0].match(rest) or forms[1].match(rest)
    if not said:
        raise ValueError(f"no {found['event']} as Linux 5.0 or newer writes it: {shown(found['rest'])}")
    for name, limit in _LIMIT.items():
        if name in said.groupdict() and int(said[name]) >= limit:
            raise CaptureError(f"{where}: {name}={said[name]} is too large.")
    columns.microseconds |= len(found["part"]) == 6
    ns = int(found["s"]) * 1_000_000_000 + int(found["part"].ljust(9, "0"))
    common = (ns, SETUP if setup else COMPLETE, int(said["controller"]), int(said["qid"]), int(said["cid"]))
    if setup:
        columns.rows.append((*common, *_command(said, columns, where), 0))
    else:
        status = int(said["decimal"]) if "decimal" in said.groupdict() else int(said["status"], 16)
        columns.rows.append((*common, 0, 0, 0, 0, status & 0xFFFF))
    columns.disks.append((said["disk"] or "").encode())


def _command(said: re.Match[str], columns: _Columns, where: str) -> tuple[int, int, int, int]:
    """(opcode, NSID, CDW10 and CDW11, CDW12) of a set-up."""
    if "bytes" in said.groupdict():
        raw = bytes.fromhex(said["bytes"].replace(", ", ""))
        return int(said["opcode"]) & 0xFF, int(said["nsid"]), int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:12], "little")
    prefix = "nvme_admin_" if said["name"].startswith("nvme_admin_") else "nvme_cmd_"
    name = said["name"].removeprefix(prefix)
    opcode = _CODES.get((prefix, _ABBREVIATED.get(name, name)))
    if opcode is None and re.fullmatch(r"0x[0-9a-f]{1,2}", said["name"]):
        opcode = int(said["name"], 16)
    if opcode is None:
        columns.unknown.add(said["name"])
        opcode = _UNKNOWN
    values = {key: int(value, 16 if value.startswith("0x") else 10) for key, value in _FIELD.findall(said["fields"])}
    if "slba" in values and "len" in values:
        if values["slba"] >= 1 << 64 or values["len"] >= 1 << 16:
            raise CaptureError(f"{where}: slba={values['slba']}, len={values['len']} is too large.")
        return opcode, int(said["nsid"]), values["slba"], values["len"]
    if dwords := _DWORDS.search(said["fields"]):
        raw = bytes.fromhex(dwords[1])
        return opcode, int(said["nsid"]), int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:12], "little")
    low = values.get("fid", 0) & 0xFF | (values.get("sel", 0) & 7) << 8 | (values.get("sv", 0) & 1) << 31
    return opcode, int(said["nsid"]), low | (values.get("cdw11", 0) & 0xFFFFFFFF) << 32, 0
