#!/usr/bin/env bash
# Makes shared libraries of the instrument's Verilog for the virtual rig, with Verilator.
#   sim/rig/build-rtl.sh VARIANT...|all     build/rtl/instrument_VARIANT.v -> build/rtl/lib_VARIANT.so
# Variants: x4_word, x4_serial, as `python -m wattbell_gateware.generate --out build/rtl` writes them. A library
# is built again only when what it is made of has changed. WATTBELL_RTL_DIR names another folder than build/rtl.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=sim/rig
rtl="${WATTBELL_RTL_DIR:-build/rtl}"

die() { printf 'build-rtl: error: %s\n' "$*" >&2; exit 1; }
say() { printf 'build-rtl: %s\n' "$*" >&2; }

[ $# -gt 0 ] || die "which variant? x4_word, x4_serial, or all"
[ -x .venv/bin/verilator ] && PATH="$PWD/.venv/bin:$PATH"
command -v verilator >/dev/null || die "verilator is missing: run tools/setup.sh"
command -v g++ >/dev/null || die "g++ is missing: run tools/setup.sh"

if [ "$*" = all ]; then
  set -- x4_word x4_serial
fi

# -march=native: the library runs where it is built, and only there.
flags=(--cc -O3 --x-assign fast --x-initial fast --no-assert --no-timing -Wno-fatal -Wno-lint -Wno-style --prefix Vrig_top --top-module rig_top)
cxx="-O3 -march=native -fPIC -fno-plt -fvisibility=hidden -DVL_IGNORE_UNKNOWN_ARCH"

build() {
  local variant="$1" source="$rtl/instrument_$1.v" lib="$rtl/lib_$1.so" width serial top want work defines
  [ -f "$source" ] || die "$source is missing: run 'python -m wattbell_gateware.generate --out $rtl'"
  case "$variant" in x4_*) width=128 ;; *) die "unknown variant '$variant'" ;; esac
  case "$variant" in *_serial) serial=1 ;; *_word) serial=0 ;; *) die "unknown variant '$variant'" ;; esac
  want="$(cat "$source" "$here"/rtl/* "$here/build-rtl.sh" | sha256sum | cut -d' ' -f1) $(verilator --version) $(uname -m)"
  if [ -f "$lib" ] && [ "$(cat "$lib.made-of" 2>/dev/null)" = "$want" ]; then
    return
  fi
  say "$variant: Verilator"
  top="$(grep -oE '^module instrument[A-Za-z0-9_]*' "$source" | head -n1 | cut -d' ' -f2)" # submodules are called top.name
  [ -n "$top" ] || die "$source has no module 'instrument...'"
  work="$rtl/obj_$variant"
  rm -rf "$work"
  mkdir -p "$work"
  defines=("+define+WB_INSTRUMENT=$top" "+define+WB_WIDTH_$width")
  [ "$serial" = 0 ] || defines+=(+define+WB_SERIAL)
  verilator "${flags[@]}" "${defines[@]}" --Mdir "$work" "$here/rtl/rig_top.v" "$source" >"$work.log" 2>&1 ||
    { tail -n 20 "$work.log" >&2; die "Verilator refused $source (all of it: $work.log)"; }
  say "$variant: C++"
  # Two jobs: almost all the time goes into a few large files.
  make -j2 -C "$work" -f Vrig_top.mk -s OPT_FAST="$cxx" OPT_SLOW="-O1 -fPIC" OPT_GLOBAL="$cxx" \
    libVrig_top >>"$work.log" 2>&1 ||
    { tail -n 20 "$work.log" >&2; die "the C++ compiler refused Verilator's output (all of it: $work.log)"; }
  local include
  include="$(verilator --getenv VERILATOR_ROOT)/include"
  # shellcheck disable=SC2086 # the flags are words
  g++ -std=gnu++20 $cxx -shared -DWB_WIDTH=$width -DWB_SERIAL_ADC=$serial -I"$work" -I"$include" -I"$include/vltstd" \
    -o "$lib.new" "$here/rtl/shim.cpp" "$work"/libVrig_top.a "$work"/libverilated.a -pthread \
    >>"$work.log" 2>&1 || { tail -n 20 "$work.log" >&2; die "the shim does not fit the model (all of it: $work.log)"; }
  mv "$lib.new" "$lib" # a rig that runs keeps the old file
  printf '%s' "$want" >"$lib.made-of"
  rm -rf "$work"
}

command -v flock >/dev/null && exec 9>"$rtl/.build-rtl.lock" && flock 9 # two builds of a variant would share a folder
for variant in "$@"; do
  build "$variant"
done
