"""The order in which a program writes, flushes, renames and removes its files, as strace saw it, and the possible effects of a
power cut.

The rules are those for a disk that keeps nothing unless it is flushed, and may keep any name early:

- A file that takes another name has no unflushed contents: otherwise the new name may be empty.
- A journal goes only when everything else in its folder, contents and names, is on the disk.
- When the program ends, everything it wrote and left is on the disk.
- A rollback journal of SQLite with its removal not on the disk undoes a commit.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

CALLS = "%file,write,pwrite64,writev,pwritev,fsync,fdatasync,ftruncate,fallocate,copy_file_range,sendfile,mmap"
_LINE = re.compile(r"(\d+) +(.*)")
_DONE = re.compile(r"(\w+)\((.*)\) += (-?\d+)(?:<(.*)>)?(?: .*)?")
_BEGUN = re.compile(r"(.*) <unfinished \.\.\.>")
_RESUMED = re.compile(r"<\.\.\. \w+ resumed>(.*)")
_PATH_OF = re.compile(r"\d+<((?:/[^<>]*)?)>")
_TEXT = re.compile(r'(?:AT_FDCWD|\d+)<([^<>]*)>, "((?:[^"\\]|\\.)*)"|"((?:[^"\\]|\\.)*)"')
_WRITES = ("write", "pwrite64", "writev", "pwritev", "ftruncate", "fallocate", "copy_file_range", "sendfile")


@dataclass
class Order:
    """State that is not on the disk yet, below ``folder``. ``journals``: endings of their names. ``faults``: broken rules, in words."""

    folder: Path
    journals: tuple[str, ...]
    contents: set[str] = field(default_factory=set)
    """Files with unflushed contents."""
    names: set[str] = field(default_factory=set)
    """Files and folders that were made or renamed in a folder that has not been flushed since."""
    undone: set[str] = field(default_factory=set)
    """Rollback journals that were removed from a folder that has not been flushed since."""
    faults: list[str] = field(default_factory=list)
    seen: int = 0
    """Number of calls about the folder."""

    def call(self, name: str, arguments: str, made: str | None) -> None:
        """Take one successful system call."""
        inside = [path for path in _paths(name, arguments) if path.startswith(f"{self.folder}/") or path == str(self.folder)]
        if not inside:
            return
        self.seen += 1
        path = inside[0]
        if name in _WRITES or (name == "mmap" and "PROT_WRITE" in arguments and "MAP_SHARED" in arguments):
            self.contents.add(path)
        elif name in ("fsync", "fdatasync"):
            self.contents.discard(path)
            self.names -= {each for each in self.names if os.path.dirname(each) == path}
            self.undone -= {each for each in self.undone if os.path.dirname(each) == path}
        elif name in ("open", "openat", "creat") and made is not None and ("O_CREAT" in arguments or name == "creat"):
            if "O_TRUNC" in arguments:
                self.contents.add(path)
            self.names.add(path)
        elif name in ("mkdir", "mkdirat"):
            self.names.add(path)
        elif name.startswith("rename"):
            self._renamed(path, inside[-1], exchanged="RENAME_EXCHANGE" in arguments)
        elif name in ("unlink", "unlinkat", "rmdir"):
            self._removed(path)

    def _renamed(self, old: str, new: str, *, exchanged: bool) -> None:
        behind = [each for each in self.contents if each == old or each.startswith(f"{old}/")]
        if behind:
            self.faults.append(f"{new} takes the name before the disk has the contents of {', '.join(sorted(behind))}")
        for kept in (self.contents, self.names):
            moved = {each for each in kept if each == old or each.startswith(f"{old}/")}
            other = {each for each in kept if each == new or each.startswith(f"{new}/")}
            kept -= moved | other
            kept |= {new + each[len(old) :] for each in moved}
            if exchanged:
                kept |= {old + each[len(new) :] for each in other}
        self.names.add(new)

    def _removed(self, path: str) -> None:
        for kept in (self.contents, self.names):
            kept -= {each for each in kept if each == path or each.startswith(f"{path}/")}
        folder = os.path.dirname(path)
        if path.endswith(ROLLBACK):
            self.undone.add(path)
        if path.endswith(self.journals):
            waiting = sorted(each for each in self.contents | self.names if each.startswith(f"{folder}/"))
            if waiting:
                self.faults.append(f"{path} is removed before the disk has {', '.join(waiting)}")

    def end(self) -> None:
        """Check that everything the ended program left is on the disk."""
        left = sorted(each for each in self.contents | self.names if os.path.lexists(each))
        if left:
            self.faults.append(f"at the end the disk may not have {', '.join(left)}")
        if self.undone:
            self.faults.append(f"at the end the disk may still have {', '.join(sorted(self.undone))}, which undoes what was committed")


def _paths(name: str, arguments: str) -> list[str]:
    """Return the paths of a call: of its descriptor, or of its names."""
    if name in (*_WRITES, "fsync", "fdatasync", "mmap"):
        return _PATH_OF.findall(arguments)[-1 if name in ("copy_file_range", "mmap") else 0 :][:1]
    found = []
    for base, beside, alone in _TEXT.findall(arguments):
        path = (beside or alone).encode().decode("unicode_escape")
        found.append(os.path.normpath(os.path.join(base or "/", path)) if path else base)
    return found


ROLLBACK = "-journal"
JOURNALS = ("stream.wbs", ".arrow")


def order_of(command: Sequence[str | Path], folder: Path, log: Path, cwd: Path | None = None) -> Order:
    """Run a command, which must end well, and check its calls."""
    traced = ["strace", "-f", "-y", "-qq", "-s", "200", "-e", "signal=none", "-e", f"trace={CALLS}", "-o", str(log), *map(str, command)]
    done = subprocess.run(traced, capture_output=True, text=True, check=False, cwd=cwd)
    assert done.returncode == 0, done.stderr[-2000:]
    order = Order(folder, JOURNALS)
    begun: dict[str, str] = {}
    with open(log, errors="replace") as lines:
        for line in lines:
            match = _LINE.match(line)
            if match is None:
                continue
            thread, text = match.groups()
            if cut := _BEGUN.fullmatch(text):
                begun[thread] = cut.group(1)
                continue
            if rest := _RESUMED.fullmatch(text):
                text = begun.pop(thread, "") + rest.group(1)
            found = _DONE.fullmatch(text)
            if found and int(found.group(3)) >= 0:
                order.call(found.group(1), found.group(2), found.group(4))
    order.end()
    return order
