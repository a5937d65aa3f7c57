"""Power meters, one file each, behind one interface."""
