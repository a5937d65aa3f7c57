"""Files with a drive's raw log pages, as nvme-cli writes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from .. import door
from ..errors import UsageError

Page = TypeVar("Page")


def read_log_page(path: Path, parse: Callable[[bytes], Page], name: str, identifier: int, length: str) -> Page:
    """Return the page in a file, as ``parse`` has it. Raises UsageError when the file cannot be read or is no such page.

    parse : raises ValueError with the contradiction when the bytes are no such page.
    name : of the page, with its article.
    identifier, length : of the page, for the command that writes one.
    """
    try:
        return parse(door.read_bytes(path, door.SETTINGS))
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror or error}).") from None
    except ValueError as error:
        advice = f"nvme get-log DEVICE --log-id={identifier:#x} --log-len={length} --raw-binary"
        raise UsageError(f"{path} is not {name} ({error}); {advice} writes one.") from None
