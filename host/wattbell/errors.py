"""The one family of errors a user may see.

Every message names the fault and gives advice. The CLI prints it on one line and exits with ``exit_code``.
"""

from __future__ import annotations


class WattbellError(Exception):
    """Base of every error with a message for the user."""

    exit_code = 1


class RigError(WattbellError):
    """The rig is missing, silent, busy, or refused a command."""


class CaptureError(WattbellError):
    """A capture directory is missing, damaged, or of a newer format."""


class SimError(WattbellError):
    """A program of the virtual rig is missing or failed."""


class Interrupted(WattbellError):
    """The user stopped an action before its end; its result so far is kept and marked as incomplete."""

    exit_code = 130


class ClockError(WattbellError):
    """Two clocks cannot be mapped onto each other: the facts contradict each other, are ambiguous, or are not enough."""


class UsageError(WattbellError):
    """An argument is invalid."""

    exit_code = 2


class CommandEnded(WattbellError):
    """A command of the user's failed, or could not be run; its own exit code is passed on."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class ResultsError(WattbellError):
    """Results of a suite are missing, damaged, already stored, or not comparable."""


class DriveError(WattbellError):
    """A drive must not be touched, does not answer, or a program it needs is missing."""


class CalibrationError(WattbellError):
    """The calibration points do not yield a calibration."""
