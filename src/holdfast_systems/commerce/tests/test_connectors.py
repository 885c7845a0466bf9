"""The connectors apart from the rules of calls: the control plane's word, tenants, bounds, echoes, definitions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from holdfast.store import Store
from holdfast_systems.commerce.tokens import TokenKind

from .live import OPERATOR, SERVICE
from .test_foundation import tokens
from .tool_scene import (
    CANARY,
    FOREIGN,
    INSTANCE,
    NOTE,
    ORDER,
    OTHER,
    READ,
    TENANT,
    Scene,
    attempts,
    demo_tools,
    error_of,
    text_of,
    tool_scene,
)


@pytest.fixture
def scene(store: Store, tmp_path: Path) -> Iterator[Scene]:
    with tool_scene(store, tmp_path / "commerce") as scene:
        demo_tools(scene)
        yield scene


# -- the control plane ----------------------------------------------------------------------------------------------


def test_without_the_control_plane_no_tool_runs_once_its_word_is_old(scene: Scene) -> None:
    assert scene.call(READ).status_code == 200
    scene.plane_faults.switch(status=503)
    closed = scene.call(READ)
    assert (closed.status_code, error_of(closed)["code"]) == (503, "CONTROL_PLANE_UNAVAILABLE")
    assert attempts(scene) == 1
    scene.plane_faults.clear()
    assert scene.call(READ).status_code == 200


def test_what_the_control_plane_said_is_good_for_a_while(store: Store, tmp_path: Path) -> None:
    with tool_scene(store, tmp_path / "commerce", instance_cache_s="600") as scene:
        scene.define(NOTE, kind="write")
        assert scene.call(NOTE).status_code == 200
        scene.plane_faults.switch(reset=True)
        assert scene.call(NOTE).status_code == 200
        assert error_of(scene.call(NOTE, FOREIGN))["code"] == "CONTROL_PLANE_UNAVAILABLE"


# -- who may ask ----------------------------------------------------------------------------------------------------

ROUTES = [
    ("GET", "/v1/instances/{}/tools"),
    ("POST", f"/v1/instances/{{}}/tools/{READ}"),
    ("POST", "/v1/instances/{}/mcp"),
]


def ask(scene: Scene, method: str, path: str, token: dict[str, str]) -> httpx.Response:
    body = {"json": {"arguments": {}}} if method == "POST" else {}
    return scene.ask(method, "connectors", path, token=token, **body)


@pytest.mark.parametrize(("method", "route"), ROUTES)
def test_another_tenants_instance_is_as_unknown_as_one_that_does_not_exist(
    scene: Scene, method: str, route: str
) -> None:
    narrowed = {**SERVICE, "X-Tenant": OTHER}
    answers = []
    for instance in (INSTANCE, "inst_none", "../inst_one", "inst_one%2F..%2Finst_two", "wal_1", "run_1"):
        reply = ask(scene, method, route.format(instance), narrowed)
        assert reply.status_code in (400, 404), (instance, reply.text)
        answers.append({name: value for name, value in reply.json()["error"].items() if name != "traceId"})
    assert answers[0] == answers[1]
    assert attempts(scene) == 0
    assert ask(scene, method, route.format(INSTANCE), {**SERVICE, "X-Tenant": TENANT}).status_code != 404


@pytest.mark.parametrize(("method", "route"), [*ROUTES, ("GET", "/v1/tools"), ("GET", f"/v1/tools/{READ}")])
def test_only_operators_and_services_use_the_connectors(scene: Scene, method: str, route: str) -> None:
    path = route.format(INSTANCE)
    assert ask(scene, method, path, {}).status_code == 401
    for kind in TokenKind:
        signed = tokens("the token of the services").sign(kind, TENANT, lasting_s=60, instance=INSTANCE)
        assert ask(scene, method, path, {"Authorization": f"Bearer {signed}"}).status_code in (401, 403)
    for token in (OPERATOR, SERVICE):
        assert ask(scene, method, path, token).status_code not in (401, 403)


def test_an_instance_lists_its_tools_with_the_state_of_their_bindings(scene: Scene) -> None:
    scene.define("crm.find", fields=["accountId"])
    del scene.plane.bindings[INSTANCE, NOTE]
    scene.plane.bindings[INSTANCE, ORDER]["status"] = "disabled"
    listed = scene.get("connectors", f"/v1/instances/{INSTANCE}/tools").json()["tools"]
    assert {one["tool"]: (one["binding"], one["missing"]) for one in listed} == {
        READ: ("active", []),
        NOTE: ("missing", []),
        ORDER: ("disabled", []),
        "crm.find": ("incomplete", ["accountId"]),
    }
    assert "url" not in text_of(listed)


# -- bounds and echoes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ((200, {"text": "x" * 300_000}), "UPSTREAM_ERROR"),
        ((401, {"error": "bad key"}), "UPSTREAM_ERROR"),
        ((302, {}), "UPSTREAM_ERROR"),
        ((404, {"error": "no such city"}), "TOOL_REFUSED"),
    ],
)
def test_an_answer_that_cannot_be_used_is_told_in_our_words(
    scene: Scene, answer: tuple[int, object], code: str
) -> None:
    scene.tool.answers = [answer]  # type: ignore[list-item]
    refused = scene.call(READ)
    assert error_of(refused)["code"] == code
    assert "bad key" not in refused.text
    assert "no such city" not in refused.text


def test_garbage_is_not_a_result(scene: Scene) -> None:
    scene.tool_faults.switch(garbage=True)
    assert (scene.call(READ).status_code, error_of(scene.call(READ))["code"]) == (502, "UPSTREAM_ERROR")


@pytest.mark.parametrize(
    "body",
    [
        {"arguments": []},
        {"arguments": {}, "more": 1},
        {"arguments": {}, "runId": "a b"},
        {"arguments": {}, "idempotencyKey": ""},
        {"arguments": {str(n): n for n in range(101)}},
    ],
)
def test_a_request_that_cannot_be_meant_is_a_400(scene: Scene, body: object) -> None:
    reply = scene.post("connectors", f"/v1/instances/{INSTANCE}/tools/{READ}", body)
    assert (reply.status_code, error_of(reply)["code"]) == (400, "INVALID_REQUEST")


def test_a_tool_that_echoes_its_secret_does_not_leak_it(scene: Scene) -> None:
    import base64
    from urllib.parse import quote

    forms = [CANARY, quote(CANARY, safe=""), base64.b64encode(CANARY.encode()).decode()]
    scene.tool.answers = [(200, {"said": forms, CANARY: {"deep": [f"<{CANARY}>"]}}), (400, {"echo": CANARY})]
    told = scene.call(READ)
    assert told.json()["result"] == {"said": ["***"] * 3, "***": {"deep": ["<***>"]}}
    assert CANARY not in scene.call(READ).text
    scene.tool.echo = True
    assert scene.call(READ).json()["result"]["sent"]["authorization"] == "Bearer ***"
    assert scene.tool.calls[-1].bearer == CANARY


# -- definitions ----------------------------------------------------------------------------------------------------


def test_the_demo_tools_are_there_on_first_start_and_changes_stay(store: Store, tmp_path: Path) -> None:
    for _ in range(2):
        with tool_scene(store, tmp_path / "commerce") as scene:
            found = {one["tool"]: one for one in scene.get("connectors", "/v1/tools").json()["tools"]}
            assert {name: (one["kind"], one["takesKey"], bool(one["secretField"])) for name, one in found.items()} == {
                READ: ("read", False, True),
                NOTE: ("write", False, False),
                ORDER: ("write", True, False),
            }
            changed = {**found[NOTE], "timeoutS": 3.5}
            del changed["tool"]
            assert scene.put("connectors", f"/v1/tools/{NOTE}", changed).json()["timeoutS"] == 3.5
    assert found[NOTE]["timeoutS"] == 3.5


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"url": "ftp://host"}, "url"),
        ({"takesKey": True}, "takesKey"),
        ({"transport": "mcp"}, "remoteName"),
        ({"timeoutS": 0}, "timeoutS"),
        ({"timeoutS": 1e9}, "timeoutS"),
        ({"fields": ["no field"]}, "fields"),
        ({"secretField": "a b"}, "secretField"),
    ],
)
def test_a_tool_that_cannot_be_meant_is_refused(scene: Scene, said: dict[str, object], field: str) -> None:
    reply = scene.put("connectors", "/v1/tools/my.tool", {"kind": "read", "url": "http://host/path", **said})
    assert (reply.status_code, error_of(reply)["code"]) == (400, "INVALID_REQUEST")
    assert error_of(reply)["details"]["errors"][0]["field"] == field
