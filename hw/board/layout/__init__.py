"""The board: outline, places of the parts, copper, and the file that KiCad opens.

Places here are in mm: x right of the tongue's middle, y from the tongue's end into the board, as ``pcb.py`` reads them back.
``kicad_xy`` turns them into places on a page.
"""
