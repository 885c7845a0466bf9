"""Who may come to the gateway: websites, people, buyers and services, each to what is theirs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.base import Secret
from holdfast.store import Store
from holdfast_systems.commerce.gateway.origins import is_loopback
from holdfast_systems.commerce.tokens import TokenKind, Tokens

from .live import OPERATOR, SERVICE, SERVICE_TOKEN, TOKEN, Live, running
from .widget import ORIGIN, Bought, Widget, buy, code

SHOP = "https://shop.example"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("access")
    store = Store.open(f"sqlite:///{folder / 'holdfast.db'}")
    store.migrate()
    with running(store, folder, sessions_per_minute="1000", instance_cache_s="0.001") as live:
        yield live
    store.close()


@pytest.fixture(scope="module")
def ann(served: Live) -> Bought:
    return buy(served, "ann", order="OA")


@pytest.fixture(scope="module")
def bob(served: Live) -> Bought:
    return buy(served, "bob", order="OB")


@pytest.fixture(scope="module")
def run_of_ann(ann: Bought) -> str:
    return str(ann.widget("visitor").run("c-ann").json()["runId"])


def buyer(live: Live, user: str) -> dict[str, str]:
    reply = live.post("control-plane", "/buyers/sessions", {"userId": user}, token=SERVICE)
    assert reply.is_success, reply.text
    return {"Authorization": f"Bearer {reply.json()['token']}"}


# -- origins -------------------------------------------------------------------------------------------------------


def test_an_origin_that_is_not_bound_is_refused(ann: Bought) -> None:
    reply = ann.session(origin=SHOP)
    assert code(reply) == (403, "ORIGIN_NOT_ALLOWED")
    assert reply.json()["error"]["details"] == {"instanceId": ann.instance_id, "origin": SHOP}
    assert "access-control-allow-origin" not in reply.headers


def test_a_program_without_an_origin_opens_no_session(ann: Bought) -> None:
    assert code(ann.session(origin="")) == (403, "ORIGIN_NOT_ALLOWED")


def test_an_origin_is_bound_to_its_instance(served: Live, bob: Bought, ann: Bought) -> None:
    path = f"/instances/{bob.instance_id}/allowlist"
    tools = served.get("control-plane", path).json()["tools"]
    bound = served.put("control-plane", path, {"tools": tools, "origins": [SHOP]})
    assert bound.is_success, bound.text
    opened = bob.session(origin=SHOP)
    assert opened.status_code == 200
    assert opened.headers["access-control-allow-origin"] == SHOP
    assert code(ann.session(origin=SHOP)) == (403, "ORIGIN_NOT_ALLOWED")
    reply = Widget(bob, "visitor", SHOP, opened.json()["token"]).run("c-shop")
    assert reply.status_code == 200
    assert reply.headers["access-control-allow-origin"] == SHOP


def test_a_token_is_good_only_on_the_website_that_opened_its_session(ann: Bought) -> None:
    widget = ann.widget()
    stolen = Widget(ann, "visitor", "https://thief.example", widget.token)
    reply = stolen.run("c-stolen")
    assert code(reply) == (403, "ORIGIN_NOT_ALLOWED")
    assert "access-control-allow-origin" not in reply.headers


def test_a_refusal_can_be_read_by_the_page_it_is_for(ann: Bought) -> None:
    reply = ann.widget().run("c-bad", "")
    assert code(reply) == (400, "INVALID_REQUEST")
    assert reply.headers["access-control-allow-origin"] == ORIGIN


def test_a_page_can_read_that_its_session_is_over(ann: Bought) -> None:
    reply = Widget(ann, "visitor", SHOP, "widget.over.over").run("c-over")
    assert code(reply) == (401, "UNAUTHORIZED")
    assert reply.headers["access-control-allow-origin"] == SHOP


def test_a_preflight_is_answered(served: Live, ann: Bought) -> None:
    headers = {"Origin": ORIGIN, "Access-Control-Request-Method": "POST"}
    reply = served.ask("OPTIONS", "gateway", f"/v1/instances/{ann.instance_id}/runs", token={}, headers=headers)
    assert reply.status_code == 204
    assert reply.headers["access-control-allow-origin"] == ORIGIN
    assert "authorization" in reply.headers["access-control-allow-headers"]
    assert "access-control-allow-credentials" not in reply.headers


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://127.0.0.1:8000", True),
        ("http://localhost", True),
        ("https://[::1]:4430", True),
        ("https://localhost.example", False),
        ("http://127.0.0.1.example", False),
        ("null", False),
        ("http://[bad", False),
        ("ftp://localhost", False),
    ],
)
def test_loopback_is_the_visitors_own_machine_and_nothing_else(origin: str, expected: bool) -> None:
    assert is_loopback(origin) is expected


def test_loopback_origins_can_be_refused(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'holdfast.db'}")
    store.migrate()
    with running(store, tmp_path, worker=False, loopback_origins="refuse") as live:
        assert code(buy(live).session(origin="http://localhost:1")) == (403, "ORIGIN_NOT_ALLOWED")
    store.close()


# -- tenants -------------------------------------------------------------------------------------------------------


def test_1_2_404_for_every_kind_of_id_of_another_tenant(
    served: Live, ann: Bought, bob: Bought, run_of_ann: str
) -> None:
    strangers = {
        "the other buyer": buyer(served, "bob"),
        "the other's widget": bob.widget("visitor").headers,
        "a service that speaks for the other": {**SERVICE, "X-Tenant": "bob"},
        "an operator who is narrowed to the other": {**OPERATOR, "X-Tenant": "bob"},
    }
    body = {"input": "Hello", "clientRunId": "c-crossing"}
    for who, token in strangers.items():
        run = served.post("gateway", f"/v1/instances/{ann.instance_id}/runs", body, token=token)
        assert code(run) == (404, "INSTANCE_NOT_FOUND"), who
        show = served.get("gateway", f"/v1/runs/{run_of_ann}", token=token)
        assert code(show) == (404, "RUN_NOT_FOUND"), who
        unknown = served.get("gateway", "/v1/runs/run_unknown", token=token)
        assert code(unknown) == (404, "RUN_NOT_FOUND"), who
        assert _same(show.json(), unknown.json()), "what is not theirs looks like what is not there"
        if "widget" not in who:
            listed = served.get("gateway", f"/v1/instances/{ann.instance_id}/runs", token=token)
            assert code(listed) == (404, "INSTANCE_NOT_FOUND"), who
    for kind in (ann.wallet_id, run_of_ann, "u1", "res_1"):
        reply = served.post("gateway", f"/v1/instances/{kind}/runs", body, token=SERVICE)
        assert code(reply) == (404, "INSTANCE_NOT_FOUND"), "an id of another kind"
        assert code(served.get("gateway", f"/v1/runs/{ann.instance_id}", token=SERVICE)) == (404, "RUN_NOT_FOUND")


def _same(one: dict[str, dict[str, object]], other: dict[str, dict[str, object]]) -> bool:
    told = [{k: v for k, v in body["error"].items() if k not in ("traceId", "details")} for body in (one, other)]
    return told[0] == told[1]


def test_a_cursor_of_another_instance_shows_nothing_of_it(
    served: Live, ann: Bought, bob: Bought, run_of_ann: str
) -> None:
    path = f"/v1/instances/{bob.instance_id}/runs?cursor={run_of_ann}"
    page = served.get("gateway", path, token=buyer(served, "bob")).json()
    assert run_of_ann not in str(page)


def test_another_person_of_the_same_instance_does_not_see_the_run(ann: Bought, run_of_ann: str) -> None:
    assert ann.widget("visitor").show(run_of_ann).status_code == 200
    assert code(ann.widget("another").show(run_of_ann)) == (404, "RUN_NOT_FOUND")


def test_a_buyer_sees_and_runs_their_own(served: Live, ann: Bought, run_of_ann: str) -> None:
    token = buyer(served, "ann")
    assert served.get("gateway", f"/v1/runs/{run_of_ann}", token=token).status_code == 200
    listed = served.get("gateway", f"/v1/instances/{ann.instance_id}/runs", token=token).json()
    assert run_of_ann in [run["runId"] for run in listed["runs"]]
    body = {"input": "Hello", "clientRunId": "c-own"}
    run = served.post("gateway", f"/v1/instances/{ann.instance_id}/runs", body, token=token)
    assert run.status_code == 200
    assert served.get("gateway", f"/v1/runs/{run.json()['runId']}", token=token).json()["userId"] == "ann"


def test_a_buyers_cookie_is_not_accepted_from_another_website(served: Live, ann: Bought) -> None:
    session = buyer(served, "ann")["Authorization"].removeprefix("Bearer ")
    headers = {"Cookie": f"holdfast_commerce_buyer={session}", "Origin": "https://thief.example"}
    body = {"input": "Hello", "clientRunId": "c-cookie"}
    reply = served.post("gateway", f"/v1/instances/{ann.instance_id}/runs", body, token={}, headers=headers)
    assert code(reply) == (403, "NOT_ENTITLED")


def test_a_widget_may_not_list_what_others_asked(served: Live, ann: Bought) -> None:
    path = f"/v1/instances/{ann.instance_id}/runs"
    assert code(served.get("gateway", path, token=ann.widget().headers)) == (403, "NOT_ENTITLED")


def test_1_2_401_without_a_token_in_force(served: Live, ann: Bought, run_of_ann: str) -> None:
    good = ann.widget().token
    tokens = Tokens(operator=Secret(TOKEN), service=Secret(SERVICE_TOKEN))
    over = tokens.sign(TokenKind.WIDGET, "ann", lasting_s=-1, instance=ann.instance_id, user="visitor", ticket=ORIGIN)
    other_key = Tokens(operator=Secret(TOKEN), service=Secret("another service's token"))
    forged = other_key.sign(TokenKind.WIDGET, "ann", lasting_s=60, instance=ann.instance_id, user="v", ticket=ORIGIN)
    ticket = tokens.sign(TokenKind.TICKET, "ann", lasting_s=60, ticket="x")
    for wrong in (
        "",
        over,
        forged,
        ticket,
        good[:-1] + ("0" if good[-1] != "0" else "1"),
        good.replace("widget", "buyer", 1),
    ):
        token = {"Authorization": f"Bearer {wrong}"} if wrong else {}
        assert code(served.get("gateway", f"/v1/runs/{run_of_ann}", token=token)) == (401, "UNAUTHORIZED")


@pytest.mark.parametrize(
    "wrong",
    [
        {"input": ""},
        {"input": "x" * 32_001},
        {"input": 7},
        {"input": " \n"},
        {"input": "a\0b"},
        {"clientRunId": "a:b"},
        {"clientRunId": ""},
        {"more": 1},
    ],
    ids=["empty", "long", "number", "blank", "nul", "colon", "no-id", "unknown"],
)
def test_1_2_400_names_the_field(served: Live, ann: Bought, wrong: dict[str, object]) -> None:
    body = {"input": "Hello", "clientRunId": "c1", **wrong}
    reply = served.post("gateway", f"/v1/instances/{ann.instance_id}/runs", body, token=SERVICE)
    assert code(reply) == (400, "INVALID_REQUEST")
    assert next(iter(wrong)) in str(reply.json()["error"]["details"])


def test_a_session_of_an_unknown_instance_is_404(served: Live) -> None:
    body = {"instanceId": "inst_unknown", "userId": "visitor"}
    reply = served.post("gateway", "/v1/widget/sessions", body, token={}, headers={"Origin": ORIGIN})
    assert code(reply) == (404, "INSTANCE_NOT_FOUND")
