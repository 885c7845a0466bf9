"""The ground the services stand on: settings, tokens, who is let in, and parts alone or together."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.base import Secret, World, now_us
from holdfast.base.world import replaced
from holdfast.cli.serve_layout import laid_out
from holdfast.store import Store
from holdfast_systems.commerce.main import PARTS, build
from holdfast_systems.commerce.settings import SettingInvalid, read_settings
from holdfast_systems.commerce.tokens import TokenKind, Tokens

from .live import OPERATOR, SERVICE, TOKEN, Live, apart, ground

PLANE = "control-plane"


def tokens(service: str = "a service token of this test") -> Tokens:
    return Tokens(operator=Secret(TOKEN), service=Secret(service))


def test_a_setting_that_cannot_be_meant_is_refused() -> None:
    for name, value, told in (
        ("NO_SUCH", "1", "there is no such setting"),
        ("RESERVATION_S", "soon", "is not a number"),
        ("RESERVATION_S", "0", "not a positive number"),
        ("GATEWAY_URL", "here", "write the whole address"),
        ("SERVICE_TOKEN", "short", "at least 16 characters"),
    ):
        with pytest.raises(SettingInvalid, match=told):
            read_settings({f"HOLDFAST_COMMERCE_{name}": value})


def test_a_token_says_whose_it_is_until_it_is_over() -> None:
    made = tokens().sign(TokenKind.WIDGET, "u1", lasting_s=60, instance="inst_1", user="anna")
    read = tokens().read(made, TokenKind.WIDGET)
    assert read is not None
    assert (read.tenant, read.instance, read.user) == ("u1", "inst_1", "anna")
    later = now_us() + 60_000_001
    with replaced(World(wall_us=lambda: later)):
        assert tokens().read(made, TokenKind.WIDGET) is None


def test_a_token_that_was_changed_or_is_of_another_kind_or_service_is_none() -> None:
    made = tokens().sign(TokenKind.BUYER, "u1", lasting_s=60)
    kind, body, mark = made.split(".")
    assert tokens().read(made, TokenKind.WIDGET) is None
    assert tokens().read(f"widget.{body}.{mark}", TokenKind.WIDGET) is None
    assert tokens().read(f"{kind}.{body}x.{mark}", TokenKind.BUYER) is None
    assert tokens("another token of services").read(made, TokenKind.BUYER) is None
    assert tokens().read("buyer..", TokenKind.BUYER) is None


def test_operators_and_services_are_let_in_and_buyers_only_where_they_may(live: Live) -> None:
    buyer = {"Authorization": f"Bearer {tokens('the token of the services').sign(TokenKind.BUYER, 'u1', lasting_s=9)}"}
    offering = {"title": "A", "flow": "f"}
    for token, read, write in (({}, 401, 401), (OPERATOR, 200, 200), (SERVICE, 200, 200), (buyer, 200, 403)):
        assert live.get(PLANE, "/plans/agent-basic", token=token).status_code == read
        assert live.put(PLANE, "/offerings/own", offering, token=token).status_code == write


def test_the_plans_of_the_first_start_are_there_and_changes_stay(live: Live, tmp_path: Path, store: Store) -> None:
    found = {plan["sku"]: plan for plan in live.get(PLANE, "/plans").json()["plans"]}
    assert {sku: (plan["credits"], plan["softFail"]) for sku, plan in found.items()} == {
        "agent-trial": (20, True),
        "agent-basic": (100, False),
        "credits-100": (100, False),
    }
    changed = {"kind": "agent", "title": "Basic", "credits": 150, "offering": "assistant"}
    assert live.put(PLANE, "/plans/agent-basic", changed).json()["credits"] == 150
    build(ground(store, tmp_path / "again", "http://127.0.0.1:9"))
    assert live.get(PLANE, "/plans/agent-basic").json()["credits"] == 150


def test_a_part_alone_answers_at_its_name_and_at_the_root(database_url: str, tmp_path: Path) -> None:
    with apart(database_url, tmp_path / "apart", parts=[PLANE]) as live:
        for path in ("/plans/agent-basic", f"/{PLANE}/plans/agent-basic"):
            assert live.get(PLANE, path).json()["credits"] == 100


def test_each_service_may_have_a_database_of_its_own(tmp_path: Path) -> None:
    databases = {part: f"sqlite:///{tmp_path / part}.db" for part in PARTS}
    with apart("", tmp_path / "apart", databases=databases) as live:
        bought = {"userId": "u1", "lines": [{"productSku": "agent-basic"}]}
        paid = live.http.post(f"{live.standin('saleor')}/orders", json=bought).json()
        (made,) = paid["delivery"]["reply"]["lines"]
        asked = {"input": '/tool weather.read {"city": "Oslo"}', "clientRunId": "1", "userId": "visitor"}
        run = live.post("gateway", f"/v1/instances/{made['instanceId']}/runs", asked, token=SERVICE)
        assert run.status_code == 200, run.text
        spent = live.get(PLANE, f"/wallets/{made['walletId']}").json()
        assert (spent["spent"], spent["held"]) == (run.json()["charged"], 0)


def test_only_what_has_a_page_is_shown_to_people(live: Live) -> None:
    assert live.system is not None
    assert live.store is not None
    layout = laid_out(live.store, [live.system], alone=False, standins=False, own={}, catalogs=[])
    assert [place.path for place in layout.places] == ["/commerce/control-plane/"]
