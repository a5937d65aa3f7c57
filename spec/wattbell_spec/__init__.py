"""Facts as data: wire format, registers, NVMe, units. Depends on nothing outside the standard library.

``python -m wattbell_spec`` writes what is made from it and kept in the repository: Rust constants (`sim/spec`), tables of the sigrok
decoders, docs/wire-format.md and docs/registers.md; ``--header FILE`` the firmware's C header, which its Makefile builds.
"""
