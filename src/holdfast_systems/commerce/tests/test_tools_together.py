"""The connectors with the real control plane: what a newcomer has after a paid order, and what an operator changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.store import Store

from .live import SERVICE, Live, running
from .shop import bought, code
from .widget import buy

CONNECTORS, PLANE = "connectors", "control-plane"


@pytest.fixture
def served(store: Store, tmp_path: Path) -> Iterator[Live]:
    with running(store, tmp_path / "commerce", worker=False, instance_cache_s="0.000001") as live:
        yield live


def test_an_instance_uses_the_demo_tools_right_after_its_order(served: Live) -> None:
    instance = bought(served)["instanceId"]
    listed = served.get(CONNECTORS, f"/v1/instances/{instance}/tools", token=SERVICE).json()["tools"]
    assert {one["tool"]: one["binding"] for one in listed} == dict.fromkeys(
        ("crm.note", "crm.order", "weather.read"), "active"
    )
    for tool, arguments in (
        ("weather.read", {"city": "Oslo"}),
        ("crm.note", {"text": "called"}),
        ("crm.order", {"item": "book"}),
    ):
        told = served.post(
            CONNECTORS, f"/v1/instances/{instance}/tools/{tool}", {"arguments": arguments}, token=SERVICE
        )
        assert told.status_code == 200, told.text
        assert told.json()["tool"] == tool


def test_what_an_operator_takes_away_is_refused(served: Live) -> None:
    instance = bought(served)["instanceId"]
    path = f"/v1/instances/{instance}/tools/weather.read"
    binding = f"/instances/{instance}/bindings/weather.read"
    asked = {"arguments": {"city": "Oslo"}}

    def answer() -> tuple[int, str]:
        return code(served.post(CONNECTORS, path, asked, token=SERVICE))

    assert served.put(PLANE, binding, {"status": "active", "fields": {}}).status_code == 200
    assert answer() == (422, "BINDING_INCOMPLETE")
    where = "offerings/assistant/weather.read"
    assert served.put(PLANE, binding, {"status": "disabled", "secretPath": where}).status_code == 200
    assert answer() == (403, "TOOL_NOT_ALLOWED")
    assert served.put(PLANE, binding, {"status": "active", "secretPath": where}).status_code == 200
    assert served.post(CONNECTORS, path, asked, token=SERVICE).status_code == 200
    assert served.post(PLANE, f"/instances/{instance}/pause").status_code == 200
    assert answer() == (403, "INSTANCE_PAUSED")
    assert served.post(PLANE, f"/instances/{instance}/resume").status_code == 200
    assert served.put(PLANE, f"/instances/{instance}/allowlist", {"tools": ["crm.note"]}).status_code == 200
    assert answer() == (403, "TOOL_NOT_ALLOWED")
    assert code(served.post(CONNECTORS, "/v1/instances/inst_none/tools/crm.note", asked, token=SERVICE)) == (
        404,
        "INSTANCE_NOT_FOUND",
    )


def test_a_buyer_sees_only_own_instances_through_a_service(served: Live) -> None:
    first = bought(served, user="u1")["instanceId"]
    second = bought(served, order="O2", user="u2")["instanceId"]
    for tenant, own, other in (("u1", first, second), ("u2", second, first)):
        token = {**SERVICE, "X-Tenant": tenant}
        assert served.get(CONNECTORS, f"/v1/instances/{own}/tools", token=token).status_code == 200
        for foreign in (other, "inst_none"):
            for method, path in (("GET", ""), ("POST", "/crm.note")):
                reply = served.ask(
                    method, CONNECTORS, f"/v1/instances/{foreign}/tools{path}", token=token, json={"arguments": {}}
                )
                assert code(reply) == (404, "INSTANCE_NOT_FOUND")


def test_6_3_without_the_connectors_no_tool_runs_and_the_run_says_so(store: Store, tmp_path: Path) -> None:
    with running(store, tmp_path / "commerce", connectors_url="http://127.0.0.1:9") as live:
        ran = buy(live).widget().run("c1", '/tool crm.note {"text": "once"}')
        assert ran.status_code == 200, ran.text
        assert "crm.note could not be reached" in ran.json()["output"]
        assert live.http.get(f"{live.url}/standins/crm/v1/notes").json() == {"notes": []}
