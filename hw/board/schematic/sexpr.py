"""KiCad's file syntax: nested lists of words, numbers and quoted text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

__all__ = ["Node", "Word", "children", "dump", "first", "parse"]


class Word(str):
    """An unquoted word; a plain ``str`` is written in quotes."""

    __slots__ = ()


Node: TypeAlias = "Word | str | float | int | list[Node]"

_TOKEN = re.compile(r'\s*(?:(\()|(\))|"((?:[^"\\]|\\.)*)"|([^\s()"]+))', re.DOTALL)
_ESCAPES = {"\\n": "\n", '\\"': '"', "\\\\": "\\", "\\t": "\t", "\\r": "\r"}


def parse(text: str) -> list[Node]:
    """Return the one list of a file; numbers stay words. Raises ValueError if the brackets do not close."""
    stack: list[list[Node]] = [[]]
    for match in _TOKEN.finditer(text):
        opened, closed, quoted, word = match.groups()
        if opened:
            stack.append([])
        elif closed:
            if len(stack) < 2:
                raise ValueError(f"a bracket too many at character {match.start()}")
            done = stack.pop()
            stack[-1].append(done)
        elif word is not None:
            stack[-1].append(Word(word))
        else:
            escaped = "\\" in quoted
            stack[-1].append(re.sub(r'\\[n"\\tr]', lambda m: _ESCAPES[m.group()], quoted) if escaped else quoted)
    if len(stack) != 1 or len(stack[0]) != 1 or not isinstance(stack[0][0], list):
        raise ValueError("not one list in brackets: the file is cut or not KiCad's")
    return stack[0][0]


def children(node: list[Node], name: str) -> Iterator[list[Node]]:
    """Yield the lists in ``node`` that begin with ``name``."""
    for child in node:
        if isinstance(child, list) and child and child[0] == name:
            yield child


def first(node: list[Node], name: str) -> list[Node] | None:
    """Return the first list in ``node`` that begins with ``name``; None without one."""
    return next(children(node, name), None)


def _atom(value: Node) -> str:
    if isinstance(value, Word):
        return str(value)
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if isinstance(value, int):
        return str(value)
    assert isinstance(value, float)
    text = f"{value:.6f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def dump(node: list[Node], depth: int = 0) -> str:
    """Return the text of a list as KiCad writes it: a list of atoms on one line, other lists with a line for each child."""
    indent = "\t" * depth
    if not any(isinstance(child, list) for child in node):
        return f"{indent}({' '.join(_atom(child) for child in node)})"
    lines: list[str] = []
    head: list[str] = []
    for child in node:
        if isinstance(child, list):
            lines.append(dump(child, depth + 1))
        elif lines:
            lines.append("\t" * (depth + 1) + _atom(child))
        else:
            head.append(_atom(child))
    return f"{indent}({' '.join(head)}\n" + "\n".join(lines) + f"\n{indent})"
