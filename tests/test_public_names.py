"""What an editor shows of a public name: every one says what it promises."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "holdfast"
PACKAGES = sorted(f"holdfast.{file.parent.name}" for file in SOURCE.glob("*/__init__.py"))


@pytest.mark.parametrize("package", ["holdfast", *PACKAGES])
def test_every_public_class_and_function_has_a_docstring(package: str) -> None:
    module = importlib.import_module(package)
    assert module.__doc__
    names = {name: getattr(module, name) for name in module.__all__}
    ours = {
        name: value
        for name, value in names.items()
        if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__.startswith("holdfast")
    }
    # A dataclass without a docstring has its signature for one.
    assert [name for name, value in ours.items() if not value.__doc__ or value.__doc__.startswith(f"{name}(")] == []
