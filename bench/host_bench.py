#!/usr/bin/env python3
"""Speed of the host side, as ratios: decoding on one core, and recording live through a pty.

    bench/host_bench.py [--json] [--seconds S]

Decode: a realistic stream (COMMANDS blocks of 46 records, one RAIL block of 337 samples in eight, EVENTS and STATUS now
and then) from memory to numpy columns, in one thread; compared with USB high speed (42 MB/s) and with one bare
``zlib.crc32`` pass over the same bytes, both measured in CPU time. Live: a process writes the same stream into a pty at
42 MB/s; a recorder process (``wattbell record``'s own code) reads it into a capture; its CPU time (user and system, all
threads, the completion of the capture included) for each 42 MB is the share of a core. What of it a process needs that
only reads the pty and drops the bytes is told beside it: Linux hands out a pty in pieces of 4095 bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "host"))

USB_HIGH_SPEED = 42e6
"""Bytes a second that USB 2.0 high speed carries in practice."""
COMMAND_RECORDS = 46
RAIL_SAMPLES = 337


def block(kind: int, sequence: int, tick: int, payload: bytes) -> bytes:
    """A block of the wire format."""
    body = b"WBEL" + struct.pack("<BBHIIQ", 1, kind, len(payload), sequence, 0, tick) + payload
    return body + struct.pack("<I", zlib.crc32(body))


def make_stream(size: int) -> bytes:
    """At least `size` bytes of consecutive blocks whose records differ as real ones do, between STATUS run 1 and 0."""
    generator = random.Random(660)
    rails = [rail_samples(generator) for _ in range(16)]
    records = [commands(generator, COMMAND_RECORDS) for _ in range(512)]
    blocks = [status(0, 1000)]
    total, sequence, rail_tick, command_tick, index = len(blocks[0]), 1, 1000, 1000, 0
    while total < size:
        if sequence % 8 == 0:
            index += RAIL_SAMPLES
            payload = struct.pack("<IHHQq", 1000, RAIL_SAMPLES, 0, index, index * 7919) + rails[sequence // 8 % 16]
            blocks.append(block(2, sequence, rail_tick, payload + bytes(-len(payload) % 4)))
            rail_tick += RAIL_SAMPLES * 1000
        elif sequence % 1001 == 0:
            payload = struct.pack("<QBBHI", command_tick, 2, sequence & 1, 0, 0)
            blocks.append(block(3, sequence, command_tick, payload))
        else:
            blocks.append(block(1, sequence, command_tick, records[sequence % 512]))
            command_tick += COMMAND_RECORDS * 1063
        total += len(blocks[-1])
        sequence += 1
    blocks.append(status(sequence, max(rail_tick, command_tick), run=0))
    return b"".join(blocks)


def rail_samples(generator: random.Random) -> bytes:
    """3.3 V and some 0.45 A with noise."""
    return b"".join(
        (165_000 + generator.randrange(-40, 40)).to_bytes(3, "little", signed=True)
        + (900_000 + generator.randrange(-9000, 9000)).to_bytes(3, "little", signed=True)
        for _ in range(RAIL_SAMPLES)
    )


def commands(generator: random.Random, count: int) -> bytes:
    """Records of reads and writes at queue depth some."""
    made = []
    for i in range(count):
        latency = generator.randrange(20_000, 900_000)
        ages = (latency, latency - 600, latency // 3 + 900, generator.randrange(300, 900))
        after = generator.randrange(200, 2000), generator.randrange(2000, 9000)
        fields = (generator.choice((1, 2)), generator.randrange(1, 9), generator.randrange(1024), 0, 1, 8)
        made.append(
            struct.pack("<iIIII", i * 1063, *ages)
            + after[0].to_bytes(3, "little")
            + after[1].to_bytes(3, "little")
            + struct.pack("<BBHHHI", *fields)
            + generator.randrange(2**31).to_bytes(5, "little")
            + b"\0"
        )
    return b"".join(made)


def status(sequence: int, tick: int, run: int = 1) -> bytes:
    """A STATUS block."""
    payload = struct.pack("<IIHHHHHBBIIIHH", 0x10000, 1000, 4, 128, 64, 1024, 18, run, 0, 20, 500, 1000, 1, 0)
    return block(5, sequence, tick, payload + bytes(24 + 36 + 8))


def best_cpu_s(work: Callable[[], object], repeat: int = 5) -> float:
    """Best of some passes, by CPU time, so that other programs on the machine count little."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def bench_decode(stream: bytes) -> dict[str, float]:
    """Decode from memory in pieces of 1 MiB."""
    from wattbell.wire.decode import Decoder

    def decode() -> None:
        decoder = Decoder()
        for start in range(0, len(stream), 1 << 20):
            decoder.feed(stream[start : start + (1 << 20)])
        decoder.finish()
        assert decoder.counters.lossless

    decode_s, crc_s = best_cpu_s(decode), best_cpu_s(lambda: zlib.crc32(stream))
    rate = len(stream) / decode_s
    return {
        "decode_mb_s": rate / 1e6,
        "ratio_to_usb_high_speed": rate / USB_HIGH_SPEED,
        "zlib_crc32_mb_s": len(stream) / crc_s / 1e6,
        "ratio_to_zlib_crc32": crc_s / decode_s,
    }


RECORDER = """
import json, sys, time
from wattbell.capture import CaptureWriter
from wattbell.capture.record import record
from wattbell.rig import Rig

rig, writer = Rig.open("BENCH"), CaptureWriter(sys.argv[1])
cpu, wall = time.process_time(), time.monotonic()
record(rig, writer)
cpu, wall, ending = time.process_time() - cpu, time.monotonic() - wall, time.process_time()
writer.close()
counters = writer.decoder.counters
told = {"cpu": cpu, "wall": wall, "close": time.process_time() - ending, "bytes": counters.bytes_in}
print(json.dumps({**told, "lossless": counters.lossless}))
"""


READER = """
import json, sys, time
from wattbell.rig import Rig

rig, size = Rig.open("BENCH"), int(sys.argv[2])
rig.start()
cpu, wall, got = time.process_time(), time.monotonic(), 0
while got < size:
    got += len(rig.read())
told = {"cpu": time.process_time() - cpu, "wall": time.monotonic() - wall, "close": 0, "bytes": got}
print(json.dumps({**told, "lossless": True}))
"""


def bench_live(seconds: float, program: str) -> tuple[float, float]:
    """(MB/s reached, CPU share of a core at 42 MB/s) of a program that takes `seconds` of stream from a pty."""
    here = Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory(prefix="wattbell-bench-") as folder:
        runtime = Path(folder)
        (runtime / "stream").write_bytes(make_stream(int(seconds * USB_HIGH_SPEED)))
        environment = {**os.environ, "WATTBELL_RUNTIME": folder, "PYTHONPATH": str(here.parent / "host")}
        play = [sys.executable, str(here / "host_bench_feeder.py"), str(runtime / "stream"), str(USB_HIGH_SPEED)]
        with subprocess.Popen(play, env=environment) as feeder:
            while not (runtime / "rigs" / "BENCH.json").exists():
                time.sleep(0.01)
                assert feeder.poll() is None
            size = (runtime / "stream").stat().st_size
            command = [sys.executable, "-c", program, str(runtime / "capture"), str(size)]
            try:
                done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, timeout=120)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
                feeder.kill()
                raise
    told = json.loads(done.stdout)
    assert told["lossless"], told
    # one second of stream is 42 MB, however long the machine took for it
    share = (told["cpu"] + told["close"]) / (told["bytes"] / USB_HIGH_SPEED)
    return told["bytes"] / told["wall"] / 1e6, share


def run(seconds: float = 5.0) -> dict[str, float]:
    """Every figure."""
    rate, share = bench_live(seconds, RECORDER)
    _, bare = bench_live(seconds, READER)
    live = {"live_mb_s": rate, "live_cpu_share": share, "live_cpu_share_of_reading_the_pty": bare}
    return {**bench_decode(make_stream(32 << 20)), **live}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=5.0, help="of live recording (default %(default)s)")
    options = parser.parse_args()
    found = run(options.seconds)
    if options.json:
        print(json.dumps(found, indent=1))
        return
    print(f"decode, one core            {found['decode_mb_s']:8.0f} MB/s")
    print(f"  / USB high speed (42 MB/s){found['ratio_to_usb_high_speed']:8.1f} x   (aim: 10)")
    print(f"  / bare zlib.crc32         {found['ratio_to_zlib_crc32']:8.2f} x   ({found['zlib_crc32_mb_s']:.0f} MB/s)")
    share, bare = 100 * found["live_cpu_share"], 100 * found["live_cpu_share_of_reading_the_pty"]
    print(f"live ingest at {found['live_mb_s']:2.0f} MB/s     {share:8.1f} %   of a core (aim: 15)")
    print(f"  reading the pty alone     {bare:8.1f} %   (nearly all in Linux)")


if __name__ == "__main__":
    main()
