"""What belongs to one buyer's knowledge base does not exist for another, by whatever id it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.store import Store
from holdfast_systems.commerce.tokens import TokenKind

from .knowledge_scene import ask, ingest, instance_of, knowledge, ragflow, upload, wait_status
from .live import SERVICE, Live
from .shop import PLANE, bought
from .test_foundation import tokens

FILE = {"filename": "a.txt", "contentType": "text/plain", "size": 5}


@pytest.fixture
def live(store: Store, tmp_path: Path) -> Iterator[Live]:
    with ragflow() as rag, knowledge(store, tmp_path / "commerce", rag) as live:
        yield live


def routes(ids: dict[str, str]) -> list[tuple[str, str, Any]]:
    """Every route of uploads, ingestions and questions, about these ids."""
    instance = f"/instances/{ids['instance']}"
    return [
        ("POST", f"{instance}/uploads", FILE),
        ("GET", f"{instance}/uploads/{ids['upload']}", None),
        ("GET", f"{instance}/uploads/{ids['upload']}/content", None),
        ("POST", f"{instance}/ingestions", {"uploadId": ids["upload"]}),
        ("GET", f"{instance}/ingestions", None),
        ("GET", f"/ingestions/{ids['ingestion']}", None),
    ]


def error(reply: httpx.Response) -> tuple[int, str, str]:
    said = reply.json()["error"]
    return reply.status_code, said["code"], said["message"]


def filled(live: Live, user: str, order: str) -> dict[str, str]:
    made = bought(live, user=user, order=order)
    instance = str(made["instanceId"])
    upload_id = upload(live, instance, content=f"the secret plan of {user}".encode())
    ingestion = ingest(live, instance, upload_id).json()["ingestionId"]
    wait_status(live, ingestion, "COMPLETED")
    return {"instance": instance, "upload": upload_id, "ingestion": ingestion, "wallet": made["walletId"]}


def test_every_kind_of_id_of_another_tenant_is_as_unknown_as_none(live: Live) -> None:
    first, second = filled(live, "u1", "O1"), filled(live, "u2", "O2")
    none = {"instance": "inst_none", "upload": "upl_none", "ingestion": "ing_none"}
    signed = tokens("the token of the services").sign(TokenKind.BUYER, "u2", lasting_s=600)
    for token in ({"Authorization": f"Bearer {signed}"}, {**SERVICE, "X-Tenant": "u2"}):
        for (method, path, body), (_, unknown, other) in zip(routes(first), routes(none), strict=True):
            crossing = live.ask(method, PLANE, path, token=token, json=body)
            assert error(crossing) == error(live.ask(method, PLANE, unknown, token=token, json=other)), path
            assert crossing.status_code == 404
        for method, path, body in routes(second):
            assert live.ask(method, PLANE, path, token=token, json=body).is_success, path
        # Ids of one kind in the place of another, and of the other tenant below an own instance.
        for mixed in (
            {**second, "upload": first["upload"]},
            {**second, "upload": first["ingestion"]},
            {**second, "ingestion": first["upload"]},
            {**first, "instance": first["wallet"]},
        ):
            for method, path, body in routes(mixed):
                reply = live.ask(method, PLANE, path, token=token, json=body)
                assert "secret plan of u1" not in reply.text
                assert first["upload"] not in reply.text.replace(path, "") or reply.status_code == 404, path


def test_a_question_finds_nothing_of_another_tenant(live: Live) -> None:
    first, second = filled(live, "u1", "O1"), filled(live, "u2", "O2")
    own = ask(live, second["instance"], "whose secret plan", token={**SERVICE, "X-Tenant": "u2"})
    assert [chunk["text"] for chunk in own.json()["chunks"]] == ["the secret plan of u2"]
    crossing = ask(live, first["instance"], "whose secret plan", token={**SERVICE, "X-Tenant": "u2"})
    assert error(crossing)[:2] == (404, "INSTANCE_NOT_FOUND")


def test_one_buyers_cursor_is_of_no_use_to_another(live: Live) -> None:
    first, second = instance_of(live, "u1", "O1"), instance_of(live, "u2", "O2")
    for _ in range(2):
        ingest(live, first, upload(live, first))
    page = live.get(PLANE, f"/instances/{first}/ingestions?limit=1").json()
    assert len(page["ingestions"]) == 1
    following = live.get(PLANE, f"/instances/{first}/ingestions?limit=1&cursor={page['nextCursor']}").json()
    assert following["nextCursor"] is None
    assert following["ingestions"][0]["ingestionId"] != page["ingestions"][0]["ingestionId"]
    other = live.get(PLANE, f"/instances/{second}/ingestions?cursor={page['nextCursor']}")
    assert error(other)[:2] == (400, "INVALID_REQUEST")


def test_buyers_ask_no_questions_and_widgets_nothing(live: Live) -> None:
    ids = filled(live, "u1", "O1")
    own = tokens("the token of the services")
    buyer = {"Authorization": f"Bearer {own.sign(TokenKind.BUYER, 'u1', lasting_s=60)}"}
    widget = {"Authorization": f"Bearer {own.sign(TokenKind.WIDGET, 'u1', lasting_s=60, instance=ids['instance'])}"}
    assert ask(live, ids["instance"], token=buyer).status_code == 403
    for method, path, body in routes(ids):
        assert live.ask(method, PLANE, path, token=widget, json=body).status_code in (401, 403)
        assert live.ask(method, PLANE, path, token={}, json=body).status_code == 401
