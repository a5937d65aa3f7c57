#!/usr/bin/env bash
# ESLint, and TypeScript's checker of JSDoc types, over the JavaScript of the pages. Node.js comes from PyPI by hash, the checkers from npm.
set -euo pipefail
cd "$(dirname "$0")/.."
die() { printf 'lint-javascript: error: %s\n' "$*" >&2; exit 1; }
place=build/javascript
# no package of the checkers is newer than this day, whatever ranges their own packages have
until=2026-11-28
want="$(cat tools/javascript/package.json requirements/javascript.txt "$0" | sha256sum)"
if [ ! -x .venv/bin/node ] || [ "$(cat "$place/made" 2>/dev/null)" != "$want" ]; then
  tools/install.sh javascript || die "pip could not install what requirements/javascript.txt lists"
  rm -rf "$place" && mkdir -p "$place"
  cp tools/javascript/package.json "$place/"
  .venv/bin/npm install --prefix "$place" --before "$until" --no-package-lock --ignore-scripts --no-audit --no-fund --loglevel error >"$place/npm.log" 2>&1 ||
    { tail -n 20 "$place/npm.log" >&2; die "npm could not install what tools/javascript/package.json lists"; }
  printf '%s' "$want" >"$place/made"
fi
.venv/bin/node "$place/node_modules/eslint/bin/eslint.js" --config tools/javascript/eslint.config.js --max-warnings 0 host
.venv/bin/node "$place/node_modules/typescript/bin/tsc" --project tools/javascript/tsconfig.json
