"""Ends of a recording, and the data that are still taken, with a scripted reader: no threads, no clock."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from wattbell.capture import CaptureWriter, open_capture
from wattbell.capture import record as module
from wattbell.capture.record import Progress, RecordingLimits, record
from wattbell.errors import CaptureError, RigError
from wattbell.rig.reader import LineState

from tests.host.wire import encoder as e
from tests.patience import PATIENCE_S

NOTHING = object()
"""In a script: nothing comes for a while."""
MS = 1_000_000
HEAD = e.status(0, 500, run=1) + e.events(1, 500, [(500, 15, 1, 0, 0)])


def commands(number: int, tick: int) -> bytes:
    return bytes(e.commands(number, tick, [e.Command(tick)]))


def tail(number: int, tick: int, made: int) -> list[bytes]:
    """The last two blocks of a run."""
    return [e.events(number, tick, [(tick, 15, 0, 0, 0)]), e.status(number + 1, tick, run=0, commands=made)]


class Script:
    """Replaces the reader's queue: bytes, a Line, an error, NOTHING, or something to call before the next one."""

    def __init__(self, *items: Any) -> None:
        self.left = list(items)
        self.nothing = 0

    def get(self, timeout: float | None = None) -> Any:
        assert timeout is None or 0 < timeout <= 1, "as queue.Queue wants it, and soon enough for a person who waits"
        while self.left and callable(self.left[0]):
            self.left.pop(0)()
        if not self.left or self.left[0] is NOTHING:
            del self.left[:1]
            self.nothing += 1
            assert self.nothing < 100, "it waits for what will not come"
            raise queue.Empty
        item = self.left.pop(0)
        return memoryview(bytearray(item)) if isinstance(item, bytes) else item

    def empty(self) -> bool:
        while self.left and self.left[0] is NOTHING:
            del self.left[0]
        return not self.left


class Rig:
    """Records its calls. ``stuck``: it stops only when its data is read, like a sender that waits in a write."""

    def __init__(self, *, started: bool = True, capturing: bool = True, refuses: tuple[str, ...] = (), stuck: bool = False) -> None:
        self.asked: list[str] = []
        self.read = threading.Event()
        self._stuck = stuck
        self._started, self._capturing, self._refuses = started, capturing, refuses
        self.stranger: str | None = None
        self.strangers: list[str] = []

    def _do(self, what: str) -> None:
        self.asked.append(what)
        if what in self._refuses and self.asked.count(what) >= self._refuses.count(what):
            raise RigError(f"no {what}")

    def start(self) -> bool:
        self._do("start")
        return self._started

    def stop(self) -> None:
        self.read.clear()
        assert not self._stuck or self.read.wait(PATIENCE_S), "nobody reads its data"
        self._do("stop")

    def read_into(self, buffer: memoryview) -> int:
        self.read.set()
        return 0

    def configure_again(self) -> None:
        self._do("configure")

    def is_capturing(self) -> bool:
        return self._capturing

    def sender(self) -> str | None:
        return None


class Recording:
    """One recording of a script into a folder."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self._patch = path, monkeypatch
        self.released, self.told, self.running = 0, [], []
        self.now = 0.0

    def run(self, script: Script, rig: Rig | None = None, limits: RecordingLimits | None = None, **options: Any) -> str:
        recording = self

        class Reader:
            def __init__(self, _rig: Any, journal: Callable[[memoryview], None]) -> None:
                self.items = script

            def start(self) -> None:
                recording.running.append("start")

            def stop(self) -> None:
                recording.running.append("stop")

            def release(self, data: memoryview) -> None:
                recording.released += len(data)

        def clock() -> float:
            recording.now += 0.25
            return recording.now

        self._patch.setattr(module, "StreamReader", Reader)
        self._patch.setattr(module.time, "monotonic", clock)
        self.script, self.rig = script, rig or Rig()
        with CaptureWriter(self.path) as writer:
            self.writer = writer
            return record(self.rig, writer, limits or RecordingLimits(), progress=self.told.append, **options)  # type: ignore[arg-type]


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recording]:
    yield Recording(tmp_path / "c", monkeypatch)


def ticks(recording: Recording) -> list[int]:
    return open_capture(recording.path).commands.collect()["cqe_tick"].to_list()


def test_it_ends_with_the_run_and_takes_what_comes_behind_the_stop(recording: Recording) -> None:
    pieces = [HEAD, commands(2, 1 * MS), tail(3, 5 * MS, 1)[0], NOTHING, tail(3, 5 * MS, 1)[1], NOTHING]
    assert recording.run(Script(*pieces, "not taken")) == "the rig stopped"
    assert recording.rig.asked == ["start"] and recording.running == ["start", "stop"]
    capture = open_capture(recording.path)
    assert (capture.state, capture.meta["loss"]["lossless"], ticks(recording)) == ("complete", True, [MS])
    taken = [piece for piece in pieces if isinstance(piece, bytes)]
    assert recording.released == sum(map(len, taken))
    size = len(HEAD)
    assert replace(recording.told[0], latest=None) == Progress(0.0, size, 0, 0, False, True)
    assert replace(recording.told[1], latest=None) == Progress((MS - 500) * 1e-9, size + len(pieces[1]), 1, 0, False, True)


def test_what_is_queued_when_it_ends_is_taken_without_waiting(recording: Recording) -> None:
    """Data only: the state of the line meanwhile no longer matters."""
    stop = threading.Event()
    script = Script(HEAD, stop.set, NOTHING, NOTHING, LineState.CUT, commands(2, MS), RigError("gone"), commands(3, 2 * MS))
    recording.run(script, Rig(refuses=("stop",)), stop=stop)
    assert ticks(recording) == [MS, 2 * MS] and script.left == []


def test_a_rig_that_was_capturing_already_is_attached_late(recording: Recording) -> None:
    assert recording.run(Script(commands(6, 4 * MS) + e.status(7, 5 * MS, run=0), NOTHING), Rig(started=False)) == "the rig stopped"
    assert recording.writer.stream.attached_late
    reasons = open_capture(recording.path).gaps.collect()["reason"].to_list()
    assert "the rig was capturing before the recording began" in reasons


def test_a_rig_that_has_not_begun_has_not_stopped(recording: Recording) -> None:
    first = e.status(0, 400, run=0)
    rest = b"".join([e.status(1, 500, run=1), e.events(2, 500, [(500, 15, 1, 0, 0)]), commands(3, MS)])
    assert recording.run(Script(first, NOTHING, rest, *tail(4, 5 * MS, 1), NOTHING)) == "the rig stopped"
    assert ticks(recording) == [MS]


def test_a_marker_ends_it(recording: Recording) -> None:
    marks = [e.events(2, MS, [(MS, 7, 0, 0, 0x100)]), e.events(3, 2 * MS, [(2 * MS, 7, 0, 0, 0x102)])]
    script = Script(HEAD, *marks, commands(4, 3 * MS), *tail(5, 5 * MS, 1), NOTHING)
    assert recording.run(script, limits=RecordingLimits(until_marker=0x102)) == "marker 0x102 was seen"
    assert recording.rig.asked == ["start", "stop"]
    assert ticks(recording) == [3 * MS] and open_capture(recording.path).state == "complete"


@pytest.mark.parametrize(("last", "ends"), [(500 + 2 * MS, True), (499 + 2 * MS, False)])
def test_so_many_seconds_of_the_rigs_clock_end_it(recording: Recording, last: int, ends: bool) -> None:
    script = Script(HEAD, commands(2, last), commands(3, 9 * MS), *tail(4, 10 * MS, 2), NOTHING)
    assert recording.run(script, limits=RecordingLimits(duration_s=2e-3)) == "0.002 s are over"
    assert recording.told[-1].commands == (1 if ends else 2) and recording.rig.asked == ["start", "stop"]
    assert ticks(recording) == [last, 9 * MS]


def test_a_rig_that_does_not_confirm_the_stop_is_noted(recording: Recording) -> None:
    stop = threading.Event()
    assert recording.run(Script(HEAD, stop.set, commands(2, MS)), Rig(refuses=("stop",)), stop=stop) == "stopped by the user"
    capture = open_capture(recording.path)
    assert "the rig did not confirm the stop: no stop" in capture.meta["conditions"]["notes"] and capture.state == "incomplete"


def test_a_drain_ends_though_the_rig_never_does(recording: Recording) -> None:
    """After five seconds: each look at the clock advances it by a quarter of one."""
    stop = threading.Event()
    stop.set()
    script = Script(HEAD, *[NOTHING] * 60)
    assert recording.run(script, stop=stop) == "stopped by the user"
    assert 10 <= script.nothing <= 20


def test_a_rig_that_is_late_is_drained_to_its_last_block(recording: Recording) -> None:
    """Twenty seconds, in which it is never silent for five: as a virtual rig with a simulation that lags, or any behind a slow serial
    line."""
    stop = threading.Event()
    stop.set()
    late = [item for number in range(2, 12) for item in (NOTHING, NOTHING, NOTHING, commands(number, number * MS))]
    script = Script(HEAD, *late, *tail(12, 13 * MS, 10), NOTHING)
    assert recording.run(script, stop=stop) == "stopped by the user"
    assert ticks(recording) == [number * MS for number in range(2, 12)]
    assert open_capture(recording.path).state == "complete"


def test_a_drain_ends_though_the_rig_goes_on(recording: Recording) -> None:
    """After a minute."""
    stop = threading.Event()
    stop.set()
    sent = iter(range(2, 10_000))

    class Endless(Script):
        def get(self, timeout: float | None = None) -> Any:
            number = next(sent)
            return memoryview(bytearray(commands(number, number * MS)))

        def empty(self) -> bool:
            return True

    assert recording.run(Endless(HEAD), stop=stop) == "stopped by the user"
    assert 50 <= next(sent) <= 300


def test_a_line_that_is_cut_and_comes_back(recording: Recording) -> None:
    script = Script(HEAD, commands(2, MS), LineState.CUT, NOTHING, LineState.BACK, commands(5, 4 * MS), *tail(6, 5 * MS, 2), NOTHING)
    assert recording.run(script, watch=lambda: None) == "the rig stopped"
    assert recording.rig.asked == ["start", "start"]
    assert [told.waiting for told in recording.told] == [False, False, True, True, False, False, False]
    assert ticks(recording) == [MS, 4 * MS]
    assert open_capture(recording.path).meta["journal"]["cuts"] == [len(HEAD + commands(2, MS))]


def test_a_rig_that_lost_its_supply_is_set_up_again(recording: Recording) -> None:
    script = Script(HEAD, LineState.CUT, LineState.BACK, commands(2, 4 * MS), *tail(3, 5 * MS, 1), NOTHING)
    recording.run(script, Rig(capturing=False))
    assert recording.rig.asked == ["start", "configure", "start"]


def test_one_that_refuses_to_start_again_is_noted(recording: Recording) -> None:
    script = Script(HEAD, LineState.CUT, LineState.BACK, commands(2, 4 * MS), *tail(3, 5 * MS, 1), NOTHING)
    assert recording.run(script, Rig(refuses=("start", "start"))) == "the rig stopped"
    assert open_capture(recording.path).meta["conditions"]["notes"] == ["after the rig came back it refused to start: no start"]


def test_nobody_waits_for_a_rig_that_will_not_come_back(recording: Recording) -> None:
    asked = []

    def watch() -> str | None:
        asked.append(1)
        return "the rig has ended" if len(asked) == 3 else None

    script = Script(HEAD, NOTHING, LineState.CUT, NOTHING, NOTHING, NOTHING, commands(2, MS))
    assert recording.run(script, watch=watch) == "the rig has ended"
    assert len(asked) == 3 and recording.rig.asked == ["start"] and ticks(recording) == [MS]


def test_a_cut_line_is_not_asked_to_stop(recording: Recording) -> None:
    stop = threading.Event()
    assert recording.run(Script(HEAD, LineState.CUT, stop.set, NOTHING), stop=stop) == "stopped by the user"
    assert recording.rig.asked == ["start"]


def test_an_error_of_the_line_is_raised_and_a_full_disk_stops_the_rig(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RigError, match="torn"):
        recording.run(Script(HEAD, RigError("torn")))
    assert recording.rig.asked == ["start"] and recording.running == ["start", "stop"]
    recording.path = recording.path.with_name("d")

    def full(*_: Any) -> None:
        raise CaptureError("full")

    with monkeypatch.context() as patch, pytest.raises(CaptureError, match="full"):
        patch.setattr(CaptureWriter, "decode", full)
        recording.run(Script(HEAD), Rig(refuses=("stop",)))
    assert recording.rig.asked == ["start", "stop"]


def test_a_rig_that_waits_until_its_data_is_read_is_stopped_when_the_journal_cannot_grow(recording: Recording) -> None:
    with pytest.raises(CaptureError, match="full"):
        recording.run(Script(HEAD, CaptureError("full")), Rig(stuck=True))
    assert recording.rig.asked == ["start", "stop"]


def test_a_rig_that_runs_already_need_not_be_started(recording: Recording) -> None:
    recording.run(Script(HEAD, *tail(2, MS, 0), NOTHING), start=False)
    assert recording.rig.asked == [] and open_capture(recording.path).state == "complete"


def test_the_first_signal_ends_it_and_the_second_interrupts(recording: Recording) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    end = tail(2, MS, 0)
    assert recording.run(Script(lambda: signal.raise_signal(signal.SIGTERM), HEAD, *end, NOTHING)) == "stopped by the user"
    assert recording.rig.asked == ["start", "stop"] and open_capture(recording.path).state == "complete"
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    recording.path = recording.path.with_name("d")
    twice = [lambda: signal.raise_signal(signal.SIGINT)] * 2
    with pytest.raises(KeyboardInterrupt):
        recording.run(Script(HEAD, *twice, *end))
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert open_capture(recording.path).state == "recovered"


def test_in_another_thread_signals_are_left_alone(recording: Recording) -> None:
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(recording.run(Script(HEAD, *tail(2, MS, 0), NOTHING))))
    thread.start()
    thread.join()
    assert said == ["the rig stopped"]
