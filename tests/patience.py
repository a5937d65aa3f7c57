"""How long a test waits for an event that has to happen."""

PATIENCE_S = 900.0
"""Wall-clock limit that only what hangs reaches; every wait of a test that has a limit has this one. See also tests/progress.py."""
