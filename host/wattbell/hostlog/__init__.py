"""Commands as the host saw them (tracepoints, blktrace, logs of fio), in the shape of a tap's (docs/host-commands.md)."""

from .commands import HostCommands, PlacedCommands

__all__ = ["HostCommands", "PlacedCommands"]
