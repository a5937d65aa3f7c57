#!/usr/bin/env bash
# Builds the SystemVerilog example with Verilator and runs it.
#   run-dpi.sh FOLDER [BUILD]     FOLDER has wattbell_ssd.h and libwattbell_ssd_c.so: the output of `python -m wattbell_ssd`
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
c="$(cd "${1:?the folder with wattbell_ssd.h, which python -m wattbell_ssd prints}" && pwd)"
build="${2:-build}"
verilator --binary --timing -j 1 -Wno-fatal --top-module tb --Mdir "$build" \
  -CFLAGS "-I$c" -LDFLAGS "-L$c -lwattbell_ssd_c -Wl,-rpath,$c" \
  "$here/ssd_model.sv" "$here/tb.sv" "$here/ssd_dpi.c" >"$build.log" 2>&1 || { cat "$build.log" >&2; exit 1; }
exec "$build/Vtb"
