"""From the stream's bytes (written by hand from docs/wire-format.md) to samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell.probes import PROBES
from wattbell.serve.sump.protocol import ArmSettings, Stage
from wattbell.serve.sump.timeline import Threshold, Timeline
from wattbell.serve.sump.window import SampleWindow
from wattbell.wire.decode import StreamDecoder
from wattbell_spec.wire import EventType

from tests.host.wire.encoder import Command, commands, events, rail

ORIGIN = 5_000_000_000
MS = 1_000_000
BIT = {name: 1 << number for number, name in enumerate(PROBES)}
START = Stage(start=True)


def change(sequence: int, tick: int, kind: EventType, value: int, number: int = 0) -> bytes:
    return events(sequence, tick, [(tick, int(kind), value, 0, number)])


def run_event(sequence: int, tick: int = ORIGIN) -> bytes:
    return change(sequence, tick, EventType.RUN, 1)


def window(settings: ArmSettings, pieces: list[bytes], *, end: int | None = None, levels: tuple[Threshold, ...] = ()) -> SampleWindow:
    """Everything at once; PERST# is high at the start."""
    made, decoder = SampleWindow(settings, levels, 50 * MS, BIT["PERST#"], ORIGIN - 10, running=False), StreamDecoder()
    for piece in pieces:
        for batch in decoder.feed(piece):
            made.feed(batch)
    for batch in decoder.finish():
        made.feed(batch)
    if end is not None:
        made.end(end)
    return made


@given(
    divider=st.integers(1, 300),
    spans=st.lists(st.tuples(st.integers(0, 90_000), st.integers(0, 3000), st.integers(0, 3000), st.integers(0, 3000)), max_size=12),
    pins=st.lists(
        st.tuples(st.integers(0, 90_000), st.sampled_from([(2, 1), (3, 1), (1, 7)]), st.integers(0, 7)),
        max_size=12,
        unique_by=lambda pin: pin[:2],
    ),
)
def test_every_sample_is_what_stood_there(divider: int, spans: list[tuple[int, ...]], pins: list[tuple[int, tuple[int, int], int]]) -> None:
    period = 10 * divider
    count, expected = 100_000 // period, np.zeros(100_000 // period, np.int64)
    records, level = [], {1: 0, 2: 0, 3: 1}

    def strobe(tick: int, bit: int) -> None:
        if (at := -(-tick // period)) < count:
            expected[at] |= bit

    for doorbell, fetch, data, cqe in spans:
        times = np.cumsum([doorbell, fetch, data, data, cqe])
        strobe(times[0], BIT["DOORBELL"])
        strobe(times[1], BIT["FETCH"])
        strobe(times[4], BIT["CQE"])
        expected[-(-times[2] // period) : -(-times[3] // period) + 1] |= BIT["DATA"]
        ages = (int(times[4] - time) for time in times[:4])
        records.append(Command(ORIGIN + int(times[4]), *ages))
    ordered = sorted((tick, kind, value & mask) for tick, (kind, mask), value in pins)
    for sample in range(count):
        level |= {kind: value for tick, kind, value in ordered if -(-tick // period) == sample}
        expected[sample] |= level[2] | level[3] << 1 | level[1] << 2
    pieces = [run_event(0)]
    if ordered:
        pieces.append(events(1, ORIGIN, [(ORIGIN + tick, kind, value, 0, 0) for tick, kind, value in ordered]))
    if records:
        pieces.append(commands(len(pieces), ORIGIN, sorted(records, key=lambda record: record.cqe_tick)))
    settings = ArmSettings(divider - 1, count, count - 1, 0, {0: START})
    made = window(settings, pieces, end=ORIGIN + 2_000_000)
    assert made.words is not None and np.array_equal(made.words, expected)
    assert made.notes == []


def far(sequence: int, tick: int = 200 * MS) -> bytes:
    """A block that marks the stream's progress."""
    return rail(sequence, ORIGIN + tick, [(165_000, 0)])


def test_a_level_is_the_rails_last_sample() -> None:
    amps = [0.1] * 5 + [0.6] * 3 + [0.1] * 4
    samples = [(165_000, round(value / 500e-9)) for value in amps]
    settings = ArmSettings(99, 16, 16, 0, {0: START})
    levels = (Threshold("current", 0.5), Threshold("voltage", 4))
    made = window(settings, [run_event(0), rail(1, ORIGIN, samples, interval=1000), far(2)], levels=levels)
    assert made.words is not None
    high = (made.words >> np.uint32(len(PROBES)) & 1).tolist()
    assert high == [0] * 4 + [1] * 3 + [0] * 9, "sample 0 is the trigger's, and the last before the window"
    assert not (made.words >> np.uint32(len(PROBES) + 1)).any()


def test_nothing_is_made_before_the_stream_is_far_enough() -> None:
    settings = ArmSettings(99, 4, 4, 0, {0: START})
    assert window(settings, [run_event(0), far(1, 49 * MS)]).words is None
    assert window(settings, [run_event(0), far(1, 51 * MS)]).words is not None


def test_what_another_capture_left_is_passed_over() -> None:
    old = [run_event(0, ORIGIN - 90 * MS), commands(1, ORIGIN - 80 * MS, [Command(ORIGIN - 80 * MS, 100, 50)])]
    made = window(ArmSettings(99, 8, 8, 0, {0: START}), [*old, run_event(2), far(3)])
    assert made.words is not None and made.words.tolist() == [2] * 8


def test_a_slow_command_is_counted_where_it_is_not_shown() -> None:
    slow = commands(2, ORIGIN + 300 * MS, [Command(ORIGIN + 300 * MS, doorbell_before=299 * MS)])
    settings = ArmSettings(999_999, 40, 36, 0, {0: START})  # 10 ms per sample
    made = window(settings, [run_event(0), far(1), slow, far(3, 500 * MS)])
    assert made.words is not None
    assert not (made.words & BIT["DOORBELL"]).any()
    assert [note for note in made.notes if "1 strobes came too late" in note]


def test_losses_under_the_samples_are_told_and_others_are_not() -> None:
    settings = ArmSettings(99, 8, 8, 0, {0: START})
    hole = window(settings, [run_event(0), far(3, 100 * MS)])
    assert [note for note in hole.notes if "2 blocks, blocks lost on the way to the host" in note]
    lost = window(settings, [run_event(0), change(1, ORIGIN + 2000, EventType.LOSS, 5, 7), far(2)])
    assert [note for note in lost.notes if "LOSS events" in note]
    later = window(settings, [run_event(0), change(1, ORIGIN + 90 * MS, EventType.LOSS, 5, 7), far(2)])
    assert later.words is not None and later.notes == []


def test_a_rig_that_stops_leaves_the_last_word() -> None:
    settings = ArmSettings(99, 8, 8, 0, {0: Stage(BIT["PERST#"], 0, start=True)})
    falls = change(1, ORIGIN + 2500, EventType.PERST, 0)
    made = window(settings, [run_event(0), falls], end=ORIGIN + 6000)
    assert made.words is not None and made.words.tolist() == [0] * 8
    assert "6 samples before the end" in made.notes[0]
    waiting = window(ArmSettings(99, 8, 8, 0, {0: Stage(BIT["CQE"], BIT["CQE"], start=True)}), [run_event(0)], end=ORIGIN + 6000)
    assert waiting.words is None and not waiting.triggered


def test_what_is_before_the_first_sample_is_that_sample() -> None:
    settings = ArmSettings(99, 16, 4, 0, {0: Stage(BIT["PERST#"], 0, start=True)})
    falls = change(1, ORIGIN + 2500, EventType.PERST, 0)
    made = window(settings, [run_event(0), falls, far(2)])
    assert made.words is not None and made.words.tolist() == [2] * 11 + [0] * 5
    assert "began 8 samples after the window" in made.notes[0]


@pytest.mark.parametrize("tick", [0, 1, 999, 1000, 1001, 2**40 + 1])
def test_a_tick_stands_in_the_first_sample_at_or_after_it(tick: int) -> None:
    at = int(Timeline(ORIGIN, 1000, [], 0).sample(np.array([ORIGIN + tick]))[0])
    assert (at - 1) * 1000 < tick <= at * 1000
