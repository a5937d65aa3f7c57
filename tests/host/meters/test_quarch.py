"""A Quarch module through the unmodified quarchpy, against a server of QIS's text protocol. quarchpy is too large for CI: by hand."""

from __future__ import annotations

import numpy as np
import pytest
from wattbell.errors import RigError, UsageError
from wattbell.meters.meter import open_meter

from tests import needs
from tests.host.meters.measuring import joined, measured, until_lost
from tests.host.meters.qis_server import Qis

needs.library("quarchpy")
MODULE = "quarch:USB::QTL2312-01-017@127.0.0.1"
ACCURACY = "gain=0.01,offset=1e-4"
INTERVAL = 100_000


def saw(n: int) -> int:
    return 20_000 + n % 977


def check(ticks: np.ndarray, amperes: np.ndarray) -> None:
    assert amperes == pytest.approx([saw(n) * 1e-6 for n in (ticks // INTERVAL).tolist()], rel=1e-6)


def test_stripes_of_the_rail_are_samples_and_lost_ones_are_missing() -> None:
    qis = Qis(saw)
    qis.lost = {500, 501, 1500}
    with qis, open_meter(f"{MODULE}:{qis.port},{ACCURACY},average=16") as meter:
        ticks, volts, amperes = measured(meter, 4000)
        pairs, about = meter.clock_pairs(), meter.about
    assert about.interval_ticks == INTERVAL and about.conditions["rail"] == "3.3V" and volts == pytest.approx(3.3)
    assert "record:averaging 16" in qis.commands and qis.state == "Stopped"
    check(ticks, amperes)
    assert set(np.setdiff1d(np.arange(ticks[-1] // INTERVAL), ticks // INTERVAL).tolist()) == qis.lost
    assert pairs[0].before_ns is not None and pairs[0].tick == 0 and all(pair.before_ns is None for pair in pairs[1:])


@pytest.mark.parametrize(
    ("fault", "told"),
    [("ends", "or QIS is gone"), ("overruns", "its buffer overran"), ("halves_rate", "changed its rate while it measured")],
)
def test_what_ends_it_is_one_error_behind_all_that_had_come(fault: str, told: str, capfd: pytest.CaptureFixture[str]) -> None:
    qis = Qis(saw)
    setattr(qis, fault, 3000)
    with qis, open_meter(f"{MODULE}:{qis.port},{ACCURACY}") as meter:
        found, error = until_lost(meter)
    ticks, _, amperes = joined(found)
    assert told in str(error)
    assert len(ticks) == 3000 or fault == "halves_rate"
    check(ticks, amperes)
    assert capfd.readouterr().err == ""


def test_a_stream_that_somebody_stops_is_told() -> None:
    with Qis(saw) as qis, open_meter(f"{MODULE}:{qis.port},{ACCURACY}") as meter:
        meter.start()
        qis.state = "Stopped"
        qis.ends = None
        qis.stripes = lambda: "eof"  # type: ignore[method-assign]
        with pytest.raises(RigError, match="was stopped by somebody else"):
            for _ in range(200):
                meter.read(0.05)


def test_what_is_not_there_or_not_said() -> None:
    with Qis(saw) as qis:
        with pytest.raises(RigError, match=r"does not have the module USB::QTL1; it lists USB::QTL2312-01-017"):
            open_meter(f"quarch:USB::QTL1@127.0.0.1:{qis.port},{ACCURACY}")
        with pytest.raises(RigError, match="there is no rail 5V; it has 12V, 3.3V"):
            open_meter(f"{MODULE}:{qis.port},{ACCURACY},rail=5V")
    with pytest.raises(RigError, match=r"QIS at 127.0.0.1:9 cannot be reached \(Connection refused\)"):
        open_meter(f"{MODULE}:9,{ACCURACY}")
    with pytest.raises(UsageError, match="give the module"):
        open_meter("quarch:")
    with pytest.raises(UsageError, match="say how accurate"):
        open_meter("quarch:USB::X")
