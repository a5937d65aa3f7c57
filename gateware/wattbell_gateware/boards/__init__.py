"""Boards: a folder each with its descriptor, pins, clocks and transceivers; one top (`tap.py`) joins them to the instrument."""
