#!/usr/bin/env bash
# Runs a command where KiCad is: tools/kicad.sh kicad-cli version
# KiCad lives in a root of its own (build/kicad/root, made here when it is missing: 2 GB), because its packages would replace the ngspice that the
# front end's figures rest on. This checkout is seen there at its own path, and mounts end with the command. Needs root.
set -euo pipefail
checkout="$(cd "$(dirname "$0")/.." && pwd -P)"
die() { printf 'kicad: error: %s\n' "$*" >&2; exit 1; }
[ $# -gt 0 ] || die "say what to run, for example: tools/kicad.sh kicad-cli version"
[ "$(id -u)" = 0 ] || die "this needs root (a chroot with mounts of its own): run it with sudo"

mkdir -p "$checkout/build/kicad"
home="$(cd "$checkout/build/kicad" && pwd -P)"
root="$home/root"
if [ ! -x "$root/usr/bin/kicad-cli" ]; then
  command -v mmdebstrap >/dev/null || die "mmdebstrap is missing: run 'make setup', or install it"
  exec 9>"$home/lock"
  flock 9
  if [ ! -x "$root/usr/bin/kicad-cli" ]; then
    printf 'kicad: making %s (KiCad 9 of bookworm-backports; some minutes, once)\n' "$root" >&2
    rm -rf "$root" "$root.new"
    # the mirror and the proxy are the ones this machine's apt uses, as for the guest
    mapfile -t apt < <(cd "$checkout/sim/guest" && python3 -c "import fetch; print(fetch.debian_mirror(), *fetch.proxy_options(), sep='\n')")
    [ ${#apt[@]} -gt 0 ] || die "no Debian mirror in /etc/apt/sources.list or sources.list.d: add one and try again"
    mmdebstrap --mode=root --variant=apt --aptopt='APT::Install-Recommends "false"' --aptopt='APT::Default-Release "bookworm-backports"' \
      "${apt[@]:1}" --include=kicad,kicad-symbols,kicad-footprints,python3 bookworm "$root.new" \
      "deb ${apt[0]} bookworm main" "deb ${apt[0]} bookworm-backports main" >"$home/mmdebstrap.log" 2>&1 ||
      { tail -n 20 "$home/mmdebstrap.log" >&2; die "the root could not be made (see above)"; }
    mv "$root.new" "$root"
  fi
  flock -u 9
fi

# HOME is the root's own: KiCad leaves its settings there, and nothing of the caller's reaches what it writes.
exec unshare --mount -- bash -euo pipefail -c '
  root=$1 checkout=$2 here=$3; shift 3
  mount --make-rprivate /
  mkdir -p "$root$checkout" "$root/tmp/home"
  mount --bind "$checkout" "$root$checkout"
  for link in build .venv; do  # of a work tree, whose build is elsewhere
    real="$(readlink -f "$checkout/$link" || true)"
    case "$real" in "$checkout"/*|"") ;; *) mkdir -p "$root$real"; mount --bind "$real" "$root$real" ;; esac
  done
  [ -d "$root/proc/self" ] || mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  exec env -i HOME=/tmp/home PATH=/usr/bin:/bin:/usr/sbin:/sbin LANG=C.UTF-8 PYTHONPATH="${PYTHONPATH:-}" PYTHONDONTWRITEBYTECODE=1 \
    chroot "$root" bash -c "cd \"\$1\" && shift && exec \"\$@\"" - "$here" "$@"
' - "$root" "$checkout" "$(pwd -P)" "$@"
