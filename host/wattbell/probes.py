"""The logic channels sigrok sees, both in a session file (:mod:`wattbell.export.sigrok`) and live (:mod:`wattbell.serve.sump`)."""

from __future__ import annotations

PROBES = ("CLKREQ#", "PERST#", "LINK0", "LINK1", "LINK2", "DOORBELL", "FETCH", "DATA", "CQE")
"""Bit i of a sample is channel i. LINK0..2 are the bits of LinkState. The sigrok decoder ``nvme`` uses the same channel names. A sample
holds the level at its instant; a strobe appears in the first sample at or after it."""
