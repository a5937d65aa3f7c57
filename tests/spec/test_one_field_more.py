"""A field that is new in ``wire.COMMAND`` reaches the capture and all that shows commands, without a line elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_new_field_of_a_command_shows_everywhere(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "tests.spec.one_field_more", tmp_path], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "capture": [7],
        "figures": [7],
        "csv": "7",
        "parquet": [7],
        "perfetto": [7],
        "view": [7],
        "page": True,
        "truth": 1,
        "sigrok": "Read q1 cid 0 LBA 0 +8 probe 7 0.500 us",
        "rust": ["pub probe: u8,", "(field::PROBE, u64::from(self.probe)),", "pub probe: u8,", '"probe",', "Some(u64::from(self.probe)),"],
        "documented": ["| `probe` | u8 |  | SQE byte 1 |"],
        "later": True,
    }
