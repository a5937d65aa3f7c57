#!/usr/bin/env bash
# Makes shared libraries of the gateware's Verilog for the virtual rig, with Verilator.
#   sim/rig/build-rtl.sh [--quick] VARIANT...|all
#                                           build/rtl/instrument_VARIANT.v -> build/rtl/lib_VARIANT.so
#                                           build/rtl/controller.v -> build/rtl/lib_controller.so
# Variants: x4_word, x4_serial, controller, as `python -m wattbell_gateware.generate --out build/rtl` writes them. A library
# is built again only when what it is made of has changed; --quick: soon built rather than fast, for the tests, unless a fast one is there. WATTBELL_RTL_DIR
# names another folder than build/rtl.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=sim/rig
rtl="${WATTBELL_RTL_DIR:-build/rtl}"

die() { printf 'build-rtl: error: %s\n' "$*" >&2; exit 1; }
say() { printf 'build-rtl: %s\n' "$*" >&2; }

quick=""
[ "${1:-}" != --quick ] || { quick=quick; shift; }
[ $# -gt 0 ] || die "which variant? x4_word, x4_serial, controller, or all"
[ -x .venv/bin/verilator ] && PATH="$PWD/.venv/bin:$PATH"
command -v verilator >/dev/null || die "verilator is missing: run tools/setup.sh"
command -v clang++ >/dev/null || die "clang++ is missing: run tools/setup.sh"

if [ "$*" = all ]; then
  set -- x4_word x4_serial controller
fi

# clang++: its libraries run a tenth faster than those of g++ 12 and build in half the time. The libraries go into the wheel too
# (tools/wheels.py). So they are for any x86-64, and hold what they use of C++'s own libraries, and no more: what the linker drops
# there would need a newer glibc.
flags=(--cc -O3 --x-assign fast --x-initial fast --no-assert --no-timing -Wno-fatal -Wno-lint -Wno-style)
cxx="-O3 -fPIC -fno-plt -fvisibility=hidden -DVL_IGNORE_UNKNOWN_ARCH"
slow="-O1 -fPIC"
link="-shared -static-libstdc++ -Wl,--exclude-libs,ALL -Wl,--gc-sections"
[ -z "$quick" ] || { cxx="${cxx/-O3/-O1}" slow="-O0 -fPIC"; }

build() {
  local variant="$1" source="$rtl/instrument_$1.v" lib="$rtl/lib_$1.so" name=rig_top shim=shim.cpp want made_of work top words
  local -a verilog=() cpp=()
  [ "$variant" != controller ] || { source="$rtl/controller.v" name=controller_top shim=controller_shim.cpp; }
  [ -f "$source" ] || die "$source is missing: run 'python -m wattbell_gateware.generate --out $rtl'"
  want="$(cat "$source" "$here"/rtl/* "$here/build-rtl.sh" | sha256sum | cut -d' ' -f1) $(verilator --version) $(uname -m)"
  if [ -f "$lib" ]; then
    made_of="$(cat "$lib.made-of" 2>/dev/null)" || made_of=""
    if [ "$made_of" = "$want" ] || { [ -n "$quick" ] && [ "$made_of" = "$want quick" ]; }; then
      return
    fi
  fi
  say "$variant: Verilator"
  case "$variant" in
  x4_word | x4_serial)
    top="$(grep -oE '^module instrument[A-Za-z0-9_]*' "$source" | head -n1 | cut -d' ' -f2)" # submodules are called top.name
    [ -n "$top" ] || die "$source has no module 'instrument...'"
    verilog=("+define+WB_INSTRUMENT=$top" +define+WB_WIDTH_128) cpp=(-DWB_WIDTH=128 -DWB_SERIAL_ADC=0)
    [ "$variant" != x4_serial ] || { verilog+=(+define+WB_SERIAL) cpp=(-DWB_WIDTH=128 -DWB_SERIAL_ADC=1); }
    ;;
  controller)
    words="$(sed -nE 's/^ *reg \[31:0\] words \[([0-9]+):0\];.*/\1/p' "$source")"
    [ -n "$words" ] || die "$source has no read-only memory 'words'"
    cpp=("-DWC_ROM_WORDS=$((words + 1))")
    ;;
  *) die "unknown variant '$variant'" ;;
  esac
  work="$rtl/obj_$variant"
  rm -rf "$work"
  mkdir -p "$work"
  verilator "${flags[@]}" --prefix "V$name" --top-module "$name" "${verilog[@]}" --Mdir "$work" "$here/rtl/$name.v" "$source" \
    >"$work.log" 2>&1 ||
    { tail -n 20 "$work.log" >&2; die "Verilator refused $source (all of it: $work.log)"; }
  say "$variant: C++"
  # Two jobs: almost all the time goes into a few large files.
  make -j2 -C "$work" -f "V$name.mk" -s CXX=clang++ LINK=clang++ OPT_FAST="$cxx" OPT_SLOW="$slow" OPT_GLOBAL="$cxx" \
    "libV$name" >>"$work.log" 2>&1 ||
    { tail -n 20 "$work.log" >&2; die "the C++ compiler refused Verilator's output (all of it: $work.log)"; }
  local include
  include="$(verilator --getenv VERILATOR_ROOT)/include"
  # shellcheck disable=SC2086 # the flags are words
  clang++ -std=gnu++20 $cxx $link "${cpp[@]}" -I"$work" -I"$include" -I"$include/vltstd" \
    -o "$lib.new" "$here/rtl/$shim" "$work/libV$name.a" "$work"/libverilated.a -pthread -l:libatomic.a \
    >>"$work.log" 2>&1 || { tail -n 20 "$work.log" >&2; die "the shim does not fit the model (all of it: $work.log)"; }
  # A copy is written in one go, so its pages lie side by side in memory: it runs a sixth faster than what the linker leaves.
  cp "$lib.new" "$lib.copy"
  rm "$lib.new"
  mv "$lib.copy" "$lib" # a rig that runs keeps the old file
  printf '%s' "$want${quick:+ quick}" >"$lib.made-of"
  rm -rf "$work"
}

command -v flock >/dev/null && exec 9>"$rtl/.build-rtl.lock" && flock 9 # two builds of a variant would share a folder
for variant in "$@"; do
  build "$variant"
done
