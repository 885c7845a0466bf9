"""Handlers of several services in one worker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.worker import Handlers, Job, QueueSettings


def service(name: str, *queues: QueueSettings) -> Handlers:
    handlers = Handlers()
    handlers.handle(f"{name}.work")(work)
    handlers.enqueue_by_clock(f"{name}.tick", every_s=60, kind=f"{name}.work")
    for one in queues:
        handlers.serve(one)
    return handlers


def work(job: Job) -> None:
    """Does nothing."""


def names(handlers: Handlers) -> list[str]:
    return [one.name for one in handlers.queues]


def test_handlers_queues_and_schedules_of_both_are_there() -> None:
    shop = service("shop", QueueSettings("shop"))
    shop.include(service("bank", QueueSettings("bank", concurrency=3)))
    assert (shop.get("shop.work") is not None, shop.get("bank.work") is not None) == (True, True)
    assert shop.queues == (QueueSettings("shop"), QueueSettings("bank", concurrency=3))
    assert [one.name for one in shop.schedules] == ["shop.tick", "bank.tick"]


@pytest.mark.parametrize(
    ("mine", "theirs", "served"),
    [
        ((), (), ["default"]),
        ((QueueSettings("shop"),), (), ["shop", "default"]),
        ((), (QueueSettings("bank"),), ["default", "bank"]),
        ((QueueSettings("both"),), (QueueSettings("both"),), ["both"]),
        ((QueueSettings(concurrency=2),), (), ["default"]),
    ],
)
def test_who_declares_no_queue_still_has_the_default_one(
    mine: tuple[QueueSettings, ...], theirs: tuple[QueueSettings, ...], served: list[str]
) -> None:
    shop = service("shop", *mine)
    shop.include(service("bank", *theirs))
    assert names(shop) == served


def test_a_collection_without_handlers_asks_for_no_queue() -> None:
    merged = Handlers()
    merged.include(service("shop", QueueSettings("shop")))
    assert names(merged) == ["shop"]


def _kind(other: Handlers) -> None:
    other.handle("shop.work")(work)


def _queue(other: Handlers) -> None:
    other.serve(QueueSettings("shop", concurrency=99))


def _schedule(other: Handlers) -> None:
    other.enqueue_by_clock("shop.tick", every_s=1, kind="bank.work")


@pytest.mark.parametrize(
    ("clash", "told"), [(_kind, "'shop.work'"), (_queue, "the queue 'shop'"), (_schedule, "'shop.tick'")]
)
def test_a_clash_is_named_and_nothing_is_taken_over(clash: Callable[[Handlers], None], told: str) -> None:
    shop, bank = service("shop", QueueSettings("shop")), service("bank", QueueSettings("bank"))
    clash(bank)
    with pytest.raises(ValueError, match=told):
        shop.include(bank)
    assert (len(shop), names(shop), len(shop.schedules)) == (1, ["shop"], 1)
