"""Types lines at a terminal of the Linux guest, and answers their questions. `lines.json` in, `said.json` out, one entry a line."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import termios
import time
from pathlib import Path

PROMPT = re.compile(r"<<(\d+)>>")  # what runs in the background may say something behind it
QUESTION = re.compile(r"\[y/N\]:? $")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]")


class Terminal:
    """A shell with a prompt that has the exit code of the line before."""

    def __init__(self, folder: str) -> None:
        child, self._keyboard = pty.fork()
        if child == 0:
            os.chdir(folder)
            without = [place for place in os.environ["PATH"].split(":") if ".venv" not in place]
            environment = {**os.environ, "PATH": ":".join(without), "TERM": "xterm"}
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"], environment)
        fcntl.ioctl(self._keyboard, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        self.type("stty -echo; PS1='<<$?>>' PS2=")

    def type(self, line: str) -> tuple[int, str, int]:
        """Its exit code, its output, and how often it asked."""
        os.write(self._keyboard, line.encode() + b"\n")
        said, asked, old = "", 0, 0
        while not (prompt := PROMPT.search(said)):
            if select.select([self._keyboard], [], [], 0.3)[0]:
                said += ESCAPES.sub("", os.read(self._keyboard, 65536).decode(errors="replace"))
                continue
            if QUESTION.search(said) and len(said) > old:  # it waits
                old, asked = len(said), asked + 1
                os.write(self._keyboard, b"y\n")
        return int(prompt[1]), said[: prompt.start()].replace("\r\n", "\n"), asked


def main() -> None:
    about = json.loads(Path("lines.json").read_text())
    terminal = Terminal(about["folder"])
    done = []
    for line in about["lines"]:
        begin = time.monotonic()
        code, said, asked = terminal.type(line)
        done.append({"line": line, "code": code, "said": said, "asked": asked, "seconds": time.monotonic() - begin})
        print(f"{time.monotonic():7.1f} {code} {line.splitlines()[0]}", flush=True)
        Path("said.json").write_text(json.dumps(done, indent=1))


main()
