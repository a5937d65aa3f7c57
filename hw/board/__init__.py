"""The interposer as a KiCad design: netlist and drawings as Python, what KiCad makes of them, and what a machine checks."""
