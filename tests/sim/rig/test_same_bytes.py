"""Skipping cycles, leaving out the ADC's serial pins, and fast fidelity never change a byte of the stream."""

from pathlib import Path

import pytest
from wattbell_spec.wire import EventType

from tests.sim.rig.rig_process import ROOT, Rig, column, decode, play
from tests.sim.rig.rig_trace import encode, end, rail


@pytest.fixture(scope="module")
def reference(busy_trace: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Make the stream with every cycle of every clock domain evaluated, as in hardware."""
    return play(busy_trace, tmp_path_factory.mktemp("reference"), "--no-skip")


def test_the_reference_has_everything_in_it(reference: bytes) -> None:
    batches, decoder = decode(reference)
    assert len(column(batches, "commands", "opcode")) > 50
    assert {EventType.LINK, EventType.CLKREQ, EventType.PERST, EventType.RUN} <= set(column(batches, "events", "type"))
    assert len(column(batches, "rail", "current")) > 2000
    assert not any(batch.gaps for batch in batches)
    assert decoder.counters.missing_blocks == decoder.counters.skipped_bytes == 0


@pytest.mark.parametrize("options", [(), ("--adc", "serial"), ("--adc", "serial", "--no-skip"), ("--fidelity", "fast")], ids=" ".join)
def test_other_ways_give_the_same(reference: bytes, busy_trace: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    assert play(busy_trace, tmp_path, *options) == reference


def test_both_current_paths_through_the_pins(tmp_path: Path) -> None:
    """Three ADCs are read bit by bit."""
    trace = tmp_path / "levels.wbt"
    levels = [0.001, 0.089, 0.5, 0.09, 4.5, 0.01]
    trace.write_bytes(encode([rail(300.0 * k, 3.3, amps) for k, amps in enumerate(levels)] + [end(2000)]))
    streams = [play(trace, tmp_path, "--afe", ROOT / "hw/afe/model.toml", *way) for way in (("--adc", "serial"), ("--fidelity", "fast"))]
    assert streams[0] == streams[1]


def test_slow_link_with_loss(busy_trace: Path, tmp_path: Path) -> None:
    """The link is far too slow for the stream: losses depend on time alone, not on the simulation."""
    slow = ("--usb-mbps", "1.5")
    fast = play(busy_trace, tmp_path, *slow)
    assert fast == play(busy_trace, tmp_path, *slow, "--no-skip")
    batches, _ = decode(fast)
    lost = sum(column(batches, "rail", "dropped")) + sum(batch.gaps != [] for batch in batches)
    assert lost > 0


def test_settings_with_both(busy_trace: Path, tmp_path: Path, rig: type[Rig]) -> None:
    streams = []
    for k, options in enumerate([(), ("--no-skip",), ("--adc", "serial")]):
        out = tmp_path / f"{k}.wbs"
        one = rig(busy_trace, "--output", out, "--exit-on-done", *options, ports=False)
        one.send("SENS:SWE:DEC 7;TINT 1.3 us;:INIT")
        assert one.process.wait() == 0
        streams.append(out.read_bytes())
    assert streams[0] == streams[1] == streams[2]
    intervals = set(column(decode(streams[0])[0], "rail", "interval_ticks"))
    assert intervals == {7 * 1300}


def test_a_board_is_its_seed(quiet_trace: Path, tmp_path: Path) -> None:
    one, again, other = (play(quiet_trace, tmp_path, "--seed", seed) for seed in (3, 3, 4))
    assert one == again != other
