"""Run a session of a suite on a real drive. A rig or a meter records in a thread during the steps, and the host logs its commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import door
from ..capture import CaptureWriter
from ..capture.alignment import by_asking, by_tap
from ..capture.identify import IdentifiedDrive
from ..capture.loadpattern import Pattern
from ..capture.logbook import FILE
from ..capture.marking import BY_FEATURE, KEY, Marking
from ..capture.room import writing
from ..clocks.map import ClockMap
from ..errors import CaptureError, ClockError, DriveError, WattbellError
from ..hostlog.derived import better_clock
from ..hostlog.log import CommandLog
from ..meters.meter import Meter, StreamMeter
from ..rig import Rig
from ..suites.step import Step
from .device import Device
from .host import about_host
from .interruption import guarded
from .link import read_link
from .logged import Besides, LogKeeper
from .pattern import play
from .phase import PhaseEntry, to_json
from .recording import MeterRecording, Recording, RigRecording
from .restart import Restarter
from .runner import Runner
from .settings import HostSettings
from .suspend import Awake
from .tools import Tools

_FOUND_S = 60.0
"""Time in s of the recorder's clock within which the marker must appear: at once, or once a virtual rig's simulation has caught up."""


@dataclass(frozen=True)
class WantedSettings:
    """Settings of the host for a session. None: unchanged."""

    link_speed_gt_s: float | None = None
    governor: str | None = None


def run_session(
    device: Device,
    rig: Rig | None,
    steps: Sequence[Step],
    files: Path,
    capture: Path,
    *,
    journal: Path,
    description: Mapping[str, Any],
    conditions: Mapping[str, Any],
    tools: Tools,
    say: Callable[[str], None],
    left_out: Callable[[Step, Sequence[PhaseEntry]], bool] = lambda _step, _phases: False,
    marking: Marking = BY_FEATURE,
    command_stdout: int | None = None,
    meter: Meter | None = None,
    log: CommandLog | None = None,
    wanted: WantedSettings = WantedSettings(),
    keep_stream: bool = False,
    drive: IdentifiedDrive | None = None,
) -> list[PhaseEntry]:
    """Run the steps on the drive, recorded by a rig or a meter into ``capture``; return the phases.

    left_out: called before each step, with the phases so far; returns whether the step is no longer needed
    marking: the command that marks
    command_stdout: destination of a command's standard output, None for our own
    log: the host's log of the drive's commands. With a rig it is kept beside the tap's (host_commands.parquet). A meter needs a log, which
        becomes the capture's.
    keep_stream: keep a rig's stream in the capture
    drive: the drive's description of itself, if the wire does not show it

    Settings are put back whatever happens, however often it is interrupted. After an interruption the recording is kept, and the
    interruption goes on to the caller. Raises DriveError, RigError or ClockError when the drive, the rig or meter, or the clocks fail.
    """
    files = files.resolve()  # fio runs in a folder of its own
    results = files / "results"
    results.mkdir(parents=True, exist_ok=True)
    marked = {} if marking.by_the_rig else {KEY: marking.to_json()}
    writer = _writer(rig, meter, capture, {**conditions, **marked}, device.lba_size_bytes, keep_stream)
    if drive is not None:
        writer.meta["drive"] = drive
    settings = HostSettings(device, tools, journal)
    keeper = None if log is None else LogKeeper(log, writer, marking, tap=meter is None)
    with guarded() as gate, writer if meter is None else _completed(writer, keeper):
        recording = _recording(rig, meter, writer, keeper)
        runner = Runner(device, tools, settings, files, results, say, recording.await_rest, marking, gate.check)
        if any(step.restart is not None for step in steps):
            assert rig is not None, "refused before"
            runner.restarter = Restarter(device, rig.control)
        runner.command_stdout = command_stdout
        if keeper is not None:
            runner.sent, runner.fio_options = keeper.sent, keeper.log.fio_options
        awake = Awake()
        account = _Account(writer, recording, keeper, runner, description)
        if keeper is not None:
            keeper.besides = account.besides
        whole = False
        try:
            try:
                with gate.open():
                    if keeper is not None:
                        keeper.begin()
                    recording.begin()
                    account.find_drive()
                    if any(step.command is None for step in steps):  # a command finds the drive as it would without us
                        settings.prepare()
                    if wanted.governor is not None:
                        settings.governor(wanted.governor)
                    if wanted.link_speed_gt_s is not None:
                        settings.link_speed(wanted.link_speed_gt_s)
                    account.look_at(device)
                    account.pattern("clocks-begin", device, steps)
                    filled = last_of_filling(steps)
                    for number, step in enumerate(steps):
                        gate.check()
                        account.check()  # a rig that is lost for good: the drive is not written for nothing
                        awake.check()
                        if not left_out(step, runner.phases):
                            runner.run([step])
                        if number == filled:
                            account.pattern("clocks-filled", device, steps)
                    account.pattern("clocks-end", device, steps, backwards=True)
                    runner.read_health()
                    awake.check()
            except WattbellError as error:
                writer.note(f"the session broke off: {error}")
                _restore_after(error, settings, say)
                raise
            except BaseException:  # not left by a second signal: the first one has shut the gate
                settings.restore()
                raise
            settings.restore()
            with gate.open():
                whole = not runner.phases or recording.await_marker(runner.last_marker) is not None
                account.await_pattern()
        finally:
            try:
                recording.end()
            finally:
                try:
                    account.place()
                finally:
                    account.store()
        account.check_end()
        if not whole:
            raise DriveError(f"{recording.unseen} The last marker is missing ({recording.reason}).")
    if meter is None and log is not None:
        better_clock(capture)
    return runner.phases


def last_of_filling(steps: Sequence[Step]) -> int | None:
    """Return the number, from 0, of the last step that prepares the drive by writing before the first measured step; None without one."""
    first = next((number for number, step in enumerate(steps) if step.measured), len(steps))
    return max((number for number, step in enumerate(steps[:first]) if step.fill is not None or step.fio is not None), default=None)


def _writer(
    rig: Rig | None, meter: Meter | None, capture: Path, conditions: Mapping[str, Any], lba_size_bytes: int, keep_stream: bool
) -> CaptureWriter:
    if meter is None:
        assert rig is not None, "one of the two records"
        conditions = {**rig.conditions(), **conditions}
        return CaptureWriter(
            capture,
            rig=rig.description,
            conditions=conditions,
            lba_size_bytes=lba_size_bytes,
            keep_stream=keep_stream,
            overwrite=True,
        )
    about = meter.about
    notes = [*about.notes, *conditions.get("notes", ())]
    conditions = {**about.all_conditions(), **conditions, "notes": notes}
    return CaptureWriter(
        capture,
        rig=about.rig(),
        conditions=conditions,
        lba_size_bytes=lba_size_bytes,
        keep_stream=keep_stream,
        overwrite=True,
        journal=isinstance(meter, StreamMeter),
        tick_ps=about.tick_ps,
    )


def _recording(rig: Rig | None, meter: Meter | None, writer: CaptureWriter, keeper: LogKeeper | None) -> Recording:
    if meter is None:
        assert rig is not None, "one of the two records"
        return RigRecording(rig, writer)
    if keeper is None:
        raise DriveError("A meter does not see the drive's commands: give --commands trace, blktrace or fio.")
    return MeterRecording(meter, writer, keeper.marked_ns)


def _restore_after(error: WattbellError, settings: HostSettings, say: Callable[[str], None]) -> None:
    """Put the settings back. Raises DriveError with both messages when that fails, too."""
    try:
        settings.restore()
    except DriveError as other:
        raise DriveError(f"{error} {other}") from error
    if settings.gone:
        say(f"Its own settings went with the drive ({'; '.join(settings.gone)}); all others are put back.")


@contextmanager
def _completed(writer: CaptureWriter, keeper: LogKeeper | None) -> Iterator[None]:
    """Complete the capture at the end of the block; after an error, end it as ``incomplete``.

    If a part cannot be put into it, as on a full disk, the capture is left to be rebuilt from its journals.
    """
    try:
        yield
    except BaseException as error:
        if isinstance(error, CaptureError) or (keeper is not None and not keeper.book.settled):
            writer.abandon()
            raise
        with suppress(CaptureError):  # the other error says more
            writer.close("incomplete")
        raise
    writer.close()


@dataclass
class _Account:
    """The recording of a session, brought together at its end."""

    writer: CaptureWriter
    recording: Recording
    keeper: LogKeeper | None
    runner: Runner
    description: Mapping[str, Any]
    around: dict[str, Any] = field(default_factory=dict)
    failed: ClockError | None = None
    patterns: list[Pattern] = field(default_factory=list)

    def find_drive(self) -> None:
        """Wait for the marker that a session begins with.

        Raises DriveError when it does not show. The recorder is then not at this drive, and would silently go on while the drive is
        written.
        """
        marker = self.runner.first_marker
        self.runner.marker(marker)
        tick = self.recording.await_marker(marker, _FOUND_S)
        self.check()
        if tick is None:
            raise DriveError(f"{self.recording.unseen} Nothing was written, and nothing changed.")

    def pattern(self, name: str, device: Device, steps: Sequence[Step], *, backwards: bool = False) -> None:
        """Play a pattern of load for a meter whose clock cannot be asked."""
        recording = self.recording
        if not isinstance(recording, MeterRecording):
            return
        recording.await_data()
        recording.check()
        if recording.asked:
            return
        recording.watched = True
        as_it_is = all(step.command is not None for step in steps)
        self.runner.pattern(name, lambda: self.patterns.append(play(device, backwards=backwards)), as_it_is=as_it_is)
        if recording.await_marker(self.runner.last_marker) is None:
            recording.check()
            raise DriveError(recording.unseen)
        recording.watched = recording.virtual  # nobody knows how far behind a virtual meter is

    def look_at(self, device: Device) -> None:
        """Note the present state of link and computer."""
        link = read_link(device)
        self.around = {"link": None if link is None else link.to_json(), "computer": about_host()}

    def await_pattern(self) -> None:
        """A virtual rig may be behind the drive that it follows."""
        if isinstance(self.recording, MeterRecording) and self.recording.virtual and self.patterns:
            self.recording.await_pattern(self.patterns)

    def check(self) -> None:
        """Raise the error that ended the recording, or ended a log of commands without replacement."""
        self.recording.check()
        if self.keeper is not None and isinstance(self.recording, MeterRecording):
            self.keeper.check()

    def place(self) -> None:
        """Put the host's log of commands into the capture, by its clock, or beside it."""
        keeper, recording, writer = self.keeper, self.recording, self.writer
        if keeper is None:
            return
        keeper.end()
        if keeper.error is not None:
            writer.note(f"the host's log of commands broke off: {keeper.error}")
        book, tick_ps = keeper.book, int(writer.meta["clock"]["tick_ps"])
        clock: ClockMap | None = None
        failed: ClockError | None = None
        try:
            if not isinstance(recording, MeterRecording):
                clock = by_tap(book.sent_markers, writer.markers, tick_ps, writer.last_tick)
            elif recording.asked:
                pairs = [(pair.before_ns, pair.after_ns, pair.tick) for pair in recording.meter.clock_pairs()]
                clock = by_asking(pairs, tick_ps, recording.recorder.last_tick)
            else:
                clock = recording.aligned(book.logged(self.patterns), book.span_ns).inverse()
        except ClockError as error:
            failed = error
        self.failed = None if book.tap else failed
        apart_s = book.settle(writer, clock, failed)
        if apart_s is not None:
            for phase in self.runner.phases:
                phase.edge_u_s = apart_s + book.marked_within_s(phase.phase)

    def besides(self) -> Besides:
        """Return the data that the journal of the log needs."""
        recording, workload, now = self.recording, self.workload, self.runner.cut_short
        if now is not None:
            workload["phases"] = [*workload["phases"], *to_json([now])]
        if not isinstance(recording, MeterRecording):
            return Besides(workload=workload)
        pairs = recording.meter.clock_pairs() if recording.asked else ()
        return Besides(pairs, recording.late_or_none_ns, list(self.patterns), workload)

    @property
    def workload(self) -> dict[str, Any]:
        """``workload`` of ``meta.json``."""
        return {**self.description, "phases": to_json(self.runner.phases)}

    def store(self) -> None:
        """The rest: files of the workload, phases, conditions."""
        writer, runner = self.writer, self.runner
        folder = writer.path / "workload"
        with writing(folder):
            folder.mkdir(exist_ok=True)
            for path in [*runner.files.glob("*.fio"), runner.files / "plan.toml", *runner.results.iterdir()]:
                if path.is_file() and path.suffix in (".fio", ".json", ".toml"):
                    (folder / path.name).write_bytes(door.read_bytes(path, door.DOCUMENT))
            (folder / "phases.json").write_text(json.dumps(to_json(runner.phases), indent=1) + "\n", encoding="utf-8")
        writer.meta["workload"] = self.workload
        writer.meta["conditions"].update(self.around)
        writer.save_meta()  # a capture that is rebuilt from its journal has it from there

    def check_end(self) -> None:
        """Raise the final error of the recording, the log or the clocks."""
        if self.recording.error is not None:
            raise self.recording.error
        if self.keeper is not None and isinstance(self.recording, MeterRecording):
            self.keeper.check()
        if self.failed is not None:
            raise ClockError(f"{self.failed} The commands are kept in {FILE} of the capture, on the host's clock.")


__all__ = ["WantedSettings", "run_session"]
