"""API keys: hashed at rest, shown by their prefix, refused when expired, revoked or misspelt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI, Request
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.base import REAL
from holdfast.catalog import Catalog, Dialect, Failure, current_context
from holdfast.http import keys as keys_module
from holdfast.http.access import Access, identity
from holdfast.http.edge import Edge
from holdfast.http.keys import REMEMBERED_S, ApiKeys
from holdfast.store import Store
from holdfast.testing.instant import instant

from .edge_servers import call, served

errors = Catalog("records", docs="https://docs.example.com/errors/")


def refusal(keys: ApiKeys, text: str) -> str:
    with pytest.raises(Failure) as refused:
        keys.check(text)
    return refused.value.code


def test_a_key_has_a_brand_a_visible_prefix_and_32_characters(store: Store) -> None:
    issued = ApiKeys(store, brand="rdb").issue("ci", tenant="acme")
    text = issued.secret.reveal()
    assert text.startswith(issued.key.prefix)
    assert (len(text), len(issued.key.prefix)) == (len("rdb_") + 32, len("rdb_") + 8)
    assert text not in repr(issued)


def test_the_key_itself_is_nowhere_in_the_store(store: Store) -> None:
    keys = ApiKeys(store)
    text = keys.issue("ci").secret.reveal()
    with store.database.transaction(write=False) as execute:
        rows = [
            row
            for table in ("holdfast_api_key", "holdfast_journal")
            for row in execute(f"SELECT * FROM {table}", {}).fetchall()
        ]
    assert text[-24:] not in str(rows)
    assert text[:11] in str(rows)


def test_a_valid_key_is_recognised(store: Store) -> None:
    keys = ApiKeys(store)
    issued = keys.issue("ci", tenant="acme", expires_s=60)
    for _ in range(2):
        assert keys.check(issued.secret.reveal()) == issued.key
    assert ApiKeys(store).check(issued.secret.reveal()).tenant == "acme"


def test_a_revoked_key_is_refused_at_once_where_it_was_revoked(store: Store) -> None:
    keys = ApiKeys(store)
    issued = keys.issue("ci")
    keys.check(issued.secret.reveal())
    assert keys.revoke(issued.key.id)
    assert refusal(keys, issued.secret.reveal()) == "INVALID_API_KEY"
    assert not keys.revoke(issued.key.id)


def test_a_revoked_key_is_refused_at_once_by_every_checker_of_the_process(store: Store) -> None:
    here, there = ApiKeys(store), ApiKeys(store)
    issued = here.issue("ci")
    there.check(issued.secret.reveal())
    assert here.revoke(issued.key.id)
    assert refusal(there, issued.secret.reveal()) == "INVALID_API_KEY"


def test_what_was_read_before_a_revocation_is_not_believed_after_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, other = ApiKeys(store), ApiKeys(store)
    issued = keys.issue("ci")
    text = issued.secret.reveal()
    judged = keys_module._judged

    def revoked_meanwhile(*asked: Any) -> Any:
        monkeypatch.setattr(keys_module, "_judged", judged)
        other.revoke(issued.key.id)
        return judged(*asked)

    monkeypatch.setattr(keys_module, "_judged", revoked_meanwhile)
    assert keys.check(text).id == issued.key.id, "it was in force when it was read"
    assert refusal(keys, text) == "INVALID_API_KEY"


def revoke_elsewhere(store: Store, key_id: str) -> None:
    """As another process does it: nobody here is told."""
    assert store.atomic(lambda tx: tx.row("api_key.revoke", id=key_id)) is not None


def test_a_revoked_key_is_refused_elsewhere_within_a_second(virtual_store: Store) -> None:
    with instant() as time:
        keys = ApiKeys(virtual_store)
        issued = keys.issue("ci")
        text = issued.secret.reveal()
        keys.check(text)
        revoke_elsewhere(virtual_store, issued.key.id)
        assert keys.check(text) == issued.key  # remembered
        time.advance(1.0)
        assert refusal(keys, text) == "INVALID_API_KEY"
    assert REMEMBERED_S < 1


def test_an_expired_key_says_so_and_when(virtual_store: Store) -> None:
    with instant() as time:
        keys = ApiKeys(virtual_store)
        issued = keys.issue("ci", expires_s=60)
        time.advance(59)
        keys.check(issued.secret.reveal())
        time.advance(2)
        with pytest.raises(Failure) as refused:
            keys.check(issued.secret.reveal())
    assert (refused.value.code, refused.value.status) == ("API_KEY_EXPIRED", 401)
    assert refused.value.details["expired_at"].endswith("Z")


def test_a_wrong_secret_under_a_known_prefix_is_refused(store: Store) -> None:
    keys = ApiKeys(store)
    text = keys.issue("ci", expires_s=0.001).secret.reveal()
    wrong = text[:-1] + ("a" if text[-1] != "a" else "b")
    assert refusal(keys, wrong) == "INVALID_API_KEY"  # and not that the key has expired: that is for its owner


@pytest.mark.parametrize(
    "text", ["", "hf_", "x" * 5_000, "hf_" + "a" * 31, "hf_" + "a" * 33, "hf_" + "é" * 32, "\udcff"]
)
def test_what_is_no_key_is_refused_without_asking_the_store(store: Store, text: str) -> None:
    keys = ApiKeys(store)
    store.close()
    assert refusal(keys, text) == "INVALID_API_KEY"


def test_the_comparison_takes_the_same_time_for_every_prefix(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    import hmac

    compared: list[str] = []

    def watched(one: Any, other: Any) -> bool:
        compared.append(one)
        return original(one, other)

    original = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", watched)
    keys = ApiKeys(store)
    known = keys.issue("ci").secret.reveal()
    keys.check(known)
    refusal(keys, "hf_" + "a" * 32)
    assert [len(one) for one in compared] == [64, 64]


def test_a_store_that_is_away_lets_nobody_in(store: Store) -> None:
    keys = ApiKeys(store)
    text = keys.issue("ci").secret.reveal()
    store.close()
    with pytest.raises(Failure):
        keys.check(text)


def test_keys_are_listed_by_tenant_without_their_hashes(store: Store) -> None:
    keys = ApiKeys(store)
    made = [keys.issue(f"key {number}", tenant="acme").key for number in range(3)]
    keys.issue("other", tenant="globex")
    keys.revoke(made[1].id)
    listed = keys.list(tenant="acme", count=2)
    assert [one["prefix"] for one in listed] == [key.prefix for key in made[:2]]
    assert [one["name"] for one in keys.list(tenant="acme", after=listed[-1]["id"])] == ["key 2"]
    assert listed[1]["revoked_us"] is not None
    assert "hash" not in listed[0]
    assert len(keys.list(tenant="acme", count=-1)) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""}, {"name": "x" * 201}, {"name": "a\nb"}, {"name": "\ud800"}, {"name": 7},
        {"tenant": "t" * 201}, {"tenant": "a\0b"}, {"tenant": None},
        {"expires_s": 0}, {"expires_s": -1}, {"expires_s": float("nan")}, {"expires_s": float("inf")},
        {"expires_s": 1e30},
    ],
)  # fmt: skip
def test_a_key_that_cannot_be_meant_is_not_issued(wrong: dict[str, Any]) -> None:
    store = Store.open("sqlite://")
    with pytest.raises(ValueError, match=r"a name has|expires_s"):
        ApiKeys(store).issue(**{"name": "x"} | wrong)
    store.close()


def test_a_brand_is_short_and_plain(store: Store) -> None:
    with pytest.raises(ValueError, match="brand"):
        ApiKeys(store, brand="Live_")


@settings(max_examples=30)
@given(st.integers(1, 200))
def test_letters_are_as_many_as_asked_for(count: int) -> None:
    assert len(keys_module._letters(count)) == count


@pytest.fixture
def guarded(store: Store) -> Iterator[tuple[int, ApiKeys]]:
    keys = ApiKeys(store)
    app = FastAPI()

    @app.get("/me")
    async def me(request: Request) -> dict[str, str]:
        known = identity(request.scope)
        assert known is not None
        return {"tenant": known.tenant, **current_context().known()}

    @app.get("/open")
    async def open_to_all() -> str:
        return "hello"

    access = Access(keys, public=lambda scope: scope["path"] == "/open")
    with served(Edge(app, catalog=errors, dialect=Dialect.FULL, access=access)) as port:
        yield port, keys


def test_a_request_is_let_in_by_its_key_and_known_by_it(guarded: tuple[int, ApiKeys]) -> None:
    port, keys = guarded
    issued = keys.issue("ci", tenant="acme")
    text = issued.secret.reveal()
    for headers in ({"authorization": f"Bearer {text}"}, {"authorization": f"bearer  {text}"}, {"x_api_key": text}):
        known = call(port, "GET", "/me", **headers).json()
        assert (known["tenant"], known["account_id"]) == ("acme", "acme")
        assert known["api_key_id"] == f"{issued.key.prefix}***"
    # The same port, other callers:
    for headers, code in (
        ({}, "UNAUTHORIZED"),
        ({"authorization": "Basic abc"}, "UNAUTHORIZED"),
        ({"authorization": f"Bearer {text}x"}, "INVALID_API_KEY"),
    ):
        reply = call(port, "GET", "/me", **headers)
        assert (reply.status, reply.json()["error_code"]) == (401, code)
        assert reply.headers["www-authenticate"] == "Bearer"
        assert text not in reply.body.decode()
    assert call(port, "GET", "/open").json() == "hello"


def test_over_http_a_revoked_key_is_refused_within_a_second(guarded: tuple[int, ApiKeys], database_url: str) -> None:
    port, keys = guarded
    issued = keys.issue("ci")
    bearer = f"Bearer {issued.secret.reveal()}"
    assert call(port, "GET", "/me", authorization=bearer).status == 200
    operator = Store.open(database_url)
    revoke_elsewhere(operator, issued.key.id)
    operator.close()
    revoked_s = REAL.monotonic_s()
    while True:
        asked_s = REAL.monotonic_s()
        status = call(port, "GET", "/me", authorization=bearer).status
        if status != 200:
            break
        assert asked_s - revoked_s < 1.0
    assert status == 401


async def test_a_websocket_without_a_key_is_not_opened(store: Store) -> None:
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        sent.append("opened")

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    keys = ApiKeys(store)
    edge = Edge(app, access=Access(keys))
    await edge({"type": "websocket", "path": "/", "headers": []}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008, "reason": "UNAUTHORIZED"}]
    bearer = f"Bearer {keys.issue('ci').secret.reveal()}".encode()
    await edge({"type": "websocket", "path": "/", "headers": [(b"authorization", bearer)]}, receive, send)
    assert sent[1:] == ["opened"]
