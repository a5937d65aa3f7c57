"""No test writes to the user's own results store."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

_FOLDER = tempfile.TemporaryDirectory(prefix="wattbell-tests-")
os.environ["WATTBELL_STORE"] = str(Path(_FOLDER.name) / "results.sqlite")
