"""The SUMP protocol: bytes to commands, commands to settings, samples to bytes.

Follows the protocol description at sump.org and libsigrok's driver ``openbench-logic-sniffer`` 0.5.2, which adds the metadata
and 32-bit counts. A command below 80h is a single byte; one from 80h up has a four-byte little-endian argument. Five zero
bytes (RESET) are therefore understood as at least one RESET wherever a client left off.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

RESET, ARM, ID, SELF_TEST, METADATA = 0x00, 0x01, 0x02, 0x03, 0x04
XON, XOFF = 0x11, 0x13
DIVIDER, COUNTS, FLAGS, DELAY_COUNT, READ_COUNT = 0x80, 0x81, 0x82, 0x83, 0x84
FIRST_STAGE, LAST_STAGE = 0xC0, 0xCF
STAGES = 4
IDENTITY = b"1ALS"
MEMORY_BYTES = 1 << 22
"""Sample memory announced to the client, in bytes; a sample takes one byte per enabled channel group."""
CLOCK_HZ = 100_000_000
_DEMUX, _GROUPS, _EXTERNAL_CLOCK, _RLE, _PATTERNS = 1 << 0, 0x3C, 1 << 6, 1 << 8, 3 << 10

U32 = npt.NDArray[np.uint32]


class Parser:
    """Parses bytes in pieces of any size; never fails."""

    def __init__(self) -> None:
        self._pending = b""

    def feed(self, data: bytes) -> list[tuple[int, int]]:
        """(command, argument) of each command that `data` completes; a short command's argument is 0."""
        found, data, at = [], self._pending + data, 0
        while at < len(data):
            size = 5 if data[at] & 0x80 else 1
            if at + size > len(data):
                break
            found.append((data[at], int.from_bytes(data[at + 1 : at + size], "little")))
            at += size
        self._pending = data[at:]
        return found


@dataclass
class Stage:
    """A trigger stage. Once the level has reached `level`, it fires `delay` samples after the first sample with ``(word ^ value) & mask ==
    0``. The level then rises by one, or, with `start`, the capture is taken."""

    mask: int = 0
    value: int = 0
    delay: int = 0
    level: int = 0
    serial: bool = False
    start: bool = False

    def configure(self, argument: int) -> None:
        """Set the fields carried by the argument of a stage's third command."""
        self.delay, self.level = argument & 0xFFFF, argument >> 16 & 3
        self.serial, self.start = bool(argument >> 26 & 1), bool(argument >> 27 & 1)


@dataclass
class ArmSettings:
    """Settings for the next ARM."""

    divider: int = 0
    read: int = 4
    """Number of samples to send."""
    delay: int = 4
    """How many of those, or more, come after the trigger."""
    flags: int = 0
    stages: dict[int, Stage] = field(default_factory=dict)
    """Stages set since the last RESET; the others are unused."""

    def apply(self, command: int, argument: int) -> bool:
        """Apply a long command; False if it is none of these."""
        if command == DIVIDER:
            self.divider = argument & 0xFFFFFF
        elif command == COUNTS:
            self.read, self.delay = 4 * ((argument & 0xFFFF) + 1), 4 * ((argument >> 16) + 1)
        elif command == FLAGS:
            self.flags = argument
        elif command == DELAY_COUNT:
            self.delay = 4 * (argument + 1)
        elif command == READ_COUNT:
            self.read = 4 * (argument + 1)
        elif FIRST_STAGE <= command <= LAST_STAGE and command % 4 != 3:
            stage = self.stages.setdefault((command - FIRST_STAGE) // 4, Stage())
            if command % 4 == 0:
                stage.mask = argument
            elif command % 4 == 1:
                stage.value = argument
            else:
                stage.configure(argument)
        else:
            return False
        return True

    @property
    def period_ticks(self) -> int:
        """Sample period in nanoseconds."""
        return (self.divider + 1) * (5 if self.flags & _DEMUX else 10)

    @property
    def groups(self) -> list[int]:
        """Bytes sent per sample."""
        return [group for group in range(4) if not self.flags & _GROUPS & 4 << group]

    @property
    def samples(self) -> int:
        """Number of samples to send, limited by the memory."""
        return min(self.read, MEMORY_BYTES // max(1, len(self.groups)))

    def refusals(self) -> list[str]:
        """Requested features that are not supported."""
        found = []
        if self.flags & _EXTERNAL_CLOCK:
            found.append("there is no external clock: the rig's own is used")
        if self.flags & _PATTERNS:
            found.append("there are no test patterns")
        if any(stage.serial for stage in self.stages.values()):
            found.append("there are no serial triggers: such a stage is taken as a parallel one")
        return found

    def encode(self, words: U32) -> bytes:
        """Encode samples (oldest first) for the client: newest first, enabled groups only, with RLE if requested."""
        groups = self.groups
        if not groups:
            return b""
        octets = words.astype("<u4").view(np.uint8).reshape(-1, 4)[:, groups]
        if not self.flags & _RLE:
            return octets[::-1].tobytes()
        return _run_lengths(octets)


def _run_lengths(octets: npt.NDArray[np.uint8]) -> bytes:
    """RLE, newest first: a word with its top bit set is the repeat count of the word after it; samples lose that bit."""
    size = octets.shape[1]
    flag = 1 << (8 * size - 1)
    values = np.zeros(len(octets), np.uint32)
    for index in range(size):
        values |= octets[:, index].astype(np.uint32) << np.uint32(8 * index)
    values &= np.uint32(flag - 1)
    starts = np.concatenate(([0], np.flatnonzero(np.diff(values)) + 1, [len(values)]))
    out = bytearray()
    for first, last in zip(starts[-2::-1].tolist(), starts[:0:-1].tolist()):
        left, value = last - first, int(values[first]).to_bytes(size, "little")
        while left:
            again = min(left, flag) - 1
            if again:
                out += (flag | again).to_bytes(size, "little")
            out += value
            left -= again + 1
    return bytes(out)


def metadata(version: str, channels: int) -> bytes:
    """Answer to METADATA: the tokens of libsigrok's driver; 32-bit numbers are big-endian."""

    def number(token: int, value: int) -> bytes:
        return bytes([token]) + value.to_bytes(4, "big")

    texts = b"\x01Wattbell\0" + b"\x02" + version.encode("ascii", "replace") + b"\0"
    return texts + number(0x21, MEMORY_BYTES) + number(0x23, CLOCK_HZ) + bytes([0x40, channels, 0x41, 2, 0])
