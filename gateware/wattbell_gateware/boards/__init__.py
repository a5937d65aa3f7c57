"""Boards: pins, clocks, deserialisers and transports around the platform-neutral instrument."""
