"""A request under an idempotency key has one effect and one answer, over real HTTP and on both engines."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.guard import Keys
from holdfast.guard.heartbeat import HEARTBEAT
from holdfast.http.edge import Edge
from holdfast.http.idempotent import Idempotency
from holdfast.store import Store

from .edge_servers import Reply, call, served
from .edge_shop import KEY, ORDER, Shop, errors


@pytest.fixture
def file_store(tmp_path: Path) -> Iterator[Store]:
    """The keys themselves are tested on both engines; most of the edge's own behaviour needs only one."""
    opened = Store.open(f"sqlite:///{tmp_path / 'edge.db'}")
    opened.migrate()
    yield opened
    opened.close()


@pytest.fixture
def shop(file_store: Store) -> Iterator[tuple[int, Shop]]:
    with opened_shop(file_store) as found:
        yield found


@pytest.fixture
def shop_on_each(store: Store) -> Iterator[tuple[int, Shop]]:
    with opened_shop(store) as found:
        yield found


@contextmanager
def opened_shop(store: Store) -> Iterator[tuple[int, Shop]]:
    keys = Keys(store)
    shop = Shop(keys, store)
    with served(Edge(shop.app, catalog=errors, idempotency=Idempotency(keys=keys, anonymous=True))) as port:
        yield port, shop


def code(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.json()["error"]["code"]


def test_a_repeat_gets_the_first_answer_byte_for_byte(shop_on_each: tuple[int, Shop]) -> None:
    port, counted = shop_on_each
    first = call(port, "POST", "/provision", ORDER, idempotency_key=KEY)
    again = call(port, "POST", "/provision", dict(reversed(ORDER.items())), idempotency_key=KEY)
    assert counted.done == ["provision"]
    assert (again.status, again.body) == (first.status, first.body) == (201, b'{"instanceId" : 1}')
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers["location"] == first.headers["location"] == "/instances/1"
    assert "set-cookie" in first.headers
    assert "set-cookie" not in again.headers
    assert again.headers["x-request-id"] != first.headers["x-request-id"]


def test_the_ids_of_what_was_created_are_stored(shop: tuple[int, Shop], file_store: Store) -> None:
    call(shop[0], "POST", "/provision", ORDER, idempotency_key=KEY)
    known = Keys(file_store).show(operation="POST /provision", key=KEY)
    assert known is not None
    assert (known["state"], known["status"], known["resources"]) == ("done", 201, '{"instanceId":"inst_1"}')
    assert known["first_seen_us"] <= known["last_seen_us"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/provision", {**ORDER, "plan": "gold"}),
        ("/provision?dry=1", ORDER),
    ],
)
def test_the_same_key_with_another_payload_is_a_mismatch(shop_on_each: tuple[int, Shop], path: str, body: Any) -> None:
    call(shop_on_each[0], "POST", "/provision", ORDER, idempotency_key=KEY)
    reply = call(shop_on_each[0], "POST", path, body, idempotency_key=KEY)
    assert code(reply) == (409, "IDEMPOTENCY_PAYLOAD_MISMATCH")
    assert shop_on_each[1].done == ["provision"]


def test_a_stampede_under_one_key_has_one_effect(shop_on_each: tuple[int, Shop]) -> None:
    port, counted = shop_on_each
    with ThreadPoolExecutor(16) as threads:
        asked = [threads.submit(call, port, "POST", "/provision", ORDER, idempotency_key=KEY) for _ in range(48)]
        replies = [one.result() for one in asked]
    assert counted.done == ["provision"]
    made = {reply.body for reply in replies if reply.status == 201}
    assert made == {b'{"instanceId" : 1}'}
    assert {code(reply) for reply in replies if reply.status != 201} <= {(409, "IDEMPOTENCY_IN_PROGRESS")}


def test_a_twin_is_told_to_come_back_while_the_first_works(shop: tuple[int, Shop]) -> None:
    port, counted = shop
    counted.gate.clear()
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(call, port, "POST", "/provision", ORDER, idempotency_key=KEY)
        assert counted.entered.wait(60)
        twin = call(port, "POST", "/provision", ORDER, idempotency_key=KEY)
        other = call(port, "POST", "/provision", {"plan": "x"}, idempotency_key=KEY)
        counted.gate.set()
        assert first.result().status == 201
    assert code(twin) == (409, "IDEMPOTENCY_IN_PROGRESS")
    assert int(twin.headers["retry-after"]) >= 1
    assert code(other) == (409, "IDEMPOTENCY_PAYLOAD_MISMATCH")


def test_a_twin_waits_where_that_is_asked_for(file_store: Store) -> None:
    keys = Keys(file_store)
    counted = Shop(keys, file_store)
    counted.gate.clear()
    with (
        served(Edge(counted.app, idempotency=Idempotency(keys=keys, anonymous=True, wait_s=60))) as port,
        ThreadPoolExecutor(2) as two,
    ):
        first = two.submit(call, port, "POST", "/provision", ORDER, idempotency_key=KEY)
        assert counted.entered.wait(60)
        twin = two.submit(call, port, "POST", "/provision", ORDER, idempotency_key=KEY)
        counted.gate.set()
        assert twin.result().body == first.result().body
    assert counted.done == ["provision"]


def test_a_final_failure_is_an_answer_like_any_other(shop: tuple[int, Shop]) -> None:
    first, again = (call(shop[0], "POST", "/declined", idempotency_key=KEY) for _ in range(2))
    assert code(first) == (402, "DECLINED")
    assert (again.status, again.body) == (first.status, first.body)
    assert again.headers["idempotent-replayed"] == "true"
    assert shop[1].done == ["declined"]


def test_a_refusal_of_the_framework_is_an_answer_too(shop: tuple[int, Shop]) -> None:
    first, again = (call(shop[0], "POST", "/refused", idempotency_key=KEY) for _ in range(2))
    assert code(first) == (404, "NOT_FOUND")
    assert again.body == first.body


@pytest.mark.parametrize(("path", "status"), [("/busy", 503), ("/broken", 500)])
def test_what_may_be_tried_again_is_run_again(shop: tuple[int, Shop], path: str, status: int) -> None:
    first, again, third = (call(shop[0], "POST", path, idempotency_key=KEY) for _ in range(3))
    assert (first.status, again.status, third.status) == (status, 200, 200)
    assert len(shop[1].done) == 2
    assert third.headers["idempotent-replayed"] == "true"


@pytest.mark.parametrize(("status", "kept"), [(200, True), (303, True), (409, True), (429, False), (500, False)])
def test_an_answer_of_the_application_is_kept_if_its_status_is_final(
    shop: tuple[int, Shop], status: int, kept: bool
) -> None:
    replies = [call(shop[0], "POST", f"/kinds/a?status={status}", idempotency_key=KEY) for _ in range(2)]
    assert [reply.status for reply in replies] == [status, status]
    assert (replies[0].body == replies[1].body) is kept


def test_a_status_that_does_not_exist_is_a_failure_that_repeats_get_too(shop: tuple[int, Shop]) -> None:
    replies = [call(shop[0], "POST", "/kinds/a?status=99", idempotency_key=KEY) for _ in range(2)]
    assert [code(reply) for reply in replies] == [(500, "INTERNAL_ERROR")] * 2
    assert shop[1].done == ["a"]


def test_an_answer_without_a_body_is_replayed_without_one(shop: tuple[int, Shop]) -> None:
    replies = [call(shop[0], "POST", "/empty", idempotency_key=KEY) for _ in range(2)]
    assert [(reply.status, reply.body) for reply in replies] == [(204, b""), (204, b"")]
    assert shop[1].done == ["empty"]


def test_an_answer_too_large_to_keep_is_sent_once_and_the_work_is_not_done_again(shop: tuple[int, Shop]) -> None:
    first, again = (call(shop[0], "POST", "/large", idempotency_key=KEY) for _ in range(2))
    assert (first.status, len(first.body)) == (200, 400_000)
    assert code(again) == (409, "IDEMPOTENCY_ANSWER_NOT_KEPT")
    assert shop[1].done == ["large"]


def test_an_answer_that_cannot_be_written_down_fails_and_the_work_is_not_done_again(shop: tuple[int, Shop]) -> None:
    replies = [call(shop[0], "POST", "/leaky", idempotency_key=KEY) for _ in range(2)]
    assert [code(reply) for reply in replies] == [(500, "INTERNAL_ERROR")] * 2
    assert shop[1].done == ["leaky"]


def test_a_handler_may_store_its_answer_with_its_effect(shop_on_each: tuple[int, Shop]) -> None:
    first, again = (call(shop_on_each[0], "POST", "/own", idempotency_key=KEY) for _ in range(2))
    assert (first.status, first.body) == (again.status, again.body) == (201, b"made once")
    assert shop_on_each[1].done == ["own"]


def test_the_key_is_there_for_whoever_calls_on(shop: tuple[int, Shop]) -> None:
    assert call(shop[0], "POST", "/forwarded", idempotency_key=KEY).json() == KEY
    assert call(shop[0], "POST", "/forwarded").json() is None


def test_a_process_that_holds_too_many_keys_gives_the_key_back(
    shop: tuple[int, Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    port, counted = shop

    class Full(dict[int, Any]):
        def __len__(self) -> int:
            return 10**9

    with monkeypatch.context() as full:
        full.setattr(HEARTBEAT, "_held", Full())
        refused = call(port, "POST", "/provision", ORDER, idempotency_key=KEY)
    assert code(refused) == (429, "CONCURRENCY_EXCEEDED")
    assert refused.headers["retry-after"] == "1"
    assert call(port, "POST", "/provision", ORDER, idempotency_key=KEY).status == 201
    assert counted.done == ["provision"]


@pytest.mark.parametrize("key", ["", "k" * 256, "bad\x7fkey"])
def test_what_is_no_key_is_refused(shop: tuple[int, Shop], key: str) -> None:
    assert code(call(shop[0], "POST", "/provision", ORDER, idempotency_key=key)) == (400, "IDEMPOTENCY_KEY_INVALID")
    assert shop[1].done == []


def test_without_a_key_every_request_is_its_own(shop: tuple[int, Shop]) -> None:
    for _ in range(2):
        assert call(shop[0], "POST", "/provision", ORDER).status == 201
    assert len(shop[1].done) == 2


def test_the_same_key_for_another_operation_is_another_key(shop: tuple[int, Shop]) -> None:
    for kind in ("a", "b"):
        assert "idempotent-replayed" not in call(shop[0], "POST", f"/kinds/{kind}", idempotency_key=KEY).headers
    assert shop[1].done == ["a", "b"]


@pytest.fixture
def derived(file_store: Store) -> Iterator[tuple[int, Shop]]:
    keys = Keys(file_store)
    shop = Shop(keys, file_store)

    def of_order(scope: Any, body: Any) -> str | None:
        return f"saleor:{body['orderId']}:{body['lineId']}" if isinstance(body, dict) and "orderId" in body else None

    rule = Idempotency(keys=keys, derive=of_order, required=True, caller=lambda scope: scope["path"][:5])
    with served(Edge(shop.app, idempotency=rule)) as port:
        yield port, shop


def test_a_key_is_derived_from_the_request(derived: tuple[int, Shop], file_store: Store) -> None:
    order = {"orderId": "o-1", "lineId": "l-1"}
    first, again = (call(derived[0], "POST", "/provision", order) for _ in range(2))
    assert again.body == first.body
    assert derived[1].done == ["provision"]
    known = Keys(file_store).show(tenant="/prov", operation="POST /provision", key="saleor:o-1:l-1")
    assert known is not None


def test_a_request_that_needs_a_key_and_has_none_is_refused(derived: tuple[int, Shop]) -> None:
    assert code(call(derived[0], "POST", "/provision", ORDER)) == (400, "IDEMPOTENCY_KEY_REQUIRED")
    assert derived[1].done == []


def test_a_large_answer_that_says_to_try_again_is_not_final(shop: tuple[int, Shop]) -> None:
    replies = [call(shop[0], "POST", "/large?status=503", idempotency_key=KEY) for _ in range(2)]
    assert [reply.status for reply in replies] == [503, 503]
    assert len(shop[1].done) == 2
