"""Random legal NVMe traffic with the truth of every command, and a judge of a rig's records of the traffic.

The package shares no code, table or author with the tracker or the SSD model. The rules come from three specifications: PCIe Base 5.0
(``PCIe``), the NVM Express Base and NVM Command Set Specifications (``NVMe``, by the names of sections), PCI Power Management 1.2 (``PM``).
"""
