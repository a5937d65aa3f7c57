# mypy: ignore-errors
"""Made by `python -m wattbell_spec` from spec/. Do not edit."""

KINDS = {
    1: 'COMMANDS',
    2: 'RAIL',
    3: 'EVENTS',
    4: 'TLP',
    5: 'STATUS',
    6: 'LINK',
}

EVENTS = {
    1: 'LINK',
    2: 'CLKREQ',
    3: 'PERST',
    4: 'CC_EN',
    5: 'SHADOW_DOORBELLS',
    6: 'TRACKER_RESET',
    7: 'MARKER',
    8: 'LOSS',
    9: 'QUEUE_CREATED',
    10: 'QUEUE_DELETED',
    11: 'BAR0',
    12: 'POWER_STATE',
    13: 'GUESSING',
    14: 'MALFORMED',
    15: 'RUN',
    16: 'LINK_STATE',
    17: 'LINK_LANES',
    18: 'LINK_SPEED',
    19: 'LINK_RATE',
    20: 'LINK_LOCK',
    21: 'DLLP',
    22: 'LINK_TLP',
    23: 'LINK_FAULTS',
    24: 'BLOCK_FAULTS',
    25: 'SHUTDOWN',
    26: 'SHUTDOWN_STATUS',
}

ADMIN = {
    0x00: 'Delete SQ',
    0x01: 'Create SQ',
    0x02: 'Get Log Page',
    0x04: 'Delete CQ',
    0x05: 'Create CQ',
    0x06: 'Identify',
    0x08: 'Abort',
    0x09: 'Set Features',
    0x0A: 'Get Features',
    0x0C: 'Async Event',
    0x0D: 'Namespace Management',
    0x10: 'Firmware Commit',
    0x11: 'Firmware Download',
    0x14: 'Device Self-test',
    0x15: 'Namespace Attachment',
    0x18: 'Keep Alive',
    0x19: 'Directive Send',
    0x1A: 'Directive Receive',
    0x1C: 'Virtualization Management',
    0x1D: 'NVMe-MI Send',
    0x1E: 'NVMe-MI Receive',
    0x7C: 'Doorbell Buffer Config',
    0x80: 'Format',
    0x81: 'Security Send',
    0x82: 'Security Receive',
    0x84: 'Sanitize',
}

IO = {
    0x00: 'Flush',
    0x01: 'Write',
    0x02: 'Read',
    0x04: 'Write Uncorrectable',
    0x05: 'Compare',
    0x08: 'Write Zeroes',
    0x09: 'Dataset Management',
    0x0C: 'Verify',
    0x0D: 'Reservation Register',
    0x0E: 'Reservation Report',
    0x11: 'Reservation Acquire',
    0x12: 'I/O Management Receive',
    0x15: 'Reservation Release',
    0x18: 'Cancel',
    0x19: 'Copy',
    0x1D: 'I/O Management Send',
    0x79: 'Zone Management Send',
    0x7A: 'Zone Management Receive',
    0x7D: 'Zone Append',
}

LINK_STATES = ('UNKNOWN', 'L0', 'L0s', 'L1', 'L1.1', 'L1.2', 'Recovery', 'Detect')
PLACED = (1, 2, 4, 5, 8, 12, 9)
LOSSES = ('TLP_DOWN', 'TLP_UP', 'SLOTS', 'QUEUES', 'PAGES', 'RECORDS', 'EVENTS', 'RAIL', 'RAW', 'TAGS')
COMMAND_FLAGS = ('GUESS', 'SHADOW', 'DATA_PARTIAL', 'ABORTED', 'NO_SQE', 'CID_REUSED', 'LOSS', 'NO_RANGES')
RAIL_FLAGS = ('OVERLOAD_I', 'OVERLOAD_V', 'UNCALIBRATED', 'SATURATED', 'RESTARTED')

# fields of a command: lowest bit, bits
COMMAND_FIELDS = {
    "cqe_offset": (0, 32),
    "doorbell_before": (32, 32),
    "fetch_before": (64, 32),
    "first_data_before": (96, 32),
    "last_data_before": (128, 32),
    "msix_after": (160, 24),
    "cq_head_after": (184, 24),
    "opcode": (208, 8),
    "qid": (216, 7),
    "interrupt_guessed": (223, 1),
    "cid": (224, 16),
    "status": (240, 15),
    "length_checked": (255, 1),
    "nsid": (256, 16),
    "blocks": (272, 32),
    "slba": (304, 40),
    "flags": (344, 8),
}
SHOWN = (('interrupt_guessed', 'interrupt guessed'),)

COMMAND_BYTES = 44
EVENT_BYTES = 16
RAIL_HEADER_BYTES = 28
RAIL_SAMPLE_BYTES = 6
LINK_BYTES = 108
STATUS_BYTES = 132
VOLTAGE_V, CURRENT_A = 20e-6, 500e-9
