"""A drive in LiteX for the example: a PHY for simulation, and just as much NVMe as the bench needs."""

from __future__ import annotations

from typing import Any

from litepcie.common import get_bar_mask, msi_layout, phy_layout
from litex.gen import LiteXModule
from litex.soc.interconnect import stream
from migen import FSM, Array, Case, Cat, If, Mux, NextState, NextValue, Signal

ENTRIES = 16
"""Entries of each queue."""
BLOCK = 512
"""Bytes of a block; each command moves one."""
PAYLOAD = 128
"""Most bytes of payload of a TLP."""


class SimulatedPhy(LiteXModule):
    """What a PHY of LitePCIe shows to its endpoint. The bench is the hard block behind it, which answers configuration requests itself."""

    qword_aligned = False

    def __init__(self, data_width: int, endianness: str, function: int) -> None:
        self.data_width, self.endianness = data_width, endianness
        self.bar0_size = 0x4000
        self.bar0_mask = get_bar_mask(self.bar0_size)
        self.id = Signal(16, reset=function)
        self.max_request_size, self.max_payload_size = Signal(16, reset=BLOCK), Signal(16, reset=PAYLOAD)
        self.sink, self.source = stream.Endpoint(phy_layout(data_width)), stream.Endpoint(phy_layout(data_width))
        self.msi = stream.Endpoint(msi_layout())


class Drive(LiteXModule):
    """An admin queue pair and one of I/O. It knows Create I/O CQ and SQ, reads and writes of one block, and forgets the data.

    Register 2000h is the address of interrupt messages. At 0 the PHY makes them, as with LitePCIe's pins to the hard block. Otherwise
    the drive writes them itself, as `LitePCIeMSIX` does; the data is the queue.
    """

    def __init__(self, endpoint: Any) -> None:
        phy = endpoint.phy
        assert phy.data_width == 64, "the drive's beats have two double words"
        # All of BAR0 is the drive's. A constant 1 would become an `always @(*)` without inputs, which Verilator never runs.
        slave = endpoint.crossbar.get_slave_port(address_decoder=lambda address: address[14:] == 0)
        master = endpoint.crossbar.get_master_port()
        tails = Array([Signal(max=ENTRIES, name=f"tail_{queue}") for queue in range(2)])
        heads = Array([Signal(max=ENTRIES, name=f"head_{queue}") for queue in range(2)])
        sqs, cqs = (Array([Signal(32, name=f"{name}_{queue}") for queue in range(2)]) for name in ("sq", "cq"))
        places = Array([Signal(max=ENTRIES, name=f"place_{queue}") for queue in range(2)])
        phases = Array([Signal(reset=1, name=f"phase_{queue}") for queue in range(2)])
        enabled, message = Signal(), Signal(32)

        # Registers and doorbells
        request, reply = slave.sink, slave.source
        value = Signal(32)
        self.comb += [
            Case(request.adr[:14], {0x00: value.eq(0x0F00_0000 | ENTRIES - 1), 0x1C: value.eq(enabled), "default": value.eq(0)}),
            request.ready.eq(request.we | reply.ready),
            reply.valid.eq(request.valid & ~request.we),
            reply.first.eq(1),
            reply.last.eq(1),
            reply.len.eq(1),
            reply.adr.eq(request.adr),
            reply.tag.eq(request.tag),
            reply.req_id.eq(request.req_id),
            reply.cmp_id.eq(phy.id),
            reply.dat.eq(value),
        ]
        number = request.dat[:32]
        self.sync += If(
            request.valid & request.we & request.first,
            Case(
                request.adr[:14],
                {
                    0x14: enabled.eq(number[0]),
                    0x28: sqs[0].eq(number),
                    0x30: cqs[0].eq(number),
                    0x1000: tails[0].eq(number),
                    0x1008: tails[1].eq(number),
                    0x2000: message.eq(number),
                },
            ),
        )

        # Commands
        ask, answer = master.source, master.sink
        queue, beat, piece = Signal(), Signal(8), Signal(8)
        opcode, cid, prp1 = Signal(8), Signal(16), Signal(32)
        entry_beats = {0: [NextValue(opcode, answer.dat[:8]), NextValue(cid, answer.dat[16:32])], 3: [NextValue(prp1, answer.dat[:32])]}
        self.comb += [ask.req_id.eq(phy.id), ask.first.eq(beat == 0), phy.msi.dat.eq(queue)]
        self.fsm = fsm = FSM(reset_state="WAIT")
        fsm.act(
            "WAIT",
            NextValue(beat, 0),
            NextValue(piece, 0),
            If(enabled & (tails[0] != heads[0]), NextValue(queue, 0), NextState("FETCH")).Elif(
                enabled & (tails[1] != heads[1]), NextValue(queue, 1), NextState("FETCH")
            ),
        )
        fsm.act(
            "FETCH",
            ask.valid.eq(1),
            ask.last.eq(1),
            ask.adr.eq(sqs[queue] + (heads[queue] << 6)),
            ask.len.eq(16),
            If(ask.ready, NextState("ENTRY")),
        )
        fsm.act(
            "ENTRY",
            answer.ready.eq(1),
            If(
                answer.valid,
                NextValue(beat, beat + 1),
                Case(beat, {**entry_beats, "default": []}),
                If(answer.last & answer.end, NextValue(beat, 0), NextState("ACT")),
            ),
        )
        fsm.act(
            "ACT",
            NextValue(heads[queue], heads[queue] + 1),
            NextState("COMPLETE"),
            If(
                queue,
                If(opcode == 1, NextState("ASK")).Elif(opcode == 2, NextState("SEND")),
            ).Else(
                If(opcode == 1, NextValue(sqs[1], prp1)).Elif(opcode == 5, NextValue(cqs[1], prp1)),
            ),
        )
        fsm.act("ASK", ask.valid.eq(1), ask.last.eq(1), ask.adr.eq(prp1), ask.len.eq(BLOCK // 4), If(ask.ready, NextState("TAKE")))
        fsm.act("TAKE", answer.ready.eq(1), If(answer.valid & answer.last & answer.end, NextState("COMPLETE")))
        fsm.act(
            "SEND",
            ask.valid.eq(1),
            ask.we.eq(1),
            ask.adr.eq(prp1 + PAYLOAD * piece),
            ask.len.eq(PAYLOAD // 4),
            ask.last.eq(beat == PAYLOAD // 8 - 1),
            ask.dat.eq(Cat(beat, piece, cid, beat, piece, cid)),
            If(
                ask.ready,
                NextValue(beat, beat + 1),
                If(
                    ask.last,
                    NextValue(beat, 0),
                    NextValue(piece, piece + 1),
                    If(piece == BLOCK // PAYLOAD - 1, NextState("COMPLETE")),
                ),
            ),
        )
        fsm.act(
            "COMPLETE",
            ask.valid.eq(1),
            ask.we.eq(1),
            ask.adr.eq(cqs[queue] + (places[queue] << 4)),
            ask.len.eq(4),
            ask.last.eq(beat == 1),
            ask.dat.eq(Mux(beat == 0, 0, Cat(heads[queue], Signal(16 - len(heads[0])), queue, Signal(15), cid, phases[queue], Signal(15)))),
            If(ask.ready, NextValue(beat, beat + 1), If(ask.last, NextValue(beat, 0), NextState("INTERRUPT"))),
        )
        fsm.act(
            "INTERRUPT",
            phy.msi.valid.eq(message == 0),
            ask.valid.eq(message != 0),
            ask.we.eq(1),
            ask.adr.eq(message),
            ask.len.eq(1),
            ask.last.eq(1),
            ask.dat.eq(queue),
            If(
                Mux(message == 0, phy.msi.ready, ask.ready),
                NextValue(places[queue], places[queue] + 1),
                If(places[queue] == ENTRIES - 1, NextValue(phases[queue], ~phases[queue])),
                NextState("WAIT"),
            ),
        )
