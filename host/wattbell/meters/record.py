"""Records a meter into a capture: nothing but its rail."""

from __future__ import annotations

import threading
from collections.abc import Callable

from wattbell_spec import wire as spec

from ..capture.memory import keep_freed_memory
from ..capture.record import RIG_STOPPED, USER_STOPPED, Progress, stop_on_signals
from ..capture.source import together
from ..capture.writer import CaptureWriter
from ..clocks.host import Wakefulness, now_ns
from ..errors import RigError
from ..wire.decode import Gap
from .meter import Meter, StreamMeter

_POLL_S = 0.1


def record(
    meter: Meter,
    writer: CaptureWriter,
    duration_s: float | None = None,
    *,
    progress: Callable[[Progress], None] | None = None,
    stop: threading.Event | None = None,
) -> str:
    """Record until `duration_s` of the meter's clock are over, or SIGINT or SIGTERM; returns the reason, in words.

    The signals, and `stop`, as in :func:`wattbell.capture.record.record`. The capture is not closed here. When the meter is lost it is
    complete up to there, ends with a gap of unknown length, and RigError is raised.
    """
    keep_freed_memory()
    stop = stop or threading.Event()
    recorder = Recorder(meter, writer)
    live = writer.begin_live()
    live.left_s = duration_s
    awake = Wakefulness()
    with stop_on_signals(stop):
        meter.start()
        reason = None
        while reason is None:
            recorder.take(_POLL_S)
            if awake.slept_s:
                recorder.slept(awake.slept_s)
            if duration_s is not None:
                live.left_s = max(0.0, duration_s - recorder.seconds)
            if progress is not None:
                progress(Progress(recorder.seconds, 0, 0, writer.counts()["samples"], False, not recorder.gaps, live.latest))
            if stop.is_set():
                reason = USER_STOPPED
            elif recorder.ended:
                reason = RIG_STOPPED
            elif duration_s is not None and recorder.seconds >= duration_s:
                reason = f"{duration_s:g} s are over"
        recorder.end()
    return reason


class Recorder:
    """Writes a meter's samples into a capture. A caller with its own loop calls :meth:`take` repeatedly, then :meth:`end`."""

    def __init__(self, meter: Meter, writer: CaptureWriter) -> None:
        self.meter, self.writer = meter, writer
        writer.begin_live()
        self.last_tick = 0
        """Tick behind the last sample that came."""
        self._first_tick: int | None = None
        self._saved = False
        self._stream = meter if isinstance(meter, StreamMeter) else None
        if self._stream is None:
            writer.keep_rail()

    @property
    def ended(self) -> bool:
        """Whether the meter has stopped by itself."""
        return self._stream is not None and self.writer.stream.account.run == 0 and self.writer.stream.account.has_run

    @property
    def seconds(self) -> float:
        """Time in s since the first sample, by the meter's clock."""
        return (self.last_tick - (self._first_tick or 0)) * self.meter.about.tick_ps * 1e-12

    @property
    def gaps(self) -> int:
        """Return the number of gaps in the capture so far."""
        return self.writer.counts()["gaps"]

    def take(self, timeout_s: float) -> int:
        """Write the blocks that have come, waiting up to `timeout_s` for the first; return their number.

        Raises RigError when the meter is lost, and marks a gap at the end of the capture.
        """
        try:
            if self._stream is not None:
                return self._take_stream(self._stream, timeout_s)
            found = self.meter.read(timeout_s)
        except RigError as error:
            self.writer.add_gap(Gap(spec.BlockContent.RAIL, self.last_tick, self.last_tick, -1, "the meter was lost"))
            self.writer.note(f"the meter was lost: {error}")
            self._remark()
            raise
        if found:
            source = together(found)
            interval = int(source.interval_ticks[-1])
            if self._first_tick is None:
                self._first_tick = int(source.first_tick[0])
                if self._first_tick >= interval:
                    before = Gap(
                        spec.BlockContent.RAIL, 0, self._first_tick - interval, self._first_tick // interval, "missing at the begin"
                    )
                    self.writer.add_gap(before)
            self.writer.add_rail_source(source)
            self.last_tick = int(source.first_tick[-1]) + int(source.count[-1]) * interval
            self.writer.last_tick = max(self.writer.last_tick, self.last_tick)
        if found and not self._saved:
            self._saved = True
            self.writer.set_anchor(self.last_tick, now_ns())
            self.writer.commit()
            self.writer.save_meta()
        self.writer.look()
        return len(found)

    def _take_stream(self, meter: StreamMeter, timeout_s: float) -> int:
        if not self._saved:
            self._saved = True
            self.writer.stream.rail_only(meter.origin_tick)
            self.writer.stream.ask_sender(meter.sender)
        pieces = meter.take_stream(timeout_s)
        for data in pieces:
            self.writer.feed(data)
        self.last_tick = self.writer.last_tick
        if self._first_tick is None and self.last_tick:
            self._first_tick = self.last_tick
        return len(pieces)

    def end(self) -> None:
        """Stop the meter and write the samples still under way."""
        self.meter.stop()
        while self.take(_POLL_S):
            pass
        self._remark()

    def slept(self, slept_s: float) -> None:
        """Handle a suspension of the host of ``slept_s``.

        Raises RigError if the meter has no counts of its own. The number of samples sent meanwhile is then unknown: the host's clock, which
        measures a long gap, stood still.
        """
        if self._stream is not None:
            return
        self.writer.add_gap(Gap(spec.BlockContent.RAIL, self.last_tick, self.last_tick, -1, "the computer was suspended"))
        self._remark()
        raise RigError(
            f"The computer was suspended for {slept_s:.1f} s while it measured: what the meter sent meanwhile is lost. What was recorded "
            "before is kept; keep it awake (systemd-inhibit wattbell ...) and record again."
        )

    def _remark(self) -> None:
        for remark in self.meter.remarks():
            self.writer.note(remark)
