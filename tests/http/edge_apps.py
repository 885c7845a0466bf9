"""Sample applications for the edge's tests: the same mishaps in every framework."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, HTTPException
from litestar import Litestar, Response, get, post
from litestar.exceptions import PermissionDeniedException
from litestar.params import JSONBody
from pydantic import BaseModel, Field
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.routing import Route

from holdfast.catalog import Catalog, Failure
from holdfast.http.exchange import note

errors = Catalog("shop", docs="https://docs.example.com/errors/")
SOLD_OUT = errors.fault("SOLD_OUT", status=409, says="{item} is sold out.", retry=True)
INVALID_PAYLOAD = errors.fault("INVALID_PAYLOAD", status=400, says="The payload is not valid.")
TEXT = "hunter2 is the password of the database"


class Actor(BaseModel):
    username: str = Field(min_length=3)
    password: str = Field(min_length=12)
    age: int = Field(ge=0)


class Order(BaseModel):
    actor: Actor
    quantity: int
    colour: str = Field(pattern="^#[0-9a-f]{6}$")


def fastapi_app() -> FastAPI:
    app = FastAPI()

    @app.post("/orders")
    async def order(order: Order, page: int = 1) -> dict[str, int]:
        return {"quantity": order.quantity}

    @app.get("/sold-out")
    async def sold_out() -> None:
        raise SOLD_OUT(item="lamp", retry_after_s=7)

    @app.get("/sync-sold-out")
    def sync_sold_out() -> None:
        raise SOLD_OUT(item="lamp")

    @app.get("/broken")
    async def broken() -> None:
        raise RuntimeError(TEXT)

    @app.get("/teapot")
    async def teapot() -> None:
        raise HTTPException(418, "short and {stout}", headers={"X-Handle": "here", "Retry-After": "3"})

    @app.get("/forbidden")
    async def forbidden() -> None:
        raise HTTPException(403, "Not yours.")

    @app.get("/own")
    async def own() -> JSONResponse:
        return JSONResponse({"mine": True}, 409)

    return app


def starlette_app() -> Starlette:
    async def broken(request: Any) -> None:
        raise RuntimeError(TEXT)

    async def sold_out(request: Any) -> None:
        raise SOLD_OUT(item="lamp", retry_after_s=7)

    async def begun(request: Any) -> StreamingResponse:
        async def parts() -> Any:
            yield b"first"
            raise RuntimeError(TEXT)

        return StreamingResponse(parts())

    async def fine(request: Any) -> PlainTextResponse:
        return PlainTextResponse("fine")

    routes = [Route(path, handler) for path, handler in (("/broken", broken), ("/sold-out", sold_out))]
    return Starlette(routes=[*routes, Route("/begun", begun), Route("/fine", fine, methods=["GET"])])


async def bare_app(scope: Any, receive: Any, send: Any) -> None:
    if scope["path"] == "/broken":
        raise RuntimeError(TEXT)
    if scope["path"] == "/sold-out":
        raise SOLD_OUT(item="lamp", retry_after_s=7)
    status = 200 if scope["path"] == "/fine" else 404
    headers = [(b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"fine" if status == 200 else b"Not Found"})


def litestar_app() -> Litestar:
    @get("/broken")
    async def broken() -> None:
        raise RuntimeError(TEXT)

    @get("/sold-out")
    async def sold_out() -> None:
        raise SOLD_OUT(item="lamp", retry_after_s=7)

    @get("/forbidden")
    async def forbidden() -> None:
        raise PermissionDeniedException("Not yours.")

    @post("/orders")
    async def order(data: JSONBody[Order]) -> dict[str, int]:
        return {"quantity": data.quantity}

    def answer(request: Any, failure: Failure) -> Response[None]:
        note(request.scope, failure)
        return Response(None, status_code=failure.status)

    return Litestar(
        [broken, sold_out, forbidden, order],
        exception_handlers={Failure: answer},
        logging_config=None,
        openapi_config=None,
    )
