"""Registers of parts that one file adds: meters, formats of files, formats of export, kinds of tests.

A part registers itself with the decorator of its register, in a file of the register's folder. A package of somebody else does the same in
a module of its own, and names the module in an entry point of the register's group (CONTRIBUTING.md). There is no list of parts elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules
from typing import Generic, TypeVar

from .errors import UsageError

Part = TypeVar("Part")


class PartRegister(Mapping[str, Part], Generic[Part]):
    """The parts of one sort by name, in the order of the names.

    The first look imports the files of the folder, then the modules of the entry points.

    group: of the entry points, such as ``wattbell.meters``
    folder: package in which every file is imported
    """

    def __init__(self, group: str, folder: str) -> None:
        self.group, self._folder = group, folder
        self._parts: dict[str, Part] = {}
        self._loaded = False

    def add(self, name: str, part: Part) -> None:
        """Register a part. Raises ValueError if its name is taken."""
        if name in self._parts:
            raise ValueError(f"{self.group} has two parts called {name}")
        self._parts[name] = part

    def load(self) -> dict[str, Part]:
        """Return all parts. Raises UsageError for an entry point that cannot be loaded."""
        if not self._loaded:
            self._loaded = True  # a file of the folder may look at the register while it is imported
            try:
                for module in iter_modules(import_module(self._folder).__path__):
                    import_module(f"{self._folder}.{module.name}")
                for point in sorted(entry_points(group=self.group), key=lambda point: point.name):
                    self._take(point)
            except BaseException:
                self._loaded = False
                raise
        return self._parts

    def _take(self, point: EntryPoint) -> None:
        before = len(self._parts)
        try:
            point.load()
            if len(self._parts) == before:
                raise ValueError(f"{point.value} registers nothing")
        except Exception as error:
            package = point.dist.name if point.dist else "a package"
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise UsageError(
                f"The entry point {point.name} ({self.group}) of {package} cannot be loaded ({reason}); update or remove that package."
            ) from error

    def __getitem__(self, name: str) -> Part:
        return self.load()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.load()))  # whatever was imported before

    def __len__(self) -> int:
        return len(self.load())
