"""Sheets as Python become KiCad's schematic files."""
