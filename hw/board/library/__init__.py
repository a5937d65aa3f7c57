"""Symbols and footprints missing in KiCad's libraries, as data, and their writers."""
