"""Random legal NVMe traffic with the truth of every command, and a judge of what a rig says of the traffic.

The package shares no code, table or author with the tracker or the SSD model. What is legal comes from three specifications: PCI Express
Base 5.0 (``PCIe``), NVM Express Base 2.0c and NVM Command Set 1.0 (``NVMe``), PCI Power Management 1.2 (``PM``).
"""
