"""The same over a pty: the fault on the line of a rig's data port, and the real recorder, ``wattbell record``, behind it."""

from __future__ import annotations

from pathlib import Path

import pytest
from wattbell.capture import open_capture

from tests.faults.faultbench import Bench
from tests.faults.faultoracle import judge
from tests.faults.faulttrial import CLASSES, arrange


@pytest.mark.parametrize("seed", range(3, 3 + len(CLASSES)), ids=lambda seed: CLASSES[seed % len(CLASSES)].replace(" ", "-"))
def test_a_fault_on_the_line_marks_every_figure_it_touches(seed: int, tmp_path: Path) -> None:
    _, blocks, pieces, harmless = arrange(seed)
    with Bench(tmp_path) as bench:
        bench.feed(pieces)
        code, said = bench.finish(bench.record())
    assert code == 0, said
    # a run that ended before the cut ended the recording, too: the next run is not part of it
    sent = [record for block in blocks for record in block.records if record.run == 0 or bench.sent == bench.size]
    verdict = judge(sent, open_capture(bench.capture), harmless)
    assert not verdict.silent, verdict.silent
    assert ("Some data is missing" in said) == verdict.told
