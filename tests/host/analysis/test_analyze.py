"""`analyze` on captures with figures that follow from their making."""

import io
import json
import re

import pytest
from rich.cells import cell_len
from wattbell.analysis import analyze, figures_of
from wattbell.cli.output import PlainConsole
from wattbell.present.capture.terminal import render
from wattbell.wire.decode import Gap
from wattbell_spec.wire import BlockContent, CommandFlag, EventType, LinkState

MS = 1_000_000
SECOND = 1_000_000_000


def stream(builder, first, count, latency, gap, **more):
    """`count` commands back to back; returns the last CQE."""
    tick = first
    for _ in range(count):
        done = builder.command(tick, latency, **more)
        tick = done + gap
    return done


def test_counts_bytes_rates_and_latency_of_a_closed_form_stream(builder):
    builder.power(0, 2.0)
    builder.phase(1, 1 * MS, 200 * MS, "reads")
    last = stream(builder, 2 * MS, 1000, 80_000, 20_000)  # 100 us apart, 4 KiB
    builder.phase(2, 300 * MS, 400 * MS, "writes")
    stream(builder, 301 * MS, 100, 30_000, 10_000, opcode=1, blocks=256)
    result = analyze(builder.write(500 * MS))
    read = result["commands"]["by_opcode"]["read"]
    assert (read["count"], read["bytes"], read["errors"]) == (1000, 1000 * 4096, 0)
    assert read["latency_s"]["mean"] == pytest.approx(80e-6)
    assert read["latency_s"]["p99"] == pytest.approx(80e-6)
    assert read["latency_s"]["p99_9"] is None
    assert read["splits_s"]["doorbell_to_fetch"]["p50"] == pytest.approx(0.5e-6)
    first, second = result["phases"]
    assert set(first["commands"]["by_opcode"]) == {"read"}
    assert set(second["commands"]["by_opcode"]) == {"write"}
    assert second["commands"]["by_opcode_size"]["write"]["131072"]["count"] == 100
    assert result["commands"]["admin"]["count"] == 0, "markers are no commands"
    span = (last - 2 * MS) * 1e-9
    assert first["rates"]["iops"]["value"] == pytest.approx(1000 / span)
    assert first["rates"]["mb_per_s"]["value"] == pytest.approx(4.096 / span)
    assert first["queue_depth"]["mean"] == pytest.approx(1000 * 80e-6 / span)
    assert first["queue_depth"]["max"] == 1
    assert first["power"]["mean_w"]["value"] == pytest.approx(2.0, rel=1e-6)
    assert first["efficiency"]["iops_per_w"]["value"] == pytest.approx(1000 / span / 2.0, rel=1e-6)
    assert first["efficiency"]["j_per_gb"]["value"] == pytest.approx(2.0 * span / 4.096e-3, rel=1e-6)
    json.dumps(result, allow_nan=False)


def test_energy_of_a_phase_is_the_integral_between_its_marker_doorbells(builder):
    builder.power(0, 0.5)
    builder.power(100 * MS, 3.0)  # steps on sample boundaries + half a sample
    builder.power(150 * MS, 0.5)
    builder.phase(1, 50 * MS, 250 * MS, "step")
    power = analyze(builder.write(400 * MS))["phases"][0]["power"]
    want = 0.5 * 0.150 + 3.0 * 0.050
    assert power["energy_j"]["value"] == pytest.approx(want, rel=1e-5, abs=2.5 * 10e-6)
    assert power["mean_w"]["value"] == pytest.approx(want / 0.2, rel=1e-4)
    # The second quarter of the window is all of the 3 W: the mean is as uncertain as that is far from it, whatever the instrument is good
    # for.
    assert power["mean_w"]["u"] == pytest.approx(3.0 - want / 0.2, rel=5e-3)
    assert power["mean_w"]["conditions"]["unsteady"] == "not steady: quarters of the window from 500 mW to 3.00 W"
    assert power["max_moving_w"]["100us"]["value"] == pytest.approx(3.0, rel=1e-5)
    assert power["max_moving_w"]["100ms"]["value"] == pytest.approx((3.0 + 0.5) / 2, rel=1e-4)
    assert power["max_sample_w"]["value"] == pytest.approx(3.0, rel=1e-5)


@pytest.mark.parametrize(("last", "change"), [(120 * MS, 2.5), (250 * MS, 0.0)])
def test_the_delays_uncertainty_counts_by_what_the_ends_of_a_phase_differ(builder, last, change):
    builder.power(0, 0.5)
    builder.power(100 * MS, 3.0)
    builder.power(150 * MS, 0.5)
    builder.phase(1, 50 * MS, last, "step")
    delay = {"front_end_delay_s": 2e-6, "front_end_delay_u_s": 40e-9, "front_end_delay_calibrated": False}
    result = analyze(builder.write(400 * MS, conditions=delay))
    energy = result["phases"][0]["power"]["energy_j"]
    assert energy["conditions"]["edge_u_j"] == pytest.approx(40e-9 * change, rel=1e-4, abs=1e-12)
    assert result["uncertainty"]["front_end_delay_u_s"] == 40e-9
    assert sum("2 us +-40 ns" in warning for warning in result["warnings"]) == 1


def test_energy_survives_lost_rail_blocks_and_the_loss_is_counted(builder):
    builder.power(0, 1.0)
    builder.power(205 * MS, 2.0)
    builder.power(214 * MS, 1.0)
    builder.hole = (200 * MS, 220 * MS)
    builder.phase(1, 50 * MS, 350 * MS, "hole")
    result = analyze(builder.write(400 * MS))
    power = result["phases"][0]["power"]
    assert power["energy_j"]["value"] == pytest.approx(0.3 + 0.009, rel=1e-4)
    assert power["energy_j"]["lost"] > 0
    assert power["max_sample_w"]["value"] == pytest.approx(1.0, rel=1e-5), "the peak was in the hole"
    assert result["loss"]["rail_samples"] == power["energy_j"]["lost"]
    assert any("rail samples missing" in w for w in result["warnings"])


def test_a_capture_without_rail_has_no_power_rather_than_zero(builder):
    stream(builder, MS, 50, 80_000, 20_000)
    result = analyze(builder.write(conditions={"timing": "qemu-log"}))
    assert "QEMU" in result["power"]["absent"]
    assert "mean_w" not in result["power"]
    assert result["commands"]["by_opcode"]["read"]["count"] == 50


def test_a_dead_rail_is_no_power_either(builder, monkeypatch):
    stream(builder, MS, 5, 80_000, 20_000)
    builder.power(0, 0.0)
    capture = builder.write(20 * MS)
    import numpy as np
    from wattbell.capture import RailReader, RailWaveform

    read = RailReader.read

    def dead(self, start=0, stop=None):
        part = read(self, start, stop)
        return RailWaveform(part.start, np.zeros_like(part.voltage), part.current, part.power)

    monkeypatch.setattr(RailReader, "read", dead)
    assert "no voltage" in analyze(capture)["power"]["absent"]


def test_a_rail_that_is_off_at_the_start_and_amid_is_not_dead(builder, monkeypatch):
    stream(builder, MS, 5, 80_000, 20_000)
    builder.power(0, 1.0)
    capture = builder.write(200 * MS)
    import numpy as np
    from wattbell.capture import RailReader, RailWaveform

    read, asked = RailReader.read, []

    def off_at_first_looks(self, start=0, stop=None):
        part = read(self, start, stop)
        asked.append((start, stop))
        volts = np.zeros_like(part.voltage) if len(asked) <= 2 else part.voltage
        return RailWaveform(part.start, volts, part.current, part.power)

    assert len(capture.rail) > 3 * 4096
    monkeypatch.setattr(RailReader, "read", off_at_first_looks)
    assert "absent" not in analyze(capture)["power"]
    middle = len(capture.rail) // 2
    assert asked[:2] == [(0, 4096), (middle, middle + 4096)]


def test_shadow_doorbells_fall_back_to_the_fetch_and_say_so(builder):
    builder.events.append((100, EventType.SHADOW_DOORBELLS, 0, 0))
    shadow = {"doorbell_tick": None, "flags": int(CommandFlag.SHADOW)}
    for k in range(100):
        builder.command(MS + k * 100_000, 80_000, fetch_tick=MS + k * 100_000 + 1000, **shadow)
    result = analyze(builder.write())
    latency = result["commands"]["by_opcode"]["read"]["latency_s"]
    assert latency["from"] == "fetch"
    assert latency["mean"] == pytest.approx(79e-6)
    assert latency["shadow_doorbells"] == 100
    assert any("shadow doorbells" in w for w in result["warnings"])


def test_doubtful_records_are_counted_and_named(builder):
    stream(builder, MS, 20, 80_000, 20_000)
    unseen = {"doorbell_tick": None, "fetch_tick": None, "opcode": 0, "blocks": 0}
    builder.command(10 * MS, 80_000, flags=int(CommandFlag.NO_SQE), **unseen)
    builder.command(11 * MS, 70_000, flags=int(CommandFlag.ABORTED))
    builder.command(12 * MS, 80_000, flags=int(CommandFlag.GUESS))
    builder.command(13 * MS, 80_000, status=0x281, opcode=2)
    builder.command(14 * MS, 5 * SECOND, saturated=1)
    result = analyze(builder.write())
    by_opcode = result["commands"]["by_opcode"]
    assert by_opcode["unknown"]["count"] == 1
    assert "flush" not in by_opcode, "opcode 0 of a record without SQE is no Flush"
    read = by_opcode["read"]
    assert (read["count"], read["aborted"], read["errors"]) == (23, 1, 1)
    assert read["status"] == {"2/81 Unrecovered Read Error": 1}
    assert read["latency_s"]["saturated"] == 1
    assert read["latency_s"]["lower_bound"]
    assert result["commands"]["flags"] == {"guess": 1, "aborted": 1, "no_sqe": 1}
    text = " ".join(result["warnings"])
    assert "never completed" in text
    assert "inferred queue positions" in text


def test_lost_commands_stand_under_every_figure_of_their_phase(builder):
    builder.phase(1, MS, 50 * MS, "lossy")
    stream(builder, 2 * MS, 100, 80_000, 20_000)
    builder.gaps.append(Gap(BlockContent.COMMANDS, 5 * MS, 6 * MS, 17, "test"))
    builder.gaps.append(Gap(None, 5 * MS, 6 * MS, -1, "test"))
    builder.events.append((7 * MS, EventType.LOSS, 2, 3))  # 3 commands found no slot
    result = analyze(builder.write())
    assert result["loss"]["commands"] == 20
    assert result["loss"]["gaps_of_unknown_size"] == 1
    assert result["phases"][0]["rates"]["iops"]["lost"] == 21  # the gap of unknown size counts as at least one


def test_bytes_of_trim_flush_and_unknown_opcodes(builder):
    builder.command(MS, 50_000, opcode=9, blocks=2048)
    builder.command(2 * MS, 50_000, opcode=0, blocks=0)
    builder.command(3 * MS, 50_000, opcode=8, blocks=16)
    builder.command(4 * MS, 50_000, opcode=0x91, blocks=77)
    result = analyze(builder.write(lba=4096))
    got = {name: (e["count"], e["bytes"]) for name, e in result["commands"]["by_opcode"].items()}
    assert got == {
        "flush": (1, 0),
        "write_zeroes": (1, 16 * 4096),
        "dsm": (1, 2048 * 4096),
        "opcode_91": (1, 0),
    }
    assert result["rates"]["bytes"] == 0, "none of these moves user data"


def test_unknown_block_size_is_said(builder):
    builder.command(MS, 50_000)
    result = analyze(builder.write(lba=None))
    assert result["commands"]["by_opcode"]["read"]["bytes"] == 4096
    assert any("512 bytes a logical block" in w for w in result["warnings"])


def test_bursts_are_found_and_both_readings_given(builder):
    builder.power(0, 1.0)
    builder.phase(1, MS, 900 * MS, "bursts")
    # 5 bursts of 10 ms, each followed by 100 ms of nothing; burst k has k commands of 10 ms / k
    tick = 10 * MS
    for k in (10, 20, 40, 50, 100):
        stream(builder, tick, k, 10 * MS // k, 0)
        tick += 110 * MS
    bursts = analyze(builder.write(SECOND))["phases"][0]["rates"]
    assert bursts["bursts"]["count"] == 5
    mean = sum(k / 0.010 for k in (10, 20, 40, 50, 100)) / 5
    assert bursts["bursts"]["iops_mean_of_bursts"]["value"] == pytest.approx(mean)
    assert bursts["iops"]["value"] == pytest.approx(220 / 0.050)
    assert bursts["iops_whole"]["value"] == pytest.approx(220 / 0.450)
    assert bursts["bursts"]["duty"] == pytest.approx(0.050 / 0.450)


def idle_capture(builder):
    """Idle at 0.6 W, 27.6 mW after 100 ms, wake-up read of 6.3 ms; the link exits in 75 us."""
    builder.power(0, 0.6)
    builder.events += [(10, EventType.LINK, int(LinkState.L0), 0), (10, EventType.CLKREQ, 0, 0)]
    stream(builder, MS, 200, 80_000, 20_000)
    for k in range(3):
        begin = 30 * MS + k * 600 * MS
        builder.power(begin + 100 * MS, 0.0276)
        builder.events += [
            (begin + 100 * MS, EventType.LINK, int(LinkState.L1_2), 0),
            (begin + 100 * MS, EventType.CLKREQ, 1, 0),
            (begin + 500 * MS, EventType.CLKREQ, 0, 0),
            (begin + 500 * MS + 75_000, EventType.LINK, int(LinkState.L0), 0),
        ]
        builder.power(begin + 500 * MS, 0.6)
        builder.command(begin + 500 * MS + 76_000, 6_300_000)
    return builder.write(1900 * MS)


def test_idle_levels_states_and_wake_up(builder):
    result = analyze(idle_capture(builder))
    awake, asleep = result["idle"]["levels"]
    assert awake["mean_w"]["value"] == pytest.approx(0.6, rel=5e-3)
    assert asleep["mean_w"]["value"] == pytest.approx(0.0276, rel=5e-3)
    assert (asleep["state"], asleep["label"]) == (3, "PS3")
    assert "inferred" in asleep["how"]
    assert asleep["link"]["L1_2"] > 0.99
    assert asleep["clkreq"]["released"] > 0.99
    assert asleep["first_reached_s"] == pytest.approx(0.1, abs=12e-3)
    (group,) = result["wakeup"]["by_state"]
    assert (group["state"], group["class"], group["count"]) == ("PS3", "read 4 KiB", 3)
    assert group["latency_s"]["p50"] == pytest.approx(6.3e-3)
    assert group["extra_s"]["median"] == pytest.approx(6.3e-3 - 80e-6)
    assert group["link_exit_s"]["median"] == pytest.approx(75e-6)
    assert group["from_clkreq_s"]["median"] == pytest.approx(6.376e-3)


def test_a_requested_power_state_is_not_called_inferred(builder):
    builder.power(0, 0.6)
    stream(builder, MS, 20, 80_000, 20_000)
    builder.events.append((10 * MS, EventType.POWER_STATE, 4, 0))
    builder.power(10 * MS, 0.0098)
    result = analyze(builder.write(500 * MS))
    level = result["idle"]["levels"][-1]
    assert level["state"] == 4
    assert "requested by the host" in level["how"]


def test_energy_per_command_above_idle(builder):
    builder.power(0, 0.6)
    builder.power(200 * MS, 1.6)
    last = stream(builder, 200 * MS, 2000, 100_000, 0)
    builder.power(last, 0.6)
    builder.phase(1, 190 * MS, last + 10 * MS, "load")
    result = analyze(builder.write(last + 200 * MS))
    fig = result["phases"][0]["energy_per_command"]["classes"]["read 4 KiB"]
    assert fig["value"] == pytest.approx(1.0 * 100e-6, rel=2e-3)
    assert abs(fig["value"] - 100e-6) <= fig["u"]


def test_truth_passes_when_true_and_fails_when_not(builder):
    builder.power(0, 1.0)
    builder.phase(1, 50 * MS, 250 * MS, "load")
    stream(builder, 60 * MS, 100, 80_000, 20_000)
    capture = builder.write(400 * MS)
    work = capture.path / "workload"
    work.mkdir()
    phase = {"phase": 1, "name": "load", "kind": "fio", "start_tick": 50 * MS, "end_tick": 250 * MS}
    truth = {"phases": [{**phase, "energy_j": 0.2, "mean_w": 1.0}]}
    (work / "truth.json").write_text(json.dumps(truth))
    instants = "doorbell_ps,fetch_ps,first_data_ps,last_data_ps,cqe_ps,msix_ps,cq_head_ps"
    lines = ["qid,cid,opcode,nsid,slba,blocks,status," + instants]
    for r in builder.rows:
        times = [r["doorbell_tick"] * 1000 + 999, r["fetch_tick"] * 1000, "", "", r["cqe_tick"] * 1000 + 1, "", ""]
        facts = [r["qid"], r["cid"], r["opcode"], 1, r["slba"], r["blocks"], r["status"]]
        lines.append(",".join(str(v) for v in [*facts, *times]))
    (work / "truth-commands.csv").write_text("\n".join(lines) + "\n")
    got = analyze(capture)["truth"]
    assert got["pass"]
    assert got["commands"]["paired"] == 102
    assert got["commands"]["max_ticks"] == 0
    assert abs(got["phases"][0]["energy_error"]) < 1e-4
    # a host that polls releases the CQE before the interrupt, which is no fault; an interrupt before that is one
    polled = lines[3].split(",")
    cqe = int(polled[11])
    (work / "truth-commands.csv").write_text(
        "\n".join([*lines, ""]).replace(lines[3], ",".join([*polled[:12], str(cqe + 90_000), str(cqe + 50_000)]))
    )
    got = analyze(capture)["truth"]["commands"]
    assert got["instants"]["msix"] == {"compared": 0, "max_ticks": 0, "missing": 0, "extra": 0, "saturated": 0, "after_release": 1}
    assert got["instants"]["cq_head"]["missing"] == 1
    (work / "truth-commands.csv").write_text(
        "\n".join([*lines, ""]).replace(lines[3], ",".join([*polled[:12], str(cqe + 40_000), str(cqe + 50_000)]))
    )
    assert analyze(capture)["truth"]["commands"]["instants"]["msix"]["missing"] == 1
    # a command two ticks late, and 0.3 % more energy
    truth["phases"][0]["energy_j"] = 0.2006
    (work / "truth.json").write_text(json.dumps(truth))
    lines[5] = lines[5].replace(lines[5].split(",")[11], str(int(lines[5].split(",")[11]) + 2000))
    (work / "truth-commands.csv").write_text("\n".join(lines) + "\n")
    got = analyze(capture)["truth"]
    assert not got["pass"]
    assert not got["phases"][0]["pass"]
    assert got["commands"]["max_ticks"] == 2


def fio_job(name, **parts):
    def part(count, size, low, mean, high):
        return {"total_ios": count, "io_bytes": count * size, "lat_ns": {"min": low, "mean": mean, "max": high}}

    return {"jobname": name, "groupid": 0, "job options": {"iodepth": "1"}, **{k: part(*v) for k, v in parts.items()}}


def test_fio_must_agree_exactly(builder):
    builder.phase(1, MS, 50 * MS, "randread", jobs=["randread"], fio_group=0)
    stream(builder, 2 * MS, 100, 80_000, 20_000)
    builder.command(45 * MS, 100_000, opcode=0, blocks=0)
    capture = builder.write()
    work = capture.path / "workload"
    work.mkdir()
    job = fio_job("randread", read=(100, 4096, 81_000, 85_000.0, 90_000), sync=(1, 0, 120_000, 120_000.0, 120_000))
    (work / "fio.json").write_text("fio: a warning\n" + json.dumps({"jobs": [job]}))
    fio = analyze(capture)["fio"]
    assert fio["equal"]
    assert fio["latency_ok"]
    assert analyze(capture)["fio"]["sections"][0]["rows"][0]["bytes_equal"]
    deep = {"jobs": [{**job, "job options": {}}], "global options": {"iodepth": "4"}}
    (work / "fio.json").write_text(json.dumps(deep))
    assert analyze(capture)["fio"]["sections"][0]["rows"][0]["latency_ok"] is None, "not at queue depth 1"
    job["read"]["total_ios"] = 101
    job["read"]["lat_ns"]["min"] = 79_000
    (work / "fio.json").write_text(json.dumps({"jobs": [job]}))
    fio = analyze(capture)["fio"]
    assert not fio["equal"]
    assert not fio["latency_ok"], "fio cannot be faster than the wire"


def test_an_empty_capture_is_analyzed(builder):
    result = analyze(builder.write())
    assert result["commands"]["by_opcode"] == {}
    assert result["phases"] == []


@pytest.mark.parametrize("width", [80, 120, 200])
def test_tables_print_at_any_width(builder, width):
    capture = idle_capture(builder)
    text = printed(figures_of(capture), width)
    assert "PS3" in text
    assert "6.300 ms" in text
    assert "nothing lost" in text


def printed(result, width):
    console = PlainConsole(width=width, record=True, file=io.StringIO())
    render(result, console)
    return console.export_text()


def test_no_figure_is_cut_in_a_narrow_terminal(builder):
    builder.power(0, 0.66)
    for n in range(3):
        start = 10 * MS + 20 * n * MS
        builder.phase(n + 1, start, start + 10 * MS, f"a long name of a phase, at queue depth {n + 1}")
        for k in range(400):
            builder.command(start + 20_000 * k + 10_000, 8_000 + 17 * k, blocks=8 << (k % 3))
    result = figures_of(builder.write(80 * MS))
    whole = printed(result, 250)
    for width in range(40, 160, 7):
        text = printed(result, width)
        assert "…" not in text
        assert max(map(cell_len, text.splitlines())) <= width
        for latency in re.findall(r"[\d.]+ µs", text):
            assert latency in whole
        for word in ("MB/J", "p99.9", "QD", "energy J"):
            assert word in text, "it is a column, or it is said to be left out"
    assert "left out" not in whole
    assert "left out" in printed(result, 80)
