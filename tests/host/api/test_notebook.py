"""The notebook runs from its first cell to its last, and shows its results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.patience import PATIENCE_S

NOTEBOOK = Path(__file__).resolve().parents[3] / "examples" / "capture.ipynb"


def test_it_is_committed_without_outputs() -> None:
    notebook: Any = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)


@pytest.mark.filterwarnings("ignore")
def test_every_cell_runs(builder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    builder.power(0, 0.6)
    builder.phase(1, 10_000_000, 60_000_000, "reads <b>4k</b>")
    builder.power(20_000_000, 2.0)
    for k in range(300):
        builder.command(20_000_000 + 100_000 * k, 80_000 if k != 7 else 95_000)
    capture = builder.write(80_000_000)
    monkeypatch.setenv("CAPTURE", str(capture.path))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    notebook: Any = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=PATIENCE_S, resources={"metadata": {"path": str(NOTEBOOK.parent)}}).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert not [output for output in shown if output.output_type == "error"]
    assert sum("image/png" in output.get("data", {}) for output in shown) == 2
    text = "".join(output.get("text", "") for output in shown)
    assert "read of 4096 bytes took 95.0 us, at 2.000 W" in text
    card = next(output.data["text/html"] for output in shown if "text/html" in output.get("data", {}))
    assert "reads &lt;b&gt;4k&lt;/b&gt;" in card
