"""An edge that cannot work as it is set is refused when it is made, with the remedy in the message."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from holdfast.base import ArgumentInvalid
from holdfast.catalog import CORE, Catalog, Dialect
from holdfast.http import Edge, Idempotency, WsgiEdge
from holdfast.policy import RateLimit

errors = Catalog("shop", extends=(CORE,))
INVALID_PAYLOAD = errors.fault("INVALID_PAYLOAD", status=400, says="The payload is not valid.")


async def app(scope: Any, receive: Any, send: Any) -> None:
    raise CORE["NOT_FOUND"]()


@pytest.mark.parametrize("dialect", ["problem", Dialect.PROBLEM])
async def test_a_dialect_may_be_given_by_its_name(dialect: Any) -> None:
    transport = httpx.ASGITransport(Edge(app, dialect=dialect))
    async with httpx.AsyncClient(transport=transport, base_url="http://shop.test") as client:
        reply = await client.get("/")
    assert (reply.status_code, reply.headers["content-type"]) == (404, "application/problem+json")
    assert reply.json()["code"] == "NOT_FOUND"


WRONG = {
    "a dialect that does not exist": ({"dialect": "problems"}, "did you mean problem?"),
    "a rate where limits belong": ({"limits": RateLimit.per_minute(60)}, "RateLimits(RateRule("),
    "a code that nothing answers": ({"remap": {"VALIDATION_EROR": INVALID_PAYLOAD}}, "did you mean VALIDATION_ERROR?"),
    "a code instead of a fault": ({"remap": {"VALIDATION_ERROR": "INVALID_PAYLOAD"}}, "give the fault"),
    "a catalog's name": ({"catalog": "shop"}, "give a catalog"),
    "the class instead of an instance": ({"idempotency": Idempotency}, "Idempotency(keys="),
    "a size instead of a rule": ({"body": 1_000}, "BodyRule(bytes_max="),
    "a listener that cannot be called": ({"on_failure": "print"}, "give a function"),
    "keys where access belongs": ({"access": "hf_1234"}, "Access(ApiKeys(store))"),
}


@pytest.mark.parametrize("name", list(WRONG))
@pytest.mark.parametrize("edge", [Edge, WsgiEdge])
def test_a_setting_that_cannot_be_meant_is_refused_with_its_remedy(edge: Any, name: str) -> None:
    settings, remedy = WRONG[name]
    with pytest.raises(ArgumentInvalid) as refused:
        edge(app, **settings)
    assert next(iter(settings)) in str(refused.value)
    assert remedy in str(refused.value)


def test_what_is_not_an_application_is_refused() -> None:
    with pytest.raises(ArgumentInvalid, match="give the ASGI application"):
        Edge("app:app")  # type: ignore[arg-type]
