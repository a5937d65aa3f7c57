"""Facts as data: wire format, registers, NVMe, units. Depends on nothing but the standard library.

``python -m wattbell_spec`` writes the generated files kept in the repository: Rust constants (`sim/spec`), tables of the sigrok
decoders, docs/wire-format.md and docs/registers.md; ``--header FILE`` writes the firmware's C header, which its Makefile builds.
"""
