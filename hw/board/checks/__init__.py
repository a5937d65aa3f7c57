"""Checks of the board, one module for each subject. ``quick()`` of a module needs no KiCad; ``slow()`` does."""
