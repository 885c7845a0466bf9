"""The other side of the keyed requests: endpoints behind an edge. `python -m bench.edge_program DATABASE PORT`."""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from holdfast.guard.idempotency import Keys
from holdfast.http.edge import Edge
from holdfast.http.idempotent import Idempotency
from holdfast.store import Store

BARE, MODEL, ROW = "/bare", "/api/model", "/api/row"
"""A bare function of Starlette; a route of FastAPI with a model; the same, which also inserts a row."""


class Made(BaseModel):
    n: int


async def create(request: Any) -> JSONResponse:
    given = await request.json()
    return JSONResponse({"made": given["n"]}, status_code=201)


def routes(store: Store) -> FastAPI:
    """The endpoints as users of FastAPI write them."""
    api = FastAPI(openapi_url=None)

    @api.post("/model", status_code=201)
    async def model(given: Made) -> dict[str, int]:
        return {"made": given.n}

    @api.post("/row", status_code=201)
    def row(given: Made) -> dict[str, int]:
        with store.database.transaction(write=True) as execute:
            execute(f"INSERT INTO bench_made (n) VALUES ({given.n})", {})
        return {"made": given.n}

    return api


def main(url: str, port: str) -> None:
    store = Store.open(url)
    store.migrate()
    with store.database.transaction(write=True) as execute:
        execute("CREATE TABLE IF NOT EXISTS bench_made (n BIGINT NOT NULL)", {})
    app = Starlette(routes=[Route(BARE, create, methods=["POST"]), Mount("/api", routes(store))])
    edge = Edge(app, idempotency=Idempotency(keys=Keys(store), anonymous=True))
    uvicorn.run(edge, port=int(port), log_level="error", lifespan="off", access_log=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
