"""Every command of `wattbell` with its options, out of the program's own tree: what `--help` prints, as a page of MyST."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from wattbell.cli.app import NAME, tree
from wattbell.cli.commands import PLACES

_HELP = "--help"
"""Each command has this option. The page names it once."""


def reference() -> str:
    """Return the commands in the order and the groups of the help."""
    root = tree()
    context = root.context_class(root, info_name=NAME)
    lines = [*described(root, context), *options(root, context)]
    groups = list(dict.fromkeys(place.panel for place in PLACES.values()))
    for group in groups:
        lines += [f"## {group}", ""]
        for name, place in PLACES.items():
            if place.panel == group:
                lines += command(root.get_command(context, name), name, context, "###")
    return "\n".join(lines)


def command(of: Any, name: str, above: Any, heading: str) -> Iterator[str]:
    """Yield the lines of a command, then the lines of its own commands one level deeper."""
    context = of.context_class(of, info_name=name, parent=above)
    yield from (f"{heading} {context.command_path}", "")
    pieces = " ".join(of.collect_usage_pieces(context)).replace("{", "").replace("}", "")
    yield from ("```text", f"{context.command_path} {pieces}", "```", "")
    yield from described(of, context)
    yield from options(of, context)
    if hasattr(of, "list_commands"):
        for inner in of.list_commands(context):
            yield from command(of.get_command(context, inner), inner, context, f"{heading}#")


def described(of: Any, context: Any) -> Iterator[str]:
    """Yield a command's explanation, with its examples as blocks of commands."""
    examples: list[str] = []
    for paragraph in [*(of.help or "").split("\n\n"), ""]:
        if paragraph.startswith(("  ", f"{NAME} ")):
            examples.append(re.sub(r"^  ", "", paragraph, flags=re.MULTILINE))
            continue
        if examples:
            yield from ("```text", *examples, "```", "")
            examples = []
        yield from (prose(paragraph), "")


def options(of: Any, context: Any) -> Iterator[str]:
    """Yield a command's arguments and options, by the groups of its help; hidden ones have none."""
    shown: dict[str, list[tuple[str, str]]] = {}
    for param in of.get_params(context):
        record = param.get_help_record(context)
        if record and _HELP not in param.opts:
            group = "Arguments" if param.param_type_name == "argument" else param.rich_help_panel or "Options"
            shown.setdefault(group, []).append(record)
    yield from (f"```{{program}} {context.command_path}", "```", "")
    for group, records in shown.items():
        if len(shown) > 1 or group == "Arguments":
            yield from (f"**{group}**", "")
        for names, text in records:
            if group == "Arguments":
                yield f"- `{names}`: {prose(text)}"
            else:
                yield from (f"````{{option}} {names.replace(' / ', ', ')}", prose(text), "````", "")
        yield ""


def prose(text: str) -> str:
    """Return a text of the help as Markdown: words of the command line as code, other bold words as such, pages as links."""
    text = re.sub(r"\[bold\](\S+?)\[/\]", r"`\1`", text)
    parts = re.split(r"(`[^`]*`|\[bold\].*?\[/\])", " ".join(text.split()))
    for at in range(0, len(parts), 2):
        plain = re.sub(r"([\\*<\[\]])", r"\\\1", parts[at])
        plain = re.sub(r"docs/([\w-]+)\.md", r"[docs/\1.md](\1.md)", plain)
        parts[at] = re.sub(r"(?<![\w-])--?[a-z][a-z-]*(?:=\S*\w)?", r"`\g<0>`", plain)
    return re.sub(r"\[bold\](.*?)\[/\]", r"**\1**", "".join(parts))
