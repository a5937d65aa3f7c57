"""The recorders of a real drive, and the settings of the host.

A rig or a meter records the rail. A tap or the host's log records the commands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wattbell_spec.boards import board_of

from ..drive import Device, HostSettings, Tools
from ..drive.bench import WantedSettings
from ..drive.link import Link, rate, read_link, unseen
from ..errors import DriveError, WattbellError
from ..hostlog.log import CommandLog, open_log
from ..meters.meter import ERRORS, KINDS, Meter, open_meter, options
from ..rig import Rig
from .commands import CommandObserver

Say = Callable[[str], None]
RIG_METER = "rig"
"""The kind of meter that our own rig is."""
_LOGS = (CommandObserver.trace, CommandObserver.blktrace, CommandObserver.fio)


@dataclass(frozen=True)
class How:
    """How it is recorded. ``meter``: in the place of a rig (``--meter``); ``ask``: puts a question to somebody at a terminal, None if
    there is nobody."""

    meter: str | None = None
    commands: CommandObserver = CommandObserver.auto
    wanted: WantedSettings = field(default_factory=WantedSettings)
    ask: Callable[[str], bool] | None = None

    def asked(self) -> dict[str, object]:
        """Return the options given, in the form that ``conditions`` of results.json has."""
        found = {
            "meter": self.meter,
            "commands": None if self.commands is CommandObserver.auto else self.commands.value,
            "link_speed_gt_s": self.wanted.link_speed_gt_s,
            "governor": self.wanted.governor,
        }
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True)
class Equipment:
    """``rig`` or ``meter``; ``log``: kind of the host's log, None for none; ``virtual``: whether its rig, or the one that serves as meter,
    is virtual."""

    device: Device
    rig: Rig | None
    meter: str | None
    log: str | None
    wanted: WantedSettings
    virtual: bool

    def open_meter(self, sample: Callable[[Rig], None]) -> AbstractContextManager[Meter | None]:
        """The meter, anew for each session; None if a rig records. ``sample``: sets the sampling of a rig that serves as one."""
        if self.meter is None:
            return nullcontext()
        name, _, rest = self.meter.partition(":")
        if name == RIG_METER:
            port, _ = options(rest, KINDS[RIG_METER].usage, ERRORS)
            with Rig.open(port or None) as rig:
                sample(rig)
        return open_meter(self.meter)

    def open_log(self, folder: Path) -> CommandLog | None:
        """Open the host's log for one session; None if no log is used. ``folder``: the folder that fio writes its files into."""
        return None if self.log is None else open_log(self.log, self.device.path, folder)


def missing_of(conditions: Mapping[str, Any]) -> str | None:
    """Return in words how many commands the host's log lost, from the ``conditions`` of a capture.

    None if no loss is known, or if the capture's commands come from a tap.
    """
    log = conditions.get("host_log") or {}
    lost = log.get("lost") or []
    if not lost or log.get("beside_tap"):
        return None
    known = sum(gap["count"] for gap in lost if gap["count"] > 0)
    more = "an unknown number of" if any(gap["count"] < 0 for gap in lost) else str(known)
    return f"{more} commands are missing from the host's log ({'; '.join(dict.fromkeys(gap['reason'] for gap in lost))})"


def check_host(how: How, device: Device, tools: Tools, sys: Path = Path("/sys")) -> None:
    """DriveError for a link speed or a governor that cannot be set here; nothing is changed."""
    settings = HostSettings(device, tools, Path("/dev/null"), sys)
    if how.wanted.governor is not None:
        settings.check_governor(how.wanted.governor)
    if how.wanted.link_speed_gt_s is not None:
        settings.check_link_speed(how.wanted.link_speed_gt_s)


@contextmanager
def equipped(how: How, rig: str | None, device: Device, say: Say, sys: Path = Path("/sys")) -> Iterator[Equipment]:
    """Holds the rig, or has tried the meter. DriveError, RigError or UsageError when it cannot record this drive."""
    if how.meter is not None:
        with open_meter(how.meter) as meter:
            say(f"rail: {meter.about.model} {meter.about.serial}".rstrip())
            virtual = bool(meter.about.conditions.get("virtual"))
        yield Equipment(device, None, how.meter, _log(how.commands, device, say), how.wanted, virtual)
        return
    with Rig.open(rig) as held:
        virtual = held.port.virtual
        wanted = _seen(held, read_link(device, sys), how, say)
        if wanted is not None:
            beside = how.commands if how.commands in _LOGS else None
            yield Equipment(device, held, None, beside and _log(beside, device, say), wanted, virtual)
            return
    # the tap is blind: the same rig as a meter of the rail
    yield Equipment(device, None, f"{RIG_METER}:{rig or ''}", _log(how.commands, device, say), how.wanted, virtual)


def _seen(rig: Rig, link: Link | None, how: How, say: Say) -> WantedSettings | None:
    """Return the host's settings with which the tap sees the link; None if the host's log is used in place of the tap.

    Raises DriveError when neither is wanted.
    """
    board = board_of(rig.port.serial)
    wanted = how.wanted
    why = None if board is None or link is None else unseen(board, link, wanted.link_speed_gt_s)
    if board is None or link is None or why is None:
        return wanted
    if how.commands in _LOGS:
        say(f"The tap is not used: {why[0].lower()}{why[1:]}. The commands are the host's ({how.commands.value}).")
        return None
    slower = max(board.rates_gt_s)
    narrow = (link.width or 0) <= board.lanes
    if narrow and wanted.link_speed_gt_s is None and how.ask is not None:
        say(f"{why}.")
        if how.ask(f"Set the link to {rate(slower)} for this run, and back when it ends?"):
            return WantedSettings(slower, wanted.governor)
        if how.commands is CommandObserver.auto:
            return None
    raise DriveError(f"{why}. Nothing was written.")


def _log(commands: CommandObserver, device: Device, say: Say) -> str:
    """The kind of the host's log, tried out. Raises DriveError when there is none."""
    refused: list[str] = []
    for kind in _LOGS if commands is CommandObserver.auto else (commands,):
        if kind is CommandObserver.fio:  # nothing to try
            say("commands: from fio's own logs")
            return kind.value
        try:
            with open_log(kind.value, device.path):
                pass
        except WattbellError as error:
            if commands is not CommandObserver.auto:
                raise
            refused.append(str(error))
            continue
        said = f" ({refused[0].rstrip('.')})" if refused else ""
        say(f"commands: the host's log, {kind.value}{said}")
        return kind.value
    raise DriveError(" ".join(refused))


__all__ = ["Equipment", "How", "check_host", "equipped", "missing_of"]
