"""Commands as the host saw them (tracepoints, blktrace, logs of fio), in the shape of a tap's (docs/host-commands.md).

While a drive works: :func:`.log.open_log`. Of a file: :func:`.files.read_log`.
"""

from wattbell.capture.hostcommands import HostCommands, PlacedCommands

__all__ = ["HostCommands", "PlacedCommands"]
