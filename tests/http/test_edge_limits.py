"""Rate limits: shared by all processes through the store, and seldom asked of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.base import monotonic_s, new_id
from holdfast.http import leases as leases_module
from holdfast.http.access import Access
from holdfast.http.edge import Edge
from holdfast.http.keys import ApiKeys
from holdfast.http.leases import BATCH_MAX, LEASE_S, SUBJECTS_MAX, Leases, Taken
from holdfast.http.limits import RateLimits, RateRule, by_client, by_instance, by_key, by_origin, by_tenant
from holdfast.policy import RateLimit
from holdfast.policy.rate_limit import Limited
from holdfast.store import Store
from holdfast.testing.instant import VirtualTime, instant

from .edge_servers import call, served

HUNDRED = RateLimit.per_minute(100)


@pytest.fixture
def time() -> Iterator[VirtualTime]:
    with instant() as virtual:
        yield virtual


class Counted(Leases):
    """Leases that count how often the store was asked."""

    asked = 0

    def _phase(self, tx: Any, subject: str, **given: Any) -> Any:
        self.asked += 1
        return super()._phase(tx, subject, **given)


def taken(leases: Leases, count: int, subject: str = "acme") -> int:
    """How many of so many were let through."""
    return sum(isinstance(leases.quick(subject) or leases.take(subject), Taken) for _ in range(count))


def test_two_processes_share_one_limit(virtual_store: Store, time: VirtualTime) -> None:
    here, there = (Leases("api", HUNDRED, virtual_store) for _ in range(2))
    passed = 0
    for _ in range(75):
        passed += taken(here, 1) + taken(there, 1)
    # Ten percent of the burst at most lie leased and unspent in the other process.
    assert 90 <= passed <= 100


def test_an_allowed_request_does_not_cost_a_transaction_each(virtual_store: Store, time: VirtualTime) -> None:
    leases = Counted("api", RateLimit.per_minute(1_000), virtual_store)
    assert taken(leases, 1_000) == 1_000
    assert leases.asked < 30


def test_a_refused_request_does_not_ask_again_before_it_can_succeed(virtual_store: Store, time: VirtualTime) -> None:
    leases = Counted("api", HUNDRED, virtual_store)
    taken(leases, 200)
    asked = leases.asked
    assert taken(leases, 500) == 0
    assert leases.asked == asked
    refusal = leases.take("acme")
    assert isinstance(refusal, Limited)
    time.advance(refusal.retry_after_s)
    assert taken(leases, 1) == 1


def test_a_small_limit_is_exact_over_processes(virtual_store: Store, time: VirtualTime) -> None:
    rate = RateLimit.per_minute(6, burst=5)
    shared = [Leases("small", rate, virtual_store) for _ in range(4)]
    assert sum(taken(one, 3) for one in shared) == 5
    time.advance(10)
    assert sum(taken(one, 3) for one in shared) == 1


def test_subjects_and_rules_do_not_share_tokens(virtual_store: Store, time: VirtualTime) -> None:
    rate = RateLimit.per_minute(3)
    one, other = Leases("one", rate, virtual_store), Leases("other", rate, virtual_store)
    assert [taken(one, 5, "a"), taken(one, 5, "b"), taken(other, 5, "a")] == [3, 3, 3]


def test_a_steady_client_at_the_allowed_rate_is_never_refused(virtual_store: Store, time: VirtualTime) -> None:
    leases = Leases("api", RateLimit(count=10, per_s=10, burst=100), virtual_store)
    assert taken(leases, 90) == 90  # the lease has grown by now, and most of the burst is gone
    for _ in range(60):
        time.advance(1.0)
        assert taken(leases, 1) == 1


def test_what_a_lease_leaves_over_is_given_back(virtual_store: Store, time: VirtualTime) -> None:
    here, there = (Leases("api", RateLimit(count=1, per_s=1_000, burst=100), virtual_store) for _ in range(2))
    spent = taken(here, 40)
    time.advance(LEASE_S + 1)
    spent += taken(here, 1)  # gives back what was left, and takes less
    assert spent == 41
    assert taken(there, 100) >= 50


def test_leased_tokens_expire(virtual_store: Store, time: VirtualTime) -> None:
    leases = Counted("api", HUNDRED, virtual_store)
    taken(leases, 8)
    asked = leases.asked
    time.advance(LEASE_S)
    taken(leases, 1)
    assert leases.asked == asked + 1


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 30), st.floats(0, 5, allow_nan=False)), min_size=1, max_size=15
    )
)
def test_no_order_of_requests_gets_more_than_the_limit_allows(
    file_store: Store, steps: list[tuple[int, int, float]]
) -> None:
    rate = RateLimit(count=20, per_s=10, burst=40)
    with instant() as time:
        processes = [Leases("api", rate, file_store) for _ in range(3)]
        subject, begun_s, passed = new_id(), monotonic_s(), 0
        for process, count, pause_s in steps:
            passed += taken(processes[process], count, subject)
            elapsed_s = monotonic_s() - begun_s
            assert passed <= rate.burst + elapsed_s * rate.count / rate.per_s + 3 * rate.burst / 10
            time.advance(pause_s)


@pytest.fixture
def file_store(tmp_path: Any) -> Iterator[Store]:
    opened = Store.open(f"sqlite:///{tmp_path / 'limits.db'}", database_clock=False)
    opened.migrate()
    yield opened
    opened.close()


def test_threads_that_come_together_take_no_more_than_there_is(store: Store) -> None:
    leases = Counted("api", RateLimit(count=1, per_s=1_000, burst=100), store)
    gate = threading.Barrier(8)
    passed: list[int] = []

    def many() -> None:
        gate.wait()
        passed.append(taken(leases, 50))

    threads = [threading.Thread(target=many) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(passed) == 100
    assert leases.asked < 60


def test_while_the_store_is_away_each_process_limits_by_itself(virtual_store: Store, time: VirtualTime) -> None:
    leases = Leases("api", RateLimit.per_minute(5), virtual_store)
    virtual_store.close()
    assert taken(leases, 20) == 5


def test_without_a_store_nothing_is_shared(time: VirtualTime) -> None:
    here, there = (Leases("api", RateLimit.per_minute(5), None) for _ in range(2))
    assert [taken(here, 20), taken(there, 20)] == [5, 5]


def test_idle_subjects_are_forgotten(virtual_store: Store, time: VirtualTime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases_module, "PRUNE_EVERY", 10)
    leases = Leases("api", RateLimit.per_minute(60), virtual_store)
    for number in range(19):
        leases.take(f"client {number}")
    time.advance(120)
    leases.take("visitor")
    with virtual_store.database.transaction(write=False) as execute:
        assert execute("SELECT subject FROM rate_limit", {}).fetchall() == [("visitor",)]


def test_memory_is_bounded_whoever_comes(time: VirtualTime) -> None:
    leases = Leases("api", RateLimit.per_minute(60), None)
    for number in range(SUBJECTS_MAX + 100):
        leases.quick(str(number))
    assert len(leases._pools) == SUBJECTS_MAX


@pytest.mark.parametrize("subject", ["x" * 10_000, "bad\x00subject", ""])
def test_a_subject_of_any_shape_can_be_counted(virtual_store: Store, time: VirtualTime, subject: str) -> None:
    assert taken(Leases("api", RateLimit.per_minute(3), virtual_store), 9, subject) == 3


def test_a_lease_never_takes_more_than_its_share() -> None:
    assert Leases("api", RateLimit.per_minute(60_000), None)._batch_max == BATCH_MAX
    assert Leases("api", RateLimit.per_minute(19), None)._batch_max == 1


async def fine(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def test_over_http_two_edges_on_one_store_share_the_limit(store: Store) -> None:
    rule = RateRule(name="per-origin", rate=RateLimit(count=6, per_s=3_600), by=by_origin)
    edges = [Edge(fine, limits=RateLimits(rule, store=store)) for _ in range(2)]
    with served(edges[0]) as one, served(edges[1]) as other:
        replies = [call(port, "GET", "/", origin="https://shop.example") for port in (one, other) * 5]
        assert [reply.status for reply in replies] == [200] * 6 + [429] * 4
        assert call(one, "GET", "/", origin="https://else.example").status == 200
    assert replies[0].headers["ratelimit-policy"] == '"per-origin";q=6;w=3600'
    assert replies[0].headers["ratelimit"].startswith('"per-origin";r=5;t=')
    refused = replies[-1]
    wait = int(refused.headers["retry-after"])
    assert 0 < wait <= 600
    assert refused.headers["ratelimit"] == f'"per-origin";r=0;t={wait}'
    told = refused.json()["error"]
    assert told["code"] == "RATE_LIMIT_EXCEEDED"
    assert told["details"] == {"retry_after_seconds": wait, "limit": 6, "window_seconds": 3_600}


async def ask(edge: Edge, path: str = "/", client: str = "10.0.0.1", **headers: str) -> tuple[int, dict[str, str]]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "GET", "path": path, "headers": pairs, "client": (client, 1)}
    await edge(scope, send, send)  # type: ignore[arg-type]
    told: dict[str, str] = {}
    for name, value in sent[0]["headers"]:
        told[name.decode()] = ", ".join(filter(None, [told.get(name.decode()), value.decode()]))
    return sent[0]["status"], told


@pytest.mark.parametrize(
    ("by", "one", "other"),
    [
        (by_client, {"client": "10.0.0.1"}, {"client": "10.0.0.2"}),
        (by_origin, {"origin": "https://a.example"}, {"origin": "https://b.example"}),
        (by_instance(r"^/instances/([^/]+)"), {"path": "/instances/i-1/chat"}, {"path": "/instances/i-2/chat"}),
    ],
)
async def test_requests_are_counted_by_whom_the_rule_says(
    by: Callable[[Any], str | None], one: dict[str, str], other: dict[str, str]
) -> None:
    edge = Edge(fine, limits=RateLimits(RateRule(name="api", rate=RateLimit.per_minute(2), by=by)))
    assert [(await ask(edge, **one))[0] for _ in range(3)] == [200, 200, 429]
    assert (await ask(edge, **other))[0] == 200


async def test_keys_and_tenants_have_their_own_limits(file_store: Store) -> None:
    keys = ApiKeys(file_store)
    rules = RateLimits(
        RateRule(name="key", rate=RateLimit.per_minute(2), by=by_key),
        RateRule(name="tenant", rate=RateLimit.per_minute(3), by=by_tenant),
    )
    edge = Edge(fine, limits=rules, access=Access(keys))
    first, second = (f"Bearer {keys.issue('k', tenant='acme').secret.reveal()}" for _ in range(2))
    assert [(await ask(edge, authorization=first))[0] for _ in range(3)] == [200, 200, 429]
    assert [(await ask(edge, authorization=second))[0] for _ in range(2)] == [200, 429]


async def test_guessing_keys_is_limited_before_the_key_is_looked_at(file_store: Store) -> None:
    rules = RateLimits(RateRule(name="client", rate=RateLimit.per_minute(3), by=by_client))
    edge = Edge(fine, limits=rules, access=Access(ApiKeys(file_store)))
    statuses = [(await ask(edge, authorization="Bearer hf_" + f"{number:032}"))[0] for number in range(5)]
    assert statuses == [401, 401, 401, 429, 429]


async def test_all_limits_of_a_request_are_told() -> None:
    rules = RateLimits(
        RateRule(name="burst", rate=RateLimit(count=5, per_s=1), by=by_client),
        RateRule(name="daily", rate=RateLimit(count=50, per_s=86_400), by=by_client),
    )
    status, told = await ask(Edge(fine, limits=rules))
    assert status == 200
    assert told["ratelimit-policy"] == '"burst";q=5;w=1, "daily";q=50;w=86400'
    assert told["ratelimit"] == '"burst";r=4;t=1, "daily";r=49;t=1728'


async def test_a_request_that_one_limit_refuses_costs_the_others_nothing(file_store: Store) -> None:
    wide = RateRule(name="wide", rate=RateLimit.per_minute(100), by=lambda scope: "all")
    narrow = RateRule(name="narrow", rate=RateLimit.per_minute(1), by=by_client)
    edge = Edge(fine, limits=RateLimits(wide, narrow, store=file_store))
    for _ in range(30):
        await ask(edge)
    _, told = await ask(edge, client="10.0.0.9")
    assert int(told["ratelimit"].split(";")[1][2:]) >= 95


async def test_a_rule_may_be_about_some_requests_only() -> None:
    rule = RateRule(
        name="chat", rate=RateLimit.per_minute(1), by=by_client, when=lambda scope: scope["path"] == "/chat"
    )
    edge = Edge(fine, limits=RateLimits(rule))
    assert [(await ask(edge, "/other"))[0] for _ in range(3)] == [200, 200, 200]
    assert [(await ask(edge, "/chat"))[0] for _ in range(2)] == [200, 429]


@pytest.mark.parametrize("name", ["", "Upper", 'qu"ote', "a b", "x" * 65])
def test_a_name_that_could_not_stand_in_a_header_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        RateRule(name=name, rate=HUNDRED, by=by_client)


def test_two_limits_of_one_name_are_refused() -> None:
    rule = RateRule(name="api", rate=HUNDRED, by=by_client)
    with pytest.raises(ValueError, match="same name"):
        RateLimits(rule, rule)
