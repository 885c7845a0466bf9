"""Rate limits at the edge: by instance, origin, client, key and tenant, told in the reply's fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast.http.access import Access
from holdfast.http.edge import Edge
from holdfast.http.keys import ApiKeys
from holdfast.http.limits import RateLimits, RateRule, by_client, by_instance, by_key, by_origin, by_tenant
from holdfast.policy import RateLimit
from holdfast.store import Store
from holdfast.testing.instant import instant

from .edge_servers import call, served

HUNDRED = RateLimit.per_minute(100)


@pytest.fixture
def file_store(tmp_path: Any) -> Iterator[Store]:
    opened = Store.open(f"sqlite:///{tmp_path / 'limits.db'}", database_clock=False)
    opened.migrate()
    yield opened
    opened.close()


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
    with instant():  # five a second: a machine that stands still for a moment has one more to spend
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
