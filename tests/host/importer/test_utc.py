"""Times of day in a JLS against fio's, with clocks that drift."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from wattbell.importer.align import Align
from wattbell.importer.build import ImportOrder, import_files

from tests.host.formats import files

from .test_import import UTC_MS, fio


@pytest.mark.parametrize("drift", [-80e-6, 60e-6])
def test_many_times_of_day_tell_offset_and_drift(tmp_path: Path, drift: float) -> None:
    """The instrument counts 1 + drift s in one of the time of day; its sample 0 was 100 s before UTC_MS."""
    rate, seconds = 1000, 400
    power = np.full(rate * seconds, 1.0)
    stamps = [(k * rate, UTC_MS / 1e3 - 100 + k / (1 + drift)) for k in range(seconds)]
    path = files.jls(tmp_path / "w.jls", rate, {"current": ("A", power / 3.3), "voltage": ("V", 0 * power + 3.3)}, utc=stamps)
    done = import_files(
        ImportOrder([path], fio=[fio(tmp_path / "f.json", ("a", 0, 0, 1000), ("b", 1, 250_000, 1000))], align=Align("utc", 1e-3)),
        tmp_path / "c",
    )
    (aligned,) = done.alignments
    first, last = (int(aligned.clock.to_reference((UTC_MS + ms) * 10**6)) * 1e-9 for ms in (0, 250_000))
    assert first == pytest.approx(100 * (1 + drift), abs=2e-5) and last == pytest.approx(350 * (1 + drift), abs=2e-5)
    assert 1e-3 <= aligned.clock.bound_s < 1.1e-3
