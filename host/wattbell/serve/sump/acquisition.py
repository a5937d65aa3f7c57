"""One armed capture: starts the rig, reads its stream until the window is full, stops the rig."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...errors import RigError, WattbellError
from ...probes import PROBES
from ...rig import Rig
from ...rig.meanwhile import command_while_reading
from ...wire.decode import Batch, StreamDecoder
from .protocol import ArmSettings
from .timeline import Threshold
from .window import DEFAULT_SETTLE_S, SampleWindow

_DRAIN_S = 5.0
_BUFFER_BYTES = 1 << 18


@dataclass(frozen=True)
class CaptureOptions:
    """User settings that apply to all captures."""

    thresholds: Sequence[Threshold] = ()
    settle_s: float = DEFAULT_SETTLE_S
    decimation: int | None = None


class Acquisition(threading.Thread):
    """Runs until the window has been passed to `done`, the rig stops, or :meth:`abort`. `say` gets messages for the user; `over` is called
    at the very end, with the rig's ports closed.

    The rig's ports are held only meanwhile. A rig that was already capturing goes on afterwards.
    """

    def __init__(
        self,
        open_rig: Callable[[], Rig],
        settings: ArmSettings,
        options: CaptureOptions,
        done: Callable[[bytes], None],
        say: Callable[[str], None],
        over: Callable[[], None],
    ) -> None:
        super().__init__(name="wattbell-sump", daemon=True)
        self._open_rig, self._settings, self._options, self._done, self._say = open_rig, settings, options, done, say
        self._over = over
        self._aborted = threading.Event()
        self._begin_tick = self._last_tick = 0

    def abort(self) -> None:
        """Stop it soon; nothing more is passed on."""
        self._aborted.set()

    @property
    def aborted(self) -> bool:
        """Whether it was aborted."""
        return self._aborted.is_set()

    def run(self) -> None:
        """Body of the thread."""
        try:
            if self.aborted:
                return
            for refusal in self._settings.refusals():
                self._say(refusal)
            with self._open_rig() as rig:
                self._capture(rig)
        except WattbellError as error:
            self._say(f"no capture: {error}")
        finally:
            self._over()

    def _capture(self, rig: Rig) -> None:
        if self._options.decimation:
            rig.set_decimation(self._options.decimation)
        buffer = memoryview(bytearray(_BUFFER_BYTES))
        state, self._begin_tick = _settled(rig, buffer)
        running = state == "RUN"
        settle_ticks = round(self._options.settle_s * 1e9)
        window = SampleWindow(self._settings, self._options.thresholds, settle_ticks, _pins(rig), self._begin_tick, running=running)
        rig.start()
        decoder = StreamDecoder()
        over = False
        while not (self.aborted or over or window.words is not None):
            over = self._read(rig, decoder, buffer, window.feed)
        if over and not self.aborted:
            window.end(self._last_tick)
        if window.words is not None and not self.aborted:
            self._done(self._settings.encode(window.words))
            for note in window.notes:
                self._say(note)
        elif over:
            self._say("the rig stopped before the trigger fired; nothing was sent")
        if not running and not over:
            self._end(rig, decoder, buffer)

    def _read(self, rig: Rig, decoder: StreamDecoder, buffer: memoryview, feed: Callable[[Batch], None]) -> bool:
        """Pass on the data that has arrived; return whether the rig has stopped since this capture began.

        Leftovers of an earlier capture may come first.
        """
        size = rig.read_into(buffer)
        return self._take(decoder, bytes(buffer[:size]), feed)

    def _take(self, decoder: StreamDecoder, data: bytes, feed: Callable[[Batch], None]) -> bool:
        stopped = False
        for batch in decoder.feed(data):
            self._last_tick = batch.last_tick
            feed(batch)
            if batch.status is not None and batch.status.tick[-1] >= self._begin_tick:
                stopped = int(batch.status.columns["run"][-1]) == 0
        return stopped

    def _end(self, rig: Rig, decoder: StreamDecoder, buffer: memoryview) -> None:
        """Stop the rig and drain its remaining data, or the next program to open the port would get it."""
        stopped = False

        def discard(data: bytes) -> None:
            nonlocal stopped
            stopped = self._take(decoder, data, lambda _: None) or stopped

        command_while_reading(rig, buffer, rig.stop, discard)
        deadline = time.monotonic() + _DRAIN_S
        while time.monotonic() < deadline and not stopped:
            stopped = self._read(rig, decoder, buffer, lambda _: None)


def _settled(rig: Rig, buffer: memoryview) -> tuple[str, int]:
    """Return state and tick of the rig. A rig that still sends data that another host did not wait for is drained first."""
    deadline = time.monotonic() + _DRAIN_S
    while True:
        status = rig.status()
        state, tick = re.search(r"state=(\w+)", status), re.search(r"tick=(\d+)", status)
        if state is None or tick is None:
            raise RigError(f"The rig reports the unknown state {status!r}.")
        if state[1] != "STOPPING":
            return state[1], int(tick[1])
        if time.monotonic() > deadline:
            raise RigError("The rig did not stop its previous capture; stop what else uses it, or unplug it and try again.")
        while rig.read_into(buffer):
            pass


def _pins(rig: Rig) -> int:
    """Current state of the pins and the link, as a word."""
    clkreq_low, perst_low, link = (int(answer) for answer in rig.control.query("OUTP:CLKR?;:OUTP:PERS?;:OUTP:LINK?").split(";"))
    word = (1 - clkreq_low) << PROBES.index("CLKREQ#") | (1 - perst_low) << PROBES.index("PERST#")
    return word | (link & 7) << PROBES.index("LINK0")
