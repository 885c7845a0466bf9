"""Public names that are loaded when they are first used, so that importing a package costs next to nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def lazily(package: str, namespace: dict[str, Any], homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__`: finds each name in the module that is its home, and keeps it."""

    def find(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        value = namespace[name] = getattr(import_module(home), name)
        return value

    return find
