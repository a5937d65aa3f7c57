"""The tap on an ECP5-5G (LFE5UM5G-85F): two lanes of both directions at 2.5 and 5 GT/s, USB 2.0 high speed (docs/bitstream.md)."""
