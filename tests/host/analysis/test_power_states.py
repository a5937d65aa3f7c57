"""Power states from the rail, the link and the wire: change points, labels with their probability, and the declared states beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell.analysis import analyze, figures_of
from wattbell.analysis.apst import ApstTables
from wattbell.analysis.changepoints import locate, pieces, scatter_of
from wattbell.analysis.context import load
from wattbell.analysis.signals import requested_state
from wattbell.analysis.statelabels import OPERATIONAL, WORK, Declared, StateLevel, label_of, probabilities
from wattbell.capture import open_capture
from wattbell.capture.meta import save
from wattbell.measure.phases import Phase
from wattbell.present.capture.charts import charts
from wattbell.wire.decode import Gap
from wattbell_spec.wire import BlockContent, EventType, LinkState

from ..conftest import Builder

US, MS, S = 1_000, 1_000_000, 1_000_000_000
STATES = [
    {"state": 0, "max_power_w": 4.0, "non_operational": False, "entry_latency_s": 0.0, "exit_latency_s": 0.0},
    {"state": 1, "max_power_w": 2.0, "non_operational": False, "entry_latency_s": 0.0, "exit_latency_s": 0.0},
    {"state": 3, "max_power_w": 0.030, "non_operational": True, "entry_latency_s": 0.005, "exit_latency_s": 0.005},
    {"state": 4, "max_power_w": 0.004, "non_operational": True, "entry_latency_s": 0.005, "exit_latency_s": 0.05},
]


def declare(capture: Any, states: list[dict[str, Any]], **changed: Any) -> Any:
    """The capture, with Identify of this drive; ``changed``: by state, more of its descriptor."""
    more = {int(name[2:]): values for name, values in changed.items()}
    capture.meta["drive"]["power_states"] = [{**state, **more.get(state["state"], {})} for state in states]
    save(capture.path, capture.meta)
    return open_capture(capture.path)


# Change points.


def test_levels_and_the_ways_between_them() -> None:
    means = np.array([0.6] * 20 + [0.4, 0.2] + [0.0276] * 40 + [0.018] * 2 + [0.0098] * 30)
    found = [p for p in pieces(means, 0.0) if p.last - p.first >= 5]
    assert [(p.first, p.last) for p in found] == [(0, 20), (22, 62), (64, 94)]
    assert [p.mean_w for p in found] == pytest.approx([0.6, 0.0276, 0.0098])


def test_what_is_missing_ends_a_level() -> None:
    found = pieces(np.array([1.0] * 8 + [np.nan] + [1.0] * 8 + [np.nan] * 3), 0.0)
    assert [(p.first, p.last) for p in found] == [(0, 8), (9, 17)]
    assert pieces(np.full(5, np.nan), 0.0) == [] and pieces(np.empty(0), 0.0) == []


def test_a_level_longer_than_a_window_is_one_piece() -> None:
    noise = np.random.default_rng(1).normal(0, 1e-4, 5000)
    assert [(p.first, p.last) for p in pieces(0.5 + noise, scatter_of(0.5 + noise))] == [(0, 5000)]


@given(st.integers(10, 90), st.sampled_from([1.15, 1.5, 3.0, 20.0]), st.integers(0, 2**32 - 1))
def test_a_step_is_found_in_noise(at: int, ratio: float, seed: int) -> None:
    low = 0.02
    means = np.where(np.arange(100) < at, low * ratio, low) + np.random.default_rng(seed).normal(0, 2e-4, 100)
    everything = pieces(means, scatter_of(means))
    found = [p for p in everything if p.last - p.first >= 5]
    assert len(found) == 2 and len(everything) <= 3
    assert abs(found[0].last - at) <= 1 and abs(found[1].first - at) <= 1


def test_a_change_is_located_on_the_samples(builder: Any) -> None:
    """To within two samples of 10 us, and half a sample before the first that differs; in noise the bound is wider and holds."""
    builder.levels += [(0, 0.5), (100 * MS + 30 * US, 0.03)]
    context = load(builder.write(end=200 * MS))
    assert context.rail is not None
    late = round(context.model.front_end_delay_s * 1e9)
    tick, u_s = locate(context.rail, 101 * MS, 0.5, 0.03, 4 * MS)
    assert tick + late == 100 * MS + 25 * US and u_s == pytest.approx(20e-6 + context.model.front_end_delay_u_s)


# What the host asked for.


def asked(*made: tuple[int, EventType, int]) -> pl.DataFrame:
    return pl.DataFrame([(tick, int(kind), value) for tick, kind, value in made], schema=["tick", "type", "arg8"], orient="row")


def test_an_io_command_ends_a_state_asleep_and_none_that_is_awake() -> None:
    """NVM Express Base: a controller in a non-operational state goes into the operational one it was in last when it gets I/O."""
    events = asked((100, EventType.POWER_STATE, 1), (200, EventType.POWER_STATE, 3), (600, EventType.POWER_STATE, 4))
    track = requested_state(events, np.array([150, 300, 400], np.int64), (3, 4))
    assert track is not None
    assert [track.at(tick) for tick in (50, 101, 160, 201, 300, 301, 500, 601, 10_000)] == [0, 1, 1, 3, 3, 1, 1, 4, 4]


# Labels.

DECLARED = Declared.of(STATES)
assert DECLARED is not None


def of(*levels: StateLevel) -> list[tuple[tuple[int, ...], float]]:
    assert DECLARED is not None
    labels = [label_of(shares) for shares in probabilities(levels, DECLARED)]
    return [(label.states, label.probability) for label in labels]


def test_probabilities_of_a_level_are_one_in_all() -> None:
    assert DECLARED is not None
    for shares in probabilities(
        [StateLevel(0.5, 1, 0.001, 1, 0, True), StateLevel(0.03, 1, 0.01, 5, 0, True), StateLevel(0.0, 1, 0.0)], DECLARED
    ):
        assert sum(shares.values()) == pytest.approx(1.0)


def test_no_probability_is_above_one() -> None:
    """Sums of parts that are rounded were, by 2e-16: of the ways to assign these levels, and of states named together."""
    asleep = [{"state": state, "non_operational": True, "max_power_w": watt} for state, watt in ((3, 0.05), (4, 0.005))]
    declared = Declared.of([{"state": 0, "max_power_w": 5.0}, *asleep])
    assert declared is not None
    circumstances = (
        (0.017, 0.0059, 1, None),
        (0.6386, 0.0047, 1, None),
        (0.0167, 0.0212, 1, 0),
        (0.243, 0.0013, None, None),
        (0.0682, 0.0066, 1, None),
        (0.0042, 0.0169, 1, 0),
        (0.0046, 0.034, 1, 0),
        (0.1449, 0.0022, 5, None),
    )
    levels = [StateLevel(watt, 1, scatter, link, asked) for watt, scatter, link, asked in circumstances]
    found = [share for shares in probabilities(levels, declared) for share in shares.values()]
    assert max(found) == 1.0
    assert label_of({3: 0.33, 4: 0.56, 5: 0.11}).probability == 1.0


def test_a_level_of_the_declared_power_is_that_state() -> None:
    awake, asleep = of(StateLevel(0.5, 1, 0.001, LinkState.L0, 0, first=3, next={1: 3}), StateLevel(0.03, 9, 0.01, LinkState.L1_2, 0))
    assert awake[0] == (OPERATIONAL,) and asleep[0] == (3,)
    assert awake[1] > 0.95 and 0.8 < asleep[1] < 0.97, "a level alone is no certainty: few deep states draw what they declare"


def test_of_two_levels_asleep_the_lower_is_the_deeper() -> None:
    """Each by itself could be either: 11 mW lies between 4 and 30 mW."""
    shallow, deep = (StateLevel(watt, 9, 0.01, LinkState.L1_2, 0, True) for watt in (0.0125, 0.0095))
    assert DECLARED is not None
    upper, lower = probabilities([shallow, deep], DECLARED)
    turned = upper.get(4, 0.0) * lower.get(3, 0.0)
    assert turned < 0.05 and lower[4] > upper.get(4, 0.0)


def test_what_the_links_power_hides_is_told_by_the_links_state() -> None:
    """0.16 W is PS3 with the link in L0, and nothing that is known with it in L1.2."""
    awake = StateLevel(0.6, 1, 0.001, LinkState.L0, 0)
    assert of(awake, StateLevel(0.16, 9, 0.01, LinkState.L0, 3, False))[1][0] == (3,)
    lone = of(StateLevel(0.16, 9, 0.01, LinkState.L1_2, 0, None))[0]
    assert lone[0] == () or OPERATIONAL in lone[0] or lone[1] < 0.9


def test_how_long_the_next_command_waits_tells_two_states_of_one_power() -> None:
    deep, light = (StateLevel(0.0105, 9, 0.01, LinkState.L1_2, 0, True, exit_s=wait) for wait in (0.06, 0.004))
    assert of(deep)[0][0] == (4,)
    assert of(light)[0][0] != (4,)


TABLE = [[0, 3, 100], [1, 3, 100], [3, 4, 2000]]


def phase(number: int, first_tick: int, **described: Any) -> Phase:
    return Phase(number, f"phase {number}", "idle", first_tick, first_tick + 1, (), described)


@pytest.mark.parametrize(
    ("state", "first_s", "last_s", "due"),
    [
        (0, 0.0, 0.09, 0),
        (0, 0.0, 0.2, None),  # half in either
        (0, 0.1, 2.0, 3),
        (0, 0.15, 2.3, 3),  # 9 % of it in PS4
        (0, 0.15, 2.6, None),
        (0, 2.1, 9.0, 4),  # 2000 ms of idle time in PS3 itself
        (3, 0.0, 1.9, 3),
        (2, 0.0, 9.0, 2),  # no entry: it stays
        (0, 1.0, 1.0, None),
    ],
)
def test_where_apsts_table_sends_an_idle_drive(state: int, first_s: float, last_s: float, due: int | None) -> None:
    tables = ApstTables.of([phase(1, 1000, apst_table=TABLE)])
    assert tables.expected(5000, state, first_s, last_s) == due
    assert tables.expected(999, state, first_s, last_s) is None, "not programmed yet"


def test_the_table_is_that_of_the_last_phase_that_names_one() -> None:
    phases = [phase(1, 1000, apst_table=TABLE), phase(2, 2000), phase(3, 3000, apst_table=[[0, 4, 100]])]
    tables = ApstTables.of(phases)
    assert [tables.expected(tick, 0, 0.2, 1.0) for tick in (1500, 2500, 3500)] == [3, 3, 4]
    assert ApstTables.of([phase(1, 0), phase(2, 0, apst_table=None)]).expected(9, 0, 0.0, 1.0) is None


def test_a_circle_in_apsts_table_comes_to_an_end() -> None:
    """No drive takes such a table, and a file may have any."""
    tables = ApstTables.of([phase(1, 0, apst_table=[[0, 3, 100], [3, 0, 100]])])
    assert tables.expected(5, 0, 1e6, 2e6) is None


def test_states_of_one_power_are_told_apart_by_apsts_table() -> None:
    """14 mW lie between 4 and 30 mW; after 5 s the table says PS4, after half a second PS3."""
    of_ps3, of_ps4 = (of(StateLevel(0.014, 9, 0.01, LinkState.L1_2, 0, True, due))[0] for due in (3, 4))
    assert of_ps3[0] == (3,) and of_ps4[0] == (4,)
    assert len(of(StateLevel(0.014, 9, 0.01, LinkState.L1_2, 0, True))[0][0]) == 2, "without it they are not"
    (awake,) = probabilities([StateLevel(1.0, 1, 0.001, LinkState.L0, 0, True, 4)], DECLARED)
    assert max(awake, key=lambda state: awake[state]) == OPERATIONAL, "a drive that draws 1 W is awake, whatever the table says"


def test_with_apst_off_and_nothing_asked_a_drive_is_awake() -> None:
    assert of(StateLevel(0.35, 9, 0.001, LinkState.L0, 0, False))[0][0] == (OPERATIONAL,)


def test_states_that_draw_the_same_are_not_told_apart() -> None:
    declared = Declared.of([STATES[0], {**STATES[2], "max_power_w": 0.01}, {**STATES[3], "max_power_w": 0.0099}])
    assert declared is not None
    (shares,) = probabilities([StateLevel(0.01, 9, 0.01, LinkState.L1_2, 0, True)], declared)
    label = label_of(shares)
    assert label.states == (3, 4) and label.probability > 0.95


def test_the_label_is_unknown_where_no_state_is_likely() -> None:
    assert label_of({OPERATIONAL: 0.5, WORK: 0.2, 3: 0.3}).states == ()
    assert label_of({}).states == ()
    assert label_of({OPERATIONAL: 0.1, 3: 0.5, 4: 0.4}).states == (3, 4)


# Captures.


def night(builder: Any, asleep_w: float = 0.03, wait: int = 4 * MS) -> None:
    """Reads for 100 ms, 200 ms awake, 700 ms asleep, and a read that waits."""
    builder.levels += [(0, 0.5), (100 * MS, 2.0), (200 * MS, 0.5), (400 * MS, asleep_w), (1100 * MS, 0.8), (1106 * MS, 0.5)]
    for k in range(100):
        builder.command((100 + k) * MS, 80 * US)
    builder.command(1100 * MS, wait + 2 * MS, fetch_tick=1100 * MS + wait)


def test_the_states_of_a_night(builder: Any) -> None:
    night(builder)
    result = analyze(declare(builder.write(end=1300 * MS), STATES))
    states = result["power_states"]
    labels = [(s["label"], s["first_tick"] / MS, s["last_tick"] / MS) for s in states["spans"]]
    assert [label for label, _, _ in labels] == ["active", "PS0", "PS3", "waking", "active", "PS0"]
    edges = [first for _, first, _ in labels]
    assert edges == pytest.approx([100, 199.08, 400, 1100, 1104, 1106], abs=0.03)
    assert all(b["first_tick"] == a["last_tick"] for a, b in zip(states["spans"][:-1], states["spans"][1:], strict=True))
    assert states["spans"][2]["from_u_s"] == pytest.approx(20e-6, rel=0.5) and states["spans"][1]["from_u_s"] == 0
    assert sum(states["time_s"].values()) == pytest.approx(result["capture"]["duration_s"], rel=0.15)
    assert states["seen"] == {"rail_interval_s": 1e-5, "link": False, "commands": "wire", "identify": True, "requests": True}
    assert {level["label"] for level in result["idle"]["levels"]} == {"PS0", "PS3"}, "one fact in both places"
    assert result["wakeup"]["by_state"][0]["state"] == "PS3"


@pytest.mark.parametrize(("into", "label"), [(3, "PS3"), (4, "PS4"), (None, "PS3 or PS4")])
def test_the_table_of_a_phase_tells_which_sleep_it_is(builder: Any, into: int | None, label: str) -> None:
    """13 mW, a read that waits for 11 ms: neither PS3 nor PS4 by itself. Idle since 199 ms, asleep from 400 ms on."""
    night(builder, 0.013, 11 * MS)
    builder.command(90 * MS, 10 * US, qid=0, opcode=9, slba=0x0C, blocks=1)
    builder.phase(1, 95 * MS, 1250 * MS, "night", "idle", **({} if into is None else {"apst_table": [[0, into, 200]]}))
    spans = analyze(declare(builder.write(end=1300 * MS), STATES))["power_states"]["spans"]
    (asleep,) = (span for span in spans if span["first_tick"] < 600 * MS < span["last_tick"])
    assert asleep["label"] == label, asleep["shares"]
    assert asleep["why"].endswith("APST on" if into is None else f"APST on, by its table PS{into}")


def test_the_states_over_time_are_drawn_each_in_its_row(builder: Any) -> None:
    night(builder)
    context = load(declare(builder.write(end=1300 * MS), STATES))
    result = figures_of(context.capture)
    (chart,) = (chart for chart in charts(context, result).charts if chart.key == "power-states")
    (line,) = chart.panels[0].lines
    rows = dict(chart.panels[0].y.ticks or ())
    assert list(rows.values()) == ["PS3", "PS0", "waking", "active"], "what draws most on top"
    spans = result["power_states"]["spans"]
    assert [rows[y] for y in line.y[::2]] == [span["label"] for span in spans]
    assert line.x[-1] - line.x[0] == pytest.approx(sum(span["duration_s"] for span in spans))
    assert line.hover is not None and line.hover[4].startswith("PS3, 99%, 700 ms")


@pytest.mark.parametrize(("exit_s", "verdict"), [(0.005, "pass"), (0.003, "fail"), (0.00395, "conditional fail")])
def test_exit_latency_beside_the_declared(builder: Any, exit_s: float, verdict: str) -> None:
    night(builder)
    result = analyze(declare(builder.write(end=1300 * MS), STATES, ps3={"exit_latency_s": exit_s}))
    judged = result["power_states"]["states"][2]["judged"]["exit_latency_s"]
    assert judged["measured"]["value"] == pytest.approx(4e-3) and judged["verdict"] == verdict


@pytest.mark.parametrize(
    ("link", "declared_w", "verdict", "why"),
    [
        (LinkState.L1_2, 0.031, "pass", ""),
        (LinkState.L1_2, 0.025, "fail", "times the limit"),
        (LinkState.L0, 0.025, "conditional fail", "the link was not in L1.2"),
        (None, 0.025, "conditional fail", "the link's state is not known"),
    ],
)
def test_maximum_power_asleep_beside_the_declared(builder: Any, link: LinkState | None, declared_w: float, verdict: str, why: str) -> None:
    night(builder)
    builder.events.append((150 * MS, EventType.POWER_STATE, 0, 0))
    if link is not None:
        builder.events += [(50 * MS, EventType.LINK, int(LinkState.L0), 0), (399 * MS, EventType.LINK, int(link), 0)]
    builder.events.append((1099 * MS, EventType.POWER_STATE, 0, 0))
    builder.command(390 * MS, 10 * US, qid=0, opcode=9, slba=2, blocks=3)
    builder.events.append((390 * MS + 10 * US, EventType.POWER_STATE, 3, 0))
    result = analyze(declare(builder.write(end=1300 * MS), STATES, ps3={"max_power_w": declared_w}))
    row = result["power_states"]["states"][2]
    assert row["mean_w"]["value"] == pytest.approx(0.03, rel=1e-3)
    judged = row["judged"]["max_power_w"]
    assert judged["verdict"] == verdict and why in judged["why"]
    entry = row["judged"]["entry_latency_s"]
    assert entry["measured"]["value"] == pytest.approx(10e-3, abs=0.1e-3) and entry["verdict"] == "fail"  # 10 ms after the request


@pytest.mark.parametrize("after_us", [600, 2500, 4400])
def test_a_quick_entry_has_a_time_too(builder: Any, after_us: int) -> None:
    """The rail is at PS3's level sooner than a level lasts: no level lies before, and a peak of 2 W for 0.1 ms does not move the time."""
    builder.levels += [
        (0, 0.6),
        (100 * MS + 50 * US, 2.0),
        (100 * MS + 150 * US, 0.6),
        (100 * MS + after_us * US, 0.028),
        (900 * MS - 80 * US, 0.6),
    ]
    builder.command(1 * MS, 10 * US)
    builder.command(100 * MS - 10 * US, 10 * US, qid=0, opcode=9, slba=2, blocks=3)
    builder.events.append((100 * MS, EventType.POWER_STATE, 3, 0))
    builder.command(900 * MS, 1 * MS)
    row = analyze(declare(builder.write(end=1000 * MS), STATES))["power_states"]["states"][2]
    entry = row["judged"]["entry_latency_s"]["measured"]
    assert entry["value"] == pytest.approx(after_us * 1e-6, abs=2.5e-5) and entry["u"] == pytest.approx(2e-5, rel=0.2)


@pytest.mark.parametrize(("idle_s", "idlp", "verdict"), [(45, 0.55, "pass"), (45, 0.45, "fail"), (39, 0.55, "not measured")])
def test_idle_power_has_its_own_window(tmp_path: Path, idle_s: int, idlp: float, verdict: str) -> None:
    """30 s that begin when the drive was idle for 10 s: at 39 s of idle there are none."""
    builder = Builder(tmp_path / "capture", interval=MS)
    builder.levels += [(0, 0.5)]
    builder.command(S, MS)
    builder.command((1 + idle_s) * S, MS)
    capture = declare(builder.write(end=(2 + idle_s) * S), STATES, ps0={"idle_power_w": idlp})
    row = analyze(capture)["power_states"]["states"][0]
    judged = row["judged"]["idle_power_w"]
    assert judged["verdict"] == verdict
    if verdict == "not measured":
        assert "30 s after 10 s" in judged["why"] and judged["measured"]["value"] is None
    maximum = row["judged"]["max_power_w"]
    assert maximum["verdict"] == "not measured" and "at rest no drive shows its maximum" in maximum["why"]  # two commands of 1 ms
    assert maximum["measured"]["value"] is None


def test_states_never_seen_are_not_measured(builder: Any) -> None:
    night(builder)
    states = analyze(declare(builder.write(end=1300 * MS), STATES))["power_states"]["states"]
    assert [row["state"] for row in states] == [0, 1, 3, 4]
    for key, judged in states[3]["judged"].items():
        assert judged["verdict"] == ("not applicable" if judged["declared"] is None else "not measured") and judged["why"], key
    assert states[3]["mean_w"]["value"] is None and states[3]["time_s"] == 0


def test_without_identify_there_are_levels_and_no_names(builder: Any) -> None:
    night(builder)
    result = analyze(declare(builder.write(end=1300 * MS), []))
    rail = [s for s in result["power_states"]["spans"] if s["mean_w"] is not None]
    assert {s["label"] for s in rail} == {"unknown"} and {s["probability"] for s in rail} == {None}
    assert "no Identify" in rail[0]["why"] and result["power_states"]["states"] == []
    assert [level["label"] for level in result["idle"]["levels"]] == ["operational idle", "unknown"]


def test_without_a_rail_there_is_a_reason(builder: Any) -> None:
    builder.command(MS, 80 * US)
    builder.command(100 * MS, 80 * US)
    found = analyze(builder.write())["power_states"]
    assert found["absent"] and found["spans"] == [] and found["states"] == []


def test_where_commands_were_lost_nothing_is_claimed(builder: Any) -> None:
    night(builder)
    builder.gaps.append(Gap(BlockContent.COMMANDS, 600 * MS, 601 * MS, 3, "test"))
    spans = analyze(declare(builder.write(end=1300 * MS), STATES))["power_states"]["spans"]
    asleep = next(s for s in spans if s["first_tick"] <= 600 * MS < s["last_tick"])
    assert (asleep["label"], asleep["probability"]) == ("unknown", None) and "lost" in asleep["why"]


def test_where_the_rail_is_missing_the_state_is_unknown(builder: Any) -> None:
    night(builder)
    builder.hole = (500 * MS, 800 * MS)
    spans = analyze(declare(builder.write(end=1300 * MS), STATES))["power_states"]["spans"]
    inside = [s for s in spans if s["first_tick"] < 790 * MS and s["last_tick"] > 510 * MS]
    assert [s["label"] for s in inside] == ["unknown"] and inside[0]["probability"] is None
    assert [s["label"] for s in spans].count("PS3") == 2


def test_a_reset_is_no_state(builder: Any) -> None:
    night(builder)
    builder.events += [(10 * MS, EventType.PERST, 1, 0), (600 * MS, EventType.PERST, 0, 0), (700 * MS, EventType.PERST, 1, 0)]
    spans = analyze(declare(builder.write(end=1300 * MS), STATES))["power_states"]["spans"]
    assert [(s["first_tick"], s["last_tick"]) for s in spans if s["label"] == "reset"] == [(600 * MS, 700 * MS)]
    assert not [s for s in spans if s["label"] != "reset" and s["first_tick"] < 700 * MS and s["last_tick"] > 600 * MS]


def test_a_reset_under_commands_is_no_state_either(builder: Any) -> None:
    night(builder)
    builder.events += [(10 * MS, EventType.PERST, 1, 0), (130 * MS, EventType.PERST, 0, 0), (140 * MS, EventType.PERST, 1, 0)]
    spans = analyze(declare(builder.write(end=1300 * MS), STATES))["power_states"]["spans"]
    assert [s["label"] for s in spans[:3]] == ["active", "reset", "active"]
    assert [s["first_tick"] / MS for s in spans[1:3]] == [130, 140]


def test_a_meter_alone_tells_levels_and_that_something_ran(builder: Any) -> None:
    """Nobody saw commands or requests: which of the operational states it was is not known."""
    builder.levels += [(0, 0.5), (200 * MS, 2.1), (500 * MS, 0.5), (700 * MS, 0.03), (1400 * MS, 0.5), (1500 * MS, 2.2), (1800 * MS, 0.5)]
    capture = builder.write(end=2100 * MS)
    capture.meta["rig"].pop("gateware", None)
    capture = declare(capture, STATES)
    result = analyze(capture)
    assert result["power_states"]["seen"]["commands"] is None
    labels = [s["label"] for s in result["power_states"]["spans"]]
    assert len(labels) == 7 and labels[3].startswith("PS3") and labels[1] in ("active", "unknown")
    assert labels[0] in ("operational", "unknown") and "background work" not in labels
