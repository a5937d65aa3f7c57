"""PowerSensor3 against its firmware's protocol on a pty."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest
from wattbell.capture import RailSource
from wattbell.clocks.host import host_ns
from wattbell.errors import RigError, UsageError
from wattbell.meters.arrivals import Arrivals
from wattbell.meters.meter import open_meter
from wattbell.meters.powersensor3 import PowerSensor3

from tests.host.meters.measuring import joined, measured, wait_for
from tests.host.meters.powersensor3_device import PowerSensor3Device

US = 1000


def levels(index: int) -> tuple[int, int]:
    """A saw tooth of its own for current and voltage, so that a set in a wrong place shows."""
    return 520 + index % 401, 500 + index % 13


def current_a(level: float) -> float:
    """PowerSensor.hpp and sensors.cc: VOLTAGE * level / MAX_LEVEL, less vref, by the sensitivity."""
    return (3.3 * level / 1023 - 1.65) / 0.12


def check(ticks: np.ndarray, volts: np.ndarray, amperes: np.ndarray, interval_ns: float) -> None:
    """Every sample is the one that the device took at that place of the grid."""
    index = np.rint(ticks / interval_ns).astype(int)
    truth = np.array([levels(i) for i in index.tolist()])
    assert amperes == pytest.approx([current_a(level) for level in truth[:, 0]], abs=1e-5)
    assert volts == pytest.approx(3.3 * truth[:, 1] / 1023 / 0.5, abs=1e-5)


@pytest.mark.parametrize(("board", "interval_ns"), [("F411", 50_000), ("F401", 57_143), ("F407", 29_333)])
def test_samples_of_the_pair_in_use_at_the_rate_of_the_board(board: str, interval_ns: int) -> None:
    with PowerSensor3Device(levels, board) as device, open_meter(f"powersensor3:{device.port}") as meter:
        assert meter.about.firmware == f"{board}-1.6.1" and meter.about.interval_ticks == interval_ns and meter.about.has_voltage
        ticks, volts, amperes = measured(meter, 4000)
    assert (np.diff(ticks) == interval_ns).all() and ticks[0] == 0
    check(ticks, volts, amperes, interval_ns)


def test_lost_sets_are_missing_and_the_rest_is_in_its_place() -> None:
    """Its bytes, in pieces of some milliseconds, each there a moment later. These moments show how many turns of the time stamp a gap
    took: on a busy machine a terminal's would be anything."""
    lost = {1000: 1, 2000: 7, 3000: 30, 4000: 3000}
    missing = {index for first, count in lost.items() for index in range(first, first + count)}
    late = random.Random(1)
    device = PowerSensor3Device(levels)
    with device, open_meter(f"powersensor3:{device.port}") as meter:
        assert isinstance(meter, PowerSensor3)
        for begin in range(0, 11_000, 60):
            piece = b""
            for device.index in range(begin, begin + 60):
                piece += b"" if device.index in missing else device.set_of_samples()
            meter._feed((begin + 60) * 50 * US + late.randrange(100 * US, 900 * US), piece)
        meter._release()
        ticks, volts, amperes = joined(meter._out)
    steps = np.diff(ticks) // (50 * US)
    assert steps[steps != 1].tolist() == [2, 8, 31, 3001]
    assert len(ticks) == 11_040 - len(missing)
    check(ticks, volts, amperes, 50_000)


def test_through_the_port_a_gap_is_as_long_as_the_time_stamps_allow() -> None:
    device = PowerSensor3Device(levels)
    device.lost = {1000: 1, 2000: 7}
    with device, open_meter(f"powersensor3:{device.port}") as meter:
        ticks, _, _ = measured(meter, 4000)
    gaps_us = (np.diff(ticks) // US)[np.diff(ticks) != 50 * US]
    assert len(gaps_us) == 2
    off_us = (gaps_us - np.array([100, 400]) + 512) % 1024 - 512
    assert np.abs(off_us).max() <= 50


GARBAGE = dict(enumerate((b"\x00", b"\xff", b"\x80\x80\x80", b"\xf3\x7f", b"garbage, and \xf0\x40 more"), 500))
CUT_BYTES = {800: 5, 900: 1}


def test_bytes_that_are_none_of_its_sets_are_left_out() -> None:
    """In pieces of some milliseconds, there a moment later: these moments show how many turns of the time stamp a gap took."""
    device = PowerSensor3Device(levels)
    late = random.Random(2)
    with device, open_meter(f"powersensor3:{device.port}") as meter:
        assert isinstance(meter, PowerSensor3)
        for begin in range(0, 12_000, 60):
            piece = b""
            for device.index in range(begin, begin + 60):
                data = device.set_of_samples()
                piece += GARBAGE.get(device.index, b"") + data[: len(data) - CUT_BYTES.get(device.index, 0)]
            meter._feed((begin + 60) * 50 * US + late.randrange(100 * US, 900 * US), piece)
        meter._release()
        ticks, volts, amperes = joined(meter._out)
    steps = np.diff(ticks) // (50 * US)
    assert 2 <= (steps - 1).sum() <= 4 and ticks[-1] == 11_999 * 50 * US
    check(ticks, volts, amperes, 50_000)


def test_through_the_port_bytes_that_are_none_of_its_sets_are_left_out() -> None:
    """How many whole turns of 1024 us a gap took besides, a busy machine cannot tell."""
    device = PowerSensor3Device(levels)
    device.garbage, device.cut_bytes = GARBAGE, CUT_BYTES
    with device, open_meter(f"powersensor3:{device.port}") as meter:
        ticks, volts, amperes = measured(meter, 4000)
    steps_us = np.diff(ticks) // US
    lost_us = (steps_us[steps_us != 50] - 50 + 512) % 1024 - 512
    assert 2 <= len(lost_us) <= 4 and ((lost_us > 0) & (lost_us <= 150)).all()
    before = ticks < 400 * 50 * US
    check(ticks[before], volts[before], amperes[before], 50_000)


def test_its_marker_bounds_its_clock_from_both_sides() -> None:
    with PowerSensor3Device(levels) as device, open_meter(f"powersensor3:{device.port}") as meter:
        began = host_ns()
        measured(meter, 4000)
        (pair,) = meter.clock_pairs()
    true_ns = began + (device.started - time.monotonic()) * 1e9 + (host_ns() - began) + pair.tick
    assert pair.before_ns is not None and began - 200 * US < pair.before_ns < pair.after_ns < host_ns()
    assert pair.before_ns - 1_000_000 < true_ns < pair.after_ns + 1_000_000


class Waiting:
    """Pieces that wait to be read, as :class:`~wattbell.meters.arrivals.Arrivals` has them."""

    def __init__(self) -> None:
        self.pieces: list[tuple[int, bytes]] = []

    def take(self, _timeout_s: float, *, ending: bool = False) -> list[tuple[int, bytes]]:
        pieces, self.pieces = self.pieces, []
        return pieces

    def close(self) -> None: ...


def late_reader(monkeypatch: pytest.MonkeyPatch, meter: PowerSensor3) -> tuple[Waiting, list[int]]:
    """Bytes that wait to be read, and the host's clock in ns, which a test sets."""
    waiting, now = Waiting(), [0]
    monkeypatch.setattr("wattbell.meters.powersensor3.host_ns", lambda: now[0])
    monkeypatch.setattr(meter, "_arrivals", waiting)
    return waiting, now


def sets(device: PowerSensor3Device, count: int) -> bytes:
    data = b""
    for _ in range(count):
        data += device.set_of_samples()
        device.index += 1
    return data


def test_an_answer_that_is_read_late_is_that_to_its_own_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """A computer that is behind by half a minute."""
    device = PowerSensor3Device(levels)
    with device, open_meter(f"powersensor3:{device.port}") as meter:
        assert isinstance(meter, PowerSensor3)
        waiting, now = late_reader(monkeypatch, meter)
        for now[0] in range(0, 30_000_000_000, 700_000_000):
            meter.read(0)
        wait_for(lambda: device.send_markers > 0)
        assert device.received.count(b"M") == 1
        waiting.pieces = [(30_000_000_000, sets(device, 10))]
        meter.read(0)
        (pair,) = meter.clock_pairs()
        assert pair.before_ns == -100 * US and pair.after_ns == 30_000_000_000 and pair.tick == 0
        meter.read(0)
        wait_for(lambda: device.send_markers > 0)  # and on it goes


def test_a_lost_answer_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    device, unasked = PowerSensor3Device(levels), PowerSensor3Device(levels)
    with device, unasked, open_meter(f"powersensor3:{device.port}") as meter:
        assert isinstance(meter, PowerSensor3)
        waiting, now = late_reader(monkeypatch, meter)
        for now[0] in range(0, 65_000_000_000, 1_000_000_000):
            waiting.pieces = [(now[0], sets(unasked, 20_000))]
            meter.read(0)
        wait_for(lambda: device.received.count(b"M") == 2)
        assert not meter.clock_pairs()


def test_many_small_pieces_that_waited_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a slow computer falls behind ever further."""
    device = PowerSensor3Device(levels)
    with device, open_meter(f"powersensor3:{device.port}") as meter:
        assert isinstance(meter, PowerSensor3)
        waiting, _ = late_reader(monkeypatch, meter)
        data = sets(device, 20_000)
        waiting.pieces = [(k * 100 * US, data[k : k + 100]) for k in range(0, len(data), 100)]
        found = meter.read(0)
        assert len(found) < 30
        ticks, volts, amperes = joined(found)
        assert (np.diff(ticks) == 50_000).all() and len(ticks) == 20_000
        check(ticks, volts, amperes, 50_000)


def test_a_computer_that_is_far_behind_takes_it_in_parts() -> None:
    """Whoever waits for the rail sees it go on."""
    pieces = iter([bytes([k % 256]) for k in range(1000)])
    arrivals = Arrivals("It", lambda: next(pieces, b""))
    wait_for(lambda: arrivals._queue.qsize() == 1000)
    parts = [len(arrivals.take(0)) for _ in range(8)]
    arrivals.close()
    assert parts == [128] * 7 + [104]


def test_an_unplugged_one_is_one_error_behind_all_that_it_had_sent() -> None:
    device = PowerSensor3Device(levels)
    device.ends = 3000
    with device, open_meter(f"powersensor3:{device.port}") as meter:
        meter.start()
        found: list[RailSource] = []
        with pytest.raises(RigError, match=r"is gone \(.*\); check its cable"):
            for _ in range(1000):
                found += meter.read(0.1)
    ticks, volts, amperes = joined(found)
    assert len(ticks) == 3000
    check(ticks, volts, amperes, 50_000)


def test_one_that_falls_silent_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wattbell.meters.arrivals._SILENCE_NS", 300_000_000)
    device = PowerSensor3Device(levels)
    device.falls_silent = 100
    with device, open_meter(f"powersensor3:{device.port}") as meter:
        meter.start()
        with pytest.raises(RigError, match="has stopped sending"):
            for _ in range(1000):
                meter.read(0.05)


def test_another_rate_than_its_firmware_has_is_an_error() -> None:
    device = PowerSensor3Device(levels)
    device.period_us = 50.3
    with (
        device,
        open_meter(f"powersensor3:{device.port}") as meter,
        pytest.raises(RigError, match=r"every 50\.[23]\d us, and not every 50.00 us"),
    ):
        measured(meter, 4000)


def test_values_at_the_end_of_the_scale_are_flagged() -> None:
    with PowerSensor3Device(lambda index: (1023, 500)) as device, open_meter(f"powersensor3:{device.port}") as meter:
        meter.start()
        while not (found := meter.read(0.1)):
            pass
    assert found[0].flags[0] == 1  # RailFlag.OVERLOAD_I


def test_which_pair_is_asked_for_where_several_are_in_use() -> None:
    device = PowerSensor3Device(levels)
    device.pairs_in_use = [0, 1]
    with device:
        with pytest.raises(UsageError, match=r"which pair .* In use: 0 \(M.2\), 1 \(M.2\); give pair=N"):
            open_meter(f"powersensor3:{device.port}")
        with pytest.raises(UsageError, match="its sensors 3 are not both in use"):
            open_meter(f"powersensor3:{device.port},pair=3")
        with open_meter(f"powersensor3:{device.port},pair=1,gain=0.005") as meter:
            assert meter.about.gain == 0.005 and "stated by the user: gain" in meter.about.accuracy
            check(*measured(meter, 100), 50_000)


def test_a_port_that_is_none_of_its() -> None:
    with pytest.raises(RigError, match="/dev/nowhere cannot be opened"):
        open_meter("powersensor3:/dev/nowhere")
