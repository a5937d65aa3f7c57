"""The wheel has libraries of a platform, and one of them needs only the limited API of Python 3.11: pyproject.toml cannot say that."""

from setuptools import Distribution, setup


class WithLibraries(Distribution):
    """A distribution that has ready-made libraries."""

    def has_ext_modules(self) -> bool:
        """Return that the wheel is for one platform."""
        return True


setup(distclass=WithLibraries, options={"bdist_wheel": {"py_limited_api": "cp311"}})
