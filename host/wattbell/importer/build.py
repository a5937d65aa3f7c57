"""Build a capture from files: the waveform of another instrument, and the host's records of the work."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wattbell_spec.wire import BlockContent, EventType, MarkerSource

from ..capture import CaptureWriter
from ..capture.hostcommands import PlacedCommands
from ..capture.identify import IdentifiedDrive, IdentifiedNamespace
from ..capture.memory import keep_freed_memory
from ..clocks.map import ClockMap
from ..errors import CaptureError, UsageError
from ..formats import Waveform, WaveformOptions, open_files
from ..hostlog.files import read_log
from ..measure.phases import END, START
from ..wire.decode import Gap
from .accuracy import accuracy_of
from .align import Align, Aligned, align
from .fiophases import FioRun, HostPhase, read_fio
from .hostlogs import HostLog, host_log, settled, without_repeats
from .identity import read_identity
from .load import WorkTimes, load_of_fio, load_of_log, together

_MISSING = "missing in the file"
_DEFAULT_LBA = 512
_MOST_PHASES = 1 << 20


@dataclass(frozen=True)
class ImportOrder:
    """The files and options of an import.

    waveform: one file, or one file a channel
    accuracy: terms that the user states
    """

    waveform: Sequence[Path]
    options: WaveformOptions = field(default_factory=WaveformOptions)
    format: str | None = None
    fio: Sequence[Path] = ()
    logs: Sequence[Path] = ()
    identify: Sequence[Path] = ()
    align: Align = field(default_factory=Align)
    accuracy: dict[str, float] = field(default_factory=dict)
    lba_size_bytes: int | None = None


@dataclass(frozen=True)
class Imported:
    """The result of an import.

    alignments: one for each clock of the host
    log_notes: remarks on the logs of commands that a reader needs
    waveform_notes: samples of the waveform that are missing, and a wrong sign
    """

    format: str
    instrument: str
    alignments: list[Aligned]
    log_notes: list[str]
    waveform_notes: list[str]


@dataclass(frozen=True)
class _Host:
    """The contents of the host's files.

    fio_names: names of fio's files as copied into the capture
    notes: remarks on the use or refusal of each log
    """

    fio: FioRun | None
    fio_names: list[str]
    logs: list[HostLog]
    drive: IdentifiedDrive | None
    notes: list[str]


def import_files(order: ImportOrder, out: Path, *, overwrite: bool = False, say: Callable[[str], None] = lambda _: None) -> Imported:
    """Write a capture. Raises CaptureError for files that are not understood or do not fit together, UsageError for options that do not;
    nothing is left then."""
    if not order.waveform:
        raise UsageError("there is no waveform to import: give the file that the instrument's program exported.")
    keep_freed_memory()
    say("reading what the host knows")
    host = _read_host(order)
    say("looking through the waveform")
    kind, waveform = open_files(order.waveform, order.options, order.format)
    say("aligning the clocks")
    loads = _loads(host)
    maps = {load.clock: align(waveform, load, order.align) for load in together(loads)}
    _must_overlap(waveform, loads, maps)
    logs, notes = without_repeats(host.logs, maps)
    host = replace(host, logs=logs, notes=[*host.notes, *notes])
    writing = _Writing(order, host, waveform, maps, kind.title)
    writing.write(out, overwrite, say)
    return Imported(kind.title, waveform.about.instrument, list(maps.values()), _log_notes(host), waveform.left_out.notes())


def _log_notes(host: _Host) -> list[str]:
    return [f"{log.path.name}: {note}" for log in host.logs for note in log.commands.notes]


def _read_host(order: ImportOrder) -> _Host:
    drive = read_identity(order.identify) if order.identify else None
    sizes = [space["lba_size_bytes"] for space in (drive or {}).get("namespaces", []) if space["lba_size_bytes"]]
    lba = order.lba_size_bytes or (sizes[0] if sizes else _DEFAULT_LBA)
    names = ["fio.json"] if len(order.fio) == 1 else [f"fio-{number}.json" for number, _ in enumerate(order.fio, 1)]
    fio = read_fio(order.fio, names, logs=bool(order.logs)) if order.fio else None
    logs, notes = settled([host_log(path, read_log(path, lba)) for path in order.logs], fio)
    if order.lba_size_bytes and not sizes:
        spaces: list[IdentifiedNamespace] = [{"nsid": 1, "lba_size_bytes": order.lba_size_bytes}]
        drive = {**(drive or {"source": "--lba-size", "power_states": []}), "namespaces": spaces}
    return _Host(fio, names, logs, drive, notes)


def _loads(host: _Host) -> list[WorkTimes]:
    found = [load_of_log(log.commands, log.path.name) for log in host.logs]
    loads = [load for load in found if load is not None]
    # fio's JSON has all of its jobs, a log the I/Os of one
    return [load_of_fio(host.fio), *loads] if host.fio is not None else loads


def _must_overlap(waveform: Waveform, loads: Sequence[WorkTimes], maps: dict[str, Aligned]) -> None:
    length_ns = round(waveform.about.span * waveform.about.interval_s * 1e9)
    for load in loads:
        first, last = maps[load.clock].clock.to_reference((load.first_ns, load.last_ns)).tolist()
        if last <= 0 or first >= length_ns:
            raise CaptureError(
                f"{load.what} and the waveform have no time in common: the work lies from {first * 1e-9:.3f} to {last * 1e-9:.3f} s of a "
                f"waveform of {length_ns * 1e-9:.3f} s. Check that both are of the same run, and the clock or --offset."
            )


class _Writing:
    """One capture being written."""

    def __init__(self, order: ImportOrder, host: _Host, waveform: Waveform, maps: dict[str, Aligned], title: str) -> None:
        self.order, self.host, self.waveform, self.maps, self.title = order, host, waveform, maps, title
        about = waveform.about
        self.accuracy = accuracy_of(about, order.accuracy)
        # The waveform begins so late that all of the host's work lies before tick 0 and cannot be placed.
        firsts = [int(maps[load.clock].clock.to_reference(load.first_ns)) for load in _loads(host)]
        lead_ns = max(0, -min(firsts, default=0)) + (1_000_000_000 if firsts else 0)
        self.origin = lead_ns * 1000 // about.tick_ps

    def write(self, out: Path, overwrite: bool, say: Callable[[str], None]) -> None:
        about = self.waveform.about
        there = out.exists()
        writer = CaptureWriter(
            out, rig=self._rig(), conditions=self._conditions(), overwrite=overwrite, journal=False, tick_ps=about.tick_ps, missing=_MISSING
        )
        try:
            if self.host.drive is not None:
                writer.meta["drive"] = self.host.drive
            for note in self._notes():
                writer.note(note)
            say("writing the waveform")
            self._rail(writer)
            say("writing the host's side")
            self._phases(writer, self._logs(writer))
            self._workload(writer.path / "workload")
            writer.close()
        except BaseException as error:
            writer.abandon()
            _remove(writer.path, keep_folder=there and writer.path == out)
            if isinstance(error, CaptureError):
                raise CaptureError(_without_promise(str(error))) from None
            if isinstance(error, OSError):
                raise CaptureError(f"{out} cannot be written ({error.strerror}); free some space, or choose another place.") from None
            raise

    def _rig(self) -> dict[str, Any]:
        about, accuracy = self.waveform.about, self.accuracy
        return {
            "model": about.instrument,
            "serial": about.serial or None,
            "firmware": about.firmware or None,
            "error_model": {
                "gain": accuracy.gain,
                "offset_a": accuracy.offset_a,
                "timebase": accuracy.timebase,
                "instant_s": 0.0,
            },
            "accuracy": accuracy.source,
            "has_voltage": about.volts is None,
        }

    def _conditions(self) -> dict[str, Any]:
        about = self.waveform.about
        found: dict[str, Any] = {"virtual": False, "source": f"imported from {self.title}", **about.conditions}
        found["imported"] = {
            "format": self.title,
            "files": [path.name for path in self.order.waveform],
            "fio": [path.name for path in self.order.fio],
            "logs": [path.name for path in self.order.logs],
            "interval_s": about.interval_s,
            "alignments": [aligned.to_json() for aligned in self.maps.values()],
        }
        of_logs = [self.maps[log.commands.clock].clock.bound_s for log in self.host.logs if log.commands.clock in self.maps]
        if of_logs:
            found["alignment_u_s"] = max(of_logs) + about.grid_s
        return found

    def _notes(self) -> list[str]:
        about = self.waveform.about
        notes = [f"the waveform is {about.instrument}'s, imported from {self.title}: {', '.join(p.name for p in self.order.waveform)}"]
        notes += about.notes
        notes.append(f"accuracy of the waveform: {self.accuracy.source}")
        notes += [aligned.sentence() for aligned in self.maps.values()]
        if self.host.fio is not None:
            notes += self.host.fio.notes
            notes.append("fio tells the edges of its jobs in whole milliseconds: each is within 1.5 ms, besides the clocks' alignment")
        if not self.host.logs:
            notes.append("no log of commands was imported: nothing is known of single commands")
        return notes + self.host.notes + _log_notes(self.host)

    def _rail(self, writer: CaptureWriter) -> None:
        about = self.waveform.about
        end = -1
        for source in self.waveform.sources():
            if end < 0 and int(source.first_tick[0]):
                count = int(source.first_tick[0]) // about.interval_ticks
                before = self.origin + int(source.first_tick[0]) - about.interval_ticks
                writer.add_gap(Gap(BlockContent.RAIL, self.origin, before, count, _MISSING))
            writer.add_rail_source(replace(source, first_tick=source.first_tick + self.origin))
            end = int(source.first_tick[-1]) // about.interval_ticks + int(source.count[-1])
        if end < 0:
            raise CaptureError(f"{self.order.waveform[0]} has no sample with both a voltage and a current.")
        for note in self.waveform.left_out.notes():
            writer.note(note)
        if end < about.span:
            first, last = (self.origin + place * about.interval_ticks for place in (end, about.span - 1))
            writer.add_gap(Gap(BlockContent.RAIL, first, last, about.span - end, _MISSING))
        writer.last_tick = self.origin + about.span * about.interval_ticks
        if about.utc is not None and "utc" not in self.maps:
            writer.set_anchor(self.origin + int(about.utc.index[0]) * about.interval_ticks, int(about.utc.ns[0]))
        elif "utc" in self.maps:
            clock = self.maps["utc"].clock
            writer.set_anchor(self._tick(clock.reference_ns), clock.source_ns)

    def _tick(self, waveform_ns: int) -> int:
        return self.origin + waveform_ns * 1000 // self.waveform.about.tick_ps

    def _onto(self, clock: ClockMap) -> ClockMap:
        """Return the map with its ns counted from tick 0 of the capture."""
        return replace(clock, reference_ns=clock.reference_ns + self.origin * self.waveform.about.tick_ps // 1000)

    def _logs(self, writer: CaptureWriter) -> list[tuple[int, int, float]]:
        """Write the commands; returns (tick, value, limit of its error in s) of the markers in the logs."""
        markers: list[tuple[int, int, float]] = []
        parts: list[PlacedCommands] = []
        for log in (each.commands for each in self.host.logs):
            aligned = self.maps.get(log.clock)
            if aligned is None:  # a log without commands
                continue
            placed = log.onto(self._onto(aligned.clock), self.waveform.about.tick_ps)
            u_s = aligned.clock.bound_s + float(log.table["instant_u_ns"].to_numpy().max()) * 1e-9
            markers += [(tick, value, u_s) for tick, value in placed.markers]
            parts.append(replace(placed, markers=[]))
        for placed in parts:
            placed.put(writer)
        return markers

    def _phases(self, writer: CaptureWriter, markers: list[tuple[int, int, float]]) -> None:
        if self.host.fio is None:
            _put_markers(writer, [(tick, value) for tick, value, _ in markers])
            limits: dict[int, float] = {}
            for _, value, u_s in markers:
                limits[value >> 8] = max(limits.get(value >> 8, 0.0), u_s)
            if limits:
                writer.meta["workload"] = {"source": "host log", "phases": [{"phase": n, "edge_u_s": u} for n, u in sorted(limits.items())]}
            return
        fio = self.host.fio
        if len(fio.phases) > _MOST_PHASES:
            raise CaptureError(f"fio's JSON has {len(fio.phases)} groups of jobs; more than {_MOST_PHASES} are not imported at once.")
        clock = self.maps[fio.clock].clock
        rows: list[tuple[int, int]] = []
        entries = []
        for number, phase in enumerate(fio.phases, 1):
            first, last = clock.to_reference((phase.first_ns, phase.last_ns)).tolist()
            rows += [(self._tick(first), number << 8 | START), (self._tick(last), number << 8 | END)]
            entries.append(self._entry(number, phase, clock))
        _put_markers(writer, rows)
        writer.meta["workload"] = {"source": "fio", "phases": entries}

    def _entry(self, number: int, phase: HostPhase, clock: ClockMap) -> dict[str, Any]:
        u_s = phase.edge_u_ns * 1e-9 + clock.bound_s + self.waveform.about.grid_s
        return {"phase": number, "name": phase.name, "kind": "fio", "edge_u_s": u_s, **phase.about}

    def _workload(self, folder: Path) -> None:
        if not self.order.fio:
            return
        folder.mkdir(exist_ok=True)
        for path, name in zip(self.order.fio, self.host.fio_names, strict=True):
            shutil.copyfile(path, folder / name)


def _put_markers(writer: CaptureWriter, markers: list[tuple[int, int]]) -> None:
    if not markers:
        return
    count = len(markers)
    writer.add_rows(
        "events",
        {
            "tick": [tick for tick, _ in markers],
            "type": [int(EventType.MARKER)] * count,
            "name": [EventType.MARKER.name.lower()] * count,
            "arg8": [int(MarkerSource.IN_BAND)] * count,
            "arg32": [value for _, value in markers],
        },
    )


def _remove(path: Path, *, keep_folder: bool) -> None:
    """Nothing that was recorded is lost with half an import: its files are still there."""
    if not keep_folder:
        shutil.rmtree(path, ignore_errors=True)
        return
    for entry in path.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def _without_promise(text: str) -> str:
    """Return a disk's error message without its remark on the recording so far."""
    return text.partition(" What was recorded so far")[0]
