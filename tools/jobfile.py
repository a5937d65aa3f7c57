"""fio job files for the short suites of studies and tests."""

from __future__ import annotations


def at_the_drive(body: str) -> str:
    """Return a job file for the drive under test. ``body``: options of all jobs, then the jobs."""
    return f"[global]\nfilename=${{WATTBELL_DRIVE}}\nioengine=libaio\ndirect=1\n{body}"
