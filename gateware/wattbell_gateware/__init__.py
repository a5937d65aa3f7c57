"""The rig's gateware in Amaranth: from TLPs and ADC words to blocks of the wire format (docs/gateware.md)."""
