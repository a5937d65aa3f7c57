"""Which commands count in a rate, how many bytes they have, and what separates two bursts: docs/methodology.md, counted by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from wattbell.analysis import analyze
from wattbell.analysis.rates import per_second
from wattbell.capture import schema
from wattbell.measure.table import lba_sizes, load_commands
from wattbell_spec.wire import CommandFlag

MS = 1_000_000
US = 1_000


def rows(*commands: dict[str, Any]) -> pl.DataFrame:
    blank = {field.name: None if field.nullable else 0 for field in schema.COMMANDS}
    base = blank | {"cqe_tick": 2000, "opcode": 2, "qid": 1, "nsid": 1, "blocks": 1}
    return pl.DataFrame([base | command for command in commands], schema=dict.fromkeys(base, pl.Int64))


def test_each_namespace_has_its_own_block_size() -> None:
    described = [{"nsid": nsid, "lba_size_bytes": size} for nsid, size in ((1, 512), (2, 4096), (7, 520))]
    sizes, notes = lba_sizes({"drive": {"namespaces": described}})
    table = load_commands(rows(*({"nsid": nsid, "blocks": 10} for nsid in (1, 2, 7, 3))), sizes)
    assert table.nbytes.tolist() == [5120, 40_960, 5200, 5120]  # namespace 3 was never described: 512
    assert notes == []
    by_name = lba_sizes({"drive": {"namespaces": {"2": {"lba_size_bytes": 4096}}}})[0]
    assert load_commands(rows({"nsid": 2}, {"nsid": 9}), by_name).nbytes.tolist() == [4096, 4096]  # there is only one size
    assert lba_sizes({})[1] and lba_sizes({})[0] == {0: 512}


def test_only_commands_of_io_queues_with_a_block_count_have_bytes() -> None:
    sizes = {0: 512}
    made = [{"opcode": 2}, {"opcode": 2, "qid": 0}, {"opcode": 0}, {"opcode": 2, "flags": int(CommandFlag.NO_SQE)}, {"opcode": 0x91}]
    assert load_commands(rows(*made), sizes).nbytes.tolist() == [512, 0, 0, 0, 0]


def test_a_command_begins_with_its_doorbell_else_its_fetch_else_its_cqe() -> None:
    made = load_commands(rows({"doorbell_tick": 5, "fetch_tick": 9}, {"fetch_tick": 7}, {}), {0: 512})
    assert made.start_tick.tolist() == [5, 7, 2000]


def mixed(builder: Any) -> dict[str, Any]:
    """60 reads of 4 KiB, 20 failed ones, 10 aborted ones, 5 Flushes, 3 Verifies, in 98 x 100 us with nothing between them."""
    kinds = [{}] * 60 + [{"status": 0x281}] * 20 + [{"flags": int(CommandFlag.ABORTED)}] * 10 + [{"opcode": 0, "blocks": 0}] * 5
    kinds += [{"opcode": 0x0C}] * 3
    for k, more in enumerate(kinds):
        builder.command(MS + k * 100 * US, 100 * US, **more)
    builder.power(0, 1.0)
    result: dict[str, Any] = analyze(builder.write(20 * MS))
    return result


def test_failed_and_aborted_commands_are_in_no_rate(builder: Any) -> None:
    rates = mixed(builder)["rates"]
    assert rates["count"] == 60 + 5 + 3
    assert rates["bytes"] == 60 * 4096, "a Verify moves nothing, a failed Read did not"
    assert rates["span_s"] == rates["active_s"] == pytest.approx(9.8e-3)
    assert rates["iops"]["value"] == pytest.approx(68 / 9.8e-3)
    assert rates["mb_per_s"]["value"] == pytest.approx(60 * 4096 / 1e6 / 9.8e-3)


def test_a_failed_command_is_counted_and_an_aborted_one_is_not(builder: Any) -> None:
    read = mixed(builder)["commands"]["by_opcode"]["read"]
    assert (read["count"], read["errors"], read["aborted"], read["bytes"]) == (80, 20, 10, 80 * 4096)
    assert read["latency_s"]["n"] == 80
    assert read["error_bytes"] == 20 * 4096


def test_the_do_not_retry_and_more_bits_are_no_failure(builder: Any) -> None:
    """Bits 10:0 of the status are its code and type; CRD, More and Do Not Retry are above them."""
    for k, status in enumerate((0x0800, 0x4000, 0x0001)):
        builder.command(MS + k * MS, 100 * US, status=status)
    assert analyze(builder.write())["commands"]["by_opcode"]["read"]["errors"] == 1


@pytest.mark.parametrize(("gap", "bursts"), [(10 * MS, 2), (10 * MS - 1, 1), (30 * MS, 2)])
def test_ten_milliseconds_without_a_command_part_two_bursts(builder: Any, gap: int, bursts: int) -> None:
    end = builder.command(MS, 2 * MS)
    builder.command(end + gap, 2 * MS)
    rates = analyze(builder.write())["rates"]
    active = 4e-3 if bursts == 2 else 4e-3 + gap * 1e-9
    assert rates["active_s"] == pytest.approx(active)
    assert rates["span_s"] == pytest.approx(4e-3 + gap * 1e-9)
    assert rates["iops"]["value"] == pytest.approx(2 / active)
    assert rates["iops_whole"]["value"] == pytest.approx(2 / rates["span_s"])
    assert (rates["bursts"] or {"count": 1})["count"] == bursts


def test_the_spread_of_bursts_is_in_the_u_of_their_mean(builder: Any) -> None:
    """Five bursts of 10 ms at 10, 20, 40, 50 and 100 commands: u is 2 s / sqrt(5)."""
    tick, counts = 10 * MS, (10, 20, 40, 50, 100)
    for n in counts:
        for k in range(n):
            builder.command(tick + k * (10 * MS // n), 10 * MS // n)
        tick += 110 * MS
    bursts = analyze(builder.write())["rates"]["bursts"]
    iops = [n / 0.010 for n in counts]
    assert bursts["iops_mean_of_bursts"]["value"] == pytest.approx(sum(iops) / 5)
    assert bursts["iops_mean_of_bursts"]["u"] == pytest.approx(2 * np.std(iops, ddof=1) / math.sqrt(5))
    mb = [n * 4096e-6 for n in iops]
    assert bursts["mb_per_s_mean_of_bursts"]["u"] == pytest.approx(2 * np.std(mb, ddof=1) / math.sqrt(5))
    assert (bursts["mb_per_s_min"], bursts["mb_per_s_max"]) == (pytest.approx(min(mb)), pytest.approx(max(mb)))
    assert bursts["bytes_each"] == pytest.approx(44 * 4096)


def test_failed_commands_are_in_no_burst(builder: Any) -> None:
    for k in range(2):
        for i in range(10):
            builder.command(MS + k * 100 * MS + i * 100 * US, 100 * US, status=0 if i < 4 else 0x281)
    bursts = analyze(builder.write())["rates"]["bursts"]
    assert bursts["iops_mean_of_bursts"]["value"] == pytest.approx(4 / 1e-3)
    assert bursts["mb_per_s_mean_of_bursts"]["value"] == pytest.approx(4 * 4096 / 1e6 / 1e-3)


def test_consistency_is_of_whole_seconds(builder: Any) -> None:
    """12.5 s: ten seconds of 3, 5, 3, 5, ... completions and two of 4; half a second of 100, which is not a whole second."""
    builder.phase(1, MS, 12_500 * MS + MS, "t")
    counts = [3, 5] * 5 + [4, 4]
    for second, n in enumerate(counts):
        for k in range(n):
            builder.command(2 * MS + second * 1000 * MS + k * 100 * MS, 10 * MS)
    for k in range(100):
        builder.command(12_100 * MS + k * MS, US)
    found = analyze(builder.write())["phases"][0]["consistency"]
    assert (found["seconds"], found["iops_mean"]) == (12, 4.0)
    assert found["iops_std"] == pytest.approx(np.std(counts, ddof=1))
    assert found["mean_over_std"] == pytest.approx(4 / np.std(counts, ddof=1))


def test_seconds_are_counted_from_the_first_tick() -> None:
    done = [5_000, 5_999, 6_100, 4_999, 7_999, 8_000]  # ms; of 5 to 8 s
    table = load_commands(rows(*({"cqe_tick": ms * MS} for ms in done)), {0: 512})
    assert per_second(table, 5_000 * MS, 8_000 * MS, 1e-9).tolist() == [2, 1, 1]
    assert per_second(table, 5_000 * MS, 7_999 * MS, 1e-9).tolist() == [2, 1], "whole seconds only"
