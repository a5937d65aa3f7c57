"""Wattbell: PCIe transactions and rail current of an NVMe drive, from the rig to the report."""

__version__ = "0.1.0"
