"""From payload bytes to numpy columns, for many blocks at a time.

Every record of the wire format is a whole number of 32-bit words. The words of all records are transposed once (one row per word). Each
field of :mod:`wattbell_spec.wire` is then a shift and a mask over one or two contiguous rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from wattbell_spec import wire as spec

I64 = npt.NDArray[np.int64]
Column = npt.NDArray[Any]
Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True)
class _Plan:
    name: str
    word: int
    shift: int
    bits: int
    signed: bool
    dtype: np.dtype[np.generic]


def _narrowest(bits: int, signed: bool) -> np.dtype[np.generic]:
    size = next(size for size in (8, 16, 32, 64) if bits <= size)
    return np.dtype(f"<{'i' if signed else 'u'}{size // 8}")


def _plan(fields: tuple[spec.Field, ...]) -> tuple[_Plan, ...]:
    plans, bit = [], 0
    for f in fields:
        plans.append(_Plan(f.name, bit // 32, bit % 32, f.bits, f.signed, _narrowest(f.bits, f.signed)))
        bit += f.bits
    return tuple(plans)


_COMMAND = _plan(spec.COMMAND)
_EVENT = _plan(spec.EVENT)
_STATUS = _plan(spec.STATUS)
_LINK = _plan(spec.LINK)
_RAIL_HEADER = _plan(spec.RAIL_HEADER)
_TLP_HEADER_BYTES = spec.TLP_HEADER_SIZE


def _field(words: Column, plan: _Plan) -> Column:
    """One field as a contiguous column of the narrowest dtype that holds it."""
    low = words[plan.word]
    if plan.bits == 32 and plan.shift == 0:
        whole: Column = low.view(np.int32) if plan.signed else low
        return whole
    if plan.shift + plan.bits <= 32:
        shifted = low >> np.uint32(plan.shift) if plan.shift else low
        if plan.bits < 32 - plan.shift and plan.bits not in (8, 16):
            shifted = shifted & np.uint32((1 << plan.bits) - 1)
        part: Column = shifted.astype(plan.dtype)
        return part
    if plan.bits <= 32:  # across two words
        mask = np.uint32((1 << plan.bits) - 1)
        joined = (low >> np.uint32(plan.shift)) | (words[plan.word + 1] << np.uint32(32 - plan.shift))
        across: Column = (joined & mask).astype(plan.dtype, copy=False)
        return across
    wide: Column = low.astype(np.uint64) >> np.uint64(plan.shift)
    have = 32 - plan.shift
    word = plan.word + 1
    while have < plan.bits:
        wide |= words[word].astype(np.uint64) << np.uint64(have)
        have, word = have + 32, word + 1
    if plan.bits < 64:
        wide &= np.uint64((1 << plan.bits) - 1)
    if plan.signed:
        wide = wide.view(np.int64)
    return wide


def _words(payload: Buffer, record_words: int) -> Column:
    flat: Column = np.frombuffer(payload, dtype="<u4")
    return np.ascontiguousarray(flat.reshape(-1, record_words).T)


def _columns(payload: Buffer, size: int, plans: tuple[_Plan, ...]) -> dict[str, Column]:
    words = _words(payload, size // 4)
    return {plan.name: _field(words, plan) for plan in plans}


@dataclass
class CommandRecords:
    """Command records: ``cqe_tick`` (int64) and every other field of ``spec.COMMAND`` as on the wire.

    ``columns`` maps the field's name to an unsigned numpy array of the narrowest type that holds it. Ages keep their
    special values (``UNKNOWN32`` and so on).
    """

    cqe_tick: I64
    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return len(self.cqe_tick)


@dataclass
class RailRecords:
    """Rail blocks, and their samples concatenated.

    Per block: ``first_tick`` (int64), ``interval_ticks``, ``count``, ``flags``, ``adc_index`` (uint64), ``energy``
    (int64), ``dropped``. Per sample: ``voltage`` in ``VOLTAGE_LSB_UV``, ``current`` in ``CURRENT_LSB_NA`` (int32).
    """

    first_tick: I64
    columns: Mapping[str, Column]
    dropped: npt.NDArray[np.uint32]
    voltage: npt.NDArray[np.int32]
    current: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.first_tick)


@dataclass
class EventRecords:
    """Events: ``tick`` (int64), ``type``, ``arg8``, ``arg16``, ``arg32``."""

    tick: I64
    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return len(self.tick)


@dataclass
class Statuses:
    """STATUS blocks: ``tick`` and every field of ``spec.STATUS``."""

    tick: I64
    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return len(self.tick)


@dataclass
class Tlps:
    """Raw TLPs: parallel lists of tick, direction, flags and bytes (header first)."""

    tick: list[int] = field(default_factory=list)
    direction: list[int] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    data: list[bytes] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.tick)


def decode_commands(payloads: Sequence[Buffer], first_ticks: Sequence[int]) -> CommandRecords:
    """COMMANDS payloads to columns. Every payload is a whole number of records (checked by the caller)."""
    columns = _columns(b"".join(payloads), spec.COMMAND_SIZE, _COMMAND)
    offset = columns.pop("cqe_offset")
    base = np.array(first_ticks, dtype=np.uint64).view(np.int64)
    sizes = [len(p) for p in payloads]
    tick = _add_base(base, offset, sizes, spec.COMMAND_SIZE)
    return CommandRecords(tick, columns)


def _add_base(base: I64, offset: Column, sizes: list[int], record_size: int) -> I64:
    """int64 tick of every record: its block's base plus its own offset (modulo 2**64, so no input can overflow)."""
    if len(set(sizes)) == 1:
        every: I64 = (base[:, None] + offset.reshape(len(sizes), -1)).reshape(-1)
    else:
        every = np.repeat(base, np.array(sizes) // record_size) + offset
    return every


def decode_rail(payloads: Sequence[Buffer], first_ticks: Sequence[int], dropped: Sequence[int]) -> RailRecords:
    """RAIL payloads to columns. Every payload holds its header and ``count`` samples (checked by the caller)."""
    size = spec.RAIL_HEADER_SIZE
    columns = _columns(b"".join([p[:size] for p in payloads]), size, _RAIL_HEADER)
    ends = (columns["count"].astype(np.int64) * spec.RAIL_SAMPLE_SIZE + size).tolist()
    # 24-bit two's complement: overlapping 32-bit words hold each number in their top three bytes; shift back with the sign
    packed = b"".join([b"\0", *(p[size:end] for p, end in zip(payloads, ends, strict=True))])
    overlapping: npt.NDArray[np.int32] = np.ndarray((2, len(packed) // 6), "<i4", packed, strides=(3, 6))
    voltage, current = overlapping.copy() >> 8
    return RailRecords(
        np.array(first_ticks, dtype=np.uint64).view(np.int64),
        columns,
        np.array(dropped, dtype=np.uint32),
        voltage,
        current,
    )


def decode_events(payloads: Sequence[Buffer]) -> EventRecords:
    """EVENTS payloads to columns. Event ticks are absolute."""
    columns = _columns(b"".join(payloads), spec.EVENT_SIZE, _EVENT)
    return EventRecords(columns.pop("tick").view(np.int64), columns)


def decode_status(payloads: Sequence[Buffer], first_ticks: Sequence[int]) -> Statuses:
    """STATUS payloads to columns; the tick is the block's first tick. The tail of a longer payload is ignored; what a payload of older
    gateware lacks is 0."""
    whole = [bytes(p[: spec.STATUS_SIZE]).ljust(spec.STATUS_SIZE, b"\0") for p in payloads]
    columns = _columns(b"".join(whole), spec.STATUS_SIZE, _STATUS)
    return Statuses(np.array(first_ticks, dtype=np.uint64).view(np.int64), columns)


def decode_links(payloads: Sequence[Buffer], first_ticks: Sequence[int]) -> Statuses:
    """LINK payloads to columns, one row per direction; the tick is the block's first tick."""
    columns = _columns(b"".join(payloads), spec.LINK_SIZE, _LINK)
    ticks = np.array(first_ticks, dtype=np.uint64).view(np.int64)
    return Statuses(np.repeat(ticks, [len(p) // spec.LINK_SIZE for p in payloads]), columns)


def split_tlps(payload: Buffer, first_tick: int, into: Tlps) -> bool:
    """Append the TLPs of one payload to `into`. False, with nothing appended, if the payload does not hold whole TLPs."""
    found: list[tuple[int, int, int, bytes]] = []
    position = 0
    while position < len(payload):
        if position + _TLP_HEADER_BYTES > len(payload):
            return False
        offset = int.from_bytes(payload[position : position + 4], "little", signed=True)
        length = int.from_bytes(payload[position + 4 : position + 6], "little")
        direction, flags = payload[position + 6], payload[position + 7]
        start = position + _TLP_HEADER_BYTES
        if start + length > len(payload):
            return False
        found.append((first_tick + offset, direction, flags, bytes(payload[start : start + length])))
        position = start + -(-length // 4) * 4
    for tick, direction, flags, data in found:
        into.tick.append(tick)
        into.direction.append(direction)
        into.flags.append(flags)
        into.data.append(data)
    return True


def events_near(payload: Buffer, first_tick: int, within_ticks: int) -> bool:
    """True when every event of an EVENTS payload lies near its block's tick: a block is closed soon after its first record."""
    ticks = decode_events([payload]).tick.astype(np.float64)
    return not len(ticks) or bool(np.abs(ticks - first_tick).max() <= within_ticks)


def status_tick_ps(payload: Buffer) -> int:
    """Picoseconds a tick, as a STATUS payload states them."""
    return int(decode_status([payload], [0]).columns["tick_ps"][0])


def rail_payload_ok(payload: Buffer, within_ticks: int) -> bool:
    """True when a RAIL payload has exactly the samples its header promises, and these last no longer than a block may."""
    size = spec.RAIL_HEADER_SIZE
    if len(payload) < size:
        return False
    interval, count = int.from_bytes(payload[0:4], "little"), int.from_bytes(payload[4:6], "little")
    if (count - 1) * interval > within_ticks:
        return False
    return len(payload) == -(-(size + count * spec.RAIL_SAMPLE_SIZE) // 4) * 4
