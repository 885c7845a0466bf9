"""FastAPI's own OpenAPI file tells what the edge answers: every code of a route, and the status of bad fields."""

from __future__ import annotations

from typing import Any

import httpx
import jsonschema_rs
import pytest
from fastapi import FastAPI
from pydantic import BaseModel, Field

from holdfast.base import ArgumentInvalid
from holdfast.catalog import CORE, Catalog, Dialect
from holdfast.http import Edge, describe, documented

errors = Catalog("shop", docs="https://docs.example.com/errors/", extends=(CORE,))
SOLD_OUT = errors.fault("SOLD_OUT", status=409, says="{item} is sold out.", remedy="Order something else.")
PRICE_CHANGED = errors.fault("PRICE_CHANGED", status=409, says="The price has changed.", retry=True)
TOO_MANY = errors.fault("TOO_MANY", status=400, says="At most 10 at once.")
INVALID_FIELDS = errors.fault("INVALID_FIELDS", status=422, says="Some fields are not valid.")


class Order(BaseModel):
    item: str = Field(min_length=1)
    quantity: int


def shop(dialect: Any, **settings: Any) -> tuple[FastAPI, Any]:
    app = FastAPI()

    @app.post("/orders", responses=documented(SOLD_OUT, PRICE_CHANGED, TOO_MANY, dialect=dialect))
    async def order(order: Order) -> None:
        raise {"lamp": SOLD_OUT, "bulb": PRICE_CHANGED}.get(order.item, TOO_MANY)(item=order.item)

    describe(app, catalog=errors, dialect=dialect, **settings)
    return app, Edge(app, catalog=errors, dialect=dialect, **settings)


async def ask(edge: Any, body: Any) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(edge), base_url="http://shop.test") as client:
        return await client.post("/orders", json=body)


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("item", ["lamp", "bulb", "cup", ""])
async def test_every_answer_is_one_that_the_file_describes(dialect: Dialect, item: str) -> None:
    app, edge = shop(dialect)
    reply = await ask(edge, {"item": item, "quantity": 1})
    described = app.openapi()["paths"]["/orders"]["post"]["responses"][str(reply.status_code)]
    body = described["content"][reply.headers["content-type"]]
    jsonschema_rs.Draft202012Validator(body["schema"]).validate(reply.json())


def test_several_codes_stand_under_one_status_each_with_its_example() -> None:
    conflict = documented(SOLD_OUT, PRICE_CHANGED)[409]
    assert "`SOLD_OUT`: {item} is sold out. Order something else." in conflict["description"]
    body = conflict["content"]["application/json"]
    assert set(body["examples"]) == {"SOLD_OUT", "PRICE_CHANGED"}
    assert body["schema"]["properties"]["error"]["properties"]["code"]["enum"] == ["SOLD_OUT", "PRICE_CHANGED"]
    assert "Retry-After" in conflict["headers"]


async def test_bad_fields_are_described_with_the_status_that_the_edge_answers() -> None:
    app, edge = shop("nested")
    assert (await ask(edge, {})).status_code == 400
    described = app.openapi()
    responses = described["paths"]["/orders"]["post"]["responses"]
    assert set(responses) == {"200", "400", "409"}
    assert set(responses["400"]["content"]["application/json"]["examples"]) == {"TOO_MANY", "VALIDATION_ERROR"}
    assert "HTTPValidationError" not in str(described)


async def test_a_remapped_code_is_described_with_its_own_status() -> None:
    app, edge = shop("problem", remap={"VALIDATION_ERROR": INVALID_FIELDS})
    assert (await ask(edge, {})).status_code == 422
    found = app.openapi()["paths"]["/orders"]["post"]["responses"]["422"]
    assert list(found["content"]["application/problem+json"]["examples"]) == ["INVALID_FIELDS"]


def test_a_422_of_ones_own_stays() -> None:
    app = FastAPI()

    @app.get("/", responses={422: {"description": "Mine."}})
    async def own(page: int) -> None: ...

    describe(app)
    assert app.openapi()["paths"]["/"]["get"]["responses"]["422"]["description"] == "Mine."


@pytest.mark.parametrize(
    ("wrong", "remedy"),
    [
        (lambda: documented("SOLD_OUT"), "give the faults themselves"),  # type: ignore[arg-type]
        (lambda: documented(SOLD_OUT, dialect="nest"), "did you mean nested?"),
        (lambda: describe(Edge(FastAPI())), "not the edge around it"),
        (lambda: describe(FastAPI(), remap={"VALIDATION": SOLD_OUT}), "VALIDATION_ERROR"),
    ],
)
def test_a_description_of_nothing_is_refused(wrong: Any, remedy: str) -> None:
    with pytest.raises(ArgumentInvalid, match=remedy.replace("?", r"\?")):
        wrong()
