"""A Power Profiler Kit II, after the program that Nordic publishes for it: ``src/device/serialDevice.ts`` and ``src/constants.ts`` of
NordicSemiconductor/pc-nrfconnect-ppk, and an answer to GetMetadata as users have posted it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.host.meters.line import PtyDevice

AVERAGE_START, AVERAGE_STOP, DEVICE_RUNNING, REGULATOR, POWER_MODE, METADATA = 0x06, 0x07, 0x0C, 0x0D, 0x11, 0x19
ARGUMENTS = {DEVICE_RUNNING: 1, REGULATOR: 2, POWER_MODE: 1}
PERIOD_S = 10e-6
Levels = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class Ppk2Device(PtyDevice):
    """Sample i has the range and the ADC's level that ``levels`` gives (arrays). ``lost``: samples that are taken and not sent, by the
    index of the first; ``odd_bytes``: sent before the sample of its index. The port vanishes before the sample ``ends``.
    From the sample ``slows`` on it takes a third as many, and numbers them as before."""

    def __init__(self, levels: Levels) -> None:
        super().__init__()
        self.levels = levels
        self.r = [1003.3506, 101.5865, 10.3027, 0.9636, 0.0564]
        self.gs = [0.0, 0.0, 0.0, 0.0, 0.0]
        self.gi = [0.5, 1.0, 1.25, 1.0, 1.0]
        self.o = [112.4, 86.4, 77.8, 70.9, 59.0]
        self.calibrated = 1
        self.mode, self.vdd = 2, 3000
        self.says: bytes | None = None
        self.lost: dict[int, int] = {}
        self.odd_bytes: dict[int, bytes] = {}
        self.ends: int | None = None
        self.falls_silent: int | None = None
        self.slows: int | None = None
        self.powered = False
        self.sends = False
        self.index = 0
        self.started = 0.0
        self.commands: list[tuple[int, ...]] = []
        self._partial = b""

    def metadata(self) -> bytes:
        rows = [f"Calibrated: {self.calibrated}"]
        for name, values in (("R", self.r), ("GS", self.gs), ("GI", self.gi), ("O", self.o)):
            rows += [f"{name}{n}: {value:.4f}" for n, value in enumerate(values)]
        rows += [f"VDD: {self.vdd}", "HW: 54350", f"mode: {self.mode}"]
        rows += [f"{name}{n}: 0.000000000" for name in ("S", "I") for n in range(5)]
        rows += [f"UG{n}: 1.00" for n in range(5)] + ["IA: 58"]
        return "\n".join([*rows, "END\n"]).encode()

    def command(self, data: bytes) -> None:
        self._partial += data
        while self._partial:
            code = self._partial[0]
            size = 1 + ARGUMENTS.get(code, 0)
            if len(self._partial) < size:
                return
            told, self._partial = tuple(self._partial[:size]), self._partial[size:]
            self.commands.append(told)
            if code == METADATA:
                self.send(self.metadata() if self.says is None else self.says)
            elif code == AVERAGE_START:
                self.sends, self.index, self.started = True, 0, 0.0
            elif code == AVERAGE_STOP:
                self.sends = False
            elif code == DEVICE_RUNNING:
                self.powered = bool(told[1])
            elif code == POWER_MODE:
                self.mode = told[1]
            elif code == REGULATOR:
                self.vdd = told[1] << 8 | told[2]

    def loop(self, now: float) -> None:
        if not self.sends:
            return None
        self.started = self.started or now
        due = int((now - self.started) / PERIOD_S)
        if self.slows is not None and due > self.slows:
            due = self.slows + (due - self.slows) // 3
        while self.index < due:
            marks = {*self.lost, *self.odd_bytes, self.ends, self.falls_silent}
            stop = min([due, *(at for at in marks if at is not None and at > self.index)])
            if self.index == self.ends:
                return self.unplug()
            if self.falls_silent is not None and self.index >= self.falls_silent:
                return None
            missing = self.lost.pop(self.index, 0)
            if missing:
                self.index += missing
                continue
            self.send(self.odd_bytes.pop(self.index, b"") + self.words(np.arange(self.index, stop)))
            self.index = stop
        return None

    def words(self, index: np.ndarray) -> bytes:
        scale, level = self.levels(index)
        return bytes((level & 0x3FFF | scale << 14 | (index + 37 & 0x3F) << 18 | (index & 0xFF) << 24).astype("<u4").tobytes())
