"""`wattbell calibrate --prompt` at a terminal, on a virtual rig; the test sets the rail in the person's place."""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from wattbell.rig.calibration.bench import parse_reading, standard_points, why_not

from tests.patience import PATIENCE_S
from tests.sim.rig.rig_process import Rig, wait_until
from tests.sim.rig.rig_trace import encode, rail

LEAD_US = 20_000.0
"""Lead of the written trace over the rig's time in us: a new setting takes effect this much later."""
TIMING = ("--settle", "0.05", "--seconds", "0.1")


class Source(threading.Thread):
    """Supply and load: keeps writing the rig's trace with the present setting, as its time passes."""

    def __init__(self, rig: type[Rig], *options: object) -> None:
        super().__init__(daemon=True)
        self.rig = rig("-", "--fidelity", "fast", *options, ports=False, stdin=subprocess.PIPE)
        self._head = len(encode([]))
        self._value, self._written_us = (0.0, 0.0), 0.0
        self._lock, self._over = threading.Lock(), threading.Event()
        self._pipe = self.rig.process.stdin
        self._pipe.write(encode([rail(0, 0.0, 0.0)]))
        self.start()

    @property
    def ports(self) -> str:
        return f"{self.rig.entry['data']},{self.rig.entry['control']}"

    def set(self, volts: float, amps: float) -> None:
        """Sets the source from now on."""
        with self._lock:
            self._value = volts, amps
            self._write(self._written_us + 1)

    def _write(self, time_us: float) -> None:
        self._written_us = time_us
        self._pipe.write(encode([rail(time_us, *self._value)])[self._head :])
        self._pipe.flush()

    def run(self) -> None:
        while not self._over.wait(0.005):
            wanted_us = self.rig.status()["trace_tick"] / 1e3 + LEAD_US
            with self._lock:
                if wanted_us > self._written_us:
                    self._write(wanted_us)

    def end(self) -> None:
        self._over.set()
        self.join(PATIENCE_S)


class Terminal:
    """A program on its own terminal, with its screen."""

    def __init__(self, *words: object) -> None:
        self._keyboard, inside = pty.openpty()
        command = [sys.executable, "-m", "wattbell", *map(str, words)]
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200", "NO_COLOR": "1"}

        def at_its_terminal() -> None:
            """Give the program its own terminal, so that Ctrl-C is a signal there. A CI job may have been started with the signal
            ignored.
            """
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            signal.signal(signal.SIGINT, signal.SIG_DFL)

        self.process = subprocess.Popen(
            command, stdin=inside, stdout=inside, stderr=inside, env=environment, start_new_session=True, preexec_fn=at_its_terminal
        )
        os.close(inside)
        self._decode = codecs.getincrementaldecoder("utf-8")().decode  # a read may end within a character
        self.text = ""

    def until(self, pattern: str) -> re.Match[str]:
        """Wait until the screen matches; return the match. The rest is left for the next call."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := re.search(pattern, self.text, re.DOTALL)):
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.text!r}"
            if select.select([self._keyboard], [], [], 0.1)[0]:
                try:
                    self.text += self._decode(os.read(self._keyboard, 4096))
                except OSError:
                    raise AssertionError(f"no {pattern!r} in {self.text!r}, and it has ended") from None
        self.text = self.text[found.end() :]
        return found

    def type(self, text: str) -> None:
        os.write(self._keyboard, text.encode())

    def wait(self) -> int:
        """Return the exit status; the remaining output is read meanwhile."""
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < deadline:
            if select.select([self._keyboard], [], [], 0.1)[0]:
                try:
                    self.text += self._decode(os.read(self._keyboard, 4096))
                except OSError:
                    break
        return self.process.wait(PATIENCE_S)


@pytest.fixture
def source(rig: type[Rig], tmp_path: Path) -> Iterator[Source]:
    """Make an uncalibrated board, and the file of its EEPROM."""
    one = Source(rig, "--calibration", "none", "--seed", 7, "--eeprom", tmp_path / "board.eeprom")
    yield one
    one.end()


def test_a_person_calibrates_a_board(source: Source) -> None:
    """Readings are slightly off the requested values and typed with any prefix. Wrong ones are refused and requested again."""
    source.rig.control.close()
    at = Terminal("calibrate", "--prompt", "--rig", source.ports, *TIMING, "--reference-uncertainty", "0.05%,1000ppm", "--json")
    at.until("Wiring.*voltmeter.*5 V or 4 A.*Point 1 of 3.*2.70 V.*left alone for 0.15 s.*stand still")
    source.set(2.7123, 0.0)
    at.type("\n")
    for typed, words in (
        ("2712.3 V", "beyond the rig's scale of 5 V"),
        ("2.7123 A", "is in A; expected V"),
        ("2,7123", "is not a reading"),
        ("3.3", "is not the 2.7 V of this step"),
        ("2.95 V", "the rig itself sees 2.7"),
    ):
        at.until(r"voltmeter shows \(V")
        at.type(typed + "\n")
        at.until(f"Not taken.*{words}")
    at.until("voltmeter shows")
    at.type("2712.3 mV\n")
    at.until("ammeter shows")
    at.type("0\n")
    for number, volts, amps, shown in ((2, 3.2871, 0.987654, "987.654 mA"), (3, 4.1456, 3.4321, "3.4321")):
        at.until(f"Point {number} of 3.*current limit.*stand still")
        source.set(volts, amps)
        at.type("\n")
        at.until("voltmeter shows")
        at.type(f"{volts}\n")
        at.until("ammeter shows")
        at.type(f"{shown}\n")
    found = json.loads(at.until(r"\{\s+\"rig\".*\n\}")[0].replace("\r", ""))
    assert at.wait() == 0
    assert found["stored"] is True
    assert [point["applied"] for point in found["current"]["points"]] == [0.0, 0.987654, 3.4321]
    # twice the references' standard uncertainty, plus the noise of the mean over a tenth of a second
    assert found["voltage"]["u_gain"] == pytest.approx(1e-3, rel=0.01) and found["current"]["u_gain"] == pytest.approx(2e-3, rel=0.01)
    source.rig.control.open()
    source.set(2.5, 0.5)
    assert source.rig.ask("CAL:STAT?;COUN?") == "1;1"
    source.rig.send("SENS:APER 0.05")
    source.rig.ask("MEAS:VOLT?")  # the time until a setting takes effect
    assert float(source.rig.ask("MEAS:VOLT?")) == pytest.approx(2.5, rel=2e-4)
    assert float(source.rig.ask("MEAS:CURR?")) == pytest.approx(0.5, rel=2e-4)


def test_ctrl_c_leaves_the_board_as_it_was(source: Source, tmp_path: Path) -> None:
    before = source.rig.ask("CAL:VOLT:DATA?;:CAL:CURR:DATA?;:CAL:STAT?;COUN?")
    kept = (tmp_path / "board.eeprom").read_bytes()
    source.rig.control.close()
    at = Terminal("calibrate", "--prompt", "--rig", source.ports, *TIMING)
    at.until("stand still")
    source.set(2.7, 0.0)
    at.type("\n")
    at.until("voltmeter shows")
    at.type("2.7\n")
    at.until("ammeter shows")
    at.type("\x03")
    assert at.wait() != 0
    source.rig.control.open()
    assert source.rig.ask("CAL:VOLT:DATA?;:CAL:CURR:DATA?;:CAL:STAT?;COUN?") == before
    assert (tmp_path / "board.eeprom").read_bytes() == kept
    assert source.rig.ask("SYST:ERR?") == '0,"No error"'


def test_broken_off_behind_the_readings_it_takes_up_what_is_stored(rig: type[Rig], tmp_path: Path) -> None:
    """Ctrl-C comes while the zeros are measured: the registers already have the new lines, and get the factory's back."""
    source = Source(rig, "--eeprom", tmp_path / "board.eeprom")
    question = "CAL:VOLT:DATA?;:CAL:CURR:DATA?;:CAL:STAT?;COUN?"
    source.rig.send("SENS:SWE:TINT 1E-4")
    before, kept = source.rig.ask(question), (tmp_path / "board.eeprom").read_bytes()
    source.rig.control.close()
    points = ("--point", "1,0", "--point", "3,1")
    at = Terminal("calibrate", "--prompt", "--zero", "--rig", source.ports, *points, *TIMING)
    for volts, amps in ((1.02, 0.0), (3.07, 1.01)):
        at.until("stand still")
        source.set(volts, amps)
        at.type("\n")
        at.until("voltmeter shows")
        at.type(f"{volts}\n")
        at.until("ammeter shows")
        made = source.rig.status()["conversions"]
        at.type(f"{amps}\n")
    wait_until(lambda: source.rig.status()["conversions"] > made, "the conversions of autozero")
    at.type("\x03")
    assert at.wait() != 0
    source.rig.control.open()
    assert source.rig.ask(question) == before
    assert (tmp_path / "board.eeprom").read_bytes() == kept
    source.end()


def test_prompts_need_a_terminal() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "wattbell", "calibrate", "--prompt", "--rig", "a,b"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0 and "needs a terminal" in done.stderr


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("90.003 mA", "A", 0.090003),
        ("90.003m", "A", 0.090003),
        (" 3.3 ", "V", 3.3),
        ("3.3e3 mV", "V", 3.3),
        ("12 µA", "A", 12e-6),
        ("-4uA", "A", -4e-6),
        ("0.0033kV", "V", 3.3),
    ],
)
def test_readings(text: str, unit: str, value: float) -> None:
    assert parse_reading(text, unit) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("text", ["", "volts", "3.3 3", "90,003 mA", "3.3 MV", "nan", "inf V", "3.3 W"])
def test_no_readings(text: str) -> None:
    with pytest.raises(ValueError, match="is not a reading"):
        parse_reading(text, "V")


def test_where_two_paths_meet_nothing_is_taken_and_standard_points_are_plausible() -> None:
    assert "two current paths meet" in str(why_not(0.08, 0.07, 0.08, "A", True))
    for fine in (False, True):
        for point in standard_points(fine):
            for value, unit in ((point.voltage, "V"), (point.current, "A")):
                assert why_not(value * 1.01, value, value, unit, fine) is None, point
