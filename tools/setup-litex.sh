#!/usr/bin/env bash
# Installs LiteX of requirements/litex.txt into build/litex, an environment on top of .venv: build/litex/bin/python has both.
# Nothing but examples/litex needs it, so no other target waits for it.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=build/litex
want="$(cat pyproject.toml requirements/{base,run,dev,litex}.txt tools/setup-litex.sh | sha256sum | cut -d' ' -f1) $(.venv/bin/python --version) $PWD"
[ "$(cat "$folder/made" 2>/dev/null)" != "$want" ] || exit 0
rm -rf "$folder"
.venv/bin/python -m venv --without-pip "$folder"
below="$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
own="$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
printf 'import site; site.addsitedir(%s)\n' "'$below'" >"$own/below.pth"
.venv/bin/pip --python "$folder/bin/python" install -q --disable-pip-version-check --require-hashes --no-deps -r requirements/litex.txt
printf '%s' "$want" >"$folder/made"
