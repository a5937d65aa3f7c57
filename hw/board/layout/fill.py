"""Fills the planes of a board; runs in KiCad's own Python (tools/kicad.sh python3 fill.py FROM TO)."""

import sys

import pcbnew  # only there

board = pcbnew.LoadBoard(sys.argv[1])
pcbnew.ZONE_FILLER(board).Fill(board.Zones())
pcbnew.SaveBoard(sys.argv[2], board)
