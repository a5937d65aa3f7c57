"""Wattbell: PCIe transactions and rail current of an NVMe drive, from the rig to the report.

``wattbell.open("capture")`` opens a capture in Python (docs/python.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import OpenCapture as OpenCapture
    from .api import open as open
    from .errors import WattbellError as WattbellError

__version__ = "0.2.0"
__all__ = ["OpenCapture", "WattbellError", "__version__", "open"]


def __getattr__(name: str) -> Any:
    # PEP 562: the command line imports this package too, and is not to wait for Polars on the way to its `--help`
    if name == "WattbellError":
        from .errors import WattbellError

        return WattbellError
    if name in ("OpenCapture", "open"):
        from . import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
