"""The logic channels sigrok sees, in a session file (:mod:`wattbell.export.sigrok`) and live (:mod:`wattbell.sump`)."""

from __future__ import annotations

PROBES = ("CLKREQ#", "PERST#", "LINK0", "LINK1", "LINK2", "DOORBELL", "FETCH", "DATA", "CQE")
"""Bit i of a sample is channel i. LINK0..2 are the bits of LinkState. The sigrok decoder ``nvme`` calls its channels by the same
names. A sample holds the level as of its instant; a strobe stands in the first sample at or after it."""
