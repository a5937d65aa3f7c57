"""Decoders for libsigrokdecode (sigrok-cli, PulseView). They run in sigrok's own Python and import nothing from this package."""

from __future__ import annotations

from pathlib import Path

DECODERS = Path(__file__).parent / "decoders"
"""Value for SIGROKDECODE_DIR."""
