"""``rail.jls`` gives back every sample, whatever their number: JLS itself loses the ends of some lengths."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyjls
import pytest
from wattbell.capture.rail import RailReader, RailWriter, padded
from wattbell.errors import CaptureError

CHUNK = 81_920
"""Samples of a chunk of JLS' first summaries."""


def write(folder: Path, samples: int) -> np.ndarray:
    voltage = np.random.default_rng(samples).normal(3.3, 0.1, samples).astype(np.float32)
    writer = RailWriter(folder, 1_000, 1_000, "X")
    for begin in range(0, samples, 50_000):
        part = voltage[begin : begin + 50_000]
        writer.append(part, part, part)
    writer.close([(0, 10**18), (samples, 10**18 + samples * 1_000)])
    return voltage


@pytest.mark.parametrize("samples", [1, 127, CHUNK - 1, CHUNK, CHUNK + 1, CHUNK + 127, CHUNK + 128, 3 * CHUNK + 50, 20 * CHUNK + 2_559])
def test_all_samples_come_back(samples: int, tmp_path: Path) -> None:
    voltage = write(tmp_path, samples)
    reader = RailReader(tmp_path, 1_000, 1_000, 1_000, samples)
    assert len(reader) == samples
    got = reader.read(max(0, samples - 1_000)).voltage
    assert np.array_equal(got, voltage[-1_000:])
    low, high = max(0, samples - 3_000), samples
    ((mean, _, least, most),) = reader.overview("voltage", low, high, 1)
    assert mean == pytest.approx(voltage[low:high].mean(dtype=np.float64), rel=1e-6)
    assert (least, most) == (voltage[low:high].min(), voltage[low:high].max())


def test_the_library_still_needs_it(tmp_path: Path) -> None:
    """When this fails the library has been fixed, and ``padded`` can be removed."""
    path = tmp_path / "x.jls"
    writer = pyjls.Writer(str(path))
    writer.source_def(1, "x", vendor="", model="", version="", serial_number="")
    writer.signal_def(1, 1, signal_type=pyjls.SignalType.FSR, data_type=pyjls.DataType.F32, sample_rate=1000, name="v", units="V")
    writer.fsr_f32(1, 0, np.ones(CHUNK + 1, np.float32))
    writer.close()
    with pyjls.Reader(str(path)) as reader:
        assert int(reader.signals[1].length) == CHUNK


def test_padding_is_seldom_and_small() -> None:
    lengths = np.arange(1, 40 * CHUNK)
    more = np.array([padded(int(n)) for n in lengths]) - lengths
    assert np.count_nonzero(more) == 39 * 127 + 2_559 - 127
    assert more.max() == 2_559


def test_a_file_of_another_length_is_refused(tmp_path: Path) -> None:
    write(tmp_path, 5_000)
    for samples in (4_999, 5_001):
        with pytest.raises(CaptureError, match="5000 samples where"):
            RailReader(tmp_path, 1_000, 1_000, 1_000, samples)
