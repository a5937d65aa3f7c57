"""A modelled drive's own power meter, power limit, threshold and latency monitor, asked by real Linux' unmodified nvme-cli: one boot.

The truth is the drive's rail in the bus trace, read here without our decoder, and the model's own list of commands. Offsets, codes and
numbers of status are written out here from OCP Datacenter NVMe SSD Specification 2.0, and from NVM Express Base Specification 2.3.
"""

from __future__ import annotations

import csv
import json
import math
import re
import struct
import subprocess
import sys
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.sim.rig.rig_trace import RAIL, TLP_UP, records

ROOT = Path(__file__).resolve().parents[2]
JOB = ROOT / "sim/guest/jobs/own-accounts"
PROFILE = ROOT / "sim/profiles/intel-660p-1tb.toml"
OFFERS = ("power_measurement", "smart_power", "power_limit", "power_threshold", "latency_monitor")
SLOW = {"read_slc_us": 6000, "program_slc_us": 9000, "write_buffer_kib": 512}
"""Flash so slow that commands come into every bucket of the monitor."""
CODE = 0x7FF
"""Status Code Type and Status Code in the number that nvme-cli prints."""
INVALID_FIELD, INVALID_LOG_PAGE, INVALID_POWER_LIMIT = 0x002, 0x109, 0x13E
S, MS = 10**12, 10**9
"""Picoseconds."""
MEMORY_WRITES = {0x40: 12, 0x60: 16}
"""Format and type of memory writes with the bytes of their headers; a CQE is one of 16 bytes."""
THRESHOLDS_MS = (5, 10, 20, 40)
LARGEST = 0b001_001_001_001
"""The monitor reports the largest latency of the reads of each bucket, and the first of the others."""
KINDS = {"Read": 2, "Write": 1, "Trim": 9}
BUCKETS = range(4)

pytestmark = [pytest.mark.xdist_group("real-linux")]


def write_profile(path: Path) -> Path:
    """Write a profile of a slow drive that offers its own accounts."""
    text = PROFILE.read_text()
    for key, value in SLOW.items():
        text, n = re.subn(rf"^{key} = \{{ value = [0-9]+", f"{key} = {{ value = {value}", text, flags=re.MULTILINE)
        assert n == 1
    # Linux asks a drive for events only if the drive declares a kind that Linux knows (OAES): changed namespaces here
    values = {**dict.fromkeys(OFFERS, "true"), "namespaces": "2"}
    lines = "".join(f'{name} = {{ value = {value}, source = "assumed: test" }}\n' for name, value in values.items())
    path.write_text(text.replace("[offer]\n", f"[offer]\n{lines}", 1))
    return path


class Guest:
    """Files that the guest and the drive left."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.codes = {name: int(code) for name, code in (line.split() for line in self.text("codes").splitlines())}

    def text(self, name: str) -> str:
        return (self.run / f"script-{name}.txt").read_text()

    def json(self, name: str) -> Any:
        return json.loads((self.run / f"script-{name}.json").read_text())

    def bytes(self, name: str) -> bytes:
        return (self.run / f"script-{name}.bin").read_bytes()

    def value(self, name: str) -> int:
        """Return the value that nvme-cli shows of a feature."""
        (found,) = re.findall(r"value: ?(?:0x)?([0-9a-f]{8})", self.text(name))
        return int(found, 16)

    def status(self, name: str) -> int:
        """Return the status that nvme-cli shows of a command that failed."""
        said = (self.run / f"script-{name}.err").read_text()
        (found,) = re.findall(r"[Ss]tatus: ?.*\((?:0x)?([0-9a-f]+)\)", said)
        return int(found, 16) & CODE

    @cached_property
    def commands(self) -> list[dict[str, int]]:
        """The model's own list."""
        with (self.run / "truth-commands.csv").open() as file:
            return [{name: int(value) for name, value in row.items() if value} for row in csv.DictReader(file)]

    def admin(self, opcode: int, cdw10: int, cdw11: int | None = None) -> dict[str, int]:
        """Return the only admin command with the low byte of CDW10, and CDW11, that succeeded."""
        found = [c for c in self.commands if (c["qid"], c["opcode"], c["slba"] & 0xFF, c["status"]) == (0, opcode, cdw10, 0)]
        (one,) = [c for c in found if cdw11 is None or c["blocks"] == cdw11]
        return one

    @cached_property
    def seconds_w(self) -> np.ndarray:
        """The rail's mean of each whole second since the supply came."""
        trace = [(time_ps, *struct.unpack("<qq", body)) for kind, _, time_ps, body in records(self.run / "trace.wbt") if kind == RAIL]
        times, amps, volts = np.array(trace, dtype=float).T
        energy = np.concatenate([[0.0], np.cumsum(np.diff(times) * (amps * volts)[:-1])])
        whole = np.arange(0, int(times[-1] // S) + 1) * S
        at = np.searchsorted(times, whole, "right") - 1
        joules = energy[at] + (whole - times[at]) * (amps * volts)[at]
        return np.diff(joules) * 1e-18 / S

    @cached_property
    def measured_seconds(self) -> range:
        """Seconds that begin and end while the meter ran."""
        start, stop = self.admin(9, 0x25, 0x0002_0001), self.admin(9, 0x25, 0)
        return range(-(-start["cqe_ps"] // S), stop["cqe_ps"] // S)


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Guest:
    folder = tmp_path_factory.mktemp("accounts")
    profile = write_profile(folder / "drive.toml")
    words = ("--drive", "vfio", "--profile", profile, "--jobs", JOB, "--out", folder / "run")
    done = subprocess.run([sys.executable, ROOT / "sim/guest/run.py", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return Guest(folder / "run")


@pytest.fixture(scope="module")
def capture(guest: Guest) -> Path:
    """The same traffic and rail, as the rig's tap sees them."""
    out = guest.run.parent / "capture"
    words = ("--bus-trace", guest.run / "trace.wbt", "--workload", guest.run, "--out", out, "--interval", "1e-4", "--fidelity", "fast")
    wattbell = [sys.executable, "-m", "wattbell"]
    subprocess.run([*wattbell, "sim", "replay", *map(str, words)], check=True, capture_output=True)
    return out


def watt(field: int) -> float:
    """Return a power from its value and scale."""
    return (field & 0xFFFF) * {1: 1e-4, 2: 1e-2}[field >> 16]


def word(data: bytes, at: int, size: int = 4) -> int:
    return int.from_bytes(data[at : at + size], "little")


def test_only_what_must_fail_fails(guest: Guest) -> None:
    reserved = {f"get-{feature}-4" for feature in ("23", "24", "25", "c5")}
    refused = {"limit-too-low", "limit-bad-scale", "threshold-bad-type", "meter-bad-type", "meter-bad-action", "meter-too-long"}
    assert {name for name, code in guest.codes.items() if code} == {*reserved, *refused, "get-c5-0", "monitor-bad", "no-such-log"}


def test_refusals_have_the_status_of_the_specification_at_nvme_cli_and_on_the_wire(guest: Guest, capture: Path) -> None:
    refused = {name: guest.status(name) for name, code in guest.codes.items() if code}
    expected = dict.fromkeys(refused, INVALID_FIELD) | {"limit-too-low": INVALID_POWER_LIMIT, "no-such-log": INVALID_LOG_PAGE}
    assert refused == expected
    wire = pl.read_parquet(capture / "commands.parquet").filter((pl.col("qid") == 0) & (pl.col("status") & CODE > 0))
    # the markers of the phase ask for feature D0h
    wire = wire.filter((pl.col("slba") & 0xFF != 0xD0) & pl.col("opcode").is_in([2, 9, 10]))
    assert (wire.sort("cqe_tick")["status"] & CODE).to_list() == list(expected.values())


def test_identify_says_what_there_is(guest: Guest) -> None:
    d = guest.bytes("identify")
    attributes = word(d, 96)
    assert (attributes >> 20 & 1, attributes >> 21 & 1) == (1, 1)  # power limit, power measurement
    assert (watt(word(d, 390, 2) | d[385] << 16), d[263]) == (pytest.approx(4.0), 4)  # MUP, NPSS
    assert (d[392], d[393], word(d, 394, 2)) == (100, 2, 1440)  # IPMSR: 100 times 10 us; MSMT in minutes
    for feature, capabilities in (("23", 5), ("24", 5), ("25", 4), ("c5", 5)):
        assert guest.value(f"get-{feature}-3") == capabilities, feature  # changeable, saveable
        assert feature == "c5" or guest.value(f"get-{feature}-0") == 0


def test_a_limit_removes_states_until_it_is_taken_away(guest: Guest) -> None:
    def states(name: str) -> list[tuple[float, bool]]:
        d = guest.bytes(name)
        descriptors = [d[2048 + 32 * k : 2080 + 32 * k] for k in range(d[263] + 1)]
        return [(word(psd, 0, 2) * (1e-4 if psd[3] & 1 else 1e-2), bool(psd[3] & 2)) for psd in descriptors]

    whole = [(4.0, False), (3.0, False), (2.2, False), (0.03, True), (0.004, True)]
    assert states("identify") == states("identify-after") == [(pytest.approx(power), asleep) for power, asleep in whole]
    assert states("identify-limited") == [(pytest.approx(power), asleep) for power, asleep in whole[2:]]
    assert [guest.value(f"limit-{name}") for name in ("got", "kept", "saved-got", "off-got")] == [0x155F0, 0x155F0, 0x17530, 0]


def test_a_second_above_the_threshold_is_one_event(guest: Guest) -> None:
    assert (guest.value("threshold-got"), guest.value("threshold-over")) == (0x8002_1770, 0x0001_0032)
    entries = []
    for kind, _, time_ps, body in records(guest.run / "trace.wbt"):
        if kind == TLP_UP and len(body) - MEMORY_WRITES.get(body[0], len(body)) == 16:
            entries.append((time_ps, *struct.unpack_from("<II", body, len(body) - 16)))
    # DW0 of a completion: type 4 (one-shot), number 2
    ((time_ps, _, power),) = [entry for entry in entries if entry[1] & 0xFF07 == 0x0204 and entry[2] >> 16 in (1, 2)]
    assert watt(power) == pytest.approx(guest.seconds_w[time_ps // S - 1], abs=3e-4) and watt(power) > 5e-3


def test_the_meters_page_is_the_rail(guest: Guest) -> None:
    d, before = guest.bytes("log-25h"), guest.bytes("page-before")
    assert (before[1], word(before, 8), word(before, 4)) == (0, 0, 64)
    assert (guest.value("meter-running") & 0xFFFF, guest.value("meter-stopped")) == (0x0101, 0x0100)
    seconds = guest.measured_seconds
    watts = guest.seconds_w[seconds.start : seconds.stop]
    assert len(watts) >= 4 and watts.max() > 1.5 * watts.min()
    assert (d[0], d[1], word(d, 2, 2), word(d, 8), d[56]) == (0, 1, 0x0008, len(watts), 5)
    assert watt(word(d, 40)) == pytest.approx(watts.mean(), abs=3e-4)
    assert watt(word(d, 44)) == pytest.approx(watts.max(), abs=3e-4)
    stop_ps = guest.admin(9, 0x25, 0)["cqe_ps"]
    largest_ends_ps = (seconds.start + int(watts.argmax()) + 1) * S
    assert word(d, 16, 6) - word(d, 48, 6) == pytest.approx((stop_ps - largest_ends_ps) / MS, abs=2)
    n, size, width = word(d, 12, 2), word(d, 24, 2), word(d, 26, 2) * 1e-3
    bins = [(word(d, 64 + size * k), watt(word(d, 64 + size * k + 4))) for k in range(n)]
    assert [edge for _, edge in bins] == pytest.approx([width * k for k in range(n)])
    near = np.abs(watts / width - np.round(watts / width)) * width < 3e-4
    assert not near.any(), "no second at the edge of a bin: another load, then"
    assert [count for count, _ in bins] == np.bincount((watts / width).astype(int), minlength=n).tolist()


def test_smart_has_energy_and_the_last_second(guest: Guest) -> None:
    d, found = guest.bytes("smart-page"), guest.json("smart")
    # both readings come within the same second, or in two of the same idle time
    read = [c for c in guest.commands if (c["qid"], c["opcode"], c["slba"] & 0xFF) == (0, 2, 2)][-1]
    assert watt(word(d, 240)) == pytest.approx(guest.seconds_w[read["fetch_ps"] // S - 1], abs=3e-4)
    whole = guest.seconds_w[: read["fetch_ps"] // S]
    assert word(d, 232, 8) == math.ceil(whole.sum() / 3600)
    writes, reads = word(d, 80, 16), word(d, 64, 16)
    assert (found["host_write_commands"], found["host_read_commands"]) == (writes, reads) and writes == 64
    if "op_lifetime_energy_consumed" in found:  # nvme-cli from 3 on
        assert found["op_lifetime_energy_consumed"] == word(d, 232, 8)


def monitored(guest: Guest) -> dict[tuple[str, int], list[tuple[float, int]]]:
    """Return latencies in ms and ends in ps by kind and bucket, in order of their ends, from the model's own list."""
    first, last = guest.admin(9, 0xC5)["cqe_ps"], page_read(guest)
    found: dict[tuple[str, int], list[tuple[float, int]]] = {(kind, bucket): [] for kind in KINDS for bucket in BUCKETS}
    names = {opcode: kind for kind, opcode in KINDS.items()}
    for c in sorted(guest.commands, key=lambda c: c["cqe_ps"]):
        latency_ms = (c["cqe_ps"] - c["fetch_ps"]) / MS
        if c["qid"] and c["opcode"] in names and first < c["cqe_ps"] < last and latency_ms >= THRESHOLDS_MS[0]:
            bucket = sum(latency_ms >= threshold for threshold in THRESHOLDS_MS) - 1
            found[names[c["opcode"]], bucket].append((latency_ms, c["cqe_ps"]))
    return found


def reported(commands: list[tuple[float, int]], largest: bool) -> tuple[float, int]:
    """Return the command with the latency and time stamp of the monitor."""
    if not commands:
        return 0, 0
    return max(commands) if largest else commands[0]


def page_read(guest: Guest) -> int:
    """Return when the drive fetched the first reading of the monitor's page."""
    return min(c["fetch_ps"] for c in guest.commands if (c["qid"], c["opcode"], c["slba"] & 0xFF) == (0, 2, 0xC3))


def test_nvme_clis_plugin_and_the_raw_page_show_every_slow_command(guest: Guest) -> None:
    shown, d = guest.json("monitor"), guest.bytes("log-c3h")
    assert [shown[f"Active Threshold {letter}"] for letter in "ABCD"] == list(THRESHOLDS_MS)
    assert (shown["Feature Status"], shown["Active Latency Configuration"], shown["Log Page Version"]) == (7, LARGEST, 1)
    assert shown["Log Page GUID"] == d[:-17:-1].hex().upper() == "85D45E58D4E643709C6C84D08CC07A92"
    true = monitored(guest)
    assert all(true[kind, bucket] for kind, bucket in (("Read", 0), ("Read", 1), ("Write", 3)))
    stamps, ends = [], []
    for place, (kind, _) in enumerate((("Trim", 9), ("Write", 1), ("Read", 2))):
        for bucket in BUCKETS:
            commands = true[kind, bucket]
            raw = word(d, 0x24 + 16 * bucket + 4 * place)
            assert shown[f"Active Bucket Counter: Bucket {bucket}"][kind] == raw == len(commands), (kind, bucket)
            row = 3 * (3 - bucket) + place
            latency_ms, end = reported(commands, LARGEST >> (3 * bucket + 2 - place) & 1 == 1)
            assert shown[f"Active Measured Latency: Bucket {bucket}"][kind] == word(d, 0xC0 + 2 * row, 2)
            assert word(d, 0xC0 + 2 * row, 2) == pytest.approx(latency_ms, abs=0.5 + 1e-6)
            stamp, text = word(d, 0x60 + 8 * row, 8), shown[f"Active Latency Time Stamp: Bucket {bucket}"][kind]
            assert (text == "NA") == (stamp == 2**64 - 1) == (not commands)
            if commands:
                told = datetime.strptime(text + "000", "%Y-%m-%dD|%H:%M:%S:%f")
                assert (told - datetime(1970, 1, 1)).total_seconds() * 1000 == pytest.approx(stamp, abs=0.5)
                stamps.append(stamp)
                ends.append(end / MS)
    # all stamps are of one clock, which the host set
    assert np.ptp(np.array(stamps) - np.array(ends)) <= 1.0 + 1e-6 and word(d, 0xD8, 2) > 0


def test_the_tap_sees_the_same_commands_in_the_same_buckets(guest: Guest, capture: Path) -> None:
    commands = pl.read_parquet(capture / "commands.parquet")
    admin = commands.filter(pl.col("qid") == 0).with_columns(pl.col("slba") & 0xFF)
    (configured,) = admin.filter((pl.col("opcode") == 9) & (pl.col("slba") == 0xC5) & (pl.col("status") == 0))["cqe_tick"]
    last = admin.filter((pl.col("opcode") == 2) & (pl.col("slba") == 0xC3))["fetch_tick"].min()
    between = commands.filter((pl.col("qid") > 0) & pl.col("cqe_tick").is_between(configured, last))
    for (kind, bucket), true in monitored(guest).items():
        edges = (*THRESHOLDS_MS, math.inf)
        ms = (pl.col("cqe_tick") - pl.col("fetch_tick")) * 1e-6
        seen = between.filter((pl.col("opcode") == KINDS[kind]) & (ms >= edges[bucket]) & (ms < edges[bucket + 1]))
        assert len(seen) == len(true), (kind, bucket)


def test_the_judge_finds_the_drives_own_accounts_right(guest: Guest, capture: Path) -> None:
    pages = ("--power-log", guest.run / "script-log-25h.bin", "--latency-log", guest.run / "script-log-c3h.bin")
    words = [sys.executable, "-m", "wattbell", "judge", capture, "--requirements", "nvme,ocp", *pages, "--json"]
    done = subprocess.run([str(one) for one in words], capture_output=True, text=True, check=False)
    assert done.returncode in (3, 4), done.stderr
    rows = {row["id"]: row["verdict"] for row in json.loads(done.stdout)["drives"][0]["verdicts"]}
    own = {name: verdict for name, verdict in rows.items() if name.startswith(("POWER-MEASUREMENT", "LATENCY-MONITOR"))}
    # the load of this boot may let several begins of the drive's seconds fit; their spread is then part of a mean's uncertainty
    unsure = ("POWER-MEASUREMENT", "POWER-MEASUREMENT-largest")
    assert len(own) == 8 and {own[name] for name in unsure} <= {"pass", "conditional pass"}, own
    assert {verdict for name, verdict in own.items() if name not in unsure} == {"pass"}, own
