"""Seeds and dictionary for the fuzzer, from the command table: ``corpus.py FOLDER DICTIONARY``."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from firmware.docs import read

PARAMETERS = ("", " 1", " 0", " MAX", " ON", " 1,2", " 1,3.3 V", " #HFF,1E-3", ' "34405A"', " SQ,1,#H1000,16", " IMM", " 1E-3 S")


def main() -> None:
    """Writes one file for each command, with all the parameters, and a word a line."""
    folder, dictionary = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    words: set[str] = {"MIN", "MAX", "DEF", "ON", "OFF", "#H", "#B", "#Q", "E-9", "US", "MA", ";:", "*WAI", "'", "(@1)", "#15"}
    commands = [command for _, _, commands in read() for command in commands]
    for k, command in enumerate(commands):
        short = re.sub(r"\[[^]]*\]", "", command.pattern)
        short = re.sub(r"[a-z]", "", short)
        words.update(re.findall(r"[*A-Z0-9]+", short))
        words.update(word for word in re.findall(r"[A-Z]{2,}", command.syntax))
        text = "\n".join(short + parameter for parameter in PARAMETERS) + "\n"
        (folder / f"{k:03}").write_bytes(bytes([0xF0, 0x9F]) + text.encode())
    dictionary.write_text("".join('"' + re.sub(r'(["\\])', r"\\\1", word) + '"\n' for word in sorted(words)))


if __name__ == "__main__":
    main()
