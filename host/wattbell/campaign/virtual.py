"""The drive model and the virtual rig as a bench."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from ..capture import Capture
from ..capture.record import RIG_STOPPED
from ..errors import SimError
from ..jsondata import JsonObject
from ..suites.drive import Drive, from_profile
from ..suites.session import Choice, Session
from ..suites.step import Step
from ..suites.suite import Suite, Test
from ..virtual import programs
from ..virtual.fidelity import Fidelity
from ..virtual.model import ModelRun, run_model
from ..virtual.voice import Voice

CONVERSION_S = 1e-5
"""Time between two conversions of the rail's ADC on the virtual rig, which simulates each; rail samples are averages of several. A session
whose samples are closer has them converted one by one."""


class VirtualBench:
    """The drive model and the virtual rig."""

    def __init__(
        self,
        profile: Path,
        choice: Choice,
        voice: Voice,
        fidelity: Fidelity = Fidelity.rtl,
        interval_s: float | None = None,
        decimation: int | None = None,
        keep_trace: bool = False,
        keep_stream: bool = False,
        as_direct: bool = False,
    ) -> None:
        self._profile, self._fidelity, self._voice = profile, fidelity, voice
        self.choice = choice
        self._interval_s, self._decimation = interval_s, decimation
        self._keep_trace, self._keep_stream, self._as_direct = keep_trace, keep_stream, as_direct

    virtual = True

    def inspect(self, suite: Suite, pairs: Sequence[tuple[Test, str]]) -> Drive:
        """The drive of the profile."""
        return from_profile(self._profile)

    def open(self) -> AbstractContextManager[object]:
        """Nothing to open: every session starts a rig of its own."""
        return nullcontext()

    def conditions(self) -> JsonObject:
        """Fidelity, seed, how drives are preconditioned, and the options given."""
        how = "written" if self.choice.written else "set in the model"
        out = {
            "fidelity": self._fidelity.value,
            "seed": self.choice.seed,
            "preconditioning": how,
            "adc_interval_s": self._interval_s or CONVERSION_S,
        }
        asked = {"rounds": self.choice.rounds, "adc_decimation": self._decimation, "as_direct": self._as_direct or None}
        return {**out, **{name: value for name, value in asked.items() if value is not None}}

    def versions(self) -> dict[str, str]:
        """Versions of the programs that simulate rig and drive."""
        return {"virtual_rig": programs.version("wattbell-rig"), "model": programs.version("wattbell-ssd")}

    def prepare(self, session: Session) -> None:
        """Nothing to prepare."""

    def run(
        self, session: Session, plans: Path, capture: Path, conditions: Mapping[str, Any], on_step: Callable[[Step, bool], None]
    ) -> None:
        """Run model and rig side by side. Raises SimError when either ends early."""
        notes: list[str] = []
        plan = session.write(plans, self.choice.scale, self.choice.seed)
        if self.choice.scale != 1:
            notes.append(f"scaled by {self.choice.scale:g}: not the published test")
        if session.preconditioning:
            notes.append(f"preconditioned as on a real drive: {', '.join(session.preconditioning)}")
        else:
            notes.append(f"the model's drive was set to the condition {session.start}, not written")
        interval_s = self._interval_s or min(CONVERSION_S, session.rail_interval_s)
        if interval_s != (self._interval_s or CONVERSION_S):
            notes.append(f"the rail was converted every {interval_s * 1e6:g} us in this session, as its test asks")
        decimation = self._decimation or max(1, min(4096, int(session.rail_interval_s / interval_s + 1e-6)))
        stop = threading.Event()
        reason = run_model(
            ModelRun(
                plan,
                self._profile,
                capture,
                fidelity=self._fidelity,
                seed=self.choice.seed,
                interval_s=interval_s,
                decimation=decimation,
                keep_trace=self._keep_trace,
                keep_stream=self._keep_stream,
                as_direct=self._as_direct,
                overwrite=True,
                truth=False,
                extra_files=tuple(sorted(plans.glob("*.fio"))),
                notes=tuple(notes),
                stop=stop,
            ),
            self._voice,
        )
        if stop.is_set():  # also by a signal that came when the rig had just stopped: the sessions behind this one must not begin
            raise KeyboardInterrupt
        if reason != RIG_STOPPED:
            raise SimError(f"The recording of {session.name} ended early: {reason}.")

    def accept(self, capture: Capture) -> JsonObject:
        """Nothing to add: every capture is of the model."""
        return {}
