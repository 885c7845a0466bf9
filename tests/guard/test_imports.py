"""What a program loads that only guards calls."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    script = "import sys; from holdfast import Link, Catalog, Retry; Link('a', retry=Retry()); print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(ended.stdout.split())


@pytest.mark.parametrize(
    "module",
    [
        "asyncio",
        "json",
        "logging",
        "queue",
        "random",
        "holdfast.base.codec",
        "holdfast.base.ids",
        "holdfast.catalog.dialect",
        "holdfast.guard.events",
        "holdfast.guard.idempotency",
        "holdfast.lifecycle.job",
        "holdfast.policy.breaker",
        "holdfast.policy.rate_limit",
        "holdfast.store",
    ],
)
def test_a_plain_link_does_without(module: str, loaded: set[str]) -> None:
    assert "holdfast.guard.link" in loaded
    assert module not in loaded


@pytest.mark.parametrize(
    "package",
    ["holdfast", "holdfast.base", "holdfast.catalog", "holdfast.guard", "holdfast.lifecycle", "holdfast.policy"],
)
def test_every_public_name_is_found_when_it_is_asked_for(package: str) -> None:
    script = f"import {package} as package; print(*(getattr(package, name) is not None for name in package.__all__))"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(ended.stdout.split()) == {"True"}
