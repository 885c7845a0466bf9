"""Whatever a generator makes of the description of a service, the edge answers with no 5xx and in its own words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from fastapi import FastAPI, Header, Query
from fastapi import Path as PathPart
from hypothesis import HealthCheck, Phase, given, settings
from pydantic import BaseModel, Field
from schemathesis import GenerationMode

from holdfast.catalog import Dialect
from holdfast.guard import Keys
from holdfast.http.edge import Edge
from holdfast.http.idempotent import Idempotency
from holdfast.http.limits import RateLimits, RateRule, by_client
from holdfast.policy import RateLimit
from holdfast.store import Store

from .edge_servers import TIMEOUT_S, served


class Line(BaseModel):
    sku: str = Field(min_length=1, max_length=20, pattern="^[A-Z0-9-]+$")
    quantity: int = Field(ge=1, le=100)
    note: str | None = None


class Order(BaseModel):
    reference: str = Field(max_length=40)
    lines: list[Line] = Field(min_length=1, max_length=5)
    options: dict[str, float] = {}


def shop() -> FastAPI:
    app = FastAPI()

    @app.get("/orders")
    async def orders(page: int = Query(1, ge=1, le=1_000), search: str = "") -> list[str]:
        return [search] * min(page, 3)

    @app.post("/orders", status_code=201)
    async def order(order: Order, idempotency_key: str | None = Header(None)) -> dict[str, Any]:
        return {"lines": len(order.lines), "key": idempotency_key}

    @app.put("/orders/{number}")
    async def change(order: Order, number: int = PathPart(ge=1)) -> dict[str, int]:
        return {"number": number}

    @app.delete("/orders/{number}", status_code=204)
    async def remove(number: int) -> None:
        return None

    return app


DESCRIBED = schemathesis.openapi.from_dict(shop().openapi())
OPERATIONS = [found.ok() for found in DESCRIBED.get_all_operations()]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    store = Store.open(f"sqlite:///{tmp_path_factory.mktemp('openapi') / 'edge.db'}")
    store.migrate()
    limits = RateLimits(RateRule(name="client", rate=RateLimit.per_minute(1_000_000), by=by_client), store=store)
    edge = Edge(shop(), dialect=Dialect.FULL, limits=limits, idempotency=Idempotency(keys=Keys(store), anonymous=True))
    with served(edge) as port:
        yield f"http://127.0.0.1:{port}"
    store.close()


@pytest.fixture(scope="module")
def answered() -> set[str]:
    """The ids of all refusals so far; the keys are remembered for as long."""
    return set()


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=lambda mode: mode.name.lower())
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_nothing_that_can_be_generated_is_answered_with_a_5xx(
    operation: Any, mode: Any, address: str, answered: set[str]
) -> None:
    statuses: set[int] = set()

    @settings(
        max_examples=20,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        reply = case.call(base_url=address, timeout=TIMEOUT_S)
        statuses.add(reply.status_code)
        assert reply.status_code < 500
        assert reply.headers["x-request-id"]
        if reply.status_code >= 400:
            told = reply.json()
            assert told["error_code"]
            assert told["message"]
            # A generator may repeat a key with its body: the answer to that is the first one, under the first one's id.
            if "idempotent-replayed" in reply.headers:
                assert told["request_id"] in answered
            else:
                assert [told["request_id"]] == reply.headers["x-request-id"]
            answered.add(told["request_id"])

    ask()
    assert statuses


def test_a_repeated_key_is_refused_with_the_first_refusal(address: str) -> None:
    def ask() -> httpx.Response:
        headers = {"idempotency-key": "repeated"}
        return httpx.post(f"{address}/orders", json=279412314, headers=headers, timeout=TIMEOUT_S)

    first, second = ask(), ask()
    assert first.status_code == second.status_code == 400
    assert second.content == first.content
    assert second.headers["idempotent-replayed"] == "true"
    assert second.headers["x-request-id"] != first.headers["x-request-id"]


def test_every_operation_is_tried() -> None:
    assert len(OPERATIONS) == 4
