"""The virtual rig for tests: a program, two ports, a stream."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from wattbell_spec.wire import LinkState

from tests.sim.rig.rig_process import Rig, find, run
from tests.sim.rig.rig_trace import encode, end, rail, records, sideband, squeeze


@pytest.fixture(scope="session")
def drive_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a trace of the SSD model: power-on, set-up and a few milliseconds of mixed random traffic."""
    folder = tmp_path_factory.mktemp("drive")
    job = folder / "job.fio"
    job.write_text("[mix]\nrw=randrw\nrwmixread=70\nbs=4k\ndirect=1\niodepth=4\nsize=16m\ntime_based=1\nruntime=2ms\n")
    trace = folder / "drive.wbt"
    run([find("wattbell-ssd"), "run", "--job", job, "--trace", trace, "--fio-json", folder / "fio.json"])
    return trace


@pytest.fixture(scope="session")
def busy_trace(drive_trace: Path) -> Path:
    """Make the same trace with shortened pauses, so that every cycle can be simulated, and with changing sidebands and rail."""
    rows = list(squeeze(records(drive_trace)))
    last_us = rows[-1][2] / 1e6
    extra = [rail(k * 7.3, 3.3 - 0.01 * (k % 5), 0.05 * (k % 11)) for k in range(1, int(last_us / 7.3))]
    # CLKREQ# and link state in odd places, including two changes within one cycle; no Detect, which would end all queues
    for k in range(1, 40):
        extra += [sideband(k * 41.0013, 2, k & 1), sideband(k * 41.0014, 2, ~k & 1), sideband(k * 53.77, 3, k % LinkState.DETECT)]
    ends = [row for row in rows if row[0] == 6]
    body = sorted([row for row in rows if row[0] != 6] + extra, key=lambda row: row[2])
    trace = drive_trace.parent / "busy.wbt"
    trace.write_bytes(encode([*body, *ends]))
    return trace


@pytest.fixture
def quiet_trace(tmp_path: Path) -> Path:
    """Make a trace of a drive that draws 1 A for 25 ms, then 0.1 A up to 40 ms."""
    trace = tmp_path / "quiet.wbt"
    trace.write_bytes(encode([rail(0, 3.3, 1.0), sideband(10, 1, 1), rail(25_000, 3.3, 0.1), end(40_000)]))
    return trace


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[type[Rig]]:
    """Give the class that starts rigs; end those still running after the test."""
    started: list[Rig] = []

    def start(*args: object, **kwargs: object) -> Rig:
        started.append(Rig(tmp_path, *args, **kwargs))
        return started[-1]

    yield start  # type: ignore[misc]
    for one in started:
        one.close()
