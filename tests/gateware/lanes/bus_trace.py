"""TLPs of a bus trace (docs/bus-trace.md) with pauses shortened, so that every cycle can be simulated."""

from __future__ import annotations

import gzip
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.sim.guest import tap

ROOT = Path(__file__).resolve().parents[3]
PS = 1000
"""Picoseconds in a nanosecond, which is a tick."""


class Timed(NamedTuple):
    """A TLP. `ns`: time at which it should begin, from the first TLP on. `direction`: 0 from the host, 1 from the drive."""

    ns: int
    direction: int
    raw: bytes


def _whole(raw: bytes) -> bytes:
    """Return a TLP with zeros for a payload that the trace omits."""
    words = ((raw[2] & 3) << 8 | raw[3] or 1024) if raw[0] & 0x40 else 0
    return raw + bytes(4 * (3 + (raw[0] >> 5 & 1) + words) - len(raw))


_RAW_NS = 2500
"""Pause left after Identify data, in ns.

This data goes out raw, at most 1 byte per ns, and 4 KiB can be queued. Its TLPs are therefore also set twice as far apart. If a
drive gets one Identify after the other at full speed, raw TLPs are lost, which is reported.
"""
_IDENTIFY = 0x06


def tlps(path: Path, *, longest_gap_ns: int = 200, limit: int | None = None, thin: int = 1) -> list[Timed]:
    """Return TLPs in order of time, with pauses cut to `longest_gap_ns`.

    `limit`: greatest number, from the first TLP on. `thin`: keep only one in this many data TLPs (256 bytes and more).
    """
    items = [i for i in tap.items(path) if i.kind == "tlp"]
    items.sort(key=lambda i: i.time_ps)
    out, at, before, data = [], 0, None, 0
    identify = False
    for item in items:
        raw, ns = _whole(item.data) if item.left_out else item.data, item.time_ps // PS
        # Recognition: an SQE is a completion of 64 bytes, a CQE a write of 16 bytes.
        if raw[0] == 0x4A and len(raw) == 76:
            identify = raw[12] == _IDENTIFY
        longest = _RAW_NS if identify and raw[0] & 0xDF == 0x40 and raw[3] == 4 and thin == 1 else longest_gap_ns
        data += len(raw) >= 256
        if len(raw) >= 256 and data % thin:
            continue
        slower = 2 if identify and len(raw) >= 256 else 1
        at += slower * min(ns - before, longest) if before is not None else 0
        before = ns
        out.append(Timed(at, item.direction - 1, raw))
    return out[:limit]


def linux(name: str, folder: Path) -> Path:
    """Return the bus trace of a real Linux NVMe driver's run, from QEMU's log (tests/sim/guest/data)."""
    programs = Path(os.environ.get("WATTBELL_SIM_BIN", ROOT / "sim/target/release"))
    log, trace = folder / f"{name}.log", folder / f"{name}.wbt"
    log.write_bytes(gzip.decompress((ROOT / f"tests/sim/guest/data/{name}.log.gz").read_bytes()))
    subprocess.run([programs / "wattbell-guest", "qemu2bus", log, "--out", trace], check=True, capture_output=True)
    return trace
