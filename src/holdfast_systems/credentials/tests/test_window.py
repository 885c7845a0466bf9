"""The rate limit: never more than the limit in a window, however many processes count."""

from __future__ import annotations

import pytest

from holdfast.policy import RateLimit
from holdfast.store import Store
from holdfast.testing import instant
from holdfast_systems.credentials import tables
from holdfast_systems.credentials.window import Window


@pytest.fixture
def prepared(virtual_store: Store) -> Store:
    tables.prepare(virtual_store)
    return virtual_store


@pytest.mark.parametrize(("count", "processes"), [(5, 1), (120, 1), (120, 3)])
def test_no_more_than_the_limit_passes_in_one_window(prepared: Store, count: int, processes: int) -> None:
    with instant() as time:
        windows = [Window(prepared, "p", RateLimit(count=count, per_s=60)) for _ in range(processes)]
        for _ in range(2):  # the second window is as good as the first
            passed = sum(windows[place % processes].take() is None for place in range(3 * count))
            assert passed == count
            time.advance(60)


def test_whoever_is_refused_is_told_when_the_window_closes(prepared: Store) -> None:
    with instant() as time:
        window = Window(prepared, "p", RateLimit(count=1, per_s=60))
        assert window.take() is None
        assert window.limit.details(window.take()) == {"retry_after_seconds": 60, "limit": 1, "window_seconds": 60}
        time.advance(59.5)
        assert window.limit.details(window.take())["retry_after_seconds"] == 1
        time.advance(0.5)
        assert window.take() is None


def test_platforms_do_not_share_a_window(prepared: Store) -> None:
    with instant():
        one, other = (Window(prepared, name, RateLimit(count=1, per_s=60)) for name in ("a", "b"))
        assert (one.take(), other.take()) == (None, None)
        assert one.take() is not None
