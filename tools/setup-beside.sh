#!/usr/bin/env bash
# Installs requirements/NAME.txt into build/NAME, an environment on top of .venv: build/NAME/bin/python has the packages of both, NAME's first.
#   tools/setup-beside.sh openhtf    OpenHTF wants exactly one version of tornado, and .venv has a newer one
#   tools/setup-beside.sh litex      only examples/litex needs LiteX
set -euo pipefail
cd "$(dirname "$0")/.."
name="${1:?which environment: openhtf or litex}"
folder="build/$name"
want="$(cat pyproject.toml requirements/{base,run,dev,"$name"}.txt tools/setup-beside.sh | sha256sum | cut -d' ' -f1) $(.venv/bin/python --version) $PWD"
[ "$(cat "$folder/made" 2>/dev/null)" != "$want" ] || exit 0
rm -rf "$folder"
.venv/bin/python -m venv --without-pip "$folder"
below="$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
own="$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
printf 'import site; site.addsitedir(%s)\n' "'$below'" >"$own/below.pth"
# The list is complete but for the packages of .venv. Some come as source alone; the setuptools of .venv builds them.
.venv/bin/pip --python "$folder/bin/python" install -q --disable-pip-version-check --require-hashes --no-deps --no-build-isolation \
  -r "requirements/$name.txt"
printf '%s' "$want" >"$folder/made"
