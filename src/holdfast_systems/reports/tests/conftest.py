"""What the tests of the reports system share: the system on each engine, and on one alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from holdfast.store import Store
from holdfast_systems.reports import charts

from .system import Running, running

Site = Callable[..., Running]
DRAW_CANDLES, DRAW_VOLUME = charts.draw_candles, charts.draw_volume


@pytest.fixture
def site(store: Store, tmp_path: Path) -> Iterator[Site]:
    """Serve the system with these settings, on each engine."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(running(store, tmp_path / "reports", **settings))


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(f"sqlite:///{tmp_path / 'alone.db'}")
    opened.migrate()
    yield opened
    opened.close()


@pytest.fixture
def solo(sqlite_store: Store, tmp_path: Path) -> Iterator[Site]:
    """The same on one engine, for what does not depend on it."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(running(sqlite_store, tmp_path / "reports", **settings))


@pytest.fixture(autouse=True)
def _fonts(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chart library's list of fonts takes seconds to make: once for all tests of a run."""
    folder = tmp_path_factory.getbasetemp() / "matplotlib"
    monkeypatch.setenv("MPLCONFIGDIR", str(folder))


@pytest.fixture(autouse=True)
def _charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same candles give the same chart: each is drawn once for all tests of a process."""
    monkeypatch.setattr(charts, "draw_candles", partial(_drawn, DRAW_CANDLES))
    monkeypatch.setattr(charts, "draw_volume", partial(_drawn, DRAW_VOLUME))


def _drawn(draw: Any, candles: Any, title: str, *, source: str) -> bytes:
    return _drawn_once(draw, tuple(candles), title, source)


@cache
def _drawn_once(draw: Any, candles: Any, title: str, source: str) -> bytes:
    return bytes(draw(candles, title, source=source))
