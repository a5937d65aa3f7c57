"""The sheets of the schematic, one module each, with a function ``sheet()``."""
