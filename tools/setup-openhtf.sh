#!/usr/bin/env bash
# Installs OpenHTF of requirements/openhtf.txt into build/openhtf, an environment on top of .venv: build/openhtf/bin/python has both.
# OpenHTF wants exactly one version of tornado, and .venv has a newer one. Here OpenHTF's own stands before it.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=build/openhtf
want="$(cat pyproject.toml requirements/{base,run,dev,openhtf}.txt tools/setup-openhtf.sh | sha256sum | cut -d' ' -f1) $(.venv/bin/python --version) $PWD"
[ "$(cat "$folder/made" 2>/dev/null)" != "$want" ] || exit 0
rm -rf "$folder"
.venv/bin/python -m venv --without-pip "$folder"
below="$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
own="$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
printf 'import site; site.addsitedir(%s)\n' "'$below'" >"$own/below.pth"
# Two packages come as source alone; the setuptools of .venv builds them. Otherwise pip would fetch an unverified one.
.venv/bin/pip --python "$folder/bin/python" install -q --disable-pip-version-check --require-hashes --no-build-isolation \
  -r requirements/openhtf.txt
printf '%s' "$want" >"$folder/made"
