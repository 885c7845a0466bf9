"""The other side of the keyed requests: one endpoint behind an edge. `python -m bench.edge_program DATABASE PORT`."""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from holdfast.guard.idempotency import Keys
from holdfast.http.edge import Edge
from holdfast.http.idempotent import Idempotency
from holdfast.store import Store


async def create(request: Any) -> JSONResponse:
    given = await request.json()
    return JSONResponse({"made": given["n"]}, status_code=201)


def main(url: str, port: str) -> None:
    store = Store.open(url)
    store.migrate()
    app = Starlette(routes=[Route("/", create, methods=["POST"])])
    edge = Edge(app, idempotency=Idempotency(keys=Keys(store), anonymous=True))
    uvicorn.run(edge, port=int(port), log_level="error", lifespan="off", access_log=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
