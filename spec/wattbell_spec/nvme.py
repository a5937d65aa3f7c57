"""Numbers of NVM Express: opcodes, features, status codes.

Sources: NVM Express Base 2.0 (figures 88, 138 and 276 of 2.0c: command status, admin opcodes, features), NVM Command Set 1.0 (figure 22:
opcodes), Zoned Namespace Command Set 1.1 (figure 10). A new opcode, feature or status is added here and nowhere else.
"""

from __future__ import annotations

from typing import NamedTuple


class Opcode(NamedTuple):
    """A command. ``name``: as in figures, tables and code. ``title``: the specification's name, abbreviated.

    ``transfers``: moves user data over the link. ``lba``: CDW10 and CDW11 hold the starting LBA, CDW12 has NLB (zero-based).
    """

    code: int
    name: str
    title: str
    transfers: bool = False
    lba: bool = False


IO = (
    Opcode(0x00, "flush", "Flush"),
    Opcode(0x01, "write", "Write", transfers=True, lba=True),
    Opcode(0x02, "read", "Read", transfers=True, lba=True),
    Opcode(0x04, "write_uncorrectable", "Write Uncorrectable", lba=True),
    Opcode(0x05, "compare", "Compare", transfers=True, lba=True),
    Opcode(0x08, "write_zeroes", "Write Zeroes", lba=True),
    Opcode(0x09, "dsm", "Dataset Management"),
    Opcode(0x0C, "verify", "Verify", lba=True),
    Opcode(0x0D, "reservation_register", "Reservation Register"),
    Opcode(0x0E, "reservation_report", "Reservation Report"),
    Opcode(0x11, "reservation_acquire", "Reservation Acquire"),
    Opcode(0x12, "io_management_receive", "I/O Management Receive"),
    Opcode(0x15, "reservation_release", "Reservation Release"),
    Opcode(0x18, "cancel", "Cancel"),
    Opcode(0x19, "copy", "Copy"),
    Opcode(0x1D, "io_management_send", "I/O Management Send"),
    Opcode(0x79, "zone_management_send", "Zone Management Send"),
    Opcode(0x7A, "zone_management_receive", "Zone Management Receive"),
    Opcode(0x7D, "zone_append", "Zone Append"),
)
"""Opcodes of the I/O queues."""

ADMIN = (
    Opcode(0x00, "delete_io_sq", "Delete SQ"),
    Opcode(0x01, "create_io_sq", "Create SQ"),
    Opcode(0x02, "get_log_page", "Get Log Page"),
    Opcode(0x04, "delete_io_cq", "Delete CQ"),
    Opcode(0x05, "create_io_cq", "Create CQ"),
    Opcode(0x06, "identify", "Identify"),
    Opcode(0x08, "abort", "Abort"),
    Opcode(0x09, "set_features", "Set Features"),
    Opcode(0x0A, "get_features", "Get Features"),
    Opcode(0x0C, "async_event_request", "Async Event"),
    Opcode(0x0D, "namespace_management", "Namespace Management"),
    Opcode(0x10, "firmware_commit", "Firmware Commit"),
    Opcode(0x11, "firmware_download", "Firmware Download"),
    Opcode(0x14, "device_self_test", "Device Self-test"),
    Opcode(0x15, "namespace_attachment", "Namespace Attachment"),
    Opcode(0x18, "keep_alive", "Keep Alive"),
    Opcode(0x19, "directive_send", "Directive Send"),
    Opcode(0x1A, "directive_receive", "Directive Receive"),
    Opcode(0x1C, "virtualization_management", "Virtualization Management"),
    Opcode(0x1D, "nvme_mi_send", "NVMe-MI Send"),
    Opcode(0x1E, "nvme_mi_receive", "NVMe-MI Receive"),
    Opcode(0x7C, "doorbell_buffer_config", "Doorbell Buffer Config"),
    Opcode(0x80, "format_nvm", "Format"),
    Opcode(0x81, "security_send", "Security Send"),
    Opcode(0x82, "security_receive", "Security Receive"),
    Opcode(0x84, "sanitize", "Sanitize"),
)
"""Opcodes of the admin queue."""

_BY_NAME = {table: {opcode.name: opcode.code for opcode in opcodes} for table, opcodes in (("io", IO), ("admin", ADMIN))}


def io(name: str) -> int:
    """Code of an I/O opcode. KeyError for a name that is not in :data:`IO`."""
    return _BY_NAME["io"][name]


def admin(name: str) -> int:
    """Code of an admin opcode. KeyError for a name that is not in :data:`ADMIN`."""
    return _BY_NAME["admin"][name]


LBA_OPCODES = tuple(opcode.code for opcode in IO if opcode.lba)
"""Opcodes with SLBA and a block count in their command record, in place of CDW10 and CDW11. Dataset Management and Copy are not
included.
"""
TRANSFER_OPCODES = tuple(opcode.code for opcode in IO if opcode.transfers)
"""Opcodes that move user data over the link; MB/s counts these only."""


class Feature(NamedTuple):
    """A feature of Set Features and Get Features. ``name``: as in code.

    ``set_dws``, ``get_dws``: double words of data that Set Features and Get Features transfer; None: not fixed.
    """

    fid: int
    name: str
    title: str
    set_dws: int | None = 0
    get_dws: int | None = 0


FEATURES = (
    Feature(0x01, "arbitration", "Arbitration"),
    Feature(0x02, "power_management", "Power Management"),
    Feature(0x04, "temperature_threshold", "Temperature Threshold"),
    Feature(0x05, "error_recovery", "Error Recovery"),
    Feature(0x06, "write_cache", "Volatile Write Cache"),
    Feature(0x07, "queues", "Number of Queues"),
    Feature(0x08, "coalescing", "Interrupt Coalescing"),
    Feature(0x09, "vector", "Interrupt Vector Configuration"),
    Feature(0x0A, "atomicity", "Write Atomicity Normal"),
    Feature(0x0B, "async_events", "Asynchronous Event Configuration"),
    Feature(0x0C, "apst", "Autonomous Power State Transition", 64, 64),
    Feature(0x0D, "host_memory_buffer", "Host Memory Buffer", 0, 1024),
    Feature(0x0E, "timestamp", "Timestamp", 2, 2),
    Feature(0x10, "hctm", "Host Controlled Thermal Management"),
    Feature(0x11, "non_operational", "Non-Operational Power State Configuration"),
    Feature(0x16, "host_behavior", "Host Behavior Support", 128, 128),
    Feature(0x80, "progress_marker", "Software Progress Marker"),
    Feature(0x81, "host_identifier", "Host Identifier", None, None),
    Feature(0xD0, "marker", "vendor specific: a marker of Wattbell's in the command stream"),
)


def feature(name: str) -> int:
    """Feature identifier. KeyError for a name that is not in :data:`FEATURES`."""
    return {entry.name: entry.fid for entry in FEATURES}[name]


FEATURE_DWS = tuple((f.fid, f.set_dws, f.get_dws) for f in FEATURES if f.set_dws is not None and f.get_dws is not None)
"""Features with a fixed length of data: identifier, double words of Set Features, of Get Features. Of others the length is not known."""


HEALTH = 0x02
"""Log page SMART / Health Information."""
LOG_PAGES = (
    (0x01, "errors", "Error Information"),
    (HEALTH, "health", "SMART / Health Information"),
    (0x03, "firmware", "Firmware Slot Information"),
    (0x04, "changed_namespaces", "Changed Namespace List"),
    (0x05, "effects", "Commands Supported and Effects"),
    (0x06, "self_test", "Device Self-test"),
    (0x81, "sanitize", "Sanitize Status"),
)
"""Log page identifiers: identifier, name in code, title."""
POWER_LIMIT, POWER_THRESHOLD, POWER_MEASUREMENT = 0x23, 0x24, 0x25
"""Features by which a drive measures and limits its own power. Newer than the base revision. 25h is a log page, too."""
OCP_LATENCY_MONITOR_LOG, OCP_LATENCY_MONITOR_FEATURE = 0xC3, 0xC5
"""Log page and feature Latency Monitor of OCP's Datacenter NVMe SSD specification 2.0."""
OWN_FEATURES = (
    (POWER_LIMIT, "power_limit", "Power Limit"),
    (POWER_THRESHOLD, "power_threshold", "Power Threshold"),
    (POWER_MEASUREMENT, "power_measurement", "Power Measurement"),
    (OCP_LATENCY_MONITOR_FEATURE, "latency_monitor", "Latency Monitor"),
)
"""Features of a drive's own accounts, which the tracker in the gateware does not know: identifier, name in code, title."""
OWN_LOG_PAGES = (
    (POWER_MEASUREMENT, "power_measurement", "Power Measurement"),
    (OCP_LATENCY_MONITOR_LOG, "latency_monitor", "Latency Monitor"),
)
"""Log pages of a drive's own accounts: identifier, name in code, title."""


GENERIC, COMMAND_SPECIFIC, MEDIA = 0, 1, 2
"""Status code types (SCT)."""


class Status(NamedTuple):
    """A status of a CQE. ``name``: as in code. ``dnr``, ``more``: bits the SSD model sets with it."""

    sct: int
    sc: int
    name: str
    title: str
    dnr: bool = True
    more: bool = False


STATUSES = (
    Status(GENERIC, 0x00, "success", "", dnr=False),
    Status(GENERIC, 0x01, "invalid_opcode", "Invalid Command Opcode"),
    Status(GENERIC, 0x02, "invalid_field", "Invalid Field in Command"),
    Status(GENERIC, 0x04, "data_transfer_error", "Data Transfer Error", dnr=False),
    Status(GENERIC, 0x05, "power_loss", "Aborted due to Power Loss", dnr=False),
    Status(GENERIC, 0x06, "internal_error", "Internal Error", dnr=False),
    Status(GENERIC, 0x07, "aborted_by_request", "Command Abort Requested", dnr=False),
    Status(GENERIC, 0x08, "sq_deletion", "Aborted due to SQ Deletion", dnr=False),
    Status(GENERIC, 0x0B, "invalid_namespace", "Invalid Namespace or Format"),
    Status(GENERIC, 0x0C, "sequence_error", "Command Sequence Error"),
    Status(GENERIC, 0x11, "sgl_not_supported", "SGL Descriptor Type Invalid"),
    Status(GENERIC, 0x13, "invalid_prp_offset", "PRP Offset Invalid"),
    Status(GENERIC, 0x1D, "sanitize_in_progress", "Sanitize In Progress", dnr=False),
    Status(GENERIC, 0x80, "lba_out_of_range", "LBA Out of Range", more=True),
    Status(GENERIC, 0x81, "capacity_exceeded", "Capacity Exceeded"),
    Status(GENERIC, 0x82, "namespace_not_ready", "Namespace Not Ready", dnr=False),
    Status(GENERIC, 0x84, "format_in_progress", "Format In Progress", dnr=False),
    Status(COMMAND_SPECIFIC, 0x00, "cq_invalid", "Completion Queue Invalid"),
    Status(COMMAND_SPECIFIC, 0x01, "qid_invalid", "Invalid Queue Identifier"),
    Status(COMMAND_SPECIFIC, 0x02, "queue_size_invalid", "Invalid Queue Size"),
    Status(COMMAND_SPECIFIC, 0x05, "aer_limit", "Asynchronous Event Request Limit Exceeded"),
    Status(COMMAND_SPECIFIC, 0x08, "vector_invalid", "Invalid Interrupt Vector"),
    Status(COMMAND_SPECIFIC, 0x09, "log_page_invalid", "Invalid Log Page"),
    Status(COMMAND_SPECIFIC, 0x0A, "invalid_format", "Invalid Format"),
    Status(COMMAND_SPECIFIC, 0x0C, "queue_deletion_invalid", "Invalid Queue Deletion"),
    Status(COMMAND_SPECIFIC, 0x0D, "not_saveable", "Feature Identifier Not Saveable"),
    Status(COMMAND_SPECIFIC, 0x15, "insufficient_capacity", "Namespace Insufficient Capacity"),
    Status(COMMAND_SPECIFIC, 0x16, "nsid_unavailable", "Namespace Identifier Unavailable"),
    Status(COMMAND_SPECIFIC, 0x18, "already_attached", "Namespace Already Attached"),
    Status(COMMAND_SPECIFIC, 0x1A, "not_attached", "Namespace Not Attached"),
    Status(COMMAND_SPECIFIC, 0x1B, "thin_provisioning", "Thin Provisioning Not Supported"),
    Status(COMMAND_SPECIFIC, 0x1C, "controller_list_invalid", "Controller List Invalid"),
    Status(COMMAND_SPECIFIC, 0x1D, "self_test_in_progress", "Device Self-test In Progress"),
    Status(COMMAND_SPECIFIC, 0x3E, "invalid_power_limit", "Invalid Power Limit"),
    Status(COMMAND_SPECIFIC, 0x80, "conflicting_attributes", "Conflicting Attributes"),
    Status(COMMAND_SPECIFIC, 0xB8, "zoned_boundary_error", "Zoned Boundary Error"),
    Status(COMMAND_SPECIFIC, 0xB9, "zone_full", "Zone Is Full"),
    Status(COMMAND_SPECIFIC, 0xBA, "zone_read_only", "Zone Is Read Only"),
    Status(COMMAND_SPECIFIC, 0xBB, "zone_offline", "Zone Is Offline"),
    Status(COMMAND_SPECIFIC, 0xBC, "zone_invalid_write", "Zone Invalid Write"),
    Status(COMMAND_SPECIFIC, 0xBD, "too_many_active_zones", "Too Many Active Zones"),
    Status(COMMAND_SPECIFIC, 0xBE, "too_many_open_zones", "Too Many Open Zones"),
    Status(COMMAND_SPECIFIC, 0xBF, "zone_transition", "Invalid Zone State Transition"),
    Status(MEDIA, 0x80, "write_fault", "Write Fault"),
    Status(MEDIA, 0x81, "unrecovered_read", "Unrecovered Read Error", more=True),
    Status(MEDIA, 0x85, "compare_failure", "Compare Failure", more=True),
    Status(MEDIA, 0x86, "access_denied", "Access Denied"),
    Status(MEDIA, 0x87, "unwritten", "Deallocated or Unwritten Logical Block"),
)
