"""A public name whose package is not installed says which extra brings it."""

from __future__ import annotations

import sys

import pytest

import holdfast.http
from holdfast.base.lazy import EXTRAS, lazily


@pytest.mark.parametrize("package", EXTRAS)
def test_a_missing_package_names_its_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError) as raised:
        lazily("shop", {}, {"anything": package})("anything")
    (note,) = raised.value.__notes__
    assert note == f'holdfast: {package} comes with an extra: pip install "holdfast[{EXTRAS[package]}]"'


def test_a_missing_module_of_ones_own_gets_no_note() -> None:
    with pytest.raises(ModuleNotFoundError) as raised:
        lazily("shop", {}, {"anything": "shop_nowhere"})("anything")
    assert not hasattr(raised.value, "__notes__")


def test_every_extra_that_is_named_exists(root: object) -> None:
    import tomllib
    from pathlib import Path

    declared = tomllib.loads(Path(str(root), "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS.values()) <= declared.keys()


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Egde'"):
        holdfast.http.Egde  # noqa: B018
