"""Figures of a window of a capture: commands, rates, latency, rail, energy, losses; each figure with its uncertainty.

:mod:`.figure` is the one shape of a number, :mod:`.phase` measures a phase. The analysis of a capture and the suites stand on this package.
"""
