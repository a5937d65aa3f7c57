"""The flat tap, driven by its ports alone with the traffic of the monitor's tests, which is written from the specifications."""

from __future__ import annotations

import os
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge
from wattbell_gateware.nvme.layouts import ConfigOp

from tests.nvmetap.traffic import traffic

WIDTH = int(os.environ["WIDTH"])
LEAST_IDLE, MOST_IDLE = 24, 60
"""Clocks between two TLPs at most; longer pauses of the traffic are cut."""
AGES = {
    "doorbell_before": "doorbell_ps",
    "fetch_before": "fetch_ps",
    "first_data_before": "first_data_ps",
    "last_data_before": "last_data_ps",
    "msix_after": "interrupt_ps",
    "cq_head_after": "head_ps",
}
NEVER = {"msix_after": 0xFFFFFF, "cq_head_after": 0xFFFFFF}
PLAIN = ("cqe_tick", "qid", "cid", "opcode", "flags", *AGES)


class Player:
    """Drives both directions, and collects what the tap gives."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        self.records: list[dict[str, int]] = []
        self.losses = 0
        self.tick_of: dict[int, int] = {}
        """Tick of a TLP's first beat, by the traffic's time in ps."""

    async def clock(self, begins_ps: int | None = None) -> None:
        """Let a clock pass, in which the TLP of `begins_ps` begins."""
        await ReadOnly()
        dut = self.dut
        if begins_ps is not None:
            self.tick_of[begins_ps] = int(dut.now.value)
        if int(dut.command_valid.value):
            self.records.append({name: int(getattr(dut, f"command_{name}").value) for name in PLAIN})
        self.losses += int(dut.loss_valid.value)
        await RisingEdge(dut.clk)

    async def send(self, side: str, data: bytes, time_ps: int, *, lost: bool = False, error: bool = False) -> None:
        """Send a TLP, a beat a clock. `lost` goes with its first beat, `error` with its last."""
        port = {name: getattr(self.dut, f"{side}_{name}") for name in ("valid", "data", "dws", "first", "last", "lost", "error")}
        step = WIDTH // 8
        for at in range(0, len(data), step):
            part = data[at : at + step]
            port["valid"].value = 1
            port["data"].value = int.from_bytes(part, "little")
            port["dws"].value = len(part) // 4
            port["first"].value = int(at == 0)
            port["last"].value = int(at + step >= len(data))
            port["lost"].value = int(lost and at == 0)
            port["error"].value = int(error and at + step >= len(data))
            await self.clock(time_ps if at == 0 else None)
        port["valid"].value = port["lost"].value = port["error"].value = 0


@cocotb.test()
async def every_command_of_strange_traffic_is_a_record_with_right_instants(dut: Any) -> None:
    Clock(dut.clk, 4, unit="ns").start()
    for side in ("down", "up"):
        for name in ("valid", "data", "dws", "first", "last", "error", "lost"):
            getattr(dut, f"{side}_{name}").value = 0
    for name in ("perst_n", "linked", "command_ready", "event_ready", "loss_ready"):
        getattr(dut, name).value = 1
    dut.attach_valid.value = 0
    dut.rst.value = 1
    for _ in range(4):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    played, player = traffic(int(os.environ["SEED"]), int(os.environ["BATCHES"])), Player(dut)
    for _ in range(20):
        await player.clock()
    before_ps = 0
    for packet in sorted(played.packets, key=lambda packet: packet.time_ps):
        for _ in range(max(LEAST_IDLE, min(MOST_IDLE, (packet.time_ps - before_ps) // 4000))):
            await player.clock()
        before_ps = packet.time_ps
        assert packet.time_ps not in player.tick_of, "an instant names its TLP"
        await player.send("down" if packet.down else "up", bytes(packet.data), packet.time_ps)
    for _ in range(30_000):
        await player.clock()
    expected = []
    for told in played.truth:
        cqe = player.tick_of[told.cqe_ps]
        row = {"cqe_tick": cqe, "qid": told.sqid, "cid": told.cid, "opcode": told.opcode, "flags": 0}
        for name, field in AGES.items():
            time_ps = getattr(told, field)
            row[name] = NEVER.get(name, 0xFFFFFFFF) if time_ps is None else abs(player.tick_of[time_ps] - cqe)
        expected.append(row)
    got, want = ({tuple(row[name] for name in PLAIN) for row in rows} for rows in (player.records, expected))
    assert len(player.records) == len(expected) == len(want) > 60
    assert got == want, (PLAIN, sorted(got - want)[:4], sorted(want - got)[:4])
    assert player.losses == 0
    assert int(dut.count_commands.value) == len(expected) and int(dut.count_in_flight.value) == 0
    assert int(dut.count_down_tlps.value) == sum(packet.down for packet in played.packets)
    assert int(dut.count_bar0.value) == 0x91_2000_0000 and int(dut.count_enabled.value) == 1


@cocotb.test()
async def damaged_and_missing_tlps_count_by_direction(dut: Any) -> None:
    """After the test before. The TLPs are writes of 32 bytes beyond all queues: six or three beats."""
    player, write = Player(dut), bytes.fromhex("60000008 000000ff 0000007e 00000000") + bytes(32)
    Clock(dut.clk, 4, unit="ns").start()
    names = ("malformed", "down_lost_tlps", "up_lost_tlps", "down_tlps", "up_tlps")
    before = {name: int(getattr(dut, f"count_{name}").value) for name in names}
    await player.send("up", write, -1, lost=True)
    await player.send("up", write, -2, error=True)
    await player.send("down", write, -3)
    for _ in range(300):
        await player.clock()
    grown = {name: int(getattr(dut, f"count_{name}").value) - before[name] for name in names}
    assert grown == {"malformed": 1, "down_lost_tlps": 0, "up_lost_tlps": 1, "down_tlps": 1, "up_tlps": 2}


@cocotb.test()
async def a_link_that_is_down_forgets_the_drive(dut: Any) -> None:
    """After the test before, in the same design. BAR0 that the link then does not show is told."""
    assert int(dut.count_bar0.value) == 0x91_2000_0000 and int(dut.count_enabled.value) == 1
    player = Player(dut)
    Clock(dut.clk, 4, unit="ns").start()
    dut.linked.value = 0
    for _ in range(4000):
        await player.clock()
    dut.linked.value = 1
    for _ in range(100):
        await player.clock()
    assert int(dut.count_enabled.value) == 0
    dut.attach_op.value, dut.attach_address.value, dut.attach_valid.value = ConfigOp.BAR0.value, 0x77_3300_0000, 1
    for _ in range(4000):
        await ReadOnly()
        taken = int(dut.attach_ready.value)
        await RisingEdge(dut.clk)
        if taken:
            dut.attach_valid.value = 0
            break
    for _ in range(100):
        await player.clock()
    assert int(dut.count_bar0.value) == 0x77_3300_0000
