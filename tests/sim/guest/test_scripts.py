"""The guest's scripts: mirror from apt's own files, the initramfs archive, a clear error when something is missing."""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import fetch
import pytest
import run

GUEST = Path(__file__).resolve().parents[3] / "sim/guest"


SOURCES = """Types: deb deb-src
# a comment
URIs: http://mirror.example/security
Suites: bookworm-security
Components: main

Types: deb
URIs: http://mirror.example/d/
Suites: bookworm
 bookworm-updates
Components: main contrib
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 -----END PGP PUBLIC KEY BLOCK-----
"""


@pytest.mark.parametrize(
    ("files", "mirror"),
    [
        ({"sources.list.d/debian.sources": SOURCES}, "http://mirror.example/d"),
        (
            {
                "sources.list.d/debian.sources": "Enabled: no\n" + SOURCES.split("\n\n")[1],
                "sources.list": "deb [arch=amd64 signed-by=/k] http://other.example/d bookworm main\n",
            },
            "http://other.example/d",
        ),
        (
            {
                "sources.list": "# deb http://off.example/d bookworm main\ndeb cdrom:[x]/ bookworm main\n"
                "deb http://on.example/d bookworm main non-free # note\n"
            },
            "http://on.example/d",
        ),
        (
            {
                "sources.list.d/a.list": "deb https://third.example/x stable nodejs\n",
                "sources.list.d/b.list": "deb http://b.example/d trixie main\n",
            },
            "http://b.example/d",
        ),
    ],
)
def test_the_mirror_is_the_one_apt_uses(tmp_path: Path, files: dict[str, str], mirror: str) -> None:
    (tmp_path / "sources.list.d").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert fetch.debian_mirror(tmp_path) == mirror


def test_no_mirror_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(fetch.GuestError, match="no Debian mirror"):
        fetch.debian_mirror(tmp_path)


def test_cpio_itself_reads_the_archive(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    archive = fetch.Newc(buffer)
    archive.directory("bin")
    archive.file("bin/a", b"#!/bin/sh\necho odd\n", 0o755)
    archive.symlink("bin/b", "a")
    archive.close()
    subprocess.run(["cpio", "-id", "--quiet"], input=buffer.getvalue(), cwd=tmp_path, check=True)
    assert (tmp_path / "bin/a").read_bytes() == b"#!/bin/sh\necho odd\n"
    assert os.access(tmp_path / "bin/a", os.X_OK)
    assert (tmp_path / "bin/b").readlink() == Path("a")


def test_the_guests_archive_has_its_programs_and_its_console(tmp_path: Path) -> None:
    """cpio lists the archive of the fetched stack: mode, owner and number of each entry."""
    fetched = fetch.Stack(fetch.stack_dir())
    made = fetch.Stack(tmp_path)
    made.tree, made.libraries, made.loader = fetched.tree, fetched.libraries, fetched.loader
    fetch.build_initramfs(made)
    listed = subprocess.run(["cpio", "-itv", "--quiet", "-I", made.initramfs], capture_output=True, text=True, check=True).stdout
    rows = {line.split(" -> ")[0].split()[-1]: line.split() for line in listed.splitlines()}
    assert rows["dev/console"][0].startswith("c") and "".join(rows["dev/console"][4:6]) == "5,1"
    for program in ("init", "box-init", "bin/busybox", "bin/fio", "bin/nvme", "lib/libc.so.6", "lib/ld-linux-x86-64.so.2"):
        assert rows[program][0] == "-rwxr-xr-x", program
    assert rows["lib/virtio_blk.ko"][0] == "-rw-r--r--"


@pytest.mark.parametrize(("answer", "options"), [("P='http://proxy.example:3142/'", ['{} "http://proxy.example:3142/"']), ("", [])])
def test_apts_proxy_is_handed_on(answer: str, options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "apt-config").write_text(f'#!/bin/sh\n[ "$3" = Acquire::http::Proxy ] && echo "{answer}"\n')
    (tmp_path / "apt-config").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert fetch.proxy_options() == [f"--aptopt={option.format('Acquire::http::Proxy')}" for option in options]


def test_the_drives_server_tells_qemu_its_bus_and_a_failed_one_is_an_error(tmp_path: Path) -> None:
    """This is the model's own server, without QEMU."""
    options = argparse.Namespace(profile="intel-660p-1tb")
    for bus, words in (("", None), ("port1", "port1")):
        server, qemu = run.start_vfio(options, tmp_path, tmp_path, bus)
        server.kill()
        server.wait()
        device = json.loads(qemu[qemu.index("-device") + 1])
        assert device["driver"] == "vfio-user-pci" and device["socket"] == {"type": "unix", "path": str(tmp_path / "drive.sock")}
        assert device.get("bus") == words
        (tmp_path / "drive.sock").unlink()
    (tmp_path / "drive.txt").write_text("what it said last\n")
    with subprocess.Popen(["false"]) as failed, pytest.raises(run.GuestError, match=r"failed \(exit 1\):\nwhat it said last"):
        run.stop_server(failed, tmp_path)


def script(name: str, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, GUEST / name, *words]
    env = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def one_error(done: subprocess.CompletedProcess[str], words: str) -> None:
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_tool_is_named(tmp_path: Path) -> None:
    one_error(script("fetch.py", "--dir", tmp_path / "g", PATH=str(tmp_path)), "apt-get install mmdebstrap")


def test_no_stack_says_make_guest(tmp_path: Path) -> None:
    out = tmp_path / "out"
    one_error(script("run.py", "--drive", "qemu", "--out", out, WATTBELL_GUEST_DIR=str(tmp_path)), "make guest")


@pytest.mark.parametrize(("name", "text", "words"), [("x.job", "", "no such job"), ("x.idle", "soon", "seconds")])
def test_a_job_that_is_none(tmp_path: Path, name: str, text: str, words: str) -> None:
    job = tmp_path / name
    job.write_text(text)
    one_error(script("run.py", "--drive", "qemu", "--jobs", job, "--out", tmp_path / "out"), words)
