"""The USB interface: words to bytes, short packets, and the descriptors read by the host."""

from amaranth.sim import Simulator
from wattbell.rig.discovery import PRODUCT
from wattbell_gateware.boards.usb import PACKET, BytePacker, descriptors

IDLE = 20


def test_words_leave_low_byte_first_and_the_last_packet_is_flushed_once():
    packer = BytePacker(idle_clocks=IDLE)
    words = [0x44332211, 0x88776655, 0xCCBBAA99]
    got, flushes = [], []

    async def send(ctx):
        for word in words:
            ctx.set(packer.words.payload.data, word)
            ctx.set(packer.words.valid, 1)
            await ctx.tick().until(packer.words.ready)
        ctx.set(packer.words.valid, 0)

    async def take(ctx):
        clock = 0
        stream = packer.bytes
        async for _, _, valid, ready, byte, flush in ctx.tick().sample(stream.valid, stream.ready, stream.payload, packer.flush):
            if valid and ready:
                got.append((clock, byte))
            if flush:
                flushes.append(clock)
            clock += 1
            if clock > 200:
                break

    async def stall(ctx):
        # An endpoint that is not ready for a while, as when both its buffers are full.
        for clock in range(200):
            ctx.set(packer.bytes.ready, not 5 <= clock < 9)
            await ctx.tick()

    simulator = Simulator(packer)
    simulator.add_clock(1 / 60e6)
    simulator.add_testbench(send)
    simulator.add_testbench(stall)
    simulator.add_testbench(take, background=True)
    simulator.run()
    data = bytes(byte for _, byte in got)
    assert data == b"".join(word.to_bytes(4, "little") for word in words)
    assert len(flushes) == 1
    assert flushes[0] - got[-1][0] == IDLE


def walk(blob: bytes) -> list[bytes]:
    """Return the descriptors of a configuration, by their lengths (USB 2.0, 9.5)."""
    found = []
    while blob:
        assert 2 <= blob[0] <= len(blob)
        found.append(blob[: blob[0]])
        blob = blob[blob[0] :]
    return found


def test_the_host_sees_two_serial_ports_of_a_rig():
    texts, device, configuration = [], None, None
    for number, index, raw in descriptors("ABC-1"):
        raw = bytes(raw)
        if number == 3 and index:
            texts.append(raw[2:].decode("utf-16-le"))
        elif number == 1:
            device = raw
        elif number == 2:
            configuration = raw
    assert PRODUCT in texts and "ABC-1" in texts
    assert device[4:7] == bytes([0xEF, 2, 1])
    parts = walk(configuration)
    assert int.from_bytes(parts[0][2:4], "little") == len(configuration)
    interfaces = [part for part in parts if part[1] == 4]
    assert [(part[2], part[5]) for part in interfaces] == [(0, 2), (1, 10), (2, 2), (3, 10)]
    assert parts[0][4] == len(interfaces)
    bulk = [(part[2], int.from_bytes(part[4:6], "little")) for part in parts if part[1] == 5 and part[3] & 3 == 2]
    assert bulk == [(0x82, PACKET), (0x02, PACKET), (0x84, PACKET), (0x04, PACKET)]
    endpoints = [part[2] for part in parts if part[1] == 5]
    assert len(set(endpoints)) == len(endpoints)
    unions = [part for part in parts if part[1] == 0x24 and part[2] == 6]
    assert [(part[3], part[4]) for part in unions] == [(0, 1), (2, 3)]
