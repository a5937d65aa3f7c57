"""Waveforms recorded by other instruments, one file a foreign format: each gives a rail source and what is known of its instrument."""
