"""The firmware on the model of the registers (firmware/native/model.h): compiled for this machine, or built for the soft core and run on
it (firmware/native/core.cpp). With WATTBELL_FIRMWARE=core in the environment every test takes the latter."""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "firmware"
SECOND = 1_000_000_000
ON_CORE = os.environ.get("WATTBELL_FIRMWARE") == "core"


def make(target: str) -> None:
    """Builds ``target`` of firmware/Makefile."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / ".lock").open("w") as lock:  # other workers build the same
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = ["make", "-s", "-C", ROOT / "firmware", target, f"PY={sys.executable}"]
        done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout


def _registers() -> dict[str, int]:
    from wattbell_spec.controller_registers import BOARD
    from wattbell_spec.registers import MAP

    return {register.name: register.address for register in (*MAP, *BOARD)}


REGISTERS = _registers()


class Rig:
    """One rig, with its own copy of the library and so its own memory."""

    def __init__(self, seed: int = 0, core: bool = ON_CORE) -> None:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "lib.so"
            shutil.copy(BUILD / ("libcore.so" if core else "libfirmware.so"), copy)
            self.lib = ctypes.CDLL(str(copy))
        if core:
            self.load()
        lib = self.lib
        lib.model_eeprom.restype = ctypes.POINTER(ctypes.c_uint8)
        lib.model_now.restype = ctypes.c_int64
        lib.model_peek.restype = ctypes.c_uint32
        lib.model_set_rail.argtypes = [ctypes.c_double, ctypes.c_double]
        lib.model_set_channel.argtypes = [ctypes.c_int, ctypes.c_double, ctypes.c_double]
        lib.model_set_noise.argtypes = [ctypes.c_double]
        lib.model_set_temperature.argtypes = [ctypes.c_double]
        lib.model_set_fine.argtypes = lib.model_set_rail_good.argtypes = [ctypes.c_bool]
        lib.model_set_i2c.argtypes = [ctypes.c_bool, ctypes.c_bool]
        lib.console_stop_at.argtypes = [ctypes.c_uint, ctypes.c_bool]
        lib.model_set_eeprom_busy.argtypes = [ctypes.c_int64]
        lib.model_accesses.argtypes = [ctypes.c_bool]
        lib.model_tear_page.restype = ctypes.c_bool
        lib.console_settle.argtypes = lib.console_advance.argtypes = [ctypes.c_int64]
        self.eeprom = (ctypes.c_uint8 * 8192).from_address(ctypes.addressof(lib.model_eeprom().contents))
        self.erase()
        self.power_on(seed)

    def load(self) -> None:
        """Loads the image, and finds the variables that tell whether a message is being executed."""
        image = (BUILD / "firmware.bin").read_bytes()
        names = subprocess.run(["riscv64-unknown-elf-nm", BUILD / "firmware.elf"], capture_output=True, text=True, check=True).stdout
        places = {match[2]: int(match[1], 16) for match in re.finditer(r"^(\w+) \w (\w+)(?:\.lto_priv\.\d+)?$", names, re.MULTILINE)}
        self.lib.core_load(image, len(image), places["complete"], places["intake_used"])
        self.bss_end = places["bss_end"]
        self.places = places
        self.lib.core_clocks.restype = ctypes.c_uint64

    def erase(self) -> None:
        """An EEPROM fresh from the factory."""
        ctypes.memset(self.eeprom, 0xFF, len(self.eeprom))

    def power_on(self, seed: int = 0) -> None:
        """Power-on; the EEPROM keeps its contents. Seed 0 is a board without errors."""
        self.lib.console_start(seed)

    def send(self, text: str | bytes) -> None:
        """Sends bytes to the control port."""
        data = text.encode() if isinstance(text, str) else text
        self.lib.model_feed(data, len(data))

    def settle(self, seconds: float = 1000.0) -> bool:
        """Runs until everything is answered; False if a command still waits after that time."""
        return self.lib.console_settle(int(seconds * SECOND)) == 0

    def read(self) -> bytes:
        """Returns the bytes received."""
        buffer = ctypes.create_string_buffer(1 << 16)
        count = self.lib.model_take(buffer, len(buffer))
        return buffer.raw[:count]

    def advance(self, seconds: float) -> None:
        """Advances time."""
        self.lib.console_advance(int(seconds * SECOND))

    def stop_at(self, count: int, i2c: bool = False) -> None:
        """Has the core stop at its access number ``count`` to the registers from now on, or to those that send a byte on I2C; 0: never."""
        self.lib.console_stop_at(count, i2c)

    def count(self, i2c: bool = False) -> int:
        """How many of these accesses there were so far."""
        return self.lib.model_accesses(i2c)

    def stops(self, text: str, seconds: float = 1000.0) -> bool:
        """Sends a line; whether the core has stopped before it was done."""
        self.send(text + "\n")
        return self.lib.console_settle(int(seconds * SECOND)) == 2

    def restart(self, cause: int = 2) -> bool:
        """Restarts the core alone, as the watchdog does; False if the core has stopped again meanwhile."""
        return self.lib.console_restart(cause) == 0

    def tear(self, how: int) -> bool:
        """The rest, after the power failure, of the page that the EEPROM was writing (firmware/native/model.h); False: it was not
        writing."""
        return self.lib.model_tear_page(how)

    def ask(self, text: str) -> str:
        """Sends a line and returns the answer without its line end."""
        self.send(text + "\n")
        assert self.settle(), text
        return self.read().decode("ascii").removesuffix("\n")

    def do(self, text: str) -> None:
        """Sends a line that must give neither an answer nor an error."""
        assert self.ask(text) == "", text
        assert self.errors() == [], text

    def number(self, text: str) -> float:
        """The answer to a query, as a number."""
        return float(self.ask(text))

    def errors(self) -> list[int]:
        """Reads the numbers of all queued errors."""
        found = []
        while (number := int(self.ask("SYST:ERR?").split(",")[0])) != 0:
            found.append(number)
        return found

    def error(self, text: str) -> int:
        """Sends a line that gives exactly one error and no answer; returns the error."""
        assert self.ask(text) == "", text
        (number,) = self.errors()
        return number

    def peek(self, name: str) -> int:
        """Reads a register of the hardware."""
        return self.lib.model_peek(REGISTERS[name])

    def poke(self, name: str, value: int) -> None:
        """Sets a register behind the firmware's back."""
        self.lib.model_poke(REGISTERS[name], value)
