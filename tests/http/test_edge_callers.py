"""An idempotency key belongs to its caller: no replay, and no refusal, reaches anyone else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.base import Secret
from holdfast.catalog import Catalog
from holdfast.guard import Answer, Keys
from holdfast.guard.idempotency import AnswerInvalid
from holdfast.http import Access, ApiKeys, Edge, Idempotency, WsgiEdge, credentials_digest
from holdfast.http.asgi import Scope, header
from holdfast.store import Store

from .edge_servers import Reply, call, served, wsgi_served

USERS = {"Bearer token-of-ann": "ann", "Bearer token-of-bob": "bob"}
KEY = "checkout-1"
ORDER = {"item": "lamp"}


@pytest.fixture
def file_store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(f"sqlite:///{tmp_path / 'edge.db'}")
    opened.migrate()
    yield opened
    opened.close()


def user_of(scope: Scope) -> str | None:
    return USERS.get(header(scope, "authorization"))


class Members:
    """An application with a login of its own, behind the edge."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def answered(self, authorization: str) -> tuple[int, bytes]:
        user = USERS.get(authorization)
        if user is None:
            return 401, b'{"login":"required"}'
        self.done.append(user)
        return 201, f'{{"order":{len(self.done)},"for":"{user}"}}'.encode()

    async def asgi(self, scope: Any, receive: Any, send: Any) -> None:
        status, body = self.answered(header(scope, "authorization"))
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def wsgi(self, environ: Any, start_response: Any) -> list[bytes]:
        status, body = self.answered(environ.get("HTTP_AUTHORIZATION", ""))
        start_response(f"{status} Said", [("Content-Type", "application/json")])
        return [body]


@contextmanager
def opened(kind: str, rule: Idempotency, **settings: Any) -> Iterator[tuple[int, Members]]:
    members = Members()
    if kind == "asgi":
        with served(Edge(members.asgi, idempotency=rule, **settings)) as port:
            yield port, members
    else:
        with wsgi_served(WsgiEdge(members.wsgi, idempotency=rule, **settings)) as port:
            yield port, members


def order(port: int, who: str = "", *, key: str = KEY) -> Reply:
    given = {"authorization": f"Bearer token-of-{who}"} if who else {}
    return call(port, "POST", "/orders", ORDER, idempotency_key=key, **given)


def code(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.json()["error"]["code"]


both = pytest.mark.parametrize("kind", ["asgi", "wsgi"])


def test_a_rule_is_not_built_without_saying_how_the_caller_is_known(file_store: Store) -> None:
    with pytest.raises(TypeError, match=r"access=.*caller=.*anonymous=True"):
        Idempotency(keys=Keys(file_store))


def test_a_rule_knows_its_caller_in_one_way_only(file_store: Store) -> None:
    with pytest.raises(TypeError, match="one of"):
        Idempotency(keys=Keys(file_store), caller=user_of, anonymous=True)


def test_an_edge_that_asks_for_no_key_cannot_know_the_caller_by_it(file_store: Store) -> None:
    rule = Idempotency(keys=Keys(file_store), access=Access(ApiKeys(file_store)))
    with pytest.raises(ValueError, match="access="):
        Edge(Members().asgi, idempotency=rule)


@both
def test_a_caller_never_gets_the_stored_response_of_another(file_store: Store, kind: str) -> None:
    with opened(kind, Idempotency(keys=Keys(file_store), caller=user_of)) as (port, members):
        anns, bobs, again = order(port, "ann"), order(port, "bob"), order(port, "ann")
    assert (anns.json()["for"], bobs.json()["for"]) == ("ann", "bob")
    assert members.done == ["ann", "bob"]
    assert (again.body, again.headers["idempotent-replayed"]) == (anns.body, "true")


@both
def test_an_unknown_caller_is_refused_and_takes_no_key(file_store: Store, kind: str) -> None:
    with opened(kind, Idempotency(keys=Keys(file_store), caller=user_of)) as (port, members):
        stranger = order(port)
        owner = order(port, "ann")
        replayed = order(port)
    assert code(stranger) == code(replayed) == (401, "IDEMPOTENCY_CALLER_UNKNOWN")
    assert stranger.headers["www-authenticate"] == "Bearer"
    assert (owner.status, members.done) == (201, ["ann"])


def test_an_unknown_caller_is_refused_before_its_body_is_read(file_store: Store) -> None:
    with opened("asgi", Idempotency(keys=Keys(file_store), caller=user_of)) as (port, _):
        reply = call(port, "POST", "/orders", b'{"item": ', idempotency_key=KEY, content_type="application/json")
    assert code(reply) == (401, "IDEMPOTENCY_CALLER_UNKNOWN")


def test_an_unknown_caller_without_a_key_is_left_to_the_login_of_the_application(file_store: Store) -> None:
    with opened("asgi", Idempotency(keys=Keys(file_store), caller=user_of)) as (port, _):
        reply = call(port, "POST", "/orders", ORDER)
    assert (reply.status, reply.json()) == (401, {"login": "required"})


def test_a_derived_key_needs_a_known_caller_too(file_store: Store) -> None:
    rule = Idempotency(keys=Keys(file_store), caller=user_of, derive=lambda scope, body: "line-1")
    with opened("asgi", rule) as (port, members):
        assert code(call(port, "POST", "/orders", ORDER)) == (401, "IDEMPOTENCY_CALLER_UNKNOWN")
    assert members.done == []


async def test_the_caller_may_be_looked_up_with_a_coroutine(file_store: Store) -> None:
    async def looked_up(scope: Scope) -> str | None:
        return user_of(scope)

    with opened("asgi", Idempotency(keys=Keys(file_store), caller=looked_up)) as (port, members):
        import asyncio

        replies = [await asyncio.to_thread(order, port, who) for who in ("ann", "bob", "ann")]
    assert [reply.json()["for"] for reply in replies] == ["ann", "bob", "ann"]
    assert members.done == ["ann", "bob"]


@both
def test_the_digest_of_the_credentials_tells_callers_apart_and_is_no_credential(file_store: Store, kind: str) -> None:
    rule = Idempotency(keys=Keys(file_store), caller=credentials_digest())
    with opened(kind, rule) as (port, members):
        replies = [order(port, who) for who in ("ann", "bob", "ann")]
        assert code(order(port)) == (401, "IDEMPOTENCY_CALLER_UNKNOWN")
    assert [reply.json()["for"] for reply in replies] == ["ann", "bob", "ann"]
    assert members.done == ["ann", "bob"]
    scope: Scope = {"headers": [(b"authorization", b"Bearer token-of-ann")]}
    caller = credentials_digest()(scope)
    assert caller is not None
    assert "token-of-ann" not in caller
    assert caller != credentials_digest(key=Secret("pepper"))(scope)


def test_the_digest_reads_one_cookie_and_ignores_the_others() -> None:
    known = credentials_digest(cookie="session")

    def caller(cookies: str) -> str | None:
        return known({"headers": [(b"cookie", cookies.encode())]})

    assert caller("session=abc; seen=1") == caller("seen=2; session=abc") is not None
    assert caller("session=abd") != caller("session=abc")
    assert caller("seen=1") is None
    assert caller("session=") is None


def test_api_keys_of_one_tenant_are_one_caller_and_a_key_without_a_tenant_is_its_own(file_store: Store) -> None:
    keys = ApiKeys(file_store)
    access = Access(keys)
    acme, acme2, lone, other = (keys.issue("k", tenant=t).secret.reveal() for t in ("acme", "acme", "", ""))
    counted: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            counted.append(1)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"%d" % len(counted)})

    rule = Idempotency(keys=Keys(file_store), access=access)
    with served(Edge(app, access=access, idempotency=rule)) as port:
        bodies = [
            call(port, "POST", "/orders", ORDER, idempotency_key=KEY, authorization=f"Bearer {secret}").body
            for secret in (acme, acme2, lone, other, lone)
        ]
    assert bodies == [b"1", b"1", b"2", b"3", b"2"]


@both
@pytest.mark.parametrize("status", [401, 403, 429])
def test_a_refusal_is_not_stored_and_the_owner_gets_through_after_signing_in(
    file_store: Store, kind: str, status: int
) -> None:
    said = [status, 201]

    async def asgi(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        await send({"type": "http.response.start", "status": said.pop(0), "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    def wsgi(environ: Any, start_response: Any) -> list[bytes]:
        start_response(f"{said.pop(0)} Said", [("Content-Type", "application/json")])
        return [b"{}"]

    rule = Idempotency(keys=Keys(file_store), anonymous=True)
    server = served(Edge(asgi, idempotency=rule)) if kind == "asgi" else wsgi_served(WsgiEdge(wsgi, idempotency=rule))
    with server as port:
        first, again, replay = (order(port) for _ in range(3))
    assert (first.status, again.status, replay.status) == (status, 201, 201)
    assert replay.headers["idempotent-replayed"] == "true"


def test_a_failure_that_refuses_the_caller_is_not_stored_whatever_its_fault_says(file_store: Store) -> None:
    catalog = Catalog("shop")
    suspended = catalog.fault("SUSPENDED", status=403, says="The account is suspended.")
    with pytest.raises(ValueError, match="never replayed"):
        catalog.fault("BANNED", status=403, says="Banned.", replayed=True)
    raised = [suspended()]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if raised and scope["type"] == "http":
            raise raised.pop()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    with served(Edge(app, catalog=catalog, idempotency=Idempotency(keys=Keys(file_store), anonymous=True))) as port:
        assert [order(port).status for _ in range(2)] == [403, 200]


def test_work_that_answers_with_a_refusal_gives_its_key_back(store: Store) -> None:
    keys = Keys(store)
    answers = [Answer(403, (), b"no"), Answer(200, (), b"yes")]
    first, again, replay = (keys.once("charge", KEY, ORDER, lambda _: answers.pop(0)) for _ in range(3))
    assert (first.answer.status, again.answer.status, replay.answer.status) == (403, 200, 200)
    assert (again.replayed, replay.replayed) == (False, True)


def test_a_refusal_cannot_be_stored_by_hand(store: Store) -> None:
    keys = Keys(store)
    started = keys.begin(operation="charge", key=KEY, request_hash="h")
    with pytest.raises(AnswerInvalid, match="429"):
        keys.finish(started, Answer(429))  # type: ignore[arg-type]
