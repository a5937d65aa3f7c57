"""sigrok's `ols` in a Linux guest, at serial ports with `wattbell sump` behind them.

The ports are QEMU's 16550s under the kernel's 8250 driver. Each trigger has a virtual rig and an analyser of its own. A rig that is stopped
late on a busy machine would have played past the event that the next trigger looks for.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from wattbell.export.sigrok import DECODERS
from wattbell.probes import PROBES

from tests.clients.trace_samples import BIT, PIN_MASK, Truth, Words, aligned, modelled, rises
from tests.patience import PATIENCE_S
from tests.sim.rig.rig_process import ROOT, Rig, run
from tests.sim.rig.rig_trace import CLKREQ_N, PERST_N

pytestmark = [pytest.mark.xdist_group("real-linux")]

LEVEL_A = 0.25
NAMES = ",".join(f"{number}={name}" for number, name in enumerate(PROBES))
PERST, DOORBELL, WAKE = (f"/dev/ttyS{number}" for number in range(1, 4))
SCRIPT = rf"""
ols() {{
    port=$1; out=$2; shift 2
    for n in $(seq 40); do  # without an answer within 20 ms it sees no device, and leaves the rig alone
        sigrok-cli -d ols:conn=$port "$@" > $out.txt 2> $out.err; code=$?
        grep -q 'No devices found' $out.txt $out.err || break
    done
    echo "$out $code" >> codes
}}
ols {PERST} show --show
ols {PERST} perst --config samplerate=100k:captureratio=20 --samples 1000 -t 1=01 -O csv
ols {DOORBELL} doorbell --config samplerate=10m:captureratio=10 --samples 2000 -C '{NAMES}' -t DOORBELL=01 -o doorbell.sr
ols {WAKE} wake --config samplerate=1m:captureratio=50:rle=on --samples 600 -t 0=1,3=0,4=1,9=01 -O csv
for n in $(seq 40); do
    sigrok-cli -d ols:conn={PERST} --config samplerate=1m --samples 600 -t 1=0 -O csv > never.txt 2>&1 &
    never=$!  # waits until it is killed; the rig plays the rest of its trace first
    until grep -q -e 'stopped before the trigger fired' -e 'no capture' said-{PERST[-1]} || ! kill -0 $never; do sleep 0.1; done
    grep -q 'No devices found' never.txt || break
done
kill $never || true
wait
ols {PERST} again --show
"""
TRIES = 8
"""sigrok waits 20 ms for each answer of an `ols`. If an answer behind the first is late on a busy machine, sigrok starts the rig all the
same, and the captures after it are spoilt, too.
"""


@dataclass
class Guest:
    """The files the guest left."""

    folder: Path
    truth: Truth
    said: Mapping[str, str]
    """Messages of the analyser at each port to its user."""

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def samples(self, name: str) -> Words:
        """Return a capture in sigrok's CSV."""
        rows = [line.split(",") for line in self.text(name).splitlines() if re.fullmatch(r"[01](,[01])+", line)]
        return np.array(rows, np.int64) @ (1 << np.arange(len(rows[0])))


def too_late(box: Path) -> bool:
    """Return whether sigrok did without an answer: it saw no analyser, no name, or the 32 channels of the first model."""
    said = "".join(path.read_text() for path in [*box.glob("*.txt"), *box.glob("*.err")])
    with zipfile.ZipFile(box / "doorbell.sr") if (box / "doorbell.sr").exists() else nullcontext() as session:
        channels = "10" if session is None else re.findall(r"total probes=(\d+)", session.read("metadata").decode())[0]
    return channels != "10" or any(sign in said for sign in ("No devices found", "Sump Logic Analyzer", "with 32 channels", "/32)"))


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Guest:
    for _ in range(TRIES):
        seen = captured(tmp_path_factory.mktemp("line"))
        if not too_late(seen.folder):
            break
    return seen


def captured(folder: Path) -> Guest:
    """Play the trace to three analysers, with sigrok in a guest at their ports."""
    trace, commands = modelled(folder)
    box = folder / "box"
    box.mkdir()
    said = {port: box / f"said-{port[-1]}" for port in (PERST, DOORBELL, WAKE)}  # where the guest can read it
    with ExitStack() as stack:
        ports = []
        for port, path in said.items():
            rig = Rig(folder / f"rig-{port[-1]}", trace, ports=False)
            stack.callback(rig.close)
            rig.control.close()
            ports.append(_analyser(stack, rig, path))
        command = [sys.executable, ROOT / "sim/guest/box.py", "--no-drive", "--out", box, "--script", SCRIPT]
        command += [word for port in ports for word in ("--port", port)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    words = {port: path.read_text() for port, path in said.items()}
    assert "Traceback" not in "".join(words.values()), words
    return Guest(box, Truth(trace, commands), words)


def _analyser(stack: ExitStack, rig: Rig, said: Path) -> str:
    """Start ``wattbell sump`` on the rig; return its port. Its messages go to the file ``said``."""
    words = ["sump", "--level", f"current={LEVEL_A}", "--json"]
    environment = {**os.environ, "WATTBELL_RUNTIME": str(rig.runtime)}
    with said.open("w") as file:
        server = subprocess.Popen(
            [sys.executable, "-m", "wattbell", *words], stdout=subprocess.PIPE, stderr=file, text=True, env=environment
        )

    def end() -> None:
        server.terminate()
        assert server.wait(PATIENCE_S) == 0, said.read_text()

    stack.callback(end)
    assert server.stdout
    told = json.loads(server.stdout.readline())
    assert told["channels"] == [*PROBES, f"current>{LEVEL_A}A"]
    return str(told["port"])


def test_sigrok_finds_the_analyser_with_its_channels(guest: Guest) -> None:
    codes = dict(line.split() for line in guest.text("codes").splitlines())
    assert codes == dict.fromkeys(("show", "perst", "doorbell", "wake", "again"), "0"), guest.said
    for name in ("show.txt", "again.txt"):
        assert "ols - Wattbell FPGA version" in guest.text(name)
        assert "with 10 channels: 0 1 2 3 4 5 6 7 8 9" in guest.text(name)


def test_a_trigger_on_perst_shows_the_drives_start(guest: Guest) -> None:
    """At 100 kHz: 8 ms from the release of PERST# on, with the link's training."""
    seen = guest.samples("perst.txt")
    assert len(seen) == 1000
    (released,) = rises(seen, BIT["PERST#"])
    starts = aligned(guest.truth, seen, 10_000, released, guest.truth.change(PERST_N, 1))
    assert starts, "no command was there"
    pins = seen[released:] & PIN_MASK
    assert any(np.array_equal(pins, guest.truth.words(start, 10_000, 1000)[released:] & PIN_MASK) for start in starts)
    assert released == 200 - 2, "sigrok's stages: low, high, and one that always matches"
    assert re.search(r"the capture began 9\d samples after the window", guest.said[PERST])


def test_a_trigger_on_a_doorbell_shows_every_strobe_in_its_sample(guest: Guest) -> None:
    """At 10 MHz: the whole start of the drive, 200 us, equal to the model's own account in every sample."""
    listing = run(["sigrok-cli", "-i", guest.folder / "doorbell.sr", "-O", "csv"]).stdout
    rows = [line.split(",") for line in listing.splitlines() if re.fullmatch(r"[01](,[01])+", line)]
    seen = np.array(rows, np.int64) @ (1 << np.arange(len(PROBES)))
    first = rises(seen, BIT["DOORBELL"])[0]
    doorbell = int(guest.truth.strobes["DOORBELL"][0])
    starts = aligned(guest.truth, seen, 100, first, doorbell)
    assert 0 < len(starts) <= 20, "of 100 phases of the samples one must give what was seen, and few can"
    assert np.array_equal(seen, guest.truth.words(starts[0], 100, 2000)), "the link is up, nothing moves but commands"
    assert len(rises(seen, BIT["CQE"])) > 10


def test_the_session_has_commands_for_the_decoder(guest: Guest) -> None:
    pins = ":".join(["nvme", "in_flight=one", *(f"{name.lower().rstrip('#')}={name}" for name in PROBES)])
    words = ["sigrok-cli", "-i", guest.folder / "doorbell.sr", "-P", pins, "-A", "nvme=command", "--protocol-decoder-samplenum"]
    said = run(words, env={**os.environ, "SIGROKDECODE_DIR": str(DECODERS)}).stdout
    spans = [(int(a), int(b)) for a, b in re.findall(r"^(\d+)-(\d+) nvme-1", said, flags=re.M)]
    doorbells, cqes = guest.truth.strobes["DOORBELL"], guest.truth.strobes["CQE"]
    assert len(spans) > 10
    for (first, last), doorbell, cqe in zip(spans, doorbells, cqes):  # one command in flight at a time: the admin queue
        assert abs((last - first) * 100 - int(cqe - doorbell)) <= 100


def test_a_trigger_on_the_rail_shows_what_woke_the_drive(guest: Guest) -> None:
    """At 1 MHz with RLE: CLKREQ# falls, the link leaves L1.2, the drive's current rises, in the order and at the times of the trace.

    The first stage waits for L1.2 with CLKREQ# high: commands of the drive's start draw as much as the wake-up.
    """
    seen = guest.samples("wake.txt")
    assert len(seen) == 600
    falls = rises(seen ^ BIT["CLKREQ#"], BIT["CLKREQ#"])
    begin = guest.truth.change(CLKREQ_N, 0)
    starts = aligned(guest.truth, seen, 1000, falls[0], begin)
    assert starts, "the strobes are not the trace's"
    pins = seen & PIN_MASK
    assert any(np.array_equal(pins, guest.truth.words(start, 1000, 600) & PIN_MASK) for start in starts)
    assert len(falls) == 2, "the drive goes back to L1.2 and is woken again"
    step = min(time for time, amps in guest.truth.amps if amps > LEVEL_A and time >= begin)
    above = rises(seen, 1 << len(PROBES))
    assert above[0] == 300 - 2
    assert 0 <= (above[0] - falls[0]) * 1000 - (step - begin) <= 6000, "front end of 2 us, a conversion a microsecond"


def test_a_trigger_that_never_comes_sends_nothing_and_is_told(guest: Guest) -> None:
    assert "the rig stopped before the trigger fired; nothing was sent" in guest.said[PERST]
    assert not re.search(r"^[01],", guest.text("never.txt"), flags=re.M)
