# mypy: ignore-errors
import struct
import zlib

import sigrokdecode as srd

from .records import READERS, whole
from .tables import KINDS

MAGIC = b"WBEL"
HEADER, CRC, MOST = 28, 4, 2048
CLOCK = 8
# Value of an unconnected channel. has_channel() says the same, but makes libsigrokdecode 0.5.3 abort at the end in some cases (bug 1671).
NOT_CONNECTED = 0xFF
ANN_BLOCK, ANN_COMMAND, ANN_RAIL, ANN_EVENT, ANN_TLP, ANN_STATUS, ANN_LINK, ANN_WARNING = range(8)
OF_KIND = {1: ANN_COMMAND, 2: ANN_RAIL, 3: ANN_EVENT, 4: ANN_TLP, 5: ANN_STATUS, 6: ANN_LINK}


class Decoder(srd.Decoder):
    api_version = 3
    id = "wattbell"
    name = "Wattbell"
    longname = "Wattbell stream"
    desc = "Stream of a Wattbell rig: NVMe commands, rail, events."
    license = "apache-2.0"
    inputs = ["logic"]
    outputs = []
    tags = ["Debug/trace", "PC"]
    channels = tuple({"id": f"d{k}", "name": f"D{k}", "desc": f"Bit {k} of a byte"} for k in range(8))
    optional_channels = ({"id": "clk", "name": "CLK", "desc": "A byte at each rising edge"},)
    annotations = (
        ("block", "Block"),
        ("command", "Command"),
        ("rail", "Rail samples"),
        ("event", "Event"),
        ("tlp", "TLP"),
        ("status", "Status"),
        ("link", "Link counters"),
        ("warning", "Warning"),
    )
    annotation_rows = (
        ("blocks", "Blocks", (ANN_BLOCK,)),
        ("records", "Records", (ANN_COMMAND, ANN_RAIL, ANN_EVENT, ANN_TLP, ANN_STATUS, ANN_LINK)),
        ("warnings", "Warnings", (ANN_WARNING,)),
    )

    def __init__(self):
        self.reset()

    def reset(self):
        self.bytes = bytearray()
        self.samples = []  # first sample of each byte
        self.skipped_from = None
        self.sequence = None

    def start(self):
        self.out_ann = self.register(srd.OUTPUT_ANN)

    def decode(self):
        pins = self.wait({"skip": 0})
        if pins[CLOCK] == NOT_CONNECTED:
            self.take(pins)
            condition = {"skip": 1}
        else:
            condition = {CLOCK: "r"}
        while True:
            self.take(self.wait(condition))

    def take(self, pins):
        """Take a byte."""
        self.bytes.append(sum((pins[k] & 1) << k for k in range(8)))
        self.samples.append(self.samplenum)
        while self.step():
            pass

    def step(self):
        """Take a block, or a byte that begins none, from the front; returns whether there was one."""
        have = len(self.bytes)
        if have < len(MAGIC):
            return False
        if self.bytes[:4] != MAGIC:
            return self.skip()
        if have < HEADER:
            return False
        version, kind, length, sequence, dropped, tick, _ = struct.unpack_from("<BBHIIQI", self.bytes, 4)
        if length > MOST or length % 4:
            return self.skip()
        if have < HEADER + length + CRC:
            return False
        body = bytes(self.bytes[: HEADER + length])
        if zlib.crc32(body) != struct.unpack_from("<I", self.bytes, HEADER + length)[0]:
            self.warn(0, HEADER + length + CRC, "CRC wrong")
            return self.skip()
        self.tell_skipped()
        self.block(version, kind, sequence, dropped, tick, body[HEADER:])
        self.drop(HEADER + length + CRC)
        return True

    def block(self, version, kind, sequence, dropped, tick, payload):
        size = HEADER + len(payload) + CRC
        name = KINDS.get(kind, f"kind {kind}")
        self.annotate(0, size, ANN_BLOCK, [f"{name} #{sequence}, {len(payload)} bytes, tick {tick}", name, name[0]])
        if self.sequence is not None and sequence != self.sequence:
            self.warn(0, size, f"expected #{self.sequence}: {(sequence - self.sequence) & 0xFFFFFFFF} blocks are missing")
        self.sequence = (sequence + 1) & 0xFFFFFFFF
        if dropped:
            self.warn(0, size, f"the rig lost {dropped} records")
        if version != 2 or kind not in READERS:
            self.warn(0, size, f"unknown: version {version}, kind {kind}")
        elif not whole(kind, payload):
            self.warn(0, size, "no whole number of records")
        else:
            for first, count, texts in READERS[kind](payload):
                self.annotate(HEADER + first, count, OF_KIND[kind], texts)

    def annotate(self, first, count, kind, texts):
        """Annotate ``count`` bytes from byte ``first`` of the front."""
        begin, last = self.samples[first], self.samples[first + count - 1]
        following = first + count
        end = self.samples[following] if following < len(self.samples) else last + (last - self.samples[first + count - 2])
        self.put(begin, end, self.out_ann, [kind, texts])

    def warn(self, first, count, text):
        self.annotate(first, count, ANN_WARNING, [text])

    def skip(self):
        if self.skipped_from is None:
            self.skipped_from = [self.samples[0], 0]
        self.skipped_from[1] += 1
        self.drop(1)
        return True

    def tell_skipped(self):
        if self.skipped_from:
            first, count = self.skipped_from
            self.put(first, self.samples[0], self.out_ann, [ANN_WARNING, [f"{count} bytes belong to no block"]])
            self.skipped_from = None

    def drop(self, count):
        del self.bytes[:count]
        del self.samples[:count]
