"""Exports that are imported at first use, so that importing a package costs only what is used of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_exports"]


def lazy_exports(
    package: str, modules: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make the `__getattr__` and `__dir__` of a package (PEP 562).

    Args:
        package: the package's `__name__`.
        modules: for each module, the names that the package exports from it.
    """
    home = {name: module for module, names in modules.items() for name in names}

    def find(name: str) -> Any:
        module = home.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(module), name)
        vars(import_module(package))[name] = value
        return value

    return find, lambda: sorted(home)
