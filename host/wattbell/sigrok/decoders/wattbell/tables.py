# mypy: ignore-errors
"""Numbers of docs/wire-format.md, copied by hand: this decoder is a second witness and shares nothing with the host's."""

KINDS = {1: 'COMMANDS', 2: 'RAIL', 3: 'EVENTS', 4: 'TLP', 5: 'STATUS', 6: 'LINK'}

EVENTS = {
    1: 'LINK', 2: 'CLKREQ', 3: 'PERST', 4: 'CC_EN', 5: 'SHADOW_DOORBELLS', 6: 'TRACKER_RESET', 7: 'MARKER', 8: 'LOSS',
    9: 'QUEUE_CREATED', 10: 'QUEUE_DELETED', 11: 'BAR0', 12: 'POWER_STATE', 13: 'GUESSING', 14: 'MALFORMED', 15: 'RUN',
    16: 'LINK_STATE', 17: 'LINK_LANES', 18: 'LINK_SPEED', 19: 'LINK_RATE', 20: 'LINK_LOCK', 21: 'DLLP', 22: 'LINK_TLP',
    23: 'LINK_FAULTS', 24: 'BLOCK_FAULTS',
}

LINK_STATES = ('UNKNOWN', 'L0', 'L0s', 'L1', 'L1.1', 'L1.2', 'Recovery', 'Detect')

LOSSES = ('TLP_DOWN', 'TLP_UP', 'SLOTS', 'QUEUES', 'PAGES', 'RECORDS', 'EVENTS', 'RAIL', 'RAW', 'TAGS')

# NVM Express Base 1.4, figure 139; NVM command set, figure 346
ADMIN = {
    0x00: 'Delete SQ', 0x01: 'Create SQ', 0x02: 'Get Log Page', 0x04: 'Delete CQ', 0x05: 'Create CQ', 0x06: 'Identify',
    0x08: 'Abort', 0x09: 'Set Features', 0x0A: 'Get Features', 0x0C: 'Async Event', 0x80: 'Format', 0x84: 'Sanitize',
}
IO = {
    0x00: 'Flush', 0x01: 'Write', 0x02: 'Read', 0x04: 'Write Uncorrectable', 0x05: 'Compare', 0x08: 'Write Zeroes',
    0x09: 'Dataset Management', 0x0C: 'Verify',
}

COMMAND_FLAGS = ('GUESS', 'SHADOW', 'DATA_PARTIAL', 'ABORTED', 'NO_SQE', 'CID_REUSED', 'LOSS', 'NO_RANGES')
RAIL_FLAGS = ('OVERLOAD_I', 'OVERLOAD_V', 'UNCALIBRATED', 'SATURATED', 'RESTARTED')


def flags(value, names):
    """Names of the bits that are set, each with a space in front."""
    return ''.join(' ' + name for bit, name in enumerate(names) if value >> bit & 1)
