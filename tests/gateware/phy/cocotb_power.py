"""Power states, changes of width and rare legal traffic of a link, through the whole receiver.

The links are of `transmitter`, which shares no table with the gateware. A TLP that is missing without a count fails each test
(:meth:`tap.Tap.judge`).
"""

import cocotb

from tests.gateware.phy import traffic as tr
from tests.gateware.phy import transmitter as t
from tests.gateware.phy.cocotb_receiver import BROKEN, RATES, WIDTHS, states, up
from tests.gateware.phy.tap import BLOCKS, LANES, Wiring, tap
from tests.gateware.phy.transmitter.gen3_sets import fixed

GRANTED, READY = 1, 2
"""The other direction's agreement."""
PM_ENTER_L1, PM_ENTER_L23, PM_ACTIVE_STATE_REQUEST_L1, PM_REQUEST_ACK = (bytes([kind, 0, 0, 0]) for kind in (0x20, 0x21, 0x23, 0x24))


async def falls_asleep(dut, rate, *, asks, other):
    """Send some TLPs, the DLLPs `asks`, and EIOS; return the state that follows. `other`: PM DLLPs of the other direction."""
    it = await tap(dut)
    dut.other.value = other
    sent = tr.Traffic(LANES, seed=70 + rate, rate=rate)
    await up(it, sent)
    sent.some(4)
    for body in asks:
        for _ in range(3):  # PM DLLPs are repeated
            sent.dllp(body)
            sent.link.idle(4)
    sent.link.electrical_idle(300)
    heard = await it.play(sent, Wiring())
    it.judge(sent)
    assert len(heard.of("POWER")) == 3 * len(asks)
    return states(heard)[-1]


@cocotb.test()
@cocotb.parametrize(rate=RATES)
async def a_request_alone_is_not_l1(dut, rate):
    """The drive asks for L1 or L2/L3. The link enters only if the host sends PM_Request_Ack (PCIe Base 4.0, 5.4.1.2 and 5.3.2.1).

    The host refuses an ASPM request by a message, PM_Active_State_Nak. The drive then goes on, and its next EIOS is L0s.
    """
    for request in (PM_ACTIVE_STATE_REQUEST_L1, PM_ENTER_L1, PM_ENTER_L23):
        assert await falls_asleep(dut, rate, asks=[request], other=0) == "L0S"
    for request in (PM_ACTIVE_STATE_REQUEST_L1, PM_ENTER_L1):
        assert await falls_asleep(dut, rate, asks=[request], other=GRANTED) == "L1"
    assert await falls_asleep(dut, rate, asks=[PM_ENTER_L23], other=GRANTED) == "DETECT"
    # A drive that was refused L2/L3 asks for L1 later.
    assert await falls_asleep(dut, rate, asks=[PM_ENTER_L23, PM_ACTIVE_STATE_REQUEST_L1], other=GRANTED) == "L1"


@cocotb.test()
@cocotb.parametrize(rate=RATES)
async def the_host_grants(dut, rate):
    """The host's own EIOS after PM_Request_Ack is L1, or the end of the link if the drive asked for L2/L3."""
    assert await falls_asleep(dut, rate, asks=[PM_REQUEST_ACK], other=0) == "L1"
    assert await falls_asleep(dut, rate, asks=[PM_REQUEST_ACK], other=READY) == "DETECT"
    assert await falls_asleep(dut, rate, asks=[], other=0) == "L0S"


@cocotb.test()
@cocotb.parametrize(rate=RATES)
async def awake_only_to_grant(dut, rate):
    """A host in L0s wakes, sends PM_Request_Ack, and goes to sleep at once: that is L1, however short its L0 was."""
    it = await tap(dut)
    dut.other.value = 0
    sent = tr.Traffic(LANES, seed=75, rate=rate)
    await up(it, sent)
    sent.some(4)
    sent.sleep()
    sent.dllp(PM_REQUEST_ACK)
    sent.link.electrical_idle(300)
    heard = await it.play(sent, Wiring())
    it.judge(sent)
    assert states(heard)[-1] == "L1"


@cocotb.test()
@cocotb.parametrize(rate=RATES)
async def an_agreement_ends(dut, rate):
    """Neither a TLP nor a training after PM_Request_Ack leaves the agreement in force: the next EIOS is L0s."""
    it = await tap(dut)
    dut.other.value = 0
    sent = tr.Traffic(LANES, seed=80, rate=rate)
    await up(it, sent)
    sent.dllp(PM_REQUEST_ACK)
    sent.some(3)
    sent.sleep()
    sent.link.idle(200)
    sent.dllp(PM_REQUEST_ACK)
    sent.link.electrical_idle(300)
    sent.retrain()
    sent.sleep()
    sent.link.idle(200)
    sent.dllp(PM_REQUEST_ACK)
    sent.link.idle(40)
    sent.retrain()
    sent.sleep()
    sent.some(3)
    sent.end()
    heard = await it.play(sent, Wiring())
    it.judge(sent)
    begin = ["POLLING", "CONFIG", "L0"] if rate == 0 else ["RECOVERY", "L0"]
    assert states(heard) == [*begin, "L0S", "L0", "L1", "RECOVERY", "L0", "L0S", "L0", "RECOVERY", "L0", "L0S", "L0"]


@cocotb.test()
@cocotb.parametrize(rate=RATES, silent=[True, False], reverse=[True, False])
async def narrower_in_recovery(dut, rate, silent, reverse):
    """A link becomes narrower within Recovery, with no more than 8 TS2s, and sends a TLP as soon as it may. No TLP is lost.

    The other wires are silent at once, or carry noise. Then the link becomes wider again.
    """
    it = await tap(dut)
    played, sent = [], None
    for lanes in (4, 1, 4, 2, 1, 4):
        before, sent = sent, tr.Traffic(lanes, seed=90 + len(played), rate=rate, after=sent)
        if before is None:
            await up(it, sent, reverse=reverse)
        else:
            sent.retrain()
        sent.some(6, replays=0, faults=0)
        sent.end()
        played.append(sent)
        heard = await it.play(sent, Wiring(silent=silent, reverse=reverse))
    assert heard.tlps == [(copy.raw, copy.tick) for sent in played for copy in sent.copies]
    it.judge(*played)
    used = [(1 << n) - 1 << (LANES - n if reverse else 0) for n in (1, 4, 2, 1, 4)]
    assert [argument & 15 for _, argument in heard.of("LANES")][-5:] == used
    assert heard.counters["lost"] == 0


@cocotb.test()
@cocotb.parametrize(rate=RATES)
async def eight_ts2_and_nothing_else(dut, rate):
    """The first numbered training sequences on fewer lanes are the 8 TS2s themselves."""
    it = await tap(dut)
    played, sent = [], None
    for lanes in (4, 1, 4):
        before, sent = sent, tr.Traffic(lanes, seed=100 + len(played), rate=rate, after=sent)
        if before is None:
            await up(it, sent)
        elif rate == 2:
            sent.link.train(first=0, second=8, link=1)
            sent.link.idle(16)
        else:
            sent.link.training(t.TS2, 8, link=1, numbered=True)
            sent.link.idle(16)
        sent.some(6, replays=0, faults=0)
        sent.end()
        played.append(sent)
        heard = await it.play(sent, Wiring(silent=lanes == 1))
    assert heard.tlps == [(copy.raw, copy.tick) for sent in played for copy in sent.copies]
    it.judge(*played)


@cocotb.test()
@cocotb.parametrize(rate=RATES, lanes=WIDTHS)
async def separate_reference_clocks(dut, rate, lanes):
    """SRIS: SKP ordered sets ten times as often, of any length that repeaters make. Vendor-specific, NOP and feature DLLPs between.

    At 8 GT/s a set comes after 37 blocks at most, at the other speeds after 154 symbols (PCIe Base 4.0, 4.2.7.3).
    """
    it = await tap(dut)
    sent = tr.Traffic(lanes, seed=110 + lanes, rate=rate, skp_interval=37 * 16 if rate == 2 else 154)
    await up(it, sent)
    r, others = sent.r, 0
    for _ in range(10):
        sent.some(6)
        for _ in range(r.randrange(1, 4)):
            # Vendor-specific, NOP, Data_Link_Feature; their other bytes may look like anything.
            sent.dllp(bytes([r.choice((0x30, 0x31, 0x02)), *r.choice((r.randbytes(3), bytes([0x24, 0, 0]), bytes([0x40, 0, 0])))]))
            others += 1
        sent.link.idle(r.randrange(60))
    sent.end()
    heard = await it.play(sent, Wiring(skew=(1, 4, 0, 3)[:lanes]))
    it.judge(sent)
    assert len(heard.tlps) == 60 and others > 10
    assert heard.counters["dllps"] == len(sent.dllps) and not heard.of("POWER")
    assert states(heard) == sent.states
    assert not any(heard.counters[name] for name in BROKEN), heard.counters


def eieos_between(sent: tr.Traffic, count: int, every: int) -> None:
    """Go through a long Recovery with EIEOS within it, as at 5 and 8 GT/s (PCIe Base 4.0, 4.2.4.2), and send at once."""
    link = sent.link
    if sent.rate == 2:
        link.train(first=count, second=count // 2, link=1, eieos_every=every)
    else:
        for kind, number in ((t.TS1, count), (t.TS2, count // 2)):
            for at in range(0, number, every):
                link.eieos()
                link.training(kind, min(every, number - at), link=1, numbered=True)
    link.idle(16)
    sent.states += ["RECOVERY", "L0"]


@cocotb.test()
@cocotb.parametrize(rate=[n for n in RATES if n], lanes=WIDTHS)
async def eieos_within_recovery(dut, rate, lanes):
    """An EIEOS after every 32 training sequences, and after fewer, neither moves a lane nor loses a TLP after it."""
    it = await tap(dut)
    sent = tr.Traffic(lanes, seed=120 + lanes, rate=rate)
    await up(it, sent)
    sent.some(6)
    for count, every in ((70, 32), (12, 3), (8, 2)):
        eieos_between(sent, count, every)
        sent.some(6)
    sent.end()
    heard = await it.play(sent, Wiring(skew=(2, 0, 3, 1)[:lanes], shift=(3, 0, 6, 1)[:lanes]))
    it.judge(sent)
    assert states(heard) == sent.states and len(heard.tlps) == 24
    counted = heard.counters
    assert not any(counted[name] for name in BROKEN), counted
    assert counted["unlocked"] == 0


@cocotb.test()
@cocotb.parametrize(rate=RATES, lanes=WIDTHS)
async def out_of_l1_into_traffic(dut, rate, lanes):
    """L1.1 and L1.2 in the middle of traffic: the last TLP just before PM_Request_Ack, the first one as soon as Recovery ends.

    The silence is a constant level (L1.1, common mode kept) or noise (L1.2: the receiver hears nothing at all), and of any length.
    """
    it = await tap(dut)
    dut.other.value = GRANTED
    played, sent = [], None
    for number, noise in enumerate((None, 0, 300, 90, 0)):
        sent = tr.Traffic(lanes, seed=130 + number, rate=rate, after=sent)
        if number == 0:
            await up(it, sent)
        elif rate:
            eieos_between(sent, 40 if number % 2 else 6, 32)
        else:
            sent.retrain()
        sent.some(6)
        sent.send(tr.some_tlp(sent.r))
        sent.dllp(PM_ACTIVE_STATE_REQUEST_L1)
        sent.link.electrical_idle(120 if noise else 500)
        played.append(sent)
        heard = await it.play(sent, Wiring(skew=(1, 3, 0, 2)[:lanes], shift=(1, 0, 5, 2)[:lanes], noise=noise or 0, silent=True))
    it.judge(*played)
    assert len(heard.tlps) == 35 and heard.counters["lost"] == 0
    begin = ["POLLING", "CONFIG"] if rate == 0 else ["RECOVERY"]
    assert states(heard) == [*begin, "L0", "L1", *["RECOVERY", "L0", "L1"] * 4]


@cocotb.test()
@cocotb.parametrize(rate=RATES, lanes=WIDTHS)
async def out_of_l0s_into_traffic(dut, rate, lanes):
    """L0s with few and with many FTS, and a TLP directly behind the ordered sets that end them."""
    it = await tap(dut)
    sent = tr.Traffic(lanes, seed=140, rate=rate)
    await up(it, sent)
    for count in (4 if rate == 2 else 12, 40, 255):
        sent.some(6)
        sent.link.electrical_idle(160)
        if rate == 1:
            sent.link.on_all([t.EIE] * 6)  # 4 to 8 of them (PCIe Base 4.0, 4.2.4.2)
        if rate == 2:
            for at in range(0, count, 32):
                sent.link.ordered(fixed("EIEOS"), *[fixed("FTS")] * min(32, count - at))
            sent.link.ordered(fixed("EIEOS"))
            sent.link.start_stream()
        else:
            sent.link.fast_training(count)
        sent.states += ["L0S", "L0"]
    sent.some(6)
    sent.end()
    heard = await it.play(sent, Wiring(skew=(0, 2, 1, 3)[:lanes], shift=(4, 0, 2, 1)[:lanes]))
    it.judge(sent)
    assert len(heard.tlps) == 24 and heard.counters["lost"] == 0
    assert states(heard) == sent.states


@cocotb.test(skip=not BLOCKS)
@cocotb.parametrize(control=[1, 2])
async def hot_reset_and_disable(dut, control):
    """TS1s with the bit Hot Reset or Disable Link bring the link down, from L0 and from Recovery, at each speed."""
    for rate in RATES:
        for recovering in (0, 6):
            it = await tap(dut)
            sent = tr.Traffic(LANES, seed=150, rate=rate)
            await up(it, sent)
            sent.some(4)
            if rate == 2:
                sent.link.training_sets(first=max(recovering, 1), second=0, link=1)
                sent.link.training_sets(first=12, second=0, link=1, control=control)
            else:
                sent.link.training(t.TS1, recovering, link=1, numbered=True)
                sent.link.training(t.TS1, 12, link=1, numbered=True, control=control)
            heard = await it.play(sent, Wiring())
            it.judge(sent)
            assert states(heard)[-2:] == ["RECOVERY", "DETECT"]
