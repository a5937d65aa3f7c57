"""Drives the SSD model by TLPs: enumerates it, enables it, identifies it, reads, and prints latencies and energies.

    python read.py [PROFILE]

Addresses of host memory are offsets in `memory`. The host polls its completion queues.
"""

import struct
import sys

from wattbell_ssd import Drive

BAR0, DRIVE, SQ, CQ, DATA = 0xFE80_0000, 0x0100, 0x1000, 0x3000, 0x8000
drive = Drive(sys.argv[1] if len(sys.argv) > 1 else "samsung-980-pro")
memory, answers, heads, now = bytearray(1 << 20), [], [0, 0], 0


def serve(tlp):
    """Take a TLP of the drive: an answer, a write to memory, or a read, which gets completions of at most 128 bytes."""
    size, words = 16 if tlp[0] & 0x20 else 12, int.from_bytes(tlp[2:4]) & 0x3FF or 1024
    address, end = int.from_bytes(tlp[8:size]), int.from_bytes(tlp[8:size]) + 4 * words
    if tlp[0] & 0x1F == 0x0A:
        answers.append(tlp[12:])
    elif tlp[0] & 0x40:
        memory[address:end] = tlp[size:]
    else:
        while address < end:
            part = memory[address : min(end, (address | 127) + 1)]
            header = struct.pack(">BBHHHHBB", 0x4A, 0, len(part) // 4, 0, end - address & 0xFFF, DRIVE, tlp[6], address & 0x7F)
            drive.push(now, header + part)
            address += len(part)


def wait(done):
    """Let time go on until `done` returns something; return that."""
    global now
    while (result := done()) is None:
        now = drive.next_ps()
        for _, tlp in drive.advance(now):
            serve(tlp)
    return result


def request(kind, place, *data):
    """Send a request of one double word with all bytes enabled; return the answer's data, if an answer comes."""
    drive.push(now, struct.pack(">BBHHBB", kind, 0, 1, 0, 0, 0x0F) + place + b"".join(word.to_bytes(4, "little") for word in data))
    return None if kind == 0x40 else wait(lambda: answers.pop() if answers else None)


def register(offset, *data):
    """Write a register, or read it."""
    return request(0x40 if data else 0x00, struct.pack(">I", BAR0 + offset), *data)


def command(queue, opcode, nsid=0, prp=0, cdw10=0, cdw11=0, cdw12=0):
    """Execute a command; return its latency in us and the energy of the drive meanwhile in uJ."""
    sq, cq, slot = SQ + 0x4000 * queue, CQ + 0x4000 * queue, heads[queue]
    entry = struct.pack("<BBHI16xQQIII12x", opcode, 0, slot, nsid, prp, 0, cdw10, cdw11, cdw12)
    memory[sq + 64 * slot : sq + 64 * slot + 64], begun, energy = entry, now, drive.energy_pj
    heads[queue] += 1
    register(0x1000 + 8 * queue, heads[queue])
    status = wait(lambda: int.from_bytes(memory[cq + 16 * slot + 14 : cq + 16 * slot + 16], "little") or None)
    assert status == 1, f"opcode {opcode:02X}h: status {status >> 1:X}h"
    register(0x1004 + 8 * queue, heads[queue])
    return (now - begun) / 1e6, (drive.energy_pj - energy) / 1e6


for place, value in ((0x10, BAR0), (0x14, 0), (0x04, 0x0006)):  # BAR0; memory space and bus mastering
    request(0x44, struct.pack(">HH", DRIVE, place), value)
for offset, value in ((0x24, 0x003F_003F), (0x28, SQ), (0x2C, 0), (0x30, CQ), (0x34, 0), (0x14, 0x0046_0001)):
    register(offset, value)
while not register(0x1C)[0] & 1:
    now += 1_000_000_000  # a look at CSTS each millisecond
print(f"ready after {now / 1e9:.1f} ms, {drive.energy_pj / 1e9:.2f} mJ, {drive.energy_pj / now:.3f} W")
print("identify: {:.1f} us, {:.1f} uJ".format(*command(0, 0x06, prp=DATA, cdw10=1)), "-", memory[DATA + 24 : DATA + 64].decode().strip())
command(0, 0x05, prp=CQ + 0x4000, cdw10=0x003F_0001, cdw11=1)
command(0, 0x01, prp=SQ + 0x4000, cdw10=0x003F_0001, cdw11=0x0001_0001)
memory[DATA : DATA + 4096] = bytes(range(256)) * 16
print("write of 4 KiB: {:.1f} us, {:.1f} uJ".format(*command(1, 0x01, 1, DATA, cdw10=800, cdw12=7)))
print("read of these:  {:.1f} us, {:.1f} uJ".format(*command(1, 0x02, 1, DATA + 4096, cdw10=800, cdw12=7)))
assert memory[DATA : DATA + 4096] == memory[DATA + 4096 : DATA + 8192]
print("read of others: {:.1f} us, {:.1f} uJ".format(*command(1, 0x02, 1, DATA, cdw10=8_000_000, cdw12=7)))
