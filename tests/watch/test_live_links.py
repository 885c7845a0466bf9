"""Links are watched without being named."""

from __future__ import annotations

import pytest

from holdfast import Breaker, Budget, Link, Retry
from holdfast.store import Store
from holdfast.watch import start
from holdfast.watch.series import StoreSeries

NAME = "test_live_links → bank"


def refused() -> None:
    raise ConnectionRefusedError


def test_every_live_link_is_shown_and_of_two_with_one_name_the_worse(store: Store) -> None:
    watching = start(store, flush_s=600)
    try:
        made_later = Link(NAME, retry=Retry(attempts=1), breaker=Breaker(calls_min=1), budget=Budget(burst=20))
        namesake = Link(NAME, breaker=Breaker(), budget=Budget(burst=10))
        with pytest.raises(ConnectionRefusedError):
            made_later.call(refused)
        assert watching.flush()
        series = StoreSeries(store)
        assert series.gauge("link_breaker_state", where={"link": NAME}) == 2
        assert series.gauge("link_budget_left", where={"link": NAME}) == 10
        assert namesake.name == made_later.name
    finally:
        watching.stop()
