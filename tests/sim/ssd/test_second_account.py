"""The model's truth against a second account of the same run (``second_account.py``): part by part, and at absolute times.

The profiles are the shipped ones without their random spreads, so every array operation takes the profile's time. No two parts
share a figure.
"""

from __future__ import annotations

import csv
import json
import math
import subprocess
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.sim.ssd.second_account import (
    PROFILES,
    SIM,
    Bus,
    array_ops,
    link_within,
    profile_tables,
    profile_text,
    rail_within,
    read_bus,
    user_bytes,
)

LINK_NAMES = {3: "l1", 5: "l1_2", 7: "off"}
"""LinkState of docs/bus-trace.md; the account books all other states as L0."""
READS, READ_BYTES = 512, 4096
LARGE, LARGE_BYTES = 32, 128 << 10
WRITTEN, WRITE_BYTES = 8 << 20, 128 << 10
PLAN = """condition = "test-data"
[[step]]
name = "small reads"
fio = "small.fio"
[[step]]
name = "large reads"
fio = "large.fio"
[[step]]
name = "writes"
fio = "write.fio"
[[step]]
name = "l1"
idle_s = 0.02
aspm = "l1"
[[step]]
name = "l1.2"
idle_s = 0.05
aspm = "l1.2"
[[step]]
name = "asleep"
idle_s = 2.5
aspm = "l1.2"
apst = true
[[step]]
name = "wake-up"
wake = { idle_s = 2.5 }
aspm = "l1.2"
apst = true
[[step]]
name = "asked for"
idle_s = 0.05
ps = 3
[[step]]
name = "restart"
restart = { off_s = 0.05 }
[[step]]
name = "format"
format = { nsid = 1, ses = 1 }
[[step]]
name = "nothing"
fio = "small.fio"
"""
HEAD = "[a]\nioengine=libaio\ndirect=1\nsize=256m\n"
JOBS = {
    "small": f"{HEAD}rw=randread\nbs={READ_BYTES}\nnumber_ios={READS}\n",
    "large": f"{HEAD}rw=randread\nbs={LARGE_BYTES}\nnumber_ios={LARGE}\n",
    "write": f"{HEAD}rw=write\nbs={WRITE_BYTES}\nio_size={WRITTEN}\nend_fsync=1\n",
}


@dataclass
class Run:
    """A run of the plan: the profile's figures, the bus, the truth by name of phase, and the states' log."""

    profile: dict[str, Any]
    bus: Bus
    truth: dict[str, Any]
    states: dict[str, list[tuple[int, str]]]
    lent: dict[str, int]
    """Truth of the traffic to the host memory buffer."""

    def spent(self, phase: str) -> dict[str, Any]:
        return self.truth[phase]["spent"]

    def bounds(self, phase: str) -> tuple[int, int]:
        return self.truth[phase]["start_tick"] * 1000, self.truth[phase]["end_tick"] * 1000


def made(name: str) -> dict[str, Any]:
    """Return the figures of the profile ``name`` without spreads, each power different from all others."""
    tables = profile_tables(name)
    tables["controller"].update(spread=0.0, wake_spread=0.0)
    tables["flash"]["read_spread"] = 0.0
    tables["power"].update(die_read_w=0.071, die_program_slc_w=0.163, die_program_dense_w=0.211, channel_w=0.083, data_path_w=0.377)
    return tables


@pytest.fixture(scope="module", params=["intel-660p-1tb", "wd-sn750", "toshiba-rc100"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("account")
    profile = made(request.param)
    (folder / "p.toml").write_text(profile_text(profile))
    (folder / "plan.toml").write_text(PLAN)
    for name, text in JOBS.items():
        (folder / f"{name}.fio").write_text(text)
    program = SIM / "target" / "release" / "wattbell-ssd"
    outputs = [f"--{name}={folder / name}" for name in ("trace", "truth", "truth-states")]
    subprocess.run([program, "run", "--profile", folder / "p.toml", "--plan", folder / "plan.toml", *outputs], check=True)
    states: dict[str, list[tuple[int, str]]] = {"core": [], "link": []}
    with (folder / "truth-states").open() as file:
        for row in csv.DictReader(file):
            if row["part"] in states:
                states[row["part"]].append((int(row["from_ps"]), row["state"]))
    document = json.loads((folder / "truth").read_text())
    truth = {phase["name"]: phase for phase in document["phases"]}
    return Run(profile, read_bus(folder / "trace"), truth, states, document["host_memory_buffer"])


def close(value: float, rel: float = 1e-6) -> Any:
    return pytest.approx(value, rel=rel, abs=1e-12)


def page_bytes(profile: dict[str, Any]) -> int:
    return profile["flash"]["planes"] * profile["flash"]["page_kib"] * 1024


def read_s(profile: dict[str, Any]) -> float:
    """Return the time in s of an array read of test data, which is either in the cache or in dense flash."""
    share = profile["flash"]["test_data_slc_share"]
    assert share in {0, 1}
    return profile["flash"]["read_slc_us" if share else "read_dense_us"] * 1e-6


def test_a_phase_lies_between_its_markers_doorbells(run: Run) -> None:
    bounds = run.bus.bounds()
    assert [run.bounds(name) for name in run.truth] == [bounds[n + 1] for n in range(len(run.truth))]


def test_energy_and_extremes_are_those_of_the_rail(run: Run) -> None:
    for name, phase in run.truth.items():
        joules, least, most = rail_within(run.bus, *run.bounds(name))
        seconds = (phase["end_tick"] - phase["start_tick"]) * 1e-9
        assert phase["energy_j"] == close(joules, 1e-9), name
        assert phase["mean_w"] == close(joules / seconds, 1e-9), name
        assert phase["min_w"] == pytest.approx(least, abs=2e-9), name
        assert phase["max_w"] == pytest.approx(most, abs=2e-9), name
        assert phase["duration_s"] == close(seconds, 1e-12), name


@pytest.mark.parametrize(("phase", "size", "count"), [("small reads", READ_BYTES, READS), ("large reads", LARGE_BYTES, LARGE)])
def test_each_part_of_a_read(run: Run, phase: str, size: int, count: int) -> None:
    power, spent = run.profile["power"], run.spent(phase)
    moved = user_bytes(run.bus, "read", *run.bounds(phase))
    assert moved == size * count
    found = spent["purposes"]["read"]
    assert found["data_path"] == close(moved / run.profile["controller"]["data_path_mb_per_s"] * 1e-6 * power["data_path_w"], 1e-4)
    assert found["channel"] == close(moved / run.profile["flash"]["channel_mb_per_s"] * 1e-6 * power["channel_w"], 1e-4)
    operations = array_ops(size, count, page_bytes(run.profile))
    assert found["die"] == close(operations * read_s(run.profile) * power["die_read_w"])
    assert set(found) == {"die", "channel", "data_path"}
    assert set(spent["purposes"]) <= {"read", "map"}
    mapped = spent["purposes"].get("map", {})
    if mapped:
        assert run.profile["flash"]["map_cache_kib"] > 0
        each = run.profile["flash"]["read_slc_us"] * 1e-6 * power["die_read_w"]
        assert mapped["die"] / each == pytest.approx(round(mapped["die"] / each), abs=1e-6)
    (command,) = spent["commands"]
    assert (command["opcode"], command["blocks"], command["count"]) == (2, size // 512, count)
    assert command["own_j"] == close(sum(found.values()) + sum(mapped.values()), 1e-5)


def test_each_part_of_a_write(run: Run) -> None:
    power, spent = run.profile["power"], run.spent("writes")
    moved = user_bytes(run.bus, "write", *run.bounds("writes"))
    assert moved == WRITTEN
    found = spent["purposes"]["write"]
    assert found["data_path"] == close(moved / run.profile["controller"]["data_path_mb_per_s"] * 1e-6 * power["data_path_w"], 1e-4)
    assert found["channel"] == close(moved / run.profile["flash"]["channel_mb_per_s"] * 1e-6 * power["channel_w"], 1e-4)
    programs = array_ops(moved, 1, page_bytes(run.profile))
    assert found["die"] == close(programs * run.profile["flash"]["program_slc_us"] * 1e-6 * power["die_program_slc_w"])
    by_opcode = {command["opcode"]: command for command in spent["commands"]}
    assert (by_opcode[1]["count"], by_opcode[0]["count"]) == (WRITTEN // WRITE_BYTES, 1)
    assert by_opcode[1]["own_j"] == close(sum(found.values()) + sum(spent["purposes"].get("map", {}).values()), 1e-5)


@pytest.mark.parametrize("phase", ["small reads", "large reads", "nothing"])
def test_a_command_in_hand_is_the_time_from_its_doorbell_to_its_completion(run: Run, phase: str) -> None:
    start, end = run.bounds(phase)
    bells = [time for time, queue in run.bus.doorbells if queue > 0 and start < time < end]
    in_hand = sum(run.bus.cqes[bisect_left(run.bus.cqes, bell)] - bell for bell in bells) * 1e-12
    found = run.spent(phase)["active"]["io_in_hand"]
    flight = len(bells) * run.profile["link"]["flight_ns"] * 1e-9
    assert found["s"] == pytest.approx(in_hand - flight, abs=len(bells) * 20e-9)
    assert found["j"] == close(found["s"] * run.profile["power"]["core_active_w"])
    (command,) = run.spent(phase)["commands"]
    assert command["share_j"] == close(found["j"])


def test_traffic_to_lent_memory_is_that_of_the_map(run: Run) -> None:
    sizes = {kind: [size for _, name, size in run.bus.lent_traffic if name == kind] for kind in ("reads", "writes")}
    found = {"reads": len(sizes["reads"]), "writes": len(sizes["writes"])}
    assert run.lent == {**found, "read_bytes": sum(sizes["reads"]), "written_bytes": sum(sizes["writes"])}
    if not run.profile.get("offer", {}).get("hmb_preferred_mib"):
        assert run.lent == {"reads": 0, "read_bytes": 0, "writes": 0, "written_bytes": 0}
        return
    lent = sum(end - start for start, end in run.bus.lent)
    assert lent == run.profile["offer"]["hmb_preferred_mib"] << 20
    start, end = run.bounds("small reads")
    within = {kind: [size for time, name, size in run.bus.lent_traffic if name == kind and start < time < end] for kind in sizes}
    each_j = run.profile["flash"]["read_slc_us"] * 1e-6 * run.profile["power"]["die_read_w"]
    misses = run.spent("small reads")["purposes"]["map"]["die"] / each_j
    assert sum(within["writes"]) == round(misses) * 4096 > 0  # each page that was read from flash
    assert within["reads"] and set(within["reads"]) == {64}
    assert len(within["reads"]) <= READS - round(misses)
    start, end = run.bounds("writes")
    entries = [size for time, name, size in run.bus.lent_traffic if name == "writes" and start < time < end and size <= 64]
    assert sum(entries) == 4 * WRITTEN // 4096  # small reads hold every map page of the written range


def test_what_is_left_of_the_rail_is_the_controller_without_io_in_hand(run: Run) -> None:
    for name in run.truth:
        spent = run.spent(name)
        joules, _, _ = rail_within(run.bus, *run.bounds(name))
        booked = sum(j for units in spent["purposes"].values() for j in units.values()) + spent["supply_j"]
        booked += sum(state["j"] for part in ("core", "link") for state in spent[part].values())
        booked += spent["active"].get("io_in_hand", {"j": 0})["j"]
        left = spent["active"]["no_io_in_hand"]
        # changes closer than coalesce_ns are merged, also across a phase's end: up to a microsecond of the whole power
        assert left["j"] == pytest.approx(joules - booked, abs=3e-6), name
        assert 0 <= left["j"] <= left["s"] * run.profile["power"]["core_active_w"] + 1e-12, name


def test_time_and_energy_of_each_link_state(run: Run) -> None:
    watt = {name: run.profile["power"][f"link_{name}_w"] for name in ("l0", "l1", "l1_2")} | {"off": 0.0}
    for name in run.truth:
        seconds = link_within(run.bus, *run.bounds(name), LINK_NAMES)
        found = run.spent(name)["link"]
        assert {state: f["s"] for state, f in found.items()} == pytest.approx(seconds, rel=1e-9, abs=2e-12), name
        joules = {state: time * watt[state] for state, time in seconds.items()}
        assert {state: f["j"] for state, f in found.items()} == pytest.approx(joules, rel=1e-6, abs=1e-12), name
    assert set(run.spent("l1")["link"]) == {"l0", "l1"}
    assert set(run.spent("l1.2")["link"]) == {"l0", "l1", "l1_2"}


def test_the_log_of_link_states_has_the_times_of_the_bus(run: Run) -> None:
    names = {1: "l0", 3: "l1", 5: "l1_2", 6: "l0", 7: "off"}
    shown = [(time, names[state]) for time, state in run.bus.link if time > 0]
    shown = [now for before, now in pairwise([(0, ""), *shown]) if before[1] != now[1]]
    assert run.states["link"] == shown


def test_aspm_begins_after_the_last_symbol_and_takes_the_profiles_times(run: Run) -> None:
    link = run.profile["link"]
    tlps = [time for time, _ in run.bus.tlps]
    entered: list[str] = []
    for (before_at, before), (at, state) in pairwise(run.bus.link):
        if (before, state) == (1, 3):
            index = bisect_right(tlps, at) - 1
            last, size = run.bus.tlps[index]
            quiet = max(last + (size + 8) * 253.9, before_at)
            idle = (at - quiet) * 1e-6
            entered.append("l1")
            # a command in progress, and the interrupt after it, keep the link awake a little longer
            assert link["l1_idle_us"] - 0.01 <= idle <= link["l1_idle_us"] + 5, at
        elif (before, state) == (3, 5):
            entered.append("l1_2")
            assert (at - before_at) == link["l1_2_idle_us"] * 1_000_000
            assert (at, 1) in run.bus.clkreq
        elif state == 6:
            assert before in {3, 5}
            assert before == 3 or (at, 0) in run.bus.clkreq
        elif before == 6:
            (low,) = [s for t, s in run.bus.link if t == max(t for t, s in run.bus.link if t < before_at)]
            exit_us = link["l1_exit_us" if low == 3 else "l1_2_exit_us"]
            assert (state, at - before_at) == (1, exit_us * 1_000_000)
    assert entered.count("l1") > entered.count("l1_2") >= 3


def core_within(run: Run, phase: str) -> dict[str, float]:
    start, end = run.bounds(phase)
    seconds: dict[str, float] = {}
    for (since, state), (until, _) in pairwise([*run.states["core"], (run.bus.end, "")]):
        time = min(until, end) - max(since, start)
        if time > 0:
            seconds[state] = seconds.get(state, 0.0) + time * 1e-12
    return seconds


def core_w(run: Run, state: str) -> float:
    """Return the power in W of a core state that begins in PS0: entering keeps the old state's power, leaving has PS0's."""
    if state.startswith("ps"):
        return run.profile["power_state"][int(state[2:])]["core_w"]
    return {"booting": run.profile["power"]["boot_w"], "off": 0.0}.get(state, run.profile["power_state"][0]["core_w"])


def test_time_and_energy_of_each_power_state(run: Run) -> None:
    for name in run.truth:
        seconds, found = core_within(run, name), run.spent(name)["core"]
        assert {state: f["s"] for state, f in found.items()} == pytest.approx(seconds, rel=1e-9, abs=2e-12), name
        for state, f in found.items():
            if not (state.startswith("entering") and len([s for s in found if s.startswith("entering")]) > 1):
                assert f["j"] == close(f["s"] * core_w(run, state)), (name, state)
    for name in ("small reads", "large reads", "writes", "l1", "l1.2", "nothing"):
        assert core_within(run, name) == {"ps0": pytest.approx(run.truth[name]["duration_s"])}


def linux_wait_ms(profile: dict[str, Any]) -> list[tuple[int, int]]:
    """Return (idle time in ms, state) by Linux' rule, from the profile's declared latencies: docs/ssd-behaviour.md, "Power"."""
    rows = []
    for number, state in enumerate(profile["power_state"]):
        total = state["entry_us"] + state["exit_us"]
        if not state["operational"]:
            rows.append((100 if total <= 15_000 else 2000 if total <= 100_000 else 0, number))
    first = max((n for wait, n in rows if wait == 100), default=None)
    second = max((n for wait, n in rows if wait == 2000), default=None)
    return [(100, first)] * (first is not None) + [(2000, second)] * (second is not None)


def test_power_states_change_at_the_times_that_bus_and_profile_give(run: Run) -> None:
    profile, core = run.profile, run.states["core"]
    start, end = run.bounds("asleep")
    cqe = run.bus.cqes[bisect_left(run.bus.cqes, start)]  # of the phase's first marker: no command is in progress after it
    since, expected = cqe, []
    for wait_ms, state in linux_wait_ms(profile):
        entry = profile["power_state"][state]["real_entry_us"] * 1_000_000
        expected += [(since + wait_ms * 10**9, f"entering_ps{state}"), (since + wait_ms * 10**9 + entry, f"ps{state}")]
        since += wait_ms * 10**9 + entry
    expected = [(at, state) for at, state in expected if at < end]
    found = [(at, state) for at, state in core if cqe < at < end]
    assert [state for _, state in found] == [state for _, state in expected] and found
    for (at, _), (wanted, _) in zip(found, expected, strict=True):
        assert at == pytest.approx(wanted, abs=5_000_000)  # 5 us: the host takes the marker's completion
    for (entering, name), (at, state) in pairwise(core):
        if name.startswith("entering") and state.startswith("ps"):
            assert at - entering == profile["power_state"][int(state[2:])]["real_entry_us"] * 1_000_000


def test_leaving_begins_with_the_doorbell_and_takes_the_real_exit_latency(run: Run) -> None:
    start, end = run.bounds("wake-up")
    (bell,) = [time for time, queue in run.bus.doorbells if queue > 0 and start < time < end]
    core = run.states["core"]
    index = next(i for i, (at, state) in enumerate(core) if state == "leaving" and at > bell)
    (_, before), (left, _), (awake, state) = core[index - 1 : index + 2]
    assert 0 < left - bell - run.profile["link"]["flight_ns"] * 1000 < 20_000
    assert before.startswith("ps") and state == "ps0"
    assert awake - left == run.profile["power_state"][int(before[2:])]["real_exit_us"] * 1_000_000
    (command,) = run.spent("wake-up")["commands"]
    assert command["share_j"] == close((run.spent("wake-up")["active"]["io_in_hand"]["s"]) * run.profile["power"]["core_active_w"])


def test_settled_power_is_that_of_the_states(run: Run) -> None:
    for name, link in (("l1", "l1"), ("l1.2", "l1_2"), ("asleep", "l1_2"), ("asked for", "l0")):
        phase = run.truth[name]
        core = run.profile["power_state"][phase["power_state"]]["core_w"]
        assert phase["settled_w"] == pytest.approx(core + run.profile["power"][f"link_{link}_w"], abs=2e-9), name
        assert phase["link_state"] == {"l0": "L0", "l1": "L1", "l1_2": "L1.2"}[link]
    assert run.truth["asked for"]["power_state"] == 3


def test_a_restart_charges_the_capacitors_and_boots(run: Run) -> None:
    power, spent, phase = run.profile["power"], run.spent("restart"), run.truth["restart"]
    assert spent["supply_j"] == close(power["input_uf"] * 1e-6 * power["supply_v"] ** 2 / 2, 1e-3)
    off, on = phase["supply"]["off_ps"], phase["supply"]["on_ps"]
    assert on - off == 50 * 10**9
    rise = int(power["rise_ms"] * 1e9)
    assert [(at, state) for at, state in run.states["core"] if off <= at <= on + rise] == [(off, "off"), (on + rise, "booting")]
    assert (off, 0, 0) in run.bus.rail
    assert spent["core"]["off"] == {"j": 0.0, "s": close((on - off + rise) * 1e-12)}
    joules, least, _ = rail_within(run.bus, off, on + rise)
    assert least == 0 and joules == pytest.approx(spent["supply_j"], rel=2e-3)


def test_format_leaves_nothing_to_read(run: Run) -> None:
    erase = run.spent("format")["purposes"]["erase"]
    flash, power = run.profile["flash"], run.profile["power"]
    erase_ms = run.profile.get("offer", {}).get("erase_ms", 2500)
    dies = flash["channels"] * flash["dies_per_channel"]
    assert erase == {"die": close(dies * power["die_program_slc_w"] * erase_ms * 1e-3)}
    found = run.spent("nothing")["purposes"]
    moved = user_bytes(run.bus, "read", *run.bounds("nothing"))
    assert moved == READS * READ_BYTES
    data_path = moved / run.profile["controller"]["data_path_mb_per_s"] * 1e-6 * power["data_path_w"]
    assert found == {"read": {"data_path": close(data_path, 1e-4)}}


def test_temperature_is_that_of_the_rails_energy(tmp_path: Path) -> None:
    """R C T' = R P + (T_air - T), solved here in steps of a rail record. The profile's time constant is cut to 4.5 s."""
    profile = made("intel-660p-1tb")
    profile["thermal"]["capacity_j_per_k"] = 0.5
    (tmp_path / "p.toml").write_text(profile_text(profile))
    (tmp_path / "j.fio").write_text(f"{HEAD}rw=randread\nbs=128k\niodepth=8\nruntime=2\ntime_based\n")
    program = SIM / "target" / "release" / "wattbell-ssd"
    outputs = [f"--{name}={tmp_path / name}" for name in ("trace", "truth")]
    subprocess.run([program, "run", "--summaries", "--profile", tmp_path / "p.toml", "--job", tmp_path / "j.fio", *outputs], check=True)
    (phase,) = json.loads((tmp_path / "truth").read_text())["phases"]
    bus = read_bus(tmp_path / "trace")
    thermal = profile["thermal"]
    air, resistance, capacity = (thermal[name] for name in ("ambient_c", "resistance_k_per_w", "capacity_j_per_k"))
    temperature = air
    for (since, current, voltage), (until, _, _) in pairwise([*bus.rail, (phase["end_tick"] * 1000, 0, 0)]):
        if until > since:
            last = air + current * voltage * 1e-18 * resistance
            temperature = last + (temperature - last) * math.exp(-(until - since) * 1e-12 / (resistance * capacity))
    assert temperature > air + 4
    assert phase["temperature_c"] == pytest.approx(temperature, abs=0.1)  # computed every 20 ms


def test_the_second_account_reads_the_profiles_as_they_are() -> None:
    for path in PROFILES.glob("*.toml"):
        if path.stem != "common":
            assert profile_tables(path.stem)["name"] == path.stem
    assert profile_tables("intel-660p-1tb")["power"]["link_l0_w"] == 0.13
    assert profile_tables("intel-660p-1tb")["power"]["input_uf"] == 100
