"""A second account of a model's run, from its bus trace and its profile's text alone.

It is written independently of the model's own account (``sim/ssd/src/power/account.rs``) and of the host's measuring code. It knows
the PCIe and NVMe formats, the rail records, and the figures of the profile. Its results are compared with the model's truth part by
part.

Formulas:
    data path: bytes of user data on the bus / ``data_path_mb_per_s`` * ``data_path_w``
    channel: bytes / ``channel_mb_per_s`` * ``channel_w``
    die: array operations * their time * their power, for jobs with sizes that determine the number of operations
    link, core: time in each state * its power
    supply: half of capacitance * voltage squared
"""

from __future__ import annotations

import json
import struct
import subprocess
import tomllib
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

SIM = Path(__file__).resolve().parents[3] / "sim"
PROFILES = SIM / "profiles"
PS_S = 1e-12


def profile_tables(name: str) -> dict[str, Any]:
    """Return a profile's figures by table and name, on top of common.toml; ``power_state`` is a list of tables."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return value["value"] if "source" in value else {key: bare(inner) for key, inner in value.items()}
        return [bare(item) for item in value] if isinstance(value, list) else value

    common, own = (bare(tomllib.loads((PROFILES / f"{n}.toml").read_text())) for n in ("common", name))
    for key, value in own.items():
        common[key] = {**common[key], **value} if isinstance(value, dict) and key in common else value
    return common


def profile_text(tables: dict[str, Any]) -> str:
    """Return the tables as a profile's TOML, each figure with a source."""
    lines = [f'{key} = "{tables[key]}"' for key in ("name", "title")]

    def table(head: str, figures: dict[str, Any]) -> None:
        lines.append(head)
        for key, value in figures.items():
            lines.append(f'{key} = {{ value = {json.dumps(value)}, source = "assumed: for a test" }}')

    for key, value in tables.items():
        if isinstance(value, dict):
            table(f"[{key}]", value)
    for state in tables["power_state"]:
        operational = state["operational"]
        table("[[power_state]]", {k: v for k, v in state.items() if k != "operational"})
        lines.append(f"operational = {json.dumps(operational)}")
    return "\n".join(lines) + "\n"


@dataclass
class Bus:
    """Content of the trace. Times in picoseconds."""

    rail: list[tuple[int, int, int]] = field(default_factory=list)
    """Start time, nA, nV."""
    link: list[tuple[int, str]] = field(default_factory=list)
    """Start time, state."""
    clkreq: list[tuple[int, int]] = field(default_factory=list)
    user: list[tuple[int, str, int]] = field(default_factory=list)
    """User data: time, "read" or "write", bytes."""
    doorbells: list[tuple[int, int]] = field(default_factory=list)
    """Submission queue tails: time, queue."""
    cqes: list[int] = field(default_factory=list)
    markers: list[tuple[int, int]] = field(default_factory=list)
    """Markers: time of the SQE, value."""
    lent_list: tuple[int, int] = (0, 0)
    """Descriptor list of the host memory buffer (Set Features 0Dh): address, bytes."""
    lent: list[tuple[int, int]] = field(default_factory=list)
    """Host memory buffer: start and end of each range."""
    lent_traffic: list[tuple[int, str, int]] = field(default_factory=list)
    """TLPs of the drive there: time, "reads" or "writes", bytes."""
    asked: dict[int, int] = field(default_factory=dict)
    """Address of the last read with each tag."""
    tlps: list[tuple[int, int]] = field(default_factory=list)
    """Every TLP: time, bytes of header and payload."""
    end: int = 0

    def bounds(self) -> dict[int, tuple[int, int]]:
        """Return phase -> its two doorbells, in whole nanoseconds."""
        admin = [time for time, queue in self.doorbells if queue == 0]
        at = {value: admin[bisect_right(admin, time) - 1] // 1000 * 1000 for time, value in self.markers}
        return {value >> 8: (time, at[value + 1]) for value, time in at.items() if value & 0xFF == 1}


def read_bus(trace: Path) -> Bus:
    """Read a trace at full detail with ``wattbell-bus-dump``."""
    program = SIM / "target" / "release" / "wattbell-bus-dump"
    bus = Bus()
    with subprocess.Popen([program, trace], stdout=subprocess.PIPE) as dump:
        assert dump.stdout is not None
        for line in dump.stdout:
            _take(bus, json.loads(line))
    assert dump.returncode == 0
    return bus


def _take(bus: Bus, event: dict[str, Any]) -> None:
    time = event.get("time_ps", 0)
    if "rail" in event:
        bus.rail.append((time, event["rail"]["current_na"], event["rail"]["voltage_nv"]))
    elif "sideband" in event:
        if event["sideband"] == "LinkState":
            bus.link.append((time, event["value"]))
        elif event["sideband"] == "ClkreqN":
            bus.clkreq.append((time, event["value"]))
    elif "tlp" in event:
        _take_tlp(bus, time, event)
    elif "end" in event:
        bus.end = time


def _take_tlp(bus: Bus, time: int, event: dict[str, Any]) -> None:
    data = bytes.fromhex(event["tlp"])
    kind, length = data[0], 4 * ((data[2] & 3) << 8 | data[3])
    head = 16 if kind & 0x20 else 12
    payload = data[head:]
    bus.tlps.append((time, len(data)))
    address = int.from_bytes(data[8:head], "big")
    if kind in {0x00, 0x20} and event["direction"] == "up":  # memory read
        bus.asked[_tag(data, data[6])] = address
        if _is_lent(bus, address):
            bus.lent_traffic.append((time, "reads", length))
    elif kind in {0x40, 0x60}:  # memory write
        if event["direction"] == "up":
            if _is_lent(bus, address):
                bus.lent_traffic.append((time, "writes", length))
            elif event["left_out"]:
                bus.user.append((time, "read", length))
            elif length == 16:
                bus.cqes.append(time)
        elif address & 0x3FFF >= 0x1000 and not (address & 0xFFF) // 4 & 1:
            bus.doorbells.append((time, (address & 0xFFF) // 8))
    elif kind == 0x4A and event["direction"] == "down":  # completion with data
        asked = bus.asked[_tag(data, data[10])]
        if event["left_out"]:
            if not _is_lent(bus, asked):
                bus.user.append((time, "write", length))
        elif (asked, length) == bus.lent_list:
            bus.lent = [(base, base + 4096 * pages) for base, pages in struct.iter_unpack("<QQ", payload)]
        elif length == 64 and payload[0] == 0x09 and payload[40] == 0x0D:
            address, entries = struct.unpack_from("<QI", payload, 52)
            bus.lent_list = (address, 16 * entries)
        elif length == 64 and payload[0] == 0x0A and payload[40] == 0xD0:
            bus.markers.append((time, struct.unpack_from("<I", payload, 44)[0]))


def _tag(data: bytes, low: int) -> int:
    """Return the tag whose lower eight bits are ``low``; T9 and T8 are in byte 1 (PCI Express, Common Packet Header Fields)."""
    return (data[1] >> 7 & 1) << 9 | (data[1] >> 3 & 1) << 8 | low


def _is_lent(bus: Bus, address: int) -> bool:
    return any(start <= address < end for start, end in bus.lent)


def rail_within(bus: Bus, start: int, end: int) -> tuple[float, float, float]:
    """Return energy in J, and least and greatest power in W, of the rail between two times."""
    joules, powers = 0, []
    edges = [*bus.rail, (bus.end, 0, 0)]
    for (since, current, voltage), (until, _, _) in pairwise(edges):
        time = min(until, end) - max(since, start)
        if time > 0:
            joules += current * voltage * time
            powers.append(current * voltage)
    return joules * 1e-30, min(powers) * 1e-18, max(powers) * 1e-18


def link_within(bus: Bus, start: int, end: int, names: dict[int, str]) -> dict[str, float]:
    """Return the seconds in each state that the account has: L1, L1.2, off, and L0 for every other."""
    seconds: dict[str, float] = {}
    for (since, state), (until, _) in pairwise([*bus.link, (max(bus.end, end), 0)]):
        time = min(until, end) - max(since, start)
        if time > 0:
            name = names.get(state, "l0")
            seconds[name] = seconds.get(name, 0.0) + time * PS_S
    return seconds


def user_bytes(bus: Bus, what: str, start: int, end: int) -> int:
    """Return the bytes of user data on the bus between two times."""
    return sum(size for time, kind, size in bus.user if kind == what and start <= time < end)


def array_ops(size: int, count: int, page: int) -> int:
    """Return the array operations of ``count`` aligned I/Os of ``size`` bytes on multi-plane pages of ``page``."""
    return count * max(1, size // page)
