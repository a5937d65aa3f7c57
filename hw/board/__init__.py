"""The interposer as a KiCad design: netlist and drawings as Python, KiCad's files made from them, and their checks."""
