"""The provisioner between the shop and the control plane: §3.1 and §3.2 of the seed."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.store import Store
from holdfast.testing import BadUpstream, instant
from holdfast.testing.exchange import Exchange
from holdfast.worker import Jobs
from holdfast_systems.commerce.main import build
from holdfast_systems.commerce.settings import SettingInvalid

from .live import PATIENCE_S, Live, called, ground, working
from .shop import PLANE, code, wallet

PART = "provisioner"
WEBHOOK = "/webhooks/saleor/order-fully-paid"
SECRET = "a secret of the shop"
PATH = "integrations/saleor/order-paid"


def order(*lines: dict[str, Any], identifier: str = "O1", user: str = "u1") -> dict[str, Any]:
    listed = list(lines) or [{"id": "L1", "productSku": "agent-basic", "quantity": 1}]
    return {"order": {"id": identifier, "user": {"id": user, "email": "u1@shop.example"}, "lines": listed}}


def send(live: Live, document: Any, *, secret: str = SECRET, **headers: str) -> httpx.Response:
    """Send a webhook as the shop does, signed without a line of ours."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    signature = hmac.new(secret.encode(), body, "sha256").hexdigest()
    given = {"Saleor-Signature": signature, "Saleor-Event": "order_fully_paid", **headers}
    return live.http.post(f"{live.urls[PART]}{WEBHOOK}", content=body, headers=given)


@pytest.fixture
def upstream() -> Iterator[BadUpstream]:
    with BadUpstream() as upstream:
        yield upstream


Make = Callable[..., Live]


@pytest.fixture
def alone(store: Store, tmp_path: Path, upstream: BadUpstream) -> Iterator[Live]:
    """The provisioner, with a control plane that answers as the test says."""
    place = {"control_plane_url": f"http://{upstream.address}", "saleor_secret": SECRET}
    with called(store, tmp_path / "alone", parts=[PART], **place) as live:
        yield live


def answering(upstream: BadUpstream, *answers: tuple[int, dict[str, str]]) -> list[str]:
    """Let the control plane answer so, one after the other, and the last one ever after; the keys that came."""
    waiting, keys = list(answers), []

    async def answer(exchange: Exchange) -> None:
        status, headers = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        asked = json.loads(exchange.asked.body)
        keys.append(exchange.asked.headers["idempotency-key"])
        told = {"lineId": asked["lineId"], "instanceId": "inst_1", "walletId": "wal_1", "ledgerEntryId": "led_1"}
        body = {**told, "status": "created"} if status == 200 else {"error": {"code": "UNKNOWN_SKU"}}
        await exchange.reply(json.dumps(body).encode(), status=status, **headers)

    upstream.behave(PATH, answer)
    return keys


# -- with the real control plane ---------------------------------------------------------------------------------------


def test_an_order_is_provisioned_line_by_line(served: Live) -> None:
    lines = [{"productSku": "agent-basic"}, {"productSku": "credits-100", "quantity": 2}]
    paid = served.http.post(f"{served.standin('saleor')}/orders", json={"userId": "u1", "lines": lines}).json()
    assert paid["delivery"]["attempts"] == [{"status": 200}]
    first, second = paid["delivery"]["reply"]["lines"]
    assert (first["status"], first["instanceId"][:5], second["instanceId"]) == ("created", "inst_", None)
    assert [line["lineId"] for line in (first, second)] == [line["id"] for line in paid["order"]["lines"]]
    assert wallet(served, first["walletId"]) == (300, 0, 0, 300)


def test_7_webhook_retries_a_duplicate_order_does_not_create_duplicates(served: Live) -> None:
    shop = f"{served.standin('saleor')}/orders"
    paid = served.http.post(shop, json={"userId": "u1", "lines": [{"productSku": "agent-basic"}]}).json()
    made = paid["delivery"]["reply"]["lines"][0]
    for _ in range(3):
        again = served.http.post(f"{shop}/{paid['orderId']}/redeliver").json()
        assert again["delivery"]["reply"]["lines"] == [{**made, "status": "already_processed"}]
    assert wallet(served, made["walletId"]) == (100, 0, 0, 100)
    assert len(served.get(PLANE, "/instances?tenant=u1").json()["instances"]) == 1


def test_a_bad_signature_is_401_and_nothing_happens(served: Live) -> None:
    body = json.dumps(order()).encode()
    origin = {"Saleor-Api-Url": f"{served.standin('saleor')}/graphql/"}
    for value in ("", "abc", "e30..e30", "a" * 64, "eyJhbGciOiJub25lIn0.."):
        headers = {**origin, "Saleor-Signature": value} if value else origin
        reply = served.http.post(f"{served.urls[PART]}{WEBHOOK}", content=body, headers=headers)
        assert code(reply) == (401, "INVALID_SIGNATURE")
    assert served.get(PLANE, "/instances?tenant=u1").json()["instances"] == []


def test_a_signature_by_the_key_of_another_shop_is_401(served: Live) -> None:
    from holdfast.base import Secret
    from holdfast_systems.commerce.standins.saleor_keys import ShopKeys

    body = json.dumps(order()).encode()
    for api in (served.standin("saleor"), "http://127.0.0.1:1"):
        signed = {"Saleor-Signature": ShopKeys(Secret("")).signature(body), "Saleor-Api-Url": f"{api}/graphql/"}
        reply = served.http.post(f"{served.urls[PART]}{WEBHOOK}", content=body, headers=signed)
        assert code(reply) == (401, "INVALID_SIGNATURE")


def test_an_app_is_installed_with_a_token_that_the_shop_knows(served: Live, store: Store) -> None:
    manifest = {"manifestUrl": f"{served.urls[PART]}/manifest"}
    reply = served.http.post(f"{served.standin('saleor')}/apps/install", json=manifest)
    assert reply.status_code == 201, reply.text
    origin = served.url
    row = store.atomic(lambda tx: tx.row("provisioner.shop", origin=origin), write=False)
    assert row is not None
    assert row[0] == reply.json()["appId"]
    made_up = served.http.post(f"{served.urls[PART]}/webhooks/saleor/app-install", json={"auth_token": "made up"})
    assert code(made_up) == (401, "INSTALLATION_REFUSED")
    assert store.atomic(lambda tx: tx.row("provisioner.shop", origin=origin), write=False) == row


# -- with a control plane that answers as the test says ----------------------------------------------------------------


def test_3_1_the_key_of_each_line_is_saleor_order_line(alone: Live, upstream: BadUpstream) -> None:
    keys = answering(upstream, (200, {}))
    lines = [{"id": name, "productSku": "agent-basic", "quantity": 1} for name in ("L1", "L2", "L3")]
    reply = send(alone, order(*lines))
    assert reply.status_code == 200
    assert sorted(keys) == ["saleor:O1:L1", "saleor:O1:L2", "saleor:O1:L3"]
    assert [line["lineId"] for line in reply.json()["lines"]] == ["L1", "L2", "L3"]


@pytest.mark.parametrize("status", [502, 503, 504])
def test_3_2_the_control_plane_is_asked_again_after_1_2_4_8_s_and_then_the_shop_gets_500(
    alone: Live, upstream: BadUpstream, status: int
) -> None:
    keys = answering(upstream, (status, {}))
    with instant() as time:
        reply = send(alone, order())
    assert code(reply) == (500, "PROVISIONING_INCOMPLETE")
    assert reply.json()["error"]["details"]["pending"] == [{"lineId": "L1", "code": "CONTROL_PLANE_UNAVAILABLE"}]
    # The next wait of 16 s would end after the shop has hung up.
    assert time.waits_s == [1.0, 2.0, 4.0, 8.0]
    assert keys == ["saleor:O1:L1"] * 5


def test_the_rule_has_all_five_delays_where_there_is_time() -> None:
    from holdfast_systems.commerce.provisioner.links import to_control_plane

    retry = to_control_plane().retry
    assert retry is not None
    assert [retry.backoff.raw_s(number) for number in range(1, retry.attempts)] == [1.0, 2.0, 4.0, 8.0, 16.0]


def test_3_2_network_errors_are_retried(store: Store, tmp_path: Path) -> None:
    from holdfast.testing.ports import free_port

    place = {"control_plane_url": f"http://127.0.0.1:{free_port()}", "saleor_secret": SECRET}
    with called(store, tmp_path / "alone", parts=[PART], **place) as live, instant() as time:
        assert code(send(live, order())) == (500, "PROVISIONING_INCOMPLETE")
    assert time.waits_s == [1.0, 2.0, 4.0, 8.0]


def test_3_2_one_that_comes_back_is_asked_no_further(alone: Live, upstream: BadUpstream) -> None:
    keys = answering(upstream, (503, {}), (502, {}), (200, {}))
    with instant() as time:
        assert send(alone, order()).status_code == 200
    assert (time.waits_s, len(keys)) == ([1.0, 2.0], 3)


def test_3_2_a_429_is_asked_again_after_its_retry_after(alone: Live, upstream: BadUpstream) -> None:
    keys = answering(upstream, (429, {"retry_after": "7"}), (200, {}))
    with instant() as time:
        assert send(alone, order()).status_code == 200
    assert (time.waits_s, len(keys)) == ([7.0], 2)


def test_a_429_that_lasts_longer_than_the_shop_waits_is_a_500_never_a_4xx(
    alone: Live, upstream: BadUpstream, store: Store
) -> None:
    answering(upstream, (429, {"retry_after": "60"}))
    with instant():
        assert code(send(alone, order())) == (500, "PROVISIONING_INCOMPLETE")
    assert [job["kind"] for job in Jobs(store).list()] == ["commerce.provision"]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 500])
def test_3_2_no_other_4xx_is_retried_and_the_shop_gets_500(alone: Live, upstream: BadUpstream, status: int) -> None:
    keys = answering(upstream, (status, {}))
    reply = send(alone, order())
    assert code(reply) == (500, "PROVISIONING_INCOMPLETE")
    assert reply.json()["error"]["details"]["pending"] == [{"lineId": "L1", "code": "UNKNOWN_SKU"}]
    assert len(keys) == 1


def test_3_1_success_only_when_every_line_was_accepted(alone: Live, upstream: BadUpstream) -> None:
    async def second_fails(exchange: Exchange) -> None:
        asked = json.loads(exchange.asked.body)
        told = {"lineId": asked["lineId"], "ledgerEntryId": "led_1", "status": "created"}
        status = 422 if asked["lineId"] == "L2" else 200
        body = told if status == 200 else {"error": {"code": "UNKNOWN_SKU"}}
        await exchange.reply(json.dumps(body).encode(), status=status)

    upstream.behave(PATH, second_fails)
    lines = [{"id": name, "productSku": "agent-basic", "quantity": 1} for name in ("L1", "L2")]
    reply = send(alone, order(*lines))
    assert code(reply) == (500, "PROVISIONING_INCOMPLETE")
    assert [one["lineId"] for one in reply.json()["error"]["details"]["pending"]] == ["L2"]


def test_a_control_plane_that_hangs_is_a_500_in_time_and_the_order_is_remembered(
    store: Store, tmp_path: Path, upstream: BadUpstream
) -> None:
    upstream.behave(PATH, Exchange.hang)
    place = {"control_plane_url": f"http://{upstream.address}", "saleor_secret": SECRET, "webhook_deadline_s": "0.3"}
    with called(store, tmp_path / "hanging", parts=[PART], **place) as live:
        assert code(send(live, order())) == (500, "PROVISIONING_INCOMPLETE")
    assert [job["kind"] for job in Jobs(store).list()] == ["commerce.provision"]


def test_an_order_that_the_shop_may_forget_is_finished_by_a_job(
    store: Store, tmp_path: Path, alone: Live, upstream: BadUpstream
) -> None:
    answering(upstream, (422, {}))
    assert send(alone, order()).status_code == 500
    assert send(alone, order()).status_code == 500
    (job,) = Jobs(store).list()
    keys = answering(upstream, (200, {}))
    with store.database.transaction(write=True) as execute:
        execute("UPDATE holdfast_job SET due_us = 0", {})
    assert alone.system is not None
    with working(store, alone.system):
        assert Jobs(store).wait(job["id"], timeout_s=PATIENCE_S)["lines"][0]["status"] == "created"
    assert keys == ["saleor:O1:L1"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'{"order": {}}', b'{"order": {"id": "O1", "lines": 3}}', json.dumps(order({"x": 1})).encode()],
)
def test_a_signed_body_that_is_no_order_is_400(alone: Live, body: bytes) -> None:
    assert code(send(alone, body)) == (400, "INVALID_REQUEST")


def test_another_event_is_400_and_a_guest_is_known_by_the_address(alone: Live, upstream: BadUpstream) -> None:
    answering(upstream, (200, {}))
    assert code(send(alone, order(), **{"Saleor-Event": "order_created"})) == (400, "INVALID_REQUEST")
    guest = order()
    guest["order"] |= {"user": None, "userEmail": "g@shop.example"}
    assert send(alone, guest).status_code == 200
    assert json.loads(upstream.asked[-1].body)["user"]["id"] == "guest:g@shop.example"


def test_a_service_that_is_elsewhere_needs_an_address(store: Store, tmp_path: Path) -> None:
    with pytest.raises(SettingInvalid, match="HOLDFAST_COMMERCE_CONTROL_PLANE_URL"):
        build(ground(store, tmp_path, "http://127.0.0.1:9", parts=[PART]))
