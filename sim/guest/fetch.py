#!/usr/bin/env python3
"""Fetch the guest stack (QEMU, kernel, fio, nvme-cli, busybox) and build the initramfs: ``make guest``.

One mmdebstrap call unpacks the Debian packages, without installing them, into ``build/guest/tree``. The Debian mirror is the one of
this machine's apt. A second run does nothing unless this script or the initramfs' inputs have changed. Needs root and
``mmdebstrap``.
"""

from __future__ import annotations

import argparse
import hashlib
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cpio import Newc
from stack import HERE, GuestError, Stack, die, stack_dir

SUITE = "trixie"
BACKPORTS = "trixie-backports"
PACKAGES = ("qemu-system-x86", "linux-image-cloud-amd64", "fio", "nvme-cli", "busybox-static", "virtiofsd")
# Backports must win for QEMU only: 11.1 has vfio-user-pci, 10.0 has not.
PIN = f"Package: qemu-* seabios ipxe-qemu\nPin: release n={BACKPORTS}\nPin-Priority: 900\n"
DEBIAN_SUITE = re.compile(r"^(bullseye|bookworm|trixie|forky|duke|sid|oldstable|stable|testing|unstable)(-updates|-backports)?$")


def apt_entries(etc_apt: Path) -> list[tuple[str, list[str], list[str]]]:
    """Return (URI, suites, components) of every enabled binary source in ``sources.list`` and ``sources.list.d``."""
    entries: list[tuple[str, list[str], list[str]]] = []
    folder = etc_apt / "sources.list.d"
    for path in [etc_apt / "sources.list", *sorted(folder.glob("*.list"))]:
        if not path.is_file():
            continue
        for line in path.read_text(errors="replace").splitlines():
            words = re.sub(r"\[[^]]*\]", " ", line.split("#", 1)[0]).split()
            if len(words) >= 4 and words[0] == "deb":
                entries.append((words[1], [words[2]], words[3:]))
    for path in sorted(folder.glob("*.sources")):
        for stanza in re.split(r"\n\s*\n", path.read_text(errors="replace")):
            fields: dict[str, str] = {}
            key = ""
            for line in stanza.splitlines():
                if line.startswith("#"):
                    continue
                if line[:1].isspace() and key:
                    fields[key] += " " + line.strip()
                elif ":" in line:
                    key, value = line.split(":", 1)
                    key = key.strip().lower()
                    fields[key] = value.strip()
            disabled = fields.get("enabled", "yes").lower() in ("no", "false", "0")
            if disabled or "deb" not in fields.get("types", "").split():
                continue
            for uri in fields.get("uris", "").split():
                entries.append((uri, fields.get("suites", "").split(), fields.get("components", "").split()))
    return entries


def debian_mirror(etc_apt: Path = Path("/etc/apt")) -> str:
    """Return the URI of this machine's Debian mirror.

    Raises GuestError if apt has no source with a Debian suite and the component main.
    """
    for uri, suites, components in apt_entries(etc_apt):
        if "main" in components and any(DEBIAN_SUITE.match(s) for s in suites) and not uri.startswith("cdrom:"):
            return uri.rstrip("/")
    raise GuestError(f"no Debian mirror in {etc_apt}/sources.list or sources.list.d: add one and try again")


def proxy_options() -> list[str]:
    """Return mmdebstrap's options for this machine's apt proxy."""
    options: list[str] = []
    for scheme in ("http", "https"):
        key = f"Acquire::{scheme}::Proxy"
        if shutil.which("apt-config") is None:
            break
        shell = subprocess.run(["apt-config", "shell", "P", key], capture_output=True, text=True, check=False).stdout
        if shell.startswith("P='") and len(shell) > 5:
            options.append(f'--aptopt={key} "{shell.strip()[3:-1]}"')
    return options


def unpack_tree(stack: Stack) -> None:
    """Run mmdebstrap into ``stack.tree`` (replaced). Raises GuestError with the tail of its output."""
    if shutil.which("mmdebstrap") is None:
        raise GuestError("mmdebstrap is not installed: apt-get install mmdebstrap")
    if os.geteuid() != 0:
        raise GuestError("fetching the guest stack needs root (mmdebstrap --mode=root): use sudo")
    mirror = debian_mirror()
    shutil.rmtree(stack.tree, ignore_errors=True)
    stack.root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        pin = Path(scratch) / "pin"
        pin.write_text(PIN)
        command = [
            "mmdebstrap",
            "--mode=root",
            "--variant=extract",
            "--format=directory",
            f"--include={','.join(PACKAGES)}",
            '--aptopt=APT::Install-Recommends "false"',
            '--aptopt=Acquire::Retries "3"',
            *proxy_options(),
            '--setup-hook=mkdir -p "$1/etc/apt/preferences.d"',
            f'--setup-hook=cp {pin} "$1/etc/apt/preferences.d/wattbell"',
            SUITE,
            str(stack.tree),
            f"deb {mirror} {SUITE} main",
            f"deb {mirror} {BACKPORTS} main",
        ]
        print(f"guest: unpacking {', '.join(PACKAGES)} from {mirror} {SUITE} (about 130 MB to fetch)", flush=True)
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(stack.tree, ignore_errors=True)
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise GuestError(f"mmdebstrap failed (exit {done.returncode}):\n{tail}")


def check_qemu(stack: Stack) -> str:
    """Return the version line of the unpacked QEMU. Raises GuestError if a needed device is missing."""
    qemu, env = stack.qemu(), stack.environment()
    version = subprocess.run([*qemu, "--version"], env=env, capture_output=True, text=True, check=False)
    if version.returncode != 0:
        raise GuestError(f"the unpacked QEMU does not start: {version.stderr.strip()[-300:]}")
    for device, option in (("nvme", "dbcs="), ("vfio-user-pci", "socket=")):
        ask = [*qemu, "-device", f"{device},help"]
        shown = subprocess.run(ask, env=env, capture_output=True, text=True, check=False)
        if option not in shown.stdout:
            line = version.stdout.splitlines()[0]
            raise GuestError(f"{line}: no device {device} with {option!r}; {BACKPORTS} must have QEMU 11.1 or newer")
    return version.stdout.splitlines()[0]


def shared_libraries(stack: Stack, program: Path) -> list[Path]:
    """Return the libraries that ``program`` needs, as files of the tree, the loader included. Raises GuestError if one is missing."""
    prefix = stack.run_prefix("x")[:3]
    done = subprocess.run([*prefix, "--list", str(program)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        # `ld.so --library-path P --list PROG` wants --list first on old loaders
        prefix = [prefix[0], "--list", *prefix[1:]]
        done = subprocess.run([*prefix, str(program)], capture_output=True, text=True, check=False)
    missing = re.findall(r"(\S+) => not found", done.stdout)
    if done.returncode != 0 or missing:
        raise GuestError(f"{program.name}: libraries not found: {', '.join(missing) or done.stderr.strip()[-200:]}")
    return [Path(p) for p in re.findall(r"=> (/\S+)", done.stdout)] + [stack.loader]


def kernel_module(folder: Path, name: str) -> tuple[str, bytes]:
    """Return ``name`` and the module's content, unpacked. Raises GuestError if the kernel lacks it."""
    for path in sorted(folder.glob(f"{name}.ko*")):
        content = path.read_bytes()
        return name, lzma.decompress(content) if path.suffix == ".xz" else content
    raise GuestError(f"the guest's kernel has no module {name} in {folder}")


def build_initramfs(stack: Stack) -> None:
    """Write ``stack.initramfs``: busybox, fio, nvme-cli with their libraries, two modules, both init scripts."""
    tree = stack.tree
    release = stack.kernel().name.removeprefix("vmlinuz-")
    folder = tree / "usr/lib/modules" / release / "kernel"
    modules = [kernel_module(folder / "drivers/block", "virtio_blk"), kernel_module(folder / "fs/overlayfs", "overlay")]
    temporary = stack.initramfs.with_suffix(".part")
    with temporary.open("wb") as file:
        archive = Newc(file)
        for folder in ("bin", "dev", "etc", "jobs", "lib", "lib64", "out", "proc", "sys", "tmp", "run"):
            archive.directory(folder)
        archive.device("dev/console", 5, 1)
        archive.file("init", (HERE / "init.sh").read_bytes(), 0o755)
        archive.file("box-init", (HERE / "box-init.sh").read_bytes(), 0o755)
        for name, module in modules:
            archive.file(f"lib/{name}.ko", module, 0o644)
        archive.file("bin/busybox", (tree / "usr/bin/busybox").read_bytes(), 0o755)
        libraries: dict[str, Path] = {}
        for name, folder in (("fio", "usr/bin"), ("nvme", "usr/sbin")):
            program = tree / folder / name
            archive.file(f"bin/{name}", program.read_bytes(), 0o755)
            for library in shared_libraries(stack, program):
                libraries[library.name] = library
        for name in sorted(libraries):
            archive.file(f"lib/{name}", libraries[name].read_bytes(), 0o755)
        archive.symlink("lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-x86-64.so.2")
        archive.close()
    temporary.rename(stack.initramfs)


def stamp_of(*files: Path) -> str:
    """Return a hash over the content of ``files``."""
    return hashlib.sha256(b"\0".join(f.read_bytes() for f in files)).hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir", type=Path, default=stack_dir(), help="where the stack goes (default: %(default)s)")
    parser.add_argument("--force", action="store_true", help="fetch again even if nothing changed")
    arguments = parser.parse_args()
    stack = Stack(arguments.dir.resolve())
    tree_stamp, initramfs_stamp = stack.root / "tree.stamp", stack.root / "initramfs.stamp"
    # The tree depends on the fetched packages, not on the text of this script.
    want_tree = hashlib.sha256("\n".join([SUITE, BACKPORTS, PIN, *PACKAGES]).encode()).hexdigest()
    want_initramfs = want_tree + stamp_of(HERE / "fetch.py", HERE / "cpio.py", HERE / "init.sh", HERE / "box-init.sh")

    def current(path: Path, want: str) -> bool:
        return not arguments.force and path.is_file() and path.read_text() == want

    started = time.monotonic()
    try:
        if not current(tree_stamp, want_tree):
            tree_stamp.unlink(missing_ok=True)
            initramfs_stamp.unlink(missing_ok=True)
            unpack_tree(stack)
            print(f"guest: {check_qemu(stack)}")
            tree_stamp.write_text(want_tree)
        if not current(initramfs_stamp, want_initramfs) or not stack.initramfs.is_file():
            build_initramfs(stack)
            initramfs_stamp.write_text(want_initramfs)
        stack.check()
    except GuestError as error:
        die(str(error))
    print(f"guest: ready in {stack.root} ({time.monotonic() - started:.1f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
