"""A view finishes the key of its request in the transaction of its effect, under Flask, bare WSGI and ASGI."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from flask import Flask, Response, request
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response as StarletteResponse
from starlette.routing import Route

from holdfast.guard import Answer, Keys
from holdfast.http import Edge, Idempotency, WsgiEdge, started_key
from holdfast.store import Store

from .edge_servers import call, served, wsgi_served

LEASE_S = 3_600.0
"""So long that a test would not see its end."""
Ask = Callable[..., tuple[int, bytes]]


class Till:
    """Takes money in a transaction that ends as the request says."""

    def __init__(self, store: Store, url: str) -> None:
        self.store = store
        self.keys = Keys(store, lease_s=LEASE_S, expires_s=LEASE_S)
        self._url = url
        self.open: Any = None
        """The connection of a transaction that outlives its request."""
        with store.database.script(["CREATE TABLE payment (cents INTEGER)"]):
            pass

    def pay(self, end: str) -> Answer:
        if end == "look":
            return Answer(200, (), str(started_key() is not None).encode())
        connection: Any = (
            sqlite3.connect(self._url.removeprefix("sqlite:///"), check_same_thread=False)
            if self._url.startswith("sqlite")
            else psycopg.connect(self._url)
        )
        started = started_key()
        assert started is not None
        answer = Answer.of_json({"paid": self.count() + 1}, status=201)
        connection.execute("INSERT INTO payment VALUES (5)")
        self.keys.finish(started, answer, tx=self.store.join(connection))
        if end == "outlive":
            self.open = connection
            return answer
        connection.commit() if end.startswith("commit") else connection.rollback()
        connection.close()
        if end.endswith("raise"):
            raise RuntimeError("after the end")
        return answer

    def count(self) -> int:
        counted = "SELECT count(*) FROM payment"
        return int(self.store.atomic(lambda tx: tx._execute(counted, {}).fetchall(), write=False)[0][0])


def in_flask(till: Till) -> Any:
    app = Flask("till")
    app.config["PROPAGATE_EXCEPTIONS"] = True

    @app.post("/pay")
    def pay() -> Response:
        answer = till.pay(request.args["end"])
        return Response(answer.body, answer.status, dict(answer.headers))

    return app


def bare(till: Till) -> Any:
    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        answer = till.pay(environ["QUERY_STRING"].removeprefix("end="))
        start_response(f"{answer.status} OK", list(answer.headers))
        return [answer.body]

    return app


def in_starlette(till: Till) -> Any:
    def pay(asked: Request) -> StarletteResponse:
        answer = till.pay(asked.query_params["end"])
        return StarletteResponse(answer.body, answer.status, dict(answer.headers))

    return Starlette(routes=[Route("/pay", pay, methods=["POST"])])


FRAMEWORKS = {
    "flask": (wsgi_served, WsgiEdge, in_flask),
    "wsgi": (wsgi_served, WsgiEdge, bare),
    "starlette": (served, Edge, in_starlette),
}


@pytest.fixture(params=list(FRAMEWORKS))
def shop(request: pytest.FixtureRequest, store: Store, database_url: str) -> Iterator[tuple[Till, Ask]]:
    serve, edge, app = FRAMEWORKS[request.param]
    till = Till(store, database_url)
    rule = Idempotency(keys=till.keys, anonymous=True, operation=lambda scope: "pay")
    with serve(edge(app(till), idempotency=rule)) as port:
        # One request with one key, whatever becomes of it: its end is no part of what makes it the same.
        def ask(end: str, key: str | None = "k-1") -> tuple[int, bytes]:
            given = {} if key is None else {"idempotency_key": key}
            reply = call(port, "POST", f"/pay?end={end}", {}, **given)
            return reply.status, reply.body

        yield till, ask


@pytest.fixture(autouse=True)
def ends_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.http import idempotent

    monkeypatch.setattr(idempotent, "_path", lambda scope: "/pay")


def test_effect_and_answer_commit_together(shop: tuple[Till, Ask]) -> None:
    till, ask = shop
    first = ask("commit")
    assert first == (201, b'{"paid":1}')
    assert ask("commit") == first
    assert till.count() == 1


def test_an_exception_after_the_commit_leaves_the_answer(shop: tuple[Till, Ask]) -> None:
    till, ask = shop
    assert ask("commit-raise")[0] == 500
    assert ask("commit") == (201, b'{"paid":1}')
    assert till.count() == 1


@pytest.mark.parametrize("end", ["rollback", "rollback-raise"])
def test_a_rollback_frees_the_key_at_once_and_is_never_told_as_a_success(shop: tuple[Till, Ask], end: str) -> None:
    till, ask = shop
    status, body = ask(end)
    assert status in {500, 503}
    assert b"paid" not in body
    assert ask("commit") == (201, b'{"paid":1}')
    assert till.count() == 1


def test_a_transaction_that_outlives_the_request_frees_the_key_when_it_is_rolled_back(shop: tuple[Till, Ask]) -> None:
    till, ask = shop
    assert ask("outlive") == (201, b'{"paid":1}')
    till.open.rollback()
    till.open.close()
    assert till.count() == 0
    assert ask("commit") == (201, b'{"paid":1}')
    assert till.count() == 1


def test_a_request_without_a_key_has_none_to_finish(shop: tuple[Till, Ask]) -> None:
    _, ask = shop
    assert ask("look", None) == (200, b"False")
    assert started_key() is None
