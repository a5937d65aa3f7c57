"""The fast twin of the gateware: plays a trace and gives the stream (docs/virtual-rig.md)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.sim.rig.rig_process import Rig, find, wait_until

FIDELITIES = ("fast", "rtl")


class Playing:
    """A rig that plays a trace into a file. :meth:`stream` waits for its end.

    ``attach``: the SCPI lines of a late attach; empty: the rig captures from the beginning.
    """

    def __init__(self, trace: Path, attach: list[str], fidelity: str = "fast") -> None:
        self._out = trace.with_suffix(".wbs")
        self._out.unlink(missing_ok=True)
        options = ["--output", str(self._out), "--fidelity", fidelity]
        self._rig: Rig | None = None
        self._process: subprocess.Popen[bytes] | None = None
        if attach:
            self._rig = Rig(trace.parent, trace, *options, ports=False)
            for line in (*attach, "INIT"):
                self._rig.send(line)
            assert self._rig.ask("SYST:ERR?").startswith(("0,", "+0,")), "the rig refuses the late attach"
            return
        environment = {**os.environ, "WATTBELL_RUNTIME": str(trace.parent / "runtime")}
        command = [str(find("wattbell-rig")), "play", str(trace), *options, "--autostart", "--exit-on-done"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)

    def stream(self) -> tuple[bytes, str]:
        """The stream, and the rig's standard error. RuntimeError where the rig fails."""
        if self._rig is not None:
            rig = self._rig
            wait_until(lambda: rig.status()["state"] == "DONE", "the end of the trace")
            rig.close()
            return self._out.read_bytes(), ""
        assert self._process is not None
        _, said = self._process.communicate()
        if self._process.returncode:
            raise RuntimeError(f"wattbell-rig: {said.decode()}")
        return self._out.read_bytes(), said.decode()
