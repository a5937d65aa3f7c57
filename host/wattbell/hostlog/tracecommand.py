"""Read commands from the text of ``nvme_setup_cmd`` and ``nvme_complete_rq``.

The kernel prints ``nvme0: disk=nvme0n1, qid=2, cmdid=768, nsid=1, flags=0x0, meta=0x0, cmd=(nvme_cmd_read slba=8, ...)`` and ``nvme0:
disk=nvme0n1, qid=2, cmdid=768, res=0x0, retries=0, flags=0x0, status=0x0``. Admin commands have no ``disk=``. Up to Linux 5.2, ``res`` and
``status`` are decimal, without the prefix ``0x``. Kernels of vendors add fields, so the fields are read by name.

trace-cmd and perf cannot reproduce the kernel's text of a set-up. They say so and print the fields: ``[FAILED TO PARSE] disk=nvme0n1
ctrl_id=0 qid=2 opcode=2 flags=0 fctype=1 cid=1 nsid=1 metadata=0 cdw10=ARRAY[58, bb, 01, 00, ...]``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from wattbell_spec.nvme import ADMIN, IO

from .pages import SETUP_EVENT

BEFORE_4_19 = ("nvme_setup_admin_cmd", "nvme_setup_nvm_cmd")
"""Set-ups of Linux 4.16 to 4.18, which name no controller."""
_KERNELS = re.compile(
    r"nvme(?P<controller>\d{1,5}): (?P<pairs>(?:\w+=[^,\s()]*, )*)(?:cmd=\((?P<name>\w+)\s?(?P<fields>[^()]*)\)|(?P<last>\w+=[^,\s()]*))"
    r"(?P<behind>(?:, \w+=[^,\s()]*)*)$"
)
_FIELDS = re.compile(
    r"(?:\[FAILED TO PARSE\]\s+)?(?P<pairs>(?:\w+=[^\s\[\]]* )*)"
    r"(?:cdw10=ARRAY\[(?P<bytes>[0-9a-f]{2}(?:, [0-9a-f]{2}){23})\]|(?P<last>\w+=[^\s\[\]]+))$"
)
_FIELD = re.compile(r"(\w+)=(0x[0-9a-f]{1,16}|\d{1,20})")
_DWORDS = re.compile(r"cdw10=((?:[0-9a-f]{2} ){7,23}[0-9a-f]{2})")
_DWORDS_BY_FIELD: tuple[dict[str, tuple[int, int]], ...] = (
    {"fid": (0, 8), "sel": (8, 3), "cdw11": (32, 32)},
    {"fid": (0, 8), "sv": (31, 1), "cdw11": (32, 32)},
    {"cns": (0, 8), "ctrlid": (16, 16)},
    {"sqid": (0, 16), "qsize": (16, 16), "sq_flags": (32, 16), "cqid": (48, 16)},
    {"cqid": (0, 16), "qsize": (16, 16), "cq_flags": (32, 16), "irq_vector": (48, 16)},
    {"sqid": (0, 16)},
    {"cqid": (0, 16)},
    {"lbaf": (0, 4), "mset": (4, 1), "pi": (5, 3), "pil": (8, 1), "ses": (9, 3)},
    {"nr": (0, 32), "attributes": (32, 32)},
)
"""Places in CDW10 and CDW11 of the fields that the kernel prints: (first bit, bits)."""
_NUMBER = re.compile(r"0x[0-9a-f]{1,16}|\d{1,20}")
_LIMITS = {"controller": 1 << 16, "qid": 1 << 16, "cmdid": 1 << 16, "nsid": 1 << 32, "status": 1 << 16, "opcode": 1 << 8}
_KNOWN = {"disk", "ctrl_id", "qid", "cmdid", "cid", "nsid", "flags", "meta", "metadata", "res", "result", "retries", "status", "fctype"}
_ABBREVIATED = {
    "write_uncor": "write_uncorrectable",
    "resv_register": "reservation_register",
    "resv_report": "reservation_report",
    "resv_acquire": "reservation_acquire",
    "resv_release": "reservation_release",
    "zone_mgmt_send": "zone_management_send",
    "zone_mgmt_recv": "zone_management_receive",
    "delete_sq": "delete_io_sq",
    "create_sq": "create_io_sq",
    "delete_cq": "delete_io_cq",
    "create_cq": "create_io_cq",
    "abort_cmd": "abort",
    "async_event": "async_event_request",
    "ns_mgmt": "namespace_management",
    "activate_fw": "firmware_commit",
    "download_fw": "firmware_download",
    "dev_self_test": "device_self_test",
    "ns_attach": "namespace_attachment",
    "directive_recv": "directive_receive",
    "virtual_mgmt": "virtualization_management",
    "nvme_mi_recv": "nvme_mi_receive",
    "dbbuf": "doorbell_buffer_config",
    "security_recv": "security_receive",
    "sanitize_nvm": "sanitize",
}
"""Names of the kernel (include/linux/nvme.h) that are not the specification's."""
_CODES = {("nvme_cmd_", op.name): op.code for op in IO} | {("nvme_admin_", op.name): op.code for op in ADMIN}
UNKNOWN_OPCODE = 0xFF


class Said(NamedTuple):
    """A set-up or a completion. ``lba``: CDW10 and CDW11; ``cdw12`` as it is. A completion has no ``opcode``, ``nsid``, ``lba``, ``cdw12``
    (0), a set-up no ``status`` (0). ``unknown_name``: the command's name where its opcode is not known. ``unknown_fields``: names of
    fields that are not read. ``by_fields``: whether trace-cmd or perf printed the bare fields."""

    controller: int
    qid: int
    cid: int
    disk: bytes
    opcode: int = 0
    nsid: int = 0
    lba: int = 0
    cdw12: int = 0
    status: int = 0
    unknown_name: str = ""
    unknown_fields: tuple[str, ...] = ()
    by_fields: bool = False


def said_of(event: str, rest: str) -> Said | None:
    """Return the content of an event of ``SETUP_EVENT`` or ``COMPLETE_EVENT``; None if it cannot be read."""
    found = _KERNELS.match(rest)
    by_fields = found is None
    found = found or _FIELDS.match(rest)
    if found is None:
        return None
    parts = found.groupdict()
    texts = [*parts["pairs"].replace(",", " ").split(), parts["last"] or "", *(parts.get("behind") or "").replace(",", " ").split()]
    fields = dict(text.split("=", 1) for text in texts if text)
    if by_fields:
        fields["cmdid"] = fields.pop("cid", "")
        fields["controller"] = fields.get("ctrl_id", "")
    else:
        fields["controller"] = parts["controller"]
    setup = event == SETUP_EVENT
    needed = ["controller", "qid", "cmdid", *(("nsid",) if setup else ("status",)), *(("opcode",) if setup and by_fields else ())]
    numbers = {name: _number(fields.get(name, ""), _LIMITS[name]) for name in needed}
    if None in numbers.values() or len(fields.get("disk", "")) > 31:
        return None
    extra = tuple(name for name in fields if name not in _KNOWN | set(needed))
    said = Said(
        numbers["controller"] or 0,
        numbers["qid"] or 0,
        numbers["cmdid"] or 0,
        fields.get("disk", "").encode("ascii", "replace"),
        unknown_fields=extra,
        by_fields=by_fields,
    )
    if not setup:
        return said._replace(status=numbers["status"] or 0)
    said = said._replace(nsid=numbers["nsid"] or 0)
    if by_fields:
        if not parts["bytes"]:
            return None
        raw = bytes.fromhex(parts["bytes"].replace(", ", ""))
        return said._replace(opcode=numbers["opcode"] or 0, lba=_little(raw[:8]), cdw12=_little(raw[8:12]))
    return None if parts["name"] is None else _command(said, parts["name"], parts["fields"])


def _command(said: Said, name: str, text: str) -> Said | None:
    """Add the content of the brackets behind ``cmd=``; None if it cannot be read."""
    opcode = _opcode(name, said.qid)
    if opcode is None:
        said = said._replace(unknown_name=name)
    said = said._replace(opcode=UNKNOWN_OPCODE if opcode is None else opcode)
    values = {key: int(value, 16 if value.startswith("0x") else 10) for key, value in _FIELD.findall(text)}
    if "slba" in values and "len" in values:
        if values["slba"] >= 1 << 64 or values["len"] >= 1 << 16:
            return None
        return said._replace(lba=values["slba"], cdw12=values["len"])
    if dwords := _DWORDS.search(text):
        raw = bytes.fromhex(dwords[1])
        return said._replace(lba=_little(raw[:8]), cdw12=_little(raw[8:12]))
    if "slba" in values:
        return said._replace(lba=values["slba"]) if values["slba"] < 1 << 64 else None
    places = next((places for places in _DWORDS_BY_FIELD if set(places) <= set(values)), {})
    lba = 0
    for field, (first, bits) in places.items():
        if values[field] >= 1 << bits:
            return None
        lba |= values[field] << first
    return said._replace(lba=lba)


def _opcode(name: str, qid: int) -> int | None:
    """Return the opcode of a command's name, or of its number if the kernel knows no name."""
    if _NUMBER.fullmatch(name):
        return _number(name, _LIMITS["opcode"])
    prefix = "nvme_admin_" if name.startswith("nvme_admin_") else "nvme_cmd_"
    short = name.removeprefix(prefix)
    if short == name:  # without the kernel's prefix: the queue decides between admin and I/O
        prefix = "nvme_cmd_" if qid else "nvme_admin_"
    return _CODES.get((prefix, _ABBREVIATED.get(short, short)))


def _number(text: str, limit: int) -> int | None:
    """Hexadecimal with 0x, else decimal; None for anything else and from ``limit`` on."""
    if not _NUMBER.fullmatch(text):
        return None
    value = int(text, 16 if text.startswith("0x") else 10)
    return value if value < limit else None


def _little(raw: bytes) -> int:
    return int.from_bytes(raw, "little")
