"""Symbols and footprints that KiCad's libraries have not, as data, and what writes them."""
