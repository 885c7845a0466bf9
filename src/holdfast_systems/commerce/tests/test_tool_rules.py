"""Tool calls as the runtime makes them: sections 3.6, 3.7, 4, 5, 6.2 and 7 of the rules, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.base import Secret
from holdfast.store import Store
from holdfast_systems.commerce.connectors.links import Links
from holdfast_systems.commerce.connectors.tools import DEMO_TOOLS
from holdfast_systems.commerce.settings import Settings

from .tool_scene import (
    CANARY,
    FOREIGN,
    INSTANCE,
    NOTE,
    ORDER,
    READ,
    Scene,
    attempts,
    demo_tools,
    error_of,
    tool_scene,
)


@pytest.fixture
def scene(store: Store, tmp_path: Path) -> Iterator[Scene]:
    with tool_scene(store, tmp_path / "commerce") as scene:
        demo_tools(scene)
        yield scene


# -- 3.6: allowlist and binding status ------------------------------------------------------------------------------


def test_3_6_a_tool_that_is_not_on_the_allowlist_is_refused(scene: Scene) -> None:
    scene.plane.allowed[INSTANCE].remove(READ)
    refused = scene.call(READ)
    assert (refused.status_code, error_of(refused)["code"]) == (403, "TOOL_NOT_ALLOWED")
    assert error_of(refused)["details"] == {"instanceId": INSTANCE, "tool": READ}
    assert scene.vault.reads == attempts(scene) == 0


def test_3_6_a_tool_without_a_binding_is_not_found(scene: Scene) -> None:
    del scene.plane.bindings[INSTANCE, READ]
    assert error_of(scene.call(READ))["code"] == "BINDING_NOT_FOUND"
    assert scene.call(READ).status_code == 404


def test_3_6_a_disabled_binding_is_refused(scene: Scene) -> None:
    scene.plane.bindings[INSTANCE, READ]["status"] = "disabled"
    refused = scene.call(READ)
    assert (refused.status_code, error_of(refused)["code"]) == (403, "TOOL_NOT_ALLOWED")
    assert scene.vault.reads == attempts(scene) == 0


def test_3_6_a_binding_that_lacks_fields_is_422_and_names_them(scene: Scene) -> None:
    scene.define("crm.find", kind="read", fields=["accountId", "region"])
    scene.plane.bindings[INSTANCE, "crm.find"]["fields"] = {"region": "eu", "accountId": ""}
    refused = scene.call("crm.find")
    assert (refused.status_code, error_of(refused)["code"]) == (422, "BINDING_INCOMPLETE")
    assert error_of(refused)["details"]["missing"] == ["accountId"]
    scene.plane.bindings[INSTANCE, "crm.find"]["fields"]["accountId"] = "a1"
    assert scene.call("crm.find", arguments={"accountId": "made up", "name": "Ann"}).status_code == 200
    # What was bound wins over what a model made up.
    assert scene.tool.calls[-1].json == {"accountId": "a1", "name": "Ann", "region": "eu"}


def test_3_6_a_tool_that_does_not_exist_is_not_found(scene: Scene) -> None:
    scene.plane.allowed[INSTANCE].append("no.such")
    assert error_of(scene.call("no.such"))["code"] == "TOOL_NOT_FOUND"


def test_3_6_a_paused_instance_uses_no_tool(scene: Scene) -> None:
    scene.plane.instances[INSTANCE]["status"] = "paused"
    assert error_of(scene.call(READ))["code"] == "INSTANCE_PAUSED"
    assert attempts(scene) == 0


# -- 3.6 and 7: which tools are retried -----------------------------------------------------------------------------


@pytest.mark.parametrize("status", [502, 503, 504])
def test_3_6_a_read_tool_is_retried_up_to_twice(scene: Scene, status: int) -> None:
    scene.tool_faults.switch(status=status, times=2)
    assert scene.call(READ).json() == {"tool": READ, "result": {"fine": True}}
    assert attempts(scene) == 3
    scene.tool_faults.switch(status=status, times=3)
    gone = scene.call(READ)
    assert (gone.status_code, error_of(gone)["code"]) == (503, "TOOL_UNAVAILABLE")
    assert attempts(scene) == 6


@pytest.mark.parametrize("status", [500, 501, 400, 404, 429])
def test_3_6_a_read_tool_is_not_retried_on_other_statuses(scene: Scene, status: int) -> None:
    scene.tool_faults.switch(status=status)
    refused = scene.call(READ)
    expected = {500: 502, 501: 502, 400: 422, 404: 422, 429: 503}
    assert refused.status_code == expected[status], refused.text
    assert attempts(scene) == 1


@pytest.mark.parametrize("fault", [{"status": 502}, {"status": 503}, {"status": 504}, {"reset": True}])
def test_7_tool_call_safety_a_write_tool_is_not_retried(scene: Scene, fault: dict[str, object]) -> None:
    scene.tool_faults.switch(**fault)
    failed = scene.call(NOTE, body={"idempotencyKey": "k1", "runId": "run_1"})
    assert (failed.status_code, error_of(failed)["code"]) == (503, "TOOL_UNAVAILABLE")
    assert error_of(failed)["details"]["outcome"] == ("not_run" if fault.get("status") == 503 else "unknown")
    assert attempts(scene) == 1


@pytest.mark.parametrize("status", [502, 503, 504])
def test_7_tool_call_safety_a_read_tool_is_retried(scene: Scene, status: int) -> None:
    scene.tool_faults.switch(status=status, times=1)
    assert scene.call(READ).status_code == 200
    assert attempts(scene) == 2


def test_3_6_a_write_tool_that_takes_a_key_is_retried_with_the_same_key(scene: Scene) -> None:
    scene.tool.answers = [(503, {}), (504, {}), (201, {"orderId": "o1"})]
    assert scene.call(ORDER, body={"idempotencyKey": "order-7"}).json()["result"] == {"orderId": "o1"}
    assert scene.tool.keys == [f"{INSTANCE}:{ORDER}:order-7"] * 3


def test_3_6_a_repeat_of_a_run_has_the_same_key_and_other_arguments_another(scene: Scene) -> None:
    for arguments in ({"item": "a"}, {"item": "a"}, {"item": "b"}):
        assert scene.call(ORDER, arguments=arguments, body={"runId": "run_1"}).status_code == 200
    assert scene.call(ORDER, FOREIGN, arguments={"item": "a"}, body={"runId": "run_1"}).status_code == 200
    first, again, other, foreign = scene.tool.keys
    assert first == again
    assert len({first, other, foreign}) == 3
    assert {one.headers["x-run-id"] for one in scene.tool.calls} == {"run_1"}


def test_3_6_a_write_tool_without_a_key_is_sent_none(scene: Scene) -> None:
    assert scene.call(NOTE, body={"idempotencyKey": "k1"}).status_code == 200
    assert scene.tool.keys == [None]


# -- 3.7, 6.2 and 7: the vault --------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [503, 504])
def test_3_7_the_vault_is_retried_up_to_twice(scene: Scene, status: int) -> None:
    scene.vault_faults.switch(status=status, times=2)
    assert scene.call(READ).status_code == 200
    assert (scene.vault_faults.met, scene.vault.reads) == (2, 1)
    scene.vault_faults.switch(status=status)
    assert error_of(scene.call(READ))["code"] == "VAULT_UNAVAILABLE"
    assert scene.vault_faults.met == 5


@pytest.mark.parametrize("fault", [{"status": 502}, {"status": 500}, {"status": 429}, {"reset": True}])
def test_3_7_the_vault_is_not_retried_on_anything_else(scene: Scene, fault: dict[str, object]) -> None:
    scene.vault_faults.switch(**fault)
    assert error_of(scene.call(READ))["code"] == "VAULT_UNAVAILABLE"
    assert scene.vault_faults.met == 1


@pytest.mark.parametrize("fault", [{"status": 503}, {"reset": True}, {"garbage": True}, {"hang": True}])
def test_7_vault_outage_the_tool_call_fails_closed(scene: Scene, fault: dict[str, object]) -> None:
    scene.tool.echo = True
    assert scene.call(READ).status_code == 200  # so that a secret that is kept could be used
    scene.vault_faults.switch(**fault)
    refused = scene.call(READ)
    assert (refused.status_code, error_of(refused)["code"]) == (503, "VAULT_UNAVAILABLE")
    assert CANARY not in refused.text
    assert attempts(scene) == 1
    # What needs no secret is not in its way.
    assert scene.call(NOTE).status_code == 200
    scene.vault_faults.clear()
    assert scene.call(READ).status_code == 200


def test_6_2_a_vault_that_is_gone_means_that_no_tool_runs(store: Store, tmp_path: Path) -> None:
    with tool_scene(store, tmp_path / "commerce", vault_url="http://127.0.0.1:9") as scene:
        scene.define(READ, secretField="token")
        assert error_of(scene.call(READ))["code"] == "VAULT_UNAVAILABLE"
        assert attempts(scene) == 0


def test_3_7_a_secret_that_changed_is_used_at_the_next_call(scene: Scene) -> None:
    for value in ("first key", "second key"):
        scene.vault.keep("secret", "tools/key", {"token": Secret(value)})
        assert scene.call(READ).status_code == 200
        assert scene.tool.calls[-1].bearer == value


def test_3_7_a_missing_secret_and_a_refused_token_are_for_the_operator(scene: Scene) -> None:
    scene.plane.bindings[INSTANCE, READ]["secretPath"] = "tools/none"
    missing = scene.call(READ)
    assert (missing.status_code, error_of(missing)["code"]) == (422, "SECRET_NOT_FOUND")
    scene.plane.bindings[INSTANCE, READ]["secretPath"] = "tools/other"
    scene.vault.keep("secret", "tools/other", {"password": Secret(CANARY)})
    assert error_of(scene.call(READ))["details"] == {"tool": READ, "field": "token"}
    scene.vault_faults.switch(status=403)
    refused = scene.call(READ)
    assert (refused.status_code, error_of(refused)["code"]) == (502, "VAULT_REFUSED")
    assert attempts(scene) == 0


@pytest.mark.parametrize("path", ["../sys/mounts", "a/../../b", "/a", "a//b", "a?b=c", "a#b", "a b"])
def test_3_7_a_binding_cannot_lead_out_of_the_mount(scene: Scene, path: str) -> None:
    scene.plane.bindings[INSTANCE, READ]["secretPath"] = path
    assert error_of(scene.call(READ))["code"] == "SECRET_NOT_FOUND"
    assert scene.vault.reads == 0


def test_3_6_a_binding_without_the_path_of_its_secret_is_incomplete(scene: Scene) -> None:
    scene.plane.bindings[INSTANCE, READ]["secretPath"] = None
    refused = scene.call(READ)
    assert (refused.status_code, error_of(refused)["code"]) == (422, "BINDING_INCOMPLETE")
    assert error_of(refused)["details"]["missing"] == ["secretPath"]
    assert scene.vault.reads == attempts(scene) == 0


# -- 4: timeouts ----------------------------------------------------------------------------------------------------


def test_4_the_defaults_are_15_s_for_a_tool_and_2_s_for_the_vault() -> None:

    links = Links(Settings())
    assert links.vault.timeout_s == 2.0
    assert [links.tool(tool).total_s for tool in DEMO_TOOLS] == [15.0, 15.0, 15.0]


@pytest.mark.parametrize("tool", [READ, NOTE, ORDER])
def test_4_a_tool_that_hangs_is_a_504_and_is_not_called_again(store: Store, tmp_path: Path, tool: str) -> None:
    with tool_scene(store, tmp_path / "commerce") as scene:
        scene.define(tool, kind="read" if tool == READ else "write", takesKey=tool == ORDER, timeoutS=0.2)
        scene.tool_faults.switch(hang=True)
        late = scene.call(tool)
        assert (late.status_code, error_of(late)["code"]) == (504, "TOOL_TIMEOUT")
        assert attempts(scene) == 1


def test_4_the_callers_deadline_ends_a_tool_call(scene: Scene) -> None:
    scene.tool_faults.switch(hang=True)
    late = scene.call(NOTE, headers={"X-Deadline-Ms": "300"})
    assert late.status_code == 504, late.text


def test_4_a_vault_that_hangs_is_unavailable(store: Store, tmp_path: Path) -> None:
    with tool_scene(store, tmp_path / "commerce", vault_timeout_s="0.2") as scene:
        scene.define(READ, secretField="token")
        scene.vault_faults.switch(hang=True)
        assert error_of(scene.call(READ))["code"] == "VAULT_UNAVAILABLE"
        assert scene.vault_faults.met == 1


# -- 5: tool calls per minute ---------------------------------------------------------------------------------------


def test_5_tool_calls_per_minute_are_counted_for_each_instance_in_all_processes(
    store: Store, database_url: str, tmp_path: Path
) -> None:
    beside = Store.open(database_url)
    with tool_scene(store, tmp_path / "one") as one, tool_scene(beside, tmp_path / "two") as two:
        for scene in (one, two):
            scene.define(NOTE, kind="write")
            scene.plane.instances[INSTANCE]["limits"]["toolCallsPerMinute"] = 5
        replies = [scene.call(NOTE) for scene in (one, two) * 4]
        assert sorted(reply.status_code for reply in replies) == [200] * 5 + [429] * 3
        refused = next(reply for reply in replies if reply.status_code == 429)
        assert error_of(refused)["code"] == "RATE_LIMITED"
        assert 1 <= int(refused.headers["Retry-After"]) <= 60
        assert len(one.tool.calls) + len(two.tool.calls) == 5
        assert one.call(NOTE, FOREIGN).status_code == 200  # its own limit
    beside.close()
