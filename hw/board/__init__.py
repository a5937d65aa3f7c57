"""The interposer as a KiCad design: netlist and drawings as Python, KiCad's outputs, and the checks by machine."""
