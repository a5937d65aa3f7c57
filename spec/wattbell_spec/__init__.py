"""Facts as data: wire format, registers, NVMe, units. Depends only on the standard library.

``python -m wattbell_spec`` writes the generated files that the repository keeps: Rust constants (`sim/spec`), tables of the sigrok
decoders, docs/wire-format.md and docs/registers.md. ``--header FILE`` writes the firmware's C header, which its Makefile builds.
"""
