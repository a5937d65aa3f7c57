"""Streams at ten times the rate that the rig's settings promise: the recording is whole, and each figure is true or marked."""

from __future__ import annotations

import contextlib
import re
import struct
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from wattbell.analysis import analyze
from wattbell.capture import Capture, CaptureWriter, open_capture
from wattbell_spec.units import ENERGY_LSB_W

from tests.faults.faultbench import Bench
from tests.faults.faultoracle import Verdict, judge
from tests.faults.faultstream import RAIL, STATUS, Block, make, parse
from tests.faults.faulttrial import record
from tests.host.wire import encoder

UTC = 1_700_000_000_000_000_000
TIMES = 10
_PERIOD_AT, _DECIMATION_AT = 28, 32
"""Places of the fields in STATUS."""
_MOST_MB = 600
_NEAR = 0.02


def remade(block: bytes, payload: bytes) -> bytes:
    """Return a block with another payload, and a good CRC."""
    head = bytearray(block[:28])
    struct.pack_into("<H", head, 6, len(payload))
    data = bytes(head) + payload
    return data + struct.pack("<I", zlib.crc32(data))


def _slower_stated(payload: bytes) -> bytes:
    """Return a STATUS that promises a tenth of the conversions."""
    (period,) = struct.unpack_from("<I", payload, _PERIOD_AT)
    return payload[:_PERIOD_AT] + struct.pack("<I", period * TIMES) + payload[_PERIOD_AT + 4 :]


def _decimated(payload: bytes) -> bytes:
    """Return a STATUS that promises a tenth of the samples, each of ten conversions."""
    return payload[:_DECIMATION_AT] + struct.pack("<H", TIMES) + payload[_DECIMATION_AT + 2 :]


def _overlapping(payload: bytes) -> bytes:
    """Return samples that each last ten times as long as the time to the next sample."""
    (interval,) = struct.unpack_from("<I", payload)
    return struct.pack("<I", interval * TIMES) + payload[4:]


def _short(payload: bytes) -> bytes:
    """Return samples that each last a tenth of the time to the next sample."""
    (interval,) = struct.unpack_from("<I", payload)
    return struct.pack("<I", interval // TIMES) + payload[4:]


WAYS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "STATUS states a tenth of the conversions": (STATUS, _slower_stated),
    "STATUS states a tenth of the samples": (STATUS, _decimated),
    "samples come ten times as densely as the blocks say": (RAIL, _overlapping),
    "samples come a tenth as densely as the blocks say": (RAIL, _short),
}


def contradicting(rng: np.random.Generator, folder: Path, way: str | None = None) -> Verdict:
    """Send samples at another rate than the rig's STATUS or its blocks state (:data:`WAYS`)."""
    blocks, true_w = recorded(rng, folder / "capture", way or str(rng.choice(list(WAYS))))
    capture = open_capture(folder / "capture")
    verdict = judge([one for block in blocks for one in block.records], capture)
    return _true_or_marked(verdict, capture, true_w)


def recorded(rng: np.random.Generator, place: Path, way: str) -> tuple[list[Block], float]:
    """Record such a stream; return its blocks, and the mean power of its samples in W."""
    kind, change = WAYS[way]
    blocks = parse(make(rng))
    true_w = _mean_w(blocks)
    blocks = parse(b"".join(remade(b.data, change(b.data[28:-4])) if b.data[5] == kind else b.data for b in blocks))
    record([b"".join(block.data for block in blocks)], place)
    return blocks, true_w


def _mean_w(blocks: Sequence[Block]) -> float:
    """Return the mean power of the samples, by hand: 20 uV times 500 nA."""
    total = number = 0
    for block in blocks:
        if block.data[5] == RAIL:
            payload = block.data[28:-4]
            (count,) = struct.unpack_from("<H", payload, 4)
            for at in range(28, 28 + 6 * count, 6):
                total += int.from_bytes(payload[at : at + 3], "little") * int.from_bytes(payload[at + 3 : at + 6], "little")
            number += count
    return total * ENERGY_LSB_W / number


def _true_or_marked(verdict: Verdict, capture: Capture, true_w: float) -> Verdict:
    """Check that mean power and energy are those sent, or marked. A contradiction in the stream is never lossless."""
    result = analyze(capture)
    power = result["power"]
    if verdict.told is False:
        verdict.silent.append("lossless, though the stream contradicts itself")
    if "mean_w" not in power:
        return verdict
    span_s = result["capture"]["duration_s"]
    for name, want in (("mean_w", true_w), ("energy_j", true_w * span_s)):
        figure = power[name]
        if not figure["lost"] and abs(figure["value"] / want - 1) > _NEAR:
            verdict.silent.append(f"{name} is {figure['value']:.4g} and not {want:.4g}, without a mark")
    return verdict


def wrong_clock(rng: np.random.Generator, folder: Path, times: float | None = None, stop_s: float | None = None) -> Verdict:
    """Let a real rig's counter advance ten times as fast as the host's clock, or a tenth: its times are wrong, and marked.

    Equal rates leave no mark, even if the recorder stops for ``stop_s`` now and then.
    """
    times = times or float(rng.choice([1 / TIMES, 1.0, TIMES]))
    stop_s = float(rng.choice([0.0, 2.0, 18.0])) if stop_s is None else stop_s
    seconds = int(rng.integers(20, 40) + 2 * stop_s)
    lasts = max(8, round(seconds * times))
    with CaptureWriter(folder / "capture", lba_size_bytes=512, conditions={"virtual": False}) as writer:
        writer.stream.expected = True
        for number in range(lasts * 10 + 1):
            tick = 1_000_000 + number * 100_000_000
            ends = number == lasts * 10
            event = (tick, 15, int(not ends), 0, 0) if ends or not number else (tick, 2, 1, 0, number)
            data = encoder.events(2 * number + int(not ends), tick, [event])
            status = encoder.status(2 * number + int(ends), tick, run=int(not ends))
            writer.feed(data + status if ends else status + data, UTC + _arrival_ns(round(number * 1e8 / times), stop_s))
    capture = open_capture(folder / "capture")
    marked = not capture.meta["loss"]["lossless"] and bool(analyze(capture)["warnings"])
    if marked != (times != 1):
        return Verdict(silent=[f"{times:g} times as fast as the host's clock for {lasts} s: marked {marked}"])
    return Verdict(lost=int(marked), told=marked)


def _arrival_ns(sent_ns: int, stop_s: float) -> int:
    """Return the time of a block's arrival at a recorder with pauses.

    The recorder reads for ten seconds, stops for ``stop_s``, then reads twice as fast as the rig sends until no block waits.
    """
    work_ns, stop_ns = 10_000_000_000, round(stop_s * 1e9)
    behind_ns = sent_ns % (work_ns + 2 * stop_ns) - work_ns
    return sent_ns if behind_ns < 0 else sent_ns - behind_ns + stop_ns + behind_ns // 2


class MostMemory(threading.Thread):
    """Most resident memory of a process, asked until it ends. The kernel's own sum over children has other tests' compilers in it."""

    def __init__(self, pid: int) -> None:
        """Begin to ask."""
        super().__init__(daemon=True)
        self._status, self._most_kb = Path(f"/proc/{pid}/status"), 0
        self.start()

    def run(self) -> None:
        """Ask for the kernel's maximum twenty times a second."""
        with contextlib.suppress(OSError):
            while found := re.search(r"VmHWM:\s+(\d+) kB", self._status.read_text()):
                self._most_kb = int(found[1])
                time.sleep(0.05)

    def most_mb(self) -> float:
        """Return the maximum in MB, once the process has ended. Raises AssertionError if it was never known."""
        self.join()
        assert self._most_kb, "the process ended before its memory was asked for"
        return self._most_kb / 1024


def flood(rng: np.random.Generator, folder: Path, rounds: int = 8000) -> Verdict:
    """Send samples and events at ten times the usual rate, as fast as the port takes them: nothing is lost, and memory is bounded."""
    current = int(rng.integers(50_000, 2_000_000))
    stream = _flood(rounds, current)
    with Bench(folder) as bench:
        bench.feed([stream])
        recorder = bench.record()
        memory = MostMemory(recorder.pid)
        code, said = bench.finish(recorder)
        most_mb = memory.most_mb()
    capture = open_capture(bench.capture)
    verdict = Verdict(told=not capture.meta["loss"]["lossless"])
    counts = capture.meta["counts"]["events"], capture.meta["rail"]["samples"] - capture.meta["rail"]["missing_samples"]
    sent = rounds * _EVENTS + 2, rounds * _SAMPLES
    verdict.lost = sum(sent) - sum(counts)
    if code or verdict.told or counts != sent:
        verdict.silent.append(f"sent {sent}, recorded {counts}, exit code {code}, lossless {not verdict.told}: {said[-300:]}")
    if most_mb > _MOST_MB:
        verdict.silent.append(f"{most_mb:.0f} MB of memory")
    power = analyze(capture)["power"]["mean_w"]
    want = 165_000 * current * ENERGY_LSB_W
    if power["lost"] or abs(power["value"] / want - 1) > 1e-6:
        verdict.silent.append(f"mean power {power['value']} W, lost {power['lost']}: {want} W were sent")
    return verdict


_SAMPLES, _EVENTS, _INTERVAL = 336, 127, 100


def _flood(rounds: int, current: int) -> bytes:
    """Return RAIL blocks of 10 MSPS and EVENTS blocks in turn, with their STATUS blocks."""
    step, first = _SAMPLES * _INTERVAL, 1_000_000
    out = [
        encoder.status(0, first, adc_period=_INTERVAL),
        encoder.events(1, first, [(first, 15, 1, 0, 0)]),
    ]
    sequence = 2
    samples = (165_000).to_bytes(3, "little") + current.to_bytes(3, "little")
    for number in range(rounds):
        tick = first + number * step
        index = (number + 1) * _SAMPLES
        energy = index * 165_000 * current
        about = struct.pack("<IHHQQi", _INTERVAL, _SAMPLES, 0, index, energy & (2**64 - 1), energy >> 64)
        out.append(encoder.block(RAIL, sequence, tick, about + samples * _SAMPLES))
        events = b"".join(struct.pack("<QBBHI", tick + k, 2, k & 1, 0, number) for k in range(_EVENTS))
        out.append(encoder.block(3, sequence + 1, tick, events))
        sequence += 2
        if number % 3000 == 2999:
            out.append(encoder.status(sequence, tick, adc_period=_INTERVAL))
            sequence += 1
    end = first + rounds * step
    out.append(encoder.events(sequence, end, [(end, 15, 0, 0, 0)]))
    out.append(encoder.status(sequence + 1, end, run=0, adc_period=_INTERVAL))
    return b"".join(out)
