"""Many GB through the recorder: a rig that sends as fast as its port allows, while the recorder's memory is sampled.

Run as a program, this module is that rig: ``python -m tests.faults.faultbulk BYTES SERIAL``.
"""

from __future__ import annotations

import os
import select
import shutil
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.e2e import feeder
from tests.faults.faultstream import COMMANDS, EVENTS, RAIL, STATUS
from tests.host.wire import encoder

_ROOT = Path(__file__).parents[2]
_SERIAL = "BULK"
_SAMPLES, _RECORDS, _COMMAND_BLOCKS = 336, 46, 9
"""Samples of a RAIL block at 1 MSPS, records of a COMMANDS block, and COMMANDS blocks for each RAIL block."""
_ROUND_TICKS = _SAMPLES * 1000
_ROUND_BYTES = (28 + 28 + 6 * _SAMPLES + 4) + _COMMAND_BLOCKS * (28 + 44 * _RECORDS + 4)
_PER_PIECE = 64
_VOLTAGE, _CURRENT = 165_000, 200_000
_RUN = 0x5EED


def rounds_of(size: int) -> int:
    """Number of rounds for a stream of about ``size`` bytes."""
    return max(1, size // _ROUND_BYTES)


def stream(rounds: int) -> Iterator[bytes]:
    """The stream in pieces of some rounds, generated on demand."""
    yield _status(0, 1_000, 1, 0)
    yield encoder.events(1, 1_000, [(1_000, 15, 1, 0, 0)], run=_RUN)
    sequence, energy = 2, 0
    first = 1_000_000
    step = _ROUND_TICKS // (_COMMAND_BLOCKS * _RECORDS)
    ages = (800, 700, 600, 200, 40, 90)
    template = [encoder.Command(i * step + 900, *ages, cid=i, slba=8 * i).pack(0) for i in range(_COMMAND_BLOCKS * _RECORDS)]
    payloads = [b"".join(template[b * _RECORDS : (b + 1) * _RECORDS]) for b in range(_COMMAND_BLOCKS)]
    samples = (_VOLTAGE.to_bytes(3, "little") + _CURRENT.to_bytes(3, "little")) * _SAMPLES
    for begin in range(0, rounds, _PER_PIECE):
        out = []
        for number in range(begin, min(begin + _PER_PIECE, rounds)):
            tick = first + number * _ROUND_TICKS
            energy += _SAMPLES * _VOLTAGE * _CURRENT
            about = struct.pack("<IHHQQi", 1000, _SAMPLES, 0, (number + 1) * _SAMPLES, energy & (2**64 - 1), energy >> 64)
            for kind, payload in [(RAIL, about + samples), *((COMMANDS, payload) for payload in payloads)]:
                head = struct.pack("<4sBBHIIQI", b"WBEL", 2, kind, len(payload), sequence & 0xFFFFFFFF, 0, tick, _RUN)
                crc = zlib.crc32(payload, zlib.crc32(head))
                out += [head, payload, crc.to_bytes(4, "little")]
                sequence += 1
        yield b"".join(out)
    end = first + rounds * _ROUND_TICKS
    yield encoder.block(EVENTS, sequence, end, struct.pack("<QBBHI", end, 15, 0, 0, 0), run=_RUN)
    yield _status(sequence + 1, end, 0, rounds * _COMMAND_BLOCKS * _RECORDS)


def _status(sequence: int, tick: int, running: int, commands: int) -> bytes:
    payload = struct.pack("<IIHHHHHBBIIIHH", 0x00010000, 1000, 4, 128, 64, 1024, 18, running, 0, 20, 500, 1000, 1, 0)
    made: bytes = encoder.block(STATUS, sequence, tick, payload + struct.pack("<QQQ", 0, 0, commands) + bytes(44), run=_RUN)
    return made


def run(size: int, folder: Path) -> dict[str, Any]:
    """Record about ``size`` bytes into ``folder`` and return the outcome; the capture is removed."""
    import signal

    from wattbell.capture import open_capture

    from tests.faults.faultbench import wait_for

    place, runtime = folder / "bulk-capture", folder / "runtime"
    shutil.rmtree(place, ignore_errors=True)
    shutil.rmtree(runtime, ignore_errors=True)
    runtime.mkdir(mode=0o700)
    rounds = rounds_of(size)
    env = {**os.environ, "WATTBELL_RUNTIME": str(runtime)}
    rig = subprocess.Popen([sys.executable, "-m", "tests.faults.faultbulk", str(rounds), _SERIAL], env=env, cwd=_ROOT)
    try:
        wait_for((runtime / "rigs" / f"{_SERIAL}.json").exists, "the rig")
        command = [sys.executable, "-m", "wattbell", "record", "--rig", _SERIAL, "--lba-size", "512", "--out", str(place)]
        begun = time.monotonic()
        recorder = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
        early = most = 0.0
        seconds = None
        while recorder.poll() is None:
            time.sleep(0.5)
            rss = _rss_mb(recorder.pid)
            most = max(most, rss)
            if rig.poll() is not None and seconds is None:
                seconds = time.monotonic() - begun
            done = (place / "stream.wbs").stat().st_size if (place / "stream.wbs").exists() else 0
            if not early and done > size / 10:
                early = most
        seconds = time.monotonic() - begun if seconds is None else seconds
        capture = open_capture(place, verify=False)
        counts, rail = capture.meta["counts"], capture.meta["rail"]
        sent = rounds * _COMMAND_BLOCKS * _RECORDS, rounds * _SAMPLES
        return {
            "gb": rounds * _ROUND_BYTES / 1e9,
            "seconds": seconds,
            "mb_per_s": rounds * _ROUND_BYTES / 1e6 / seconds,
            "commands": sent[0],
            "samples": sent[1],
            "commands_lost": sent[0] - counts["commands"],
            "samples_lost": sent[1] - rail["samples"] + rail.get("missing_samples", 0),
            "lossless": bool(capture.meta["loss"]["lossless"]) and recorder.returncode == 0,
            "rss_early_mb": early or most,
            "rss_max_mb": most,
        }
    finally:
        if rig.poll() is None:
            rig.send_signal(signal.SIGKILL)
        rig.wait()
        shutil.rmtree(place, ignore_errors=True)
        shutil.rmtree(runtime, ignore_errors=True)


def _rss_mb(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except (OSError, IndexError):
        return 0.0


def _serve(rounds: int, serial: str) -> None:
    ports = feeder.Ports(serial, Path(os.environ["WATTBELL_RUNTIME"]) / "rigs")
    answers = {b"*IDN?": f"Wattbell,bulk,{serial},0.1", b"SYST:ERR?": '0,"No error"', b"STAT:RIG?": "RUN=0"}
    pieces, rest, line, running, over = stream(rounds), memoryview(b""), b"", False, False
    ended = 0.0
    while not over or time.monotonic() < ended + 3:  # the recorder still queries after the end of the stream
        readable, writable, _ = select.select([ports.control], [ports.data] if running and not over else [], [], 0.2)
        if readable:
            line += os.read(ports.control, 4096)
            while b"\n" in line:
                text, _, line = line.partition(b"\n")
                running = running or text == b"INIT"
                if text in answers:
                    os.write(ports.control, answers[text].encode() + b"\n")
        if writable:
            if not rest:
                piece = next(pieces, None)
                over, ended = piece is None, time.monotonic()
                rest = memoryview(piece or b"")
            if rest:
                rest = rest[os.write(ports.data, rest[: 1 << 16]) :]
    ports.close()


if __name__ == "__main__":
    _serve(int(sys.argv[1]), sys.argv[2])
