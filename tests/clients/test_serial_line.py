"""Programs in a Linux guest, at its serial ports: sigrok's `ols` on `wattbell sump`; on a rig pyserial, `scpi-dmm`, `wattbell
record`.

The ports are QEMU's 16550s under the kernel's 8250 driver. Behind them two virtual rigs play the same trace of the drive model.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.clients.trace_samples import BIT, PIN_MASK, Truth, Words, aligned, rises
from tests.patience import PATIENCE_S
from tests.sim.rig.rig_process import ORIGIN_TICK, Rig, find, run
from tests.sim.rig.rig_trace import CLKREQ_N, PERST_N

ROOT = Path(__file__).resolve().parents[2]

from wattbell.capture import open_capture  # noqa: E402
from wattbell.probes import PROBES  # noqa: E402
from wattbell.sigrok import DECODERS  # noqa: E402

pytestmark = [pytest.mark.xdist_group("real-linux")]

JOB = "[reads]\nrw=randread\nbs=4k\niodepth=2\nsize=1m\nio_size=128k\ndirect=1\n"
PLAN = """
condition = "test-data"
[[step]]
name = "reads"
fio = "reads.fio"
[[step]]
name = "wake"
wake = { idle_s = 0.06, slba = 64 }
aspm = "l1.2"
[[step]]
name = "rest"  # enough for a server that is slow to stop the rig behind the wake-up
idle_s = 0.3
"""
LEVEL_A = 0.25
NAMES = ",".join(f"{number}={name}" for number, name in enumerate(PROBES))
SCRIPT = rf"""
ols() {{
    out=$1; shift
    for n in 1 2 3 4 5 6 7 8; do  # it waits 20 ms for its first answer, which a busy machine may not give
        sigrok-cli -d ols:conn=/dev/ttyS1 "$@" > $out.txt 2> $out.err; code=$?
        grep -q -e 'No devices found' -e 'Sump Logic Analyzer' $out.txt $out.err || break  # the second: a name that comes too late
    done
    echo "$out $code" >> codes
}}
ols show --show
ols perst --config samplerate=100k:captureratio=20 --samples 1000 -t 1=01 -O csv
ols doorbell --config samplerate=10m:captureratio=10 --samples 2000 -C '{NAMES}' -t DOORBELL=01 -o doorbell.sr
ols wake --config samplerate=1m:captureratio=50:rle=on --samples 600 -t 9=01 -O csv
python - > pyserial.txt 2>&1 <<'END'
import serial
with serial.Serial("/dev/ttyS3", 115200, timeout={PATIENCE_S}) as port:
    for question in (b"*IDN?", b"*CLS;*OPC?", b'SYST:LANG "34405A";:CONF:VOLT;:SENS:APER 1 MS;:READ?'):
        port.write(question + b"\n")
        print(port.readline().decode().strip())
END
for n in $(seq 40); do  # it waits a second for *IDN?, in which a busy machine may not simulate the core as far
    sigrok-cli -d scpi-dmm:conn=/dev/ttyS3 --samples 3 -O analog > dmm.txt 2> dmm.err
    test $(grep -c P1: dmm.txt) = 3 && break
done
python - > after.txt 2>&1 <<'END'
import serial
with serial.Serial("/dev/ttyS3", 115200, timeout={PATIENCE_S}) as port:
    port.write(b'SYST:LANG "WATTBELL";:SYST:LANG?;ERR?\n')
    print(port.readline().decode().strip())
END
never() {{
    for n in 1 2 3 4 5 6 7 8; do  # it waits 20 ms for its first answer too
        sigrok-cli -d ols:conn=/dev/ttyS1 --config samplerate=1m --samples 600 -t 1=0 -O csv > never.txt 2>&1 &
        echo $! > never.pid
        wait $!
        grep -q 'No devices found' never.txt || break
    done
}}
never &  # waits until it is killed: while the other rig plays all of the same trace, over a slower line
date +%s.%N > times
wattbell record --rig /dev/ttyS2,/dev/ttyS3 --out capture --decimation 500 --keep-stream --json > record.json 2> record.err
echo "record $?" >> codes
date +%s.%N >> times
n=0  # on a busy machine the other rig may not have played its trace yet
until grep -q 'stopped before the trigger fired' said || [ $n -gt 1000 ]; do sleep 0.1; n=$((n + 1)); done
kill $(cat never.pid) || true
wait
ols again --show
"""


@dataclass
class Guest:
    """The files the guest left."""

    folder: Path
    truth: Truth
    said: str
    """Bytes as captured by the server of the SUMP port."""

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def samples(self, name: str) -> Words:
        """Return a capture in sigrok's CSV."""
        rows = [line.split(",") for line in self.text(name).splitlines() if re.fullmatch(r"[01](,[01])+", line)]
        return np.array(rows, np.int64) @ (1 << np.arange(len(rows[0])))


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Guest:
    folder = tmp_path_factory.mktemp("line")
    (folder / "plan.toml").write_text(PLAN)
    (folder / "reads.fio").write_text(JOB)
    trace, commands = folder / "t.wbt", folder / "commands.csv"
    run([find("wattbell-ssd"), "run", "--plan", folder / "plan.toml", "--trace", trace, "--truth-commands", commands])
    rigs = [Rig(folder / serial, trace, "--serial", serial, ports=False) for serial in ("SUMP1", "LINE1")]
    for rig in rigs:
        rig.control.close()
    environment = {**os.environ, "WATTBELL_RUNTIME": str(rigs[0].runtime)}
    words = ["sump", "--rig", "SUMP1", "--level", f"current={LEVEL_A}", "--json"]
    (folder / "box").mkdir()
    said = folder / "box/said"  # where the guest can read it
    with said.open("w") as file:
        server = subprocess.Popen(
            [sys.executable, "-m", "wattbell", *words], stdout=subprocess.PIPE, stderr=file, text=True, env=environment
        )
    try:
        assert server.stdout
        told = json.loads(server.stdout.readline())
        assert told["channels"] == [*PROBES, f"current>{LEVEL_A}A"]
        ports = [told["port"], rigs[1].entry["data"], rigs[1].entry["control"]]
        command = [sys.executable, ROOT / "sim/guest/box.py", "--no-drive", "--out", folder / "box", "--script", SCRIPT]
        command += [word for port in ports for word in ("--port", port)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        server.terminate()
        server.wait(PATIENCE_S)
        for rig in rigs:
            rig.close()
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert server.returncode == 0 and "Traceback" not in said.read_text(), said.read_text()
    return Guest(folder / "box", Truth(trace, commands), said.read_text())


def test_sigrok_finds_the_analyser_with_its_channels(guest: Guest) -> None:
    codes = dict(line.split() for line in guest.text("codes").splitlines())
    assert codes == dict.fromkeys(("show", "perst", "doorbell", "wake", "again", "record"), "0"), guest.said
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
    assert re.search(r"the capture began 9\d samples after the window", guest.said)


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
    """At 1 MHz with RLE: CLKREQ# falls, the link leaves L1.2, the drive's current rises, in the order and at the times of the trace."""
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
    assert "the rig stopped before the trigger fired; nothing was sent" in guest.said
    # sigrok waits 20 ms for the list of channels, too; one that comes later, on a busy machine, it takes for samples of 32 channels
    if "(32/32)" not in guest.text("never.txt"):
        assert not re.search(r"^[01],", guest.text("never.txt"), flags=re.M)


def test_pyserial_speaks_to_a_rig(guest: Guest) -> None:
    identity, complete, volts = guest.text("pyserial.txt").splitlines()
    assert identity.startswith("Wattbell,virtual-rig,LINE1,")
    assert complete == "1" and float(volts) > 0


def test_sigrok_reads_the_rail_over_the_serial_line(guest: Guest) -> None:
    """sigrok's `scpi-dmm` takes the rig for a 34405A. Here libsigrok's serial layer uses the kernel's tty, not a socket."""
    volts = float(guest.text("pyserial.txt").splitlines()[-1])
    readings = re.findall(r"P1: ([-0-9.]+) (m?)V DC", guest.text("dmm.txt"))
    assert len(readings) == 3, guest.text("dmm.txt") + guest.text("dmm.err")
    for number, milli in readings:
        assert float(number) * (1e-3 if milli else 1) == pytest.approx(volts, abs=0.05), "the rail gives way to what the drive draws"
    assert guest.text("after.txt").strip() == '"WATTBELL";0,"No error"'


def test_record_over_the_serial_line_loses_nothing(guest: Guest) -> None:
    told = json.loads(guest.text("record.json"))
    assert told["ended"] == "the rig stopped"
    assert told["lossless"] is True, told["loss"]
    assert told["loss"]["bytes_in"] == (guest.folder / "capture/stream.wbs").stat().st_size
    wire = open_capture(guest.folder / "capture").commands.select(pl.col("doorbell_tick", "fetch_tick", "cqe_tick")).collect()
    for name in ("DOORBELL", "FETCH", "CQE"):
        ticks = np.unique(wire[f"{name.lower()}_tick"].to_numpy()) - ORIGIN_TICK
        assert np.array_equal(ticks, guest.truth.strobes[name])
    begun, ended = (float(line) for line in guest.text("times").splitlines())
    print(f"record: {ended - begun:.0f} s for {told['loss']['bytes_in']} bytes; now {time.strftime('%T')}")
