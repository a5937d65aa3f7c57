#!/usr/bin/env python3
"""Run the README's commands as a newcomer does, in a bare Debian 12 root made for this run (``make bare``; CI runs the same).

    tools/bare.py                             make demo, make test, a short soak, and the wheels without the checkout
    tools/bare.py --load 2                    the same beside two busy processes
    tools/bare.py --keep "make demo" "make lint"
                                              other commands; the root stays, and its path is printed
    tools/bare.py --again /var/tmp/wattbell-bare-x/root "make lint"
                                              in a root that stayed, with HEAD of now and all that was built there

The root has Debian's packages of priority `important`, plus ca-certificates, git and make. HEAD is cloned into it. The root shares the
kernel with its loop devices, the network and the configuration of the package sources with this machine, and ``../shared`` if that exists.
Nothing else of this machine is visible inside: namespaces of mounts, processes, IPC and host name keep it out.

Needs Debian (or a machine with mmdebstrap and Debian's keyring), root, and 12 GB below /var/tmp (``--dir``).
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(CHECKOUT / "sim/guest"))

from fetch import apt_entries, debian_mirror, proxy_options  # noqa: E402
from stack import GuestError  # noqa: E402

SUITES = ("bookworm", "bookworm-updates", "bookworm-security")
INCLUDED = ("ca-certificates", "git", "make")
COMMANDS = ("make demo", "make test", "make soak SOAK=--short", "make wheels-check")
SOURCES = ("/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf", "/root/.cargo/config.toml")
"""Files that say where packages come from, and whom to trust for them."""
VARIABLES = (
    *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    *("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "PIP_DEFAULT_TIMEOUT", "PIP_CERT"),
    *("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "CARGO_HTTP_CAINFO"),
    *("NODE_EXTRA_CA_CERTS", "NPM_CONFIG_REGISTRY"),
    *("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"),
)
"""Environment variables of the same kind; the last two work round a fault of OpenBLAS on this processor."""
HOME = "home/user"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Runs in the new namespaces, with the root as $1 and the command behind it. All mounts end with the namespace.
ENTER = r"""
set -eu
root=$1; shift
mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t tmpfs -o mode=755,size=1m tmpfs dev
mknod -m 666 dev/null c 1 3
mknod -m 666 dev/zero c 1 5
mknod -m 666 dev/full c 1 7
mknod -m 666 dev/random c 1 8
mknod -m 666 dev/urandom c 1 9
mknod -m 666 dev/tty c 5 0
cp -a /dev/loop* dev/ 2>/dev/null || true
mkdir dev/pts dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin; ln -s fd/1 dev/stdout; ln -s fd/2 dev/stderr
mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t tmpfs -o mode=755 tmpfs run
mkdir -p mnt
pivot_root . mnt
umount -l /mnt
hostname newcomer
cd /home/user/wattbell
exec "$@"
"""


def die(text: str) -> None:
    """End with one line on stderr and exit code 1."""
    sys.exit(f"bare: error: {text}")


def say(text: str) -> None:
    """Print a line on stderr, among the output of the commands."""
    print(f"bare: {text}", file=sys.stderr, flush=True)


def minutes(seconds: float) -> str:
    """``seconds`` as minutes and seconds."""
    return f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"


def sources() -> list[str]:
    """Lines of a sources.list for Debian 12, from this machine's own package sources."""
    lines: dict[str, None] = {}
    for uri, suites, components in apt_entries(Path("/etc/apt")):
        if "main" in components:
            lines |= {f"deb {uri.rstrip('/')} {suite} main": None for suite in suites if suite in SUITES}
    if not any(line.endswith(" bookworm main") for line in lines):
        lines = {f"deb {debian_mirror()} bookworm main": None, **lines}
    return list(lines)


def make_root(root: Path) -> None:
    """A new Debian 12 in ``root``, with the commit and the configuration of the package sources. Raises GuestError."""
    command = [
        *("mmdebstrap", "--mode=root", "--variant=important", "--format=directory", f"--include={','.join(INCLUDED)}"),
        '--aptopt=Acquire::Retries "3"',
        *(*proxy_options(), "bookworm", str(root), *sources()),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise GuestError(f"mmdebstrap failed (exit {done.returncode}):\n{tail}")
    home = root / HOME
    home.mkdir(parents=True)
    for name in SOURCES:
        if Path(name).is_file():
            place = root / name.removeprefix("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(name, place)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout.strip()
    clone = home / "wattbell"
    subprocess.run(["git", "clone", "--quiet", "--no-local", "--no-checkout", str(CHECKOUT), str(clone)], check=True)
    subprocess.run(["git", "-C", str(clone), "checkout", "--quiet", "--detach", commit], check=True)
    subprocess.run(["git", "-C", str(clone), "remote", "remove", "origin"], check=True)  # the path of this machine
    shared = CHECKOUT.parent / "shared"
    if shared.is_dir():
        shutil.copytree(shared, home / "shared", symlinks=True)
    say(f"Debian 12 with commit {commit[:8]} in {root}")


def update_root(root: Path) -> None:
    """Bring HEAD into the clone of a root that an earlier run kept."""
    clone = root / HOME / "wattbell"
    if not (clone / ".git").is_dir():
        raise GuestError(f"{root} is no root of an earlier run: it has no {HOME}/wattbell")
    subprocess.run(["git", "-C", str(clone), "fetch", "--quiet", str(CHECKOUT), "HEAD"], check=True)
    subprocess.run(["git", "-C", str(clone), "checkout", "--quiet", "--force", "--detach", "FETCH_HEAD"], check=True)


def run_inside(root: Path, command: str) -> int:
    """Exit code of a shell command in the clone within ``root``."""
    environment = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    environment |= {"HOME": "/root", "TERM": "xterm", "LANG": "C.UTF-8", "PATH": PATH, "CI": "true"}
    apart = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--"]
    words = [*apart, "sh", "-c", ENTER, "enter", str(root), "bash", "-c", command]
    return subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, check=False).returncode


def remove(place: Path) -> None:
    """Remove a root, once nothing is mounted in it: an mmdebstrap that was ended early leaves /proc and /dev of this machine there."""
    for _ in range(100):
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
        mounted = sorted(name for name in (line.split()[1] for line in lines) if name.startswith(f"{place}/"))
        if not mounted:
            shutil.rmtree(place, ignore_errors=True)
            return
        subprocess.run(["umount", "--lazy", mounted[-1]], check=False)
    say(f"{place} stays: something is mounted in it")


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Keep ``processes`` processes busy meanwhile."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def check_machine() -> None:
    """End with one line on the programs or rights that this machine lacks."""
    if os.geteuid() != 0:
        die("a root can be made by root only: use sudo")
    missing = [name for name in ("mmdebstrap", "git", "unshare") if shutil.which(name) is None]
    if missing and shutil.which("apt-get"):
        for words in (["update"], ["install", "-y", "--no-install-recommends", "mmdebstrap", "git"]):
            subprocess.run(["apt-get", "-qq", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        missing = [name for name in missing if shutil.which(name) is None]
    if missing:
        die(f"this machine has no {' and no '.join(missing)}, and apt-get did not bring it")
    if subprocess.run(["git", "status", "--porcelain"], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout:
        say("the tree has uncommitted changes; only HEAD is tried")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", default=list(COMMANDS), metavar="COMMAND", help=f"default: {', '.join(COMMANDS)}")
    parser.add_argument("--dir", type=Path, default=Path("/var/tmp"), help="where the root is made (default %(default)s)")
    parser.add_argument("--keep", action="store_true", help="leave the root there")
    parser.add_argument("--again", type=Path, metavar="ROOT", help="use the root that an earlier run kept")
    parser.add_argument("--load", type=int, default=0, metavar="N", help="keep N processes busy meanwhile")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    check_machine()
    root: Path = options.again or Path(tempfile.mkdtemp(prefix="wattbell-bare-", dir=options.dir)) / "root"
    began = time.monotonic()
    taken: list[str] = []
    try:
        if options.again:
            update_root(root)
        else:
            make_root(root)
            taken.append(f"root {minutes(time.monotonic() - began)}")
        code = 0
        with load(options.load):
            for command in options.commands:
                say(f"$ {command}")
                start = time.monotonic()
                code = run_inside(root, command)
                taken.append(f"{command} {minutes(time.monotonic() - start)}")
                say(f"{command}: exit code {code}, {minutes(time.monotonic() - start)}")
                if code:
                    break
    except GuestError as error:
        die(str(error))
    finally:
        if options.keep or options.again:
            say(f"the root is in {root}; remove it with: rm -rf {root.parent}")
        else:
            remove(root.parent)
    say(f"{'; '.join(taken)}; in all {minutes(time.monotonic() - began)}")
    return code


if __name__ == "__main__":
    sys.exit(main())
