"""The Wattbell wire format: its definition (`spec`) and the decoder built on it."""
