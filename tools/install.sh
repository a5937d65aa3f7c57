#!/usr/bin/env bash
# Installs the Python packages of requirements/GROUP.txt into .venv. pip takes no file whose SHA-256 is not in that list.
#   tools/install.sh GROUP     such as run, dev, board, mutants
set -euo pipefail
cd "$(dirname "$0")/.."
[ -f "requirements/${1:-}.txt" ] || { printf 'install: error: there is no requirements/%s.txt\n' "${1:-GROUP}" >&2; exit 1; }
# pip builds a package of source alone with the setuptools of the list. By default it would fetch an unverified one.
exec .venv/bin/pip install -q --disable-pip-version-check --require-hashes --no-build-isolation -r "requirements/$1.txt"
