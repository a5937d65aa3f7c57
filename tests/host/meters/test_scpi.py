"""Any SCPI instrument through the unmodified PyVISA, on a TCP socket and on a pty. tests/clients has one with real SCPI."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from wattbell.clocks.host import host_ns
from wattbell.errors import RigError, UsageError
from wattbell.meters.meter import open_meter

from tests.host.meters.measuring import joined, measured, until_lost
from tests.host.meters.scpi_device import Instrument, SerialInstrument, TcpInstrument

ACCURACY = "gain=0.003,offset=0.002"


def supply(voltage: str = "3.300", current: str = "0.512") -> Instrument:
    return Instrument({"MEAS:VOLT?": lambda: voltage, "MEAS:CURR?": lambda: current})


def counting(begun_ns: int | None = None) -> Instrument:
    """The current is the host's time since `begun_ns`, or since now, in s: the value at a place says where it belongs.

    A current beyond a rail's range would be left out, so the time begins with the test.
    """
    origin_ns = host_ns() if begun_ns is None else begun_ns
    return Instrument({"MEAS:VOLT?": lambda: "3.3", "MEAS:CURR?": lambda: f"{(host_ns() - origin_ns) / 1e9:.6f}"})


def test_readings_lie_where_they_were_taken_on_the_grid_of_the_hosts_clock() -> None:
    begun_ns = host_ns()
    with TcpInstrument(counting(begun_ns)) as server, open_meter(f"scpi:{server.address},{ACCURACY},every=0.02") as meter:
        ticks, volts, amperes = measured(meter, 40)
        pairs, about = meter.clock_pairs(), meter.about
    assert about.interval_ticks == 20_000_000 and about.has_voltage and about.placement_u_s == 0.01
    assert (about.model, about.serial, about.firmware) == ("EXAMPLE PS-3305", "MY0815", "1.02")
    assert volts == pytest.approx(3.3) and (ticks % 20_000_000 == 0).all() and (np.diff(ticks) > 0).all()
    for pair, tick, taken in zip(pairs, ticks, amperes):
        assert pair.before_ns is not None and pair.tick == tick
        middle = (pair.before_ns + pair.after_ns) / 2
        assert abs(taken - (middle - begun_ns) / 1e9) < (pair.after_ns - pair.before_ns) / 1e9 + 1e-4


def test_an_instrument_that_is_slow_for_a_while_leaves_a_gap() -> None:
    instrument = counting()
    slow = iter([0.0] * 40 + [0.2] + [0.0] * 10_000)
    instrument.answers["MEAS:VOLT?"] = lambda: (time.sleep(next(slow)), "3.3")[1]
    with TcpInstrument(instrument) as server, open_meter(f"scpi:{server.address},{ACCURACY},every=0.02") as meter:
        ticks, _, _ = measured(meter, 60)
        remarks = meter.remarks()
    assert (np.diff(ticks) // 20_000_000).max() >= 5
    (longest,) = [float(remark.split()[-2]) for remark in remarks if "the longest reading took" in remark]
    assert longest >= 200


def test_the_interval_is_what_its_readings_need() -> None:
    instrument = supply()
    instrument.delay_s = 0.03
    with TcpInstrument(instrument) as server, open_meter(f"scpi:{server.address},{ACCURACY}") as meter:
        assert meter.about.interval_ticks >= 60_000_000
        assert meter.about.interval_ticks / 10 ** len(str(meter.about.interval_ticks)) in (0.1, 0.2, 0.5)


def test_an_interval_of_more_than_32_bits_of_nanoseconds() -> None:
    with TcpInstrument(counting()) as server, open_meter(f"scpi:{server.address},{ACCURACY},every=4.5") as meter:
        ticks, _, amperes = measured(meter, 2)
        pairs, about = meter.clock_pairs(), meter.about
    assert about.interval_ticks * about.tick_ps == 4_500_000_000_000 and about.interval_ticks < 1 << 32
    apart = int(ticks[-1] - ticks[0])
    assert apart > 0 and apart % about.interval_ticks == 0
    assert amperes[-1] - amperes[0] == pytest.approx(apart * about.tick_ps * 1e-12, abs=2.25 * 2)
    for pair, tick in zip(pairs, ticks):
        assert pair.before_ns is not None and pair.tick == tick
    assert (pairs[-1].after_ns - pairs[0].after_ns) / 1e9 == pytest.approx(apart * about.tick_ps * 1e-12, abs=2.25 * 2)


@pytest.mark.parametrize(
    ("dialect", "answers"),
    [
        ("dc", {"MEAS:VOLT:DC?": "3.31", "MEAS:CURR:DC?": "+5.0E-1"}),
        ("channel,channel=2", {"MEAS:VOLT? CH2": "3.31", "MEAS:CURR? CH2": "0.5"}),
        ("list,channel=3", {"MEAS:VOLT? (@3)": "3.31", "MEAS:CURR? (@3)": "0.5"}),
        ("all", {"MEAS:ALL? CH1": "3.31,0.5,1.655"}),
        ("fetch", {"FETC:VOLT?": "3.31", "FETC:CURR?": "0.5"}),
        ("read,volts=3.31", {"READ?": "0.5"}),
        ("fetch-current,volts=3.31", {"FETC?": "0.5"}),
    ],
)
def test_dialects(dialect: str, answers: dict[str, str]) -> None:
    instrument = Instrument({question: (lambda told=told: told) for question, told in answers.items()})
    with TcpInstrument(instrument) as server, open_meter(f"scpi:{server.address},{ACCURACY},dialect={dialect}") as meter:
        _, volts, amperes = measured(meter, 3)
        pairs = meter.clock_pairs()
        assert meter.about.has_voltage == ("volts" not in dialect)
    assert volts == pytest.approx(3.31) and amperes == pytest.approx(0.5)
    assert (pairs[0].before_ns is None) == dialect.startswith("fetch")


def test_a_serial_port() -> None:
    with SerialInstrument(supply()) as device, open_meter(f"scpi:{device.port},{ACCURACY},baud=115200,every=0.05") as meter:
        _, volts, amperes = measured(meter, 5)
    assert volts == pytest.approx(3.3) and amperes == pytest.approx(0.512)


def test_what_is_beyond_its_range_is_missing_and_counted() -> None:
    told = itertools.chain(["0.5"] * 8, ["9.90000000E+37", "9.91E37", "-9.9E37", "OVLD", "1234.5"], itertools.repeat("0.5"))
    instrument = Instrument({"MEAS:VOLT?": lambda: "3.3", "MEAS:CURR?": lambda: next(told)})
    with TcpInstrument(instrument) as server, open_meter(f"scpi:{server.address},{ACCURACY},every=0.02") as meter:
        ticks, _, amperes = measured(meter, 12)
        remarks = meter.remarks()
    assert (np.diff(ticks) // 20_000_000).max() >= 6 and amperes == pytest.approx(0.5)
    assert any("4 samples had no number" in remark for remark in remarks)
    assert any("1 sample (1234 A) beyond what the rail of an SSD can have" in remark for remark in remarks)


def test_one_that_hangs_up_or_falls_silent_is_one_error_behind_what_it_had_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wattbell.meters.scpi._ANSWER_S", 0.5)
    for kind in ("hangs_up", "falls_silent"):
        instrument = supply()
        server = TcpInstrument(instrument)
        setattr(server if kind == "hangs_up" else instrument, kind, 33)
        with server, open_meter(f"scpi:{server.address},{ACCURACY},every=0.02") as meter:
            found, error = until_lost(meter)
        assert len(joined(found)[0]) == (33 - 1 - 2 * 6) // 2
        assert "is gone (no answer to MEAS:VOLT?" in str(error) or "is gone (no answer to MEAS:CURR?" in str(error)


def test_an_answer_that_is_no_number_is_an_error() -> None:
    told = itertools.chain(["0.5"] * 8, itertools.repeat("ERR: thermal"))
    instrument = Instrument({"MEAS:VOLT?": lambda: "3.3", "MEAS:CURR?": lambda: next(told)})
    with TcpInstrument(instrument) as server, open_meter(f"scpi:{server.address},{ACCURACY},every=0.02") as meter:
        found, error = until_lost(meter)
    assert len(joined(found)[0]) == 2 and "answers 'ERR: thermal' to MEAS:CURR?, and no number" in str(error)


def test_an_unknown_dialect_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wattbell.meters.scpi._ANSWER_S", 0.3)
    with (
        TcpInstrument(Instrument({})) as server,
        pytest.raises(RigError, match=r"no answer to MEAS:VOLT\? \(within 0.3 s\). Give the dialect= that it speaks: measure, dc"),
    ):
        open_meter(f"scpi:{server.address},{ACCURACY}")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("scpi:", "give its address"),
        ("scpi:127.0.0.1:1", "say how accurate it is"),
        ("scpi:instrument,gain=0.1,offset=0", "no VISA resource, no HOST:PORT and no serial port"),
        ("scpi:127.0.0.1:1,gain=0.1,offset=0,dialect=klingon", "dialect=klingon cannot be read"),
        ("scpi:127.0.0.1:1,gain=0.1,offset=0,dialect=read", "in the dialect read it measures no voltage: state that of the rail"),
        ("scpi:127.0.0.1:1,gain=0.1,offset=0,volts=3.3", "it measures the voltage itself"),
    ],
)
def test_what_is_not_said_is_asked_for(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        open_meter(text)


def test_an_address_where_nothing_is() -> None:
    with pytest.raises(RigError, match="cannot be opened"):
        open_meter(f"scpi:127.0.0.1:9,{ACCURACY}")
    with pytest.raises(RigError, match="cannot be opened"):
        open_meter(f"scpi:/dev/nowhere,{ACCURACY}")
