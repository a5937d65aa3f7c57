"""A PowerSensor3, after its firmware: device/PowerSensor/PowerSensor.ino and device_specific/*.hpp of nlesc-recruit/PowerSensor3, 1.6.1.

Tried by hand with the unmodified host library of the same repository (psinfo, pstest, dump): docs/meters.md.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from tests.host.meters.line import PtyDevice

SENSORS = 8
PERIOD_US = {"F411": 50.0, "F401": 57.142857142857146, "F407": 29.333333333333332}


class PowerSensor3Device(PtyDevice):
    """Levels of a set are ``levels(index)``; pair 1 is in use. Sets that ``lost`` names (index of the first, how many) are sampled and not
    sent; ``garbage`` is sent before the set of its index. The port vanishes before the set ``ends``."""

    VREF_A, SENSITIVITY_A = 1.65, 0.12
    GAIN_V = 0.5

    def __init__(self, levels: Callable[[int], tuple[int, int]], board: str = "F411") -> None:
        super().__init__()
        self.levels, self.board = levels, board
        self.period_us = PERIOD_US[board]
        self.lost: dict[int, int] = {}
        self.garbage: dict[int, bytes] = {}
        self.cut_bytes: dict[int, int] = {}
        self.ends: int | None = None
        self.falls_silent: int | None = None
        self.pairs_in_use = [1]
        self.stream_values = False
        self.send_markers = 0
        self.index = 0
        self.skip = 0
        self.config_at: int | None = None
        self.boot_us = 987_654.0
        self.started = 0.0

    def sensor(self, number: int) -> bytes:
        """struct Sensor of the firmware: char type[16], char pairName[16], float vref, float sensitivity, bool inUse; packed."""
        kind, vref, sensitivity = (b"voltage", 0.0, self.GAIN_V) if number % 2 else (b"MLX10", self.VREF_A, self.SENSITIVITY_A)
        return (
            kind.ljust(16, b"\0")
            + b"M.2".ljust(16, b"\0")
            + struct.pack("<ff", vref, sensitivity)
            + bytes([number // 2 in self.pairs_in_use])
        )

    def command(self, data: bytes) -> None:
        for byte in data:
            letter = chr(byte)
            if self.config_at is not None:  # any character asks for the next sensor
                self.config_at += 1
                self.send(self.sensor(self.config_at) if self.config_at < SENSORS else b"D")
                if self.config_at == SENSORS:
                    self.config_at = None
            elif letter == "R":
                self.config_at = 0
                self.send(self.sensor(0))
            elif letter == "V":
                self.send(self.board.encode() + b"-1.6.1\r\n")
            elif letter == "M":
                self.send_markers += 1
            elif letter == "S":
                self.stream_values, self.index, self.started = True, 0, 0.0
            elif letter == "T":
                self.stream_values = False
            elif letter == "X":
                self.stream_values = False
                self.send(b"\xff\x3f\xff\x3f")

    def loop(self, now: float) -> None:
        if not self.stream_values:
            return None
        self.started = self.started or now
        out = bytearray()
        while self.index < self.due(now):
            if self.falls_silent is not None and self.index >= self.falls_silent:
                break
            if self.index == self.ends:
                self.send(bytes(out))
                return self.unplug()
            self.skip = self.lost.get(self.index, self.skip)
            if self.skip:
                self.skip -= 1
            else:
                data = self.set_of_samples()
                out += self.garbage.get(self.index, b"") + data[: len(data) - self.cut_bytes.get(self.index, 0)]
            self.index += 1
        self.send(bytes(out))
        return None

    def due(self, now: float) -> float:
        """How many sets have been sampled by now."""
        return (now - self.started) * 1e6 / self.period_us

    def set_of_samples(self) -> bytes:
        """The bytes of ``serialData`` for the set ``index``."""
        t = int(self.boot_us + self.index * self.period_us)
        data = bytearray([0b1111 << 4 | (t & 0x3C0) >> 6, 0b01 << 6 | t & 0x3F])
        current, voltage = self.levels(self.index)
        for i in range(SENSORS):
            level = {2: current, 3: voltage}.get(i, 17 * i + 5)
            data.append((i & 0x7) << 4 | (level & 0x3C0) >> 6 | 1 << 7)
            data.append(level & 0x3F)
        if self.send_markers:
            data[3] |= 1 << 6
            self.send_markers -= 1
        return bytes(data)
