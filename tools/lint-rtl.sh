#!/usr/bin/env bash
# Verilator -Wall over every generated variant of the instrument; gateware/lint.vlt says what it may not complain of, and why.
set -euo pipefail
cd "$(dirname "$0")/.."
for file in build/rtl/instrument_*.v; do
  verilator --lint-only -Wall --top-module "$(basename "$file" .v)" gateware/lint.vlt "$file" ||
    { echo "lint-rtl: $file is not clean under verilator -Wall" >&2; exit 1; }
done
