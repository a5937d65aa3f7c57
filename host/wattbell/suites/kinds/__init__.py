"""The kinds of tests, one a file: what a manifest must say of it, the steps of its plan, its scores, and how they are shown.

A file in this folder with a subclass of :class:`~wattbell.suites.kind.Kind` is all that a new kind takes.
"""

from importlib import import_module
from pkgutil import iter_modules

from ..kind import REGISTRY as KINDS
from ..kind import Kind, Place

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")


def kind_of(name: str) -> Kind:
    """The kind of that name; one that is in nothing special for a name that this version does not know."""
    return KINDS.get(name) or _UNKNOWN


_UNKNOWN = Kind()

__all__ = ["KINDS", "Kind", "Place", "kind_of"]
