"""From stream batches to the samples around the trigger; free of rig, clock and threads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from wattbell_spec import wire as spec

from ...wire.decode import Batch, Gap
from .protocol import U32, ArmSettings
from .timeline import Threshold, Timeline
from .trigger import I64, SumpTrigger

DEFAULT_SETTLE_S = 0.05
"""Time in s that samples wait for records.

Blocks arrive at most 10 ms late and a command's record 21 ms (until its CQ head doorbell, or the tracker's sweep). The rest allows for the
duration of the command itself.
"""


class SampleWindow:
    """Feed it batches until :attr:`words` is set: ``settings.samples`` words, oldest first.

    Samples begin at the RUN event that starts the capture or, if `running`, at `tick`; anything older than `tick` is left over from
    another capture. Samples before the first one repeat it. As in SUMP's gateware, the last of the first ``read - delay`` samples
    is the one at which the trigger fired.
    """

    def __init__(
        self, settings: ArmSettings, thresholds: Sequence[Threshold], settle_ticks: int, initial: int, tick: int, *, running: bool
    ) -> None:
        self.settings = settings
        self.words: U32 | None = None
        self.notes: list[str] = []
        """Notes for the user about these samples."""
        self._thresholds, self._tick, self._initial, self._settle_ticks = thresholds, tick, initial, settle_ticks
        self._waiting: list[Batch] = []
        self._timeline: Timeline | None = None
        self._trigger = SumpTrigger(settings.stages.values())
        self._fired: int | None = None
        self._starts: I64 = np.empty(0, np.int64)
        self._runs: U32 = np.empty(0, np.uint32)
        self._end = 0
        self._lost: list[Gap] = []
        self._loss_ticks: list[int] = []
        if running:
            self._begin(tick)

    @property
    def triggered(self) -> bool:
        """Whether the trigger has fired."""
        return self._fired is not None

    def feed(self, batch: Batch) -> None:
        """Take a batch; :attr:`words` may be set afterwards."""
        self._lost += batch.gaps
        if batch.events is not None:
            kinds = batch.events.columns["type"]
            self._loss_ticks += batch.events.tick[kinds == int(spec.EventType.LOSS)].tolist()
        if self._timeline is None:
            self._waiting.append(batch)
            start = self._run_started(batch)
            if start is None:
                return
            self._begin(start)
        else:
            self._timeline.add(batch)
        self._advance(batch.last_tick - self._settle_ticks)

    def end(self, last_tick: int) -> None:
        """The rig has stopped and nothing more will come: missing samples at the end repeat the last word."""
        if self._timeline is None or self.words is not None:
            return
        self._advance(last_tick)
        if self._fired is None or self.words is not None:
            return
        missing = self._fired + self.settings.delay + 1 - self._end
        self.notes.append(f"the rig stopped {missing} samples before the end of the window; the last word stands for them")
        self._end += missing
        self._finish()

    def _run_started(self, batch: Batch) -> int | None:
        if batch.events is None:
            return None
        columns = batch.events.columns
        begins = (columns["type"] == int(spec.EventType.RUN)) & (columns["arg8"] == 1) & (batch.events.tick >= self._tick)
        return int(batch.events.tick[begins][0]) if begins.any() else None

    def _begin(self, tick: int) -> None:
        self._timeline = Timeline(tick, self.settings.period_ticks, self._thresholds, self._initial)
        for batch in self._waiting:
            self._timeline.add(batch)
        self._waiting = []

    def _advance(self, tick: int) -> None:
        assert self._timeline is not None
        starts, words, self._end = self._timeline.advance(tick)
        self._starts, self._runs = np.concatenate((self._starts, starts)), np.concatenate((self._runs, words))
        if self._fired is None and len(starts):
            self._fired = self._trigger.look(starts, words, self._end)
        if self._fired is None:
            self._forget(self._end + 1 - max(0, self.settings.samples - self.settings.delay))
        elif self._end > self._fired + self.settings.delay:
            self._finish()
        else:
            self._forget(self._fired + self.settings.delay + 1 - self.settings.samples)

    def _forget(self, first: int) -> None:
        """Discard runs before sample `first`, which will not be sent."""
        keep = max(int(np.searchsorted(self._starts, first, side="right")) - 1, 0)
        if keep > 4096:  # not every time: it copies
            self._starts, self._runs = self._starts[keep:], self._runs[keep:]

    def _finish(self) -> None:
        assert self._fired is not None and self._timeline is not None
        last = self._fired + self.settings.delay  # among the samples that are sent
        samples = np.arange(last + 1 - self.settings.samples, last + 1)
        run = np.maximum(np.searchsorted(self._starts, samples, side="right") - 1, 0)
        self.words = self._runs[run]
        period, start = self._timeline.period_ticks, self._timeline.start_tick
        if samples[0] < 0:
            self.notes.append(f"the capture began {-int(samples[0])} samples after the window; its first word stands for them")
        self._note_losses(start + int(samples[0]) * period, start + int(samples[-1]) * period)

    def _note_losses(self, first_tick: int, last_tick: int) -> None:
        assert self._timeline is not None
        for gap in self._lost:
            if gap.first_tick <= last_tick and gap.last_tick >= first_tick:
                what = f"{gap.count} records of {gap.kind.name}" if gap.kind else f"{gap.count} blocks"
                self.notes.append(f"the stream lost data under these samples: {what}, {gap.reason}")
        losses = sum(first_tick <= tick <= last_tick + spec.FLUSH_TICKS for tick in self._loss_ticks)
        if losses:
            self.notes.append(f"the rig lost data under these samples: {losses} LOSS events")
        if self._timeline.late:
            self.notes.append(f"{self._timeline.late} strobes came too late to be shown: commands longer than --settle allows")
