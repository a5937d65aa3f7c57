"""Rounds of many TLPs in both directions of a damaged link, and figures of a tap's results."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.gateware.lanes import chain, commands, judge
from tests.gateware.lanes import lane_player as lp
from tests.gateware.lanes.bus_trace import Timed
from tests.gateware.lanes.sender import Sender, Wiring
from tests.gateware.phy import traffic as tr

ERRORS = 1e-4
STRESS_ROUND = 8000


def stress(player: Path, speed: str, lanes: int, tlps: int, seed: int, folder: Path) -> list[judge.Tally]:
    """Send random TLPs, replays of any length at any time, nullified and corrupted ones, and retraining, without NVMe commands."""
    r = random.Random(seed)
    ends, senders = [], []
    for name in ("down", "up"):
        sender = Sender(
            speed,
            lanes,
            seed=r.getrandbits(32),
            tick=chain.START,
            errors=r.choice([1e-5, ERRORS, ERRORS]),
            wiring=Wiring.some(r, lanes, speed),
        )
        replays, faults = r.choice([0.0, 0.03, 0.1]), r.choice([0.0, 0.03])
        for n in range(tlps // 2):
            sender.send(tr.some_tlp(r))
            if r.random() < 0.3:
                sender.acknowledge()
            if r.random() < 0.3:
                sender.link.idle(r.randrange(1, 12))
            if r.random() < replays:
                sender.replay(r.randrange(1, 12))
            if r.random() < faults:
                r.choice([sender.nullify, sender.spoil])()
            if n % 64 == 63:
                sender.link.replayer.acknowledge((sender.serial - 20) % 4096)
            if n % 1000 == 999:
                sender.retrain()
        sender.finish()
        senders.append(sender)
        ends.append(lp.write_lanes(folder / f"{name}.lanes", sender.wires(), reverse=sender.wiring.reverse))
    end = max(ends) // 4 * 4 + 20_000
    script = lp.Script(end=end, stop=end - 10_000).without_link_events()
    run = lp.play(player, "lanes", folder / "down.lanes", folder / "up.lanes", script, folder / "stress")
    assert chain.records(run.stream) == [], "a command out of TLPs that are none"
    return [judge.judge(s, run.tlps[d], run.events[d], run.counters[d]) for d, s in enumerate(senders)]


def nvme(
    player: Path, trace: Sequence[Timed], speed: str, lanes: int, seed: int, folder: Path, *, heard: float
) -> tuple[list[judge.Tally], commands.CommandTally]:
    """Play a real driver's run on a link with bit errors."""
    faults = chain.Faults(errors=ERRORS, heard=heard, replays=0.02, spoilt=0.02, retrain_every=2000, wired=True)
    sent = chain.send(trace, speed, lanes, seed=seed, faults=faults)
    played = chain.play(player, sent, folder)
    taken = {copy.tick: copy.serial for copy in sent.accepted[1]}
    compared = commands.compare(chain.records(played.lanes.stream), chain.records(played.alone.stream), taken, sent.senders[1])
    return played.tallies, compared


def run(player: Path, trace: Sequence[Timed], speed: str, lanes: int, tlps: int, folder: Path, result: Path, *, seed: int = 1) -> None:
    """Run until `tlps` were sent; one round in three is of `trace`. The figures go to `result` as they grow."""
    r = random.Random(f"{speed} {lanes} {seed}")
    total = {"stress": judge.Tally(), "heard by the link too": judge.Tally(), "some lost to the tap only": judge.Tally()}
    of_commands = {name: commands.CommandTally() for name in list(total)[1:]}
    turn = 0
    while sum(tally.sent for tally in total.values()) < tlps:
        left = tlps - sum(tally.sent for tally in total.values())
        number = r.getrandbits(32)
        try:
            if turn % 3 == 2:
                name = list(total)[1 + turn // 3 % 2]
                tallies, compared = nvme(player, trace[: max(left, 2500)], speed, lanes, number, folder, heard=(1.0, 0.7)[turn // 3 % 2])
                of_commands[name] += compared
                assert compared.phantom == compared.unnoticed == 0, compared
                # An SQE lost to the tap may leave its fetch behind when its command's CQE has come.
                assert compared.doubtful <= sum(tally.lost for tally in tallies) // 20 + 3, compared
            else:
                name = "stress"
                tallies = stress(player, speed, lanes, min(left, STRESS_ROUND), number, folder)
        except AssertionError as wrong:
            raise AssertionError(f"{speed} GT/s x{lanes}, round {turn} ({name}), seed {number}: {wrong}") from wrong
        for tally in tallies:
            total[name] += tally
        turn += 1
        result.write_text(
            json.dumps(
                {
                    "speed": speed,
                    "lanes": lanes,
                    "tlps": {k: asdict(v) for k, v in total.items()},
                    "commands": {k: asdict(v) for k, v in of_commands.items()},
                },
                indent=1,
            )
        )
    assert sum(tally.damaged for tally in total.values()) > 0.002 * tlps
