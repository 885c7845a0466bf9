"""A place in the line: whoever waits there is woken in time, in a thread or on a loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast.delivery import place as places
from holdfast.delivery.place import Place, WaitingRoom

LONG_S = 300.0


@pytest.fixture(autouse=True)
def _long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is not woken fails the test by its time."""
    monkeypatch.setattr(places, "WAIT_S", LONG_S)


@pytest.mark.timeout(90)
def test_a_thread_that_waits_is_let_in_by_another() -> None:
    place = Place()
    waiting = threading.Thread(target=place.wait)
    waiting.start()
    place.grant()
    waiting.join()
    assert place.entered


@pytest.mark.timeout(90)
async def test_a_task_that_waits_is_let_in_by_a_thread() -> None:
    place = Place()
    waiting = asyncio.create_task(place.wait_async())
    await asyncio.sleep(0)
    granting = threading.Thread(target=place.grant)
    granting.start()
    await waiting
    granting.join()
    assert place.entered


@pytest.mark.timeout(90)
async def test_who_was_let_in_before_it_began_to_wait_does_not_wait() -> None:
    place = Place()
    place.grant()
    place.wait()
    await place.wait_async()
    assert place.entered


async def test_nobody_waits_longer_than_the_time_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "WAIT_S", 0.0)
    place = Place()
    place.wait()
    await place.wait_async()
    assert not place.entered


def test_letting_somebody_in_whose_loop_has_ended_troubles_nobody() -> None:
    place = Place()

    async def begin_and_end() -> None:
        waiting = asyncio.create_task(place.wait_async())
        await asyncio.sleep(0)
        waiting.cancel()

    asyncio.run(begin_and_end())
    place.grant()
    assert place.entered


def test_a_room_has_no_more_places_than_it_has() -> None:
    room = WaitingRoom(2)
    assert [room.enter() for _ in range(3)] == [True, True, False]
    room.leave()
    assert room.enter()
