#!/bin/sh
# What `make guest` calls; see fetch.py.
exec python3 "$(dirname "$0")/fetch.py" "$@"
