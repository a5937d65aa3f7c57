# mypy: ignore-errors
"""The contents of a block as text: docs/wire-format.md."""

import struct

from .tables import (
    ADMIN,
    COMMAND_BYTES,
    COMMAND_FIELDS,
    COMMAND_FLAGS,
    CURRENT_A,
    EVENT_BYTES,
    EVENTS,
    IO,
    LINK_BYTES,
    LINK_STATES,
    LOSSES,
    PLACED,
    RAIL_FLAGS,
    RAIL_HEADER_BYTES,
    RAIL_SAMPLE_BYTES,
    SHOWN,
    STATUS_BYTES,
    VOLTAGE_V,
)

NOT_SEEN, NO_LESS = 0xFFFFFFFF, 0xFFFFFFFE


def flags(value, names):
    """Names of the set bits, each preceded by a space."""
    return "".join(" " + name for bit, name in enumerate(names) if value >> bit & 1)


def us(ticks):
    return f"{ticks / 1000:.3f} us"


def commands(payload):
    """(first byte, bytes, texts) for each record."""
    for at in range(0, len(payload), COMMAND_BYTES):
        bits = int.from_bytes(payload[at : at + COMMAND_BYTES], "little")
        record = {name: bits >> low & (1 << size) - 1 for name, (low, size) in COMMAND_FIELDS.items()}
        opcode, qid, cid, status = (record[name] for name in ("opcode", "qid", "cid", "status"))
        name = (IO if qid else ADMIN).get(opcode, f"opcode {opcode:02X}h")
        age = record["doorbell_before"] if record["doorbell_before"] != NOT_SEEN else record["fetch_before"]
        latency = "" if age == NOT_SEEN else (">= " if age == NO_LESS else "") + us(age)
        place = f" LBA {record['slba']} +{record['blocks']}" if qid and opcode in PLACED else ""
        failed = f" status {status:04X}h" if status else ""
        shown = "".join(f" {title} {record[field]}" for field, title in SHOWN if record[field])
        text = f"{name} q{qid} cid {cid}{place}{failed}{shown} {latency}{flags(record['flags'], COMMAND_FLAGS)}"
        yield at, COMMAND_BYTES, [text.strip(), f"{name} {latency}", name]


def rail(payload):
    """Text for the samples of a block: count, spacing, mean power."""
    interval, count, flag_bits = struct.unpack_from("<IHH", payload)
    power = 0.0
    for at in range(RAIL_HEADER_BYTES, RAIL_HEADER_BYTES + count * RAIL_SAMPLE_BYTES, RAIL_SAMPLE_BYTES):
        volts = int.from_bytes(payload[at : at + 3], "little", signed=True) * VOLTAGE_V
        amperes = int.from_bytes(payload[at + 3 : at + 6], "little", signed=True) * CURRENT_A
        power += volts * amperes
    mean = f"{power / count:.6f} W" if count else "no samples"
    text = f"{count} samples each {us(interval)}, mean {mean}{flags(flag_bits, RAIL_FLAGS)}"
    yield 0, len(payload), [text, mean]


def events(payload):
    """(first byte, bytes, texts) for each event."""
    for at in range(0, len(payload), EVENT_BYTES):
        tick, kind, arg8, arg16, arg32 = struct.unpack_from("<QBBHI", payload, at)
        name = EVENTS.get(kind, f"event {kind}")
        yield at, EVENT_BYTES, [f"{name} {_argument(kind, arg8, arg16, arg32)} at {us(tick)}", name]


def _argument(kind, arg8, arg16, arg32):
    if kind in (1, 16):
        state = arg8 if kind == 1 else arg16
        return LINK_STATES[state] if state < len(LINK_STATES) else str(state)
    if kind in (2, 3):
        return "released" if arg8 else "asserted"
    if kind == 7:
        return f"{arg32:08X}h"
    if kind == 8:
        return f"{LOSSES[arg8] if arg8 < len(LOSSES) else arg8} {arg32}"
    if kind in (9, 10):
        return f"{'C' if arg8 else 'S'}Q {arg16}"
    return f"{arg8} {arg16} {arg32}"


def tlps(payload):
    """(first byte, bytes, texts) for each TLP."""
    at = 0
    while at + 8 <= len(payload):
        length, direction = struct.unpack_from("<HB", payload, at + 4)
        size = 8 + (length + 3) // 4 * 4
        yield at, min(size, len(payload) - at), [f"TLP {'up' if direction else 'down'}, {length} bytes", "TLP"]
        at += size


def status(payload):
    """Text for the state of the rig."""
    version, tick_ps = struct.unpack_from("<II", payload)
    made = struct.unpack_from("<Q", payload, 52)[0]
    gateware = f"{version >> 16}.{version >> 8 & 255}.{version & 255}"
    text = f"gateware {gateware}, tick {tick_ps} ps, {'capturing' if payload[18] else 'stopped'}, {made} commands"
    yield 0, len(payload), [text, "status"]


def link(payload):
    """(first byte, bytes, texts) for each direction."""
    for at in range(0, len(payload), LINK_BYTES):
        tlp_count = struct.unpack_from("<I", payload, at + 4)[0]
        state = LINK_STATES[payload[at + 1]] if payload[at + 1] < len(LINK_STATES) else str(payload[at + 1])
        yield at, LINK_BYTES, [f"{'up' if payload[at] else 'down'} {state}, {tlp_count} TLPs", state]


READERS = {1: commands, 2: rail, 3: events, 4: tlps, 5: status, 6: link}


def whole(kind, payload):
    """Whether a payload has the size its kind requires."""
    size = len(payload)
    if kind == 1:
        return size % COMMAND_BYTES == 0
    if kind == 2:
        return size >= RAIL_HEADER_BYTES and size >= RAIL_HEADER_BYTES + RAIL_SAMPLE_BYTES * struct.unpack_from("<H", payload, 4)[0]
    if kind == 3:
        return size % EVENT_BYTES == 0
    if kind == 5:
        return size >= STATUS_BYTES
    return kind != 6 or size % LINK_BYTES == 0
