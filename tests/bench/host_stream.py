"""Wire-format streams for the host benchmark, packed independently of the decoder."""

from __future__ import annotations

import random
import struct
import zlib

MIXES = ("commands", "rail")
"""Kind of seven blocks in eight; the eighth is of the other kind."""
COMMAND_RECORDS = 46
RAIL_SAMPLES = 336


def block(kind: int, sequence: int, tick: int, payload: bytes) -> bytes:
    """A block of the wire format."""
    body = b"WBEL" + struct.pack("<BBHIIQI", 2, kind, len(payload), sequence, 0, tick, 660) + payload
    return body + struct.pack("<I", zlib.crc32(body))


def make_stream(size: int, mix: str = "commands") -> bytes:
    """At least `size` bytes of consecutive blocks with records that differ as real ones do, between STATUS run 1 and 0.

    At 42 MB/s the mix `commands` is 0.8 million commands and 0.9 million rail samples a second (one ADC at full speed,
    4 times the random reads of a fast PCIe 4.0 drive); `rail` is 6 million samples and 0.1 million commands, more
    samples than the ADC makes: it loads the waveform's path.
    """
    generator = random.Random(660)
    rails = [rail_samples(generator) for _ in range(16)]
    records = [commands(generator, COMMAND_RECORDS) for _ in range(512)]
    blocks = [status(0, 1000)]
    total, sequence, rail_tick, command_tick, index = len(blocks[0]), 1, 1000, 1000, 0
    while total < size:
        if sequence % 1001 == 0:
            payload = struct.pack("<QBBHI", command_tick, 2, sequence & 1, 0, 0)
            blocks.append(block(3, sequence, command_tick, payload))
        elif (sequence % 8 == 0) == (mix == "commands"):
            index += RAIL_SAMPLES
            payload = struct.pack("<IHHQQi", 1000, RAIL_SAMPLES, 0, index, index * 7919, 0) + rails[sequence // 8 % 16]
            blocks.append(block(2, sequence, rail_tick, payload + bytes(-len(payload) % 4)))
            rail_tick += RAIL_SAMPLES * 1000
        else:
            blocks.append(block(1, sequence, command_tick, records[sequence % 512]))
            command_tick += COMMAND_RECORDS * 1063
        total += len(blocks[-1])
        sequence += 1
    blocks.append(status(sequence, max(rail_tick, command_tick), run=0))
    return b"".join(blocks)


def rail_samples(generator: random.Random) -> bytes:
    """3.3 V and about 0.45 A, with noise."""
    return b"".join(
        (165_000 + generator.randrange(-40, 40)).to_bytes(3, "little", signed=True)
        + (900_000 + generator.randrange(-9000, 9000)).to_bytes(3, "little", signed=True)
        for _ in range(RAIL_SAMPLES)
    )


def commands(generator: random.Random, count: int) -> bytes:
    """Records of reads and writes at some queue depth."""
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
