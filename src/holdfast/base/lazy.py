"""Public names that are loaded when they are first used, so that importing a package costs next to nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

EXTRAS: Mapping[str, str] = {
    "aiohttp": "http",
    "yarl": "http",
    "prometheus_client": "watch",
    "structlog": "watch",
    "psycopg": "postgresql",
    "psycopg_pool": "postgresql",
}
"""The extra of this project that brings a package."""


def lazily(package: str, namespace: dict[str, Any], homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__`: finds each name in the module that is its home, and keeps it."""

    def find(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        try:
            value = namespace[name] = getattr(import_module(home), name)
        except ModuleNotFoundError as missing:
            name_extra(missing)
            raise
        return value

    return find


def name_extra(missing: ModuleNotFoundError) -> None:
    """Note which extra brings the package that is missing, where one of ours does."""
    package = (missing.name or "").partition(".")[0]
    if package in EXTRAS:
        missing.add_note(f'holdfast: {package} comes with an extra: pip install "holdfast[{EXTRAS[package]}]"')
