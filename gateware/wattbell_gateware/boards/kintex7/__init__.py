"""Tap for 8 GT/s and four lanes, on a Kintex-7."""
