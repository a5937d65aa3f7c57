#!/usr/bin/env bash
# Tries the wheels as a user would who has neither a compiler, nor Rust, nor a checkout: installs them into a fresh venv, with their
# requirements from the package index by their hashes, and runs a suite and a short plan on a model. wattbell_ssd gets a venv of its own.
#   tools/try-wheels.sh [DIR]     DIR has the wheels and requirements/ (default: build/wheels, where `make wheels` leaves them)
# The checkout is covered by an empty folder meanwhile, which takes root or user namespaces. PATH has a few named programs and the venv.
set -euo pipefail

die() { printf 'try-wheels: error: %s\n' "$*" >&2; exit 1; }
say() { printf 'try-wheels: %s\n' "$*" >&2; }

if [ "${1:-}" != --covered ]; then
  checkout="$(cd "$(dirname "$0")/.." && pwd)"
  wheels="${1:-$checkout/build/wheels}"
  work="$(mktemp -d "${TMPDIR:-/tmp}/try-wheels.XXXXXX")"
  trap 'rm -rf "$work"' EXIT
  mkdir "$work/wheels" "$work/bin" "$work/home" "$work/here"
  cp "$wheels"/wattbell-*.whl "$wheels"/wattbell_sim-*.whl "$work/wheels" || die "$wheels has not both wheels: run 'make wheels'"
  mkdir "$work/ssd"
  cp "$wheels"/wattbell_ssd-*.whl "$checkout/examples/ssd-model/read.py" "$work/ssd" || die "$wheels has no wattbell_ssd: run 'make wheels'"
  [ "$(ls "$work/wheels" | wc -l)$(ls "$work/ssd" | wc -l)" = 22 ] || die "$wheels has several versions: $(ls -m "$work/wheels")"
  cp -r "$wheels/requirements" "$0" "$work" || die "$wheels has no requirements: run 'make wheels'"
  # What Wattbell calls besides its own, and what this script does. Python is the one outside the checkout's venv.
  for name in bash sh env cat date grep head ls mkdir mount sed setpriv uname; do
    ln -s "$(command -v "$name" || die "$name is missing")" "$work/bin"
  done
  python="$(PATH="$(printf '%s' "$PATH" | sed "s#$checkout/[^:]*:##g")" command -v "${PYTHON:-python3}")" || die "python3 is missing"
  ln -s "$(readlink -f "$("$python" -c 'import sys; print(sys.executable)')")" "$work/bin/python3"
  kept=()
  while IFS= read -r entry; do kept+=("$entry"); done < <(env | grep -iE '^(PIP_|SSL_CERT|REQUESTS_CA|[a-z]+_proxy=)')
  namespace=(unshare --mount)
  [ "$(id -u)" = 0 ] || namespace=(unshare --map-root-user --mount)
  cd "$work/here"
  "${namespace[@]}" env -i "${kept[@]}" HOME="$work/home" PATH="$work/bin" LANG=C.UTF-8 TERM=dumb COLUMNS=160 \
    bash "$work/$(basename "$0")" --covered "$checkout" "$work"
  exit
fi

checkout="$2" work="$3"
mount -t tmpfs -o size=1m tmpfs "$checkout" || die "cannot cover $checkout"
[ -z "$(ls -A "$checkout")" ] || die "$checkout is still to be seen"
for name in cc gcc g++ clang clang++ make cargo rustc; do
  ! command -v "$name" >/dev/null || die "$name is on PATH: $PATH"
done
timed() { local began; began="$(date +%s.%N)"; "${@:2}"; say "$1: $(python3 -c "print(f'{$(date +%s.%N) - $began:.1f} s')")"; }

python3 -m venv "$work/venv"
PATH="$work/venv/bin:$PATH"
timed "pip install, packages" pip --disable-pip-version-check install -q --require-hashes -r "$work/requirements/base.txt"
# The files are given: the index is not asked for our names.
timed "pip install, wheels" pip --disable-pip-version-check install -q --no-index --no-deps "$work"/wheels/*.whl
timed "wattbell run quick --virtual intel-660p-1tb" wattbell run quick --virtual intel-660p-1tb
python - <<'END'
import json
from pathlib import Path

results = json.loads(Path("quick-intel-660p-1tb/results.json").read_text())
scores = [score["value"]["value"] for test in results["tests"] for score in test["scores"]]
assert results["virtual"] and results["conditions"]["fidelity"] == "fast", results["conditions"]
assert len(results["tests"]) >= 5 and scores and all(isinstance(score, float) and score > 0 for score in scores), scores
assert Path("quick-intel-660p-1tb/suite.html").stat().st_size > 100_000
END

# The gateware itself, which a suite does not need, on one of the demo's jobs, cut short.
sed 's/^size=.*/&\nnumber_ios=500/' "$(python -m wattbell_sim)/plans/burst-random-read.fio" >short.fio
timed "wattbell run short.fio --fidelity rtl" wattbell run short.fio --virtual intel-660p-1tb --fidelity rtl --out capture
python - <<'END'
import wattbell

capture = wattbell.open("capture")
assert capture.meta["conditions"]["fidelity"] == "rtl", capture.meta["conditions"]
commands, rail = capture.figures["commands"]["all"], capture.figures["power"]["mean_w"]
assert commands["count"] == 500 and 0.01 < rail.value < 10, (commands, rail)
END

# What an extra is missing comes from the wheel's file, and not from the index.
meters="$(wattbell meters)"
grep -qF "pip install '$(ls "$work"/wheels/wattbell-*.whl)[ppk2]'" <<<"$meters" || die "the wheel is not named for the extra: $meters"
# The SSD model at TLP level, alone: no package beside it.
without_venv="${PATH#*:}"
python3 -m venv "$work/ssd-venv"
PATH="$work/ssd-venv/bin:$without_venv"
timed "pip install, wattbell_ssd" pip --disable-pip-version-check install -q --no-index --no-deps "$work"/ssd/*.whl
timed "read.py on every profile" python - "$work/ssd/read.py" <<'END'
import subprocess
import sys
from pathlib import Path

import wattbell_ssd

for name in wattbell_ssd.profiles():
    said = subprocess.run([sys.executable, sys.argv[1], name], capture_output=True, text=True, check=True).stdout
    assert said.count(" uJ") == 4, said
assert {path.name for path in wattbell_ssd.C_FOLDER.iterdir()} == {"wattbell_ssd.h", "libwattbell_ssd_c.so"}
assert Path(wattbell_ssd.__file__).with_name("py.typed").exists()
END
say "the wheels work"
