"""The gateway over real HTTP between the services: §2, §3.3, §3.4 and §4 on both databases."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from holdfast.lifecycle.moves import mermaid, states
from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast_systems.commerce.gateway.model import RUN_MOVES, RunState

from .live import PATIENCE_S, SERVICE, Live, running
from .widget import STREAM, Bought, buy, code, events


@pytest.fixture
def served(store: Store, tmp_path: Path) -> Iterator[Live]:
    """All services on one free port, with limits that these tests do not reach."""
    with running(store, tmp_path / "commerce", chats_per_minute="1000") as live:
        yield live


@pytest.fixture
def bought(served: Live) -> Bought:
    return buy(served)


def executions(live: Live) -> int:
    return int(live.http.get(live.standin("langflow") + "/health").json()["executions"])


# -- authorize → run → settle --------------------------------------------------------------------------------------


def test_a_run_is_authorized_executed_and_settled(bought: Bought) -> None:
    reply = bought.widget().run("c1", "/words 150")
    assert reply.status_code == 200, reply.text
    answer = reply.json()
    assert answer["output"].startswith("word word")
    assert (answer["charged"], answer["billing"]) == (3, "settled")
    wallet = bought.wallet()
    assert (wallet["available"], wallet["held"], wallet["spent"], wallet["paidIn"]) == (97, 0, 3, 100)
    assert [entry["credits"] for entry in bought.charges()] == [3]


def test_no_run_costs_more_than_its_budget(bought: Bought) -> None:
    assert bought.widget().run("c1", "/words 2000").json()["charged"] == 5


def test_a_stream_brings_deltas_and_ends_with_what_was_charged(bought: Bought) -> None:
    reply = bought.widget().run("c1", "/words 5", **STREAM)
    assert reply.headers["content-type"].startswith("text/event-stream")
    *pieces, end = events(reply.text)
    assert {piece["type"] for piece in pieces} == {"delta"}
    assert "".join(piece["text"] for piece in pieces) == end["output"] == "word word word word word"
    assert (end["type"], end["charged"], end["billing"]) == ("end", 2, "settled")
    assert end["runId"].startswith("run_")


def test_a_client_that_leaves_a_stream_is_charged_for_the_run_that_goes_on(bought: Bought) -> None:
    widget = bought.widget()
    path = f"{bought.live.urls['gateway']}/v1/instances/{bought.instance_id}/runs"
    body = {"input": "/words 150", "clientRunId": "c1"}
    with bought.live.http.stream("POST", path, json=body, headers={**widget.headers, **STREAM}) as reply:
        next(reply.iter_bytes())  # the first piece is there; nobody reads the rest
    assert bought.settled(3)["available"] == 97
    assert widget.run("c1", "/words 150").json()["charged"] == 3


# -- §2: the key of a person's request -----------------------------------------------------------------------------


def test_2_1_the_same_client_run_id_gives_the_same_answer_and_one_charge(bought: Bought) -> None:
    widget = bought.widget()
    first, again = widget.run("c1").json(), widget.run("c1").json()
    assert first == again
    assert len(bought.charges()) == 1
    assert executions(bought.live) == 1


def test_2_1_a_repeat_may_be_streamed(bought: Bought) -> None:
    widget = bought.widget()
    first = widget.run("c1").json()
    delta, end = events(widget.run("c1", **STREAM).text)
    assert delta["text"] == first["output"]
    assert {**first, "type": "end"} == end


def test_2_1_keys_of_another_person_or_instance_do_not_meet(bought: Bought) -> None:
    other = buy(bought.live, "u1", order="O2")
    replies = [bought.widget("ann").run("c1"), bought.widget("bob").run("c1"), other.widget("ann").run("c1")]
    assert len({reply.json()["runId"] for reply in replies}) == 3


def test_2_3_another_payload_under_the_same_key_is_a_409(bought: Bought) -> None:
    widget = bought.widget()
    widget.run("c1", "Hello")
    assert code(widget.run("c1", "Good bye")) == (409, "IDEMPOTENCY_PAYLOAD_MISMATCH")
    assert len(bought.charges()) == 1


def test_2_a_repeat_while_the_first_runs_is_told_to_wait(bought: Bought) -> None:
    widget = bought.widget()
    bought.live.fault("langflow", delay_s=3, times=1, health=False)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(widget.run, "c1")
        wait_until(lambda: bought.wallet()["held"] == 5, within_s=PATIENCE_S, what="the run has begun")
        second = widget.run("c1")
        assert code(second) == (409, "IDEMPOTENCY_IN_PROGRESS")
        assert int(second.headers["retry-after"]) >= 1
        assert first.result().status_code == 200
    assert executions(bought.live) == 1


def test_2_many_repeats_at_once_run_once(bought: Bought) -> None:
    widget = bought.widget()
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: widget.run("c1"), range(8)))
    assert {reply.status_code for reply in replies} <= {200, 409}
    assert widget.run("c1").status_code == 200
    assert executions(bought.live) == 1
    assert len(bought.charges()) == 1


# -- §3.3: what the widget is told ---------------------------------------------------------------------------------


def test_3_3_no_credits_is_403_insufficient_credits(served: Live) -> None:
    bought = buy(served)
    widget = bought.widget()
    for number in range(20):
        reply = widget.run(f"c{number}", "/words 2000")
        assert reply.status_code == 200, reply.text
    reply = widget.run("one-too-many")
    assert code(reply) == (403, "INSUFFICIENT_CREDITS")
    assert reply.json()["error"]["details"] == {
        "instanceId": bought.instance_id, "balance": 0, "requiredBudget": 5
    }  # fmt: skip


def test_3_3_after_a_top_up_the_same_request_runs(served: Live) -> None:
    bought = buy(served)
    serve_all = {"instanceId": bought.instance_id, "requestedBudget": 98, "runId": "holds-all"}
    held = served.post("control-plane", "/billing/authorize", serve_all, token=SERVICE).json()
    assert held["allowed"]
    widget = bought.widget()
    assert code(widget.run("c1")) == (403, "INSUFFICIENT_CREDITS")
    topped = served.post("control-plane", f"/wallets/{bought.wallet_id}/topups", {"credits": 10}, key="ui:u1:w:t1")
    assert topped.is_success, topped.text
    assert widget.run("c1").status_code == 200


def test_3_3_a_paused_instance_is_403_instance_paused(bought: Bought) -> None:
    widget = bought.widget()
    assert widget.run("c0").status_code == 200
    paused = bought.live.post("control-plane", f"/instances/{bought.instance_id}/pause", key="p1")
    assert paused.is_success, paused.text
    reply = widget.run("c1")
    assert code(reply) == (403, "INSTANCE_PAUSED")
    assert reply.json()["error"]["details"]["instanceId"] == bought.instance_id
    resumed = bought.live.post("control-plane", f"/instances/{bought.instance_id}/resume", key="r1")
    assert resumed.is_success, resumed.text
    assert widget.run("c1").status_code == 200


@pytest.mark.parametrize("headers", [{}, STREAM], ids=["plain", "stream"])
def test_3_3_execution_plane_down_is_503_and_nothing_is_charged(bought: Bought, headers: dict[str, str]) -> None:
    bought.live.fault("langflow", status=503)
    widget = bought.widget()
    reply = widget.run("c1", **headers)
    assert code(reply) == (503, "EXECUTION_UNAVAILABLE")
    assert int(reply.headers["retry-after"]) >= 1
    assert bought.settled(0)["available"] == 100
    bought.live.fault("langflow")
    assert widget.run("c1").status_code == 200, "the same request may try again: nothing has run"
    assert len(bought.charges()) == 1


def test_3_3_a_run_that_may_have_run_is_never_run_again_and_costs_nothing(bought: Bought) -> None:
    bought.live.fault("langflow", answer="error", times=1)
    widget = bought.widget()
    reply = widget.run("c1")
    assert code(reply) == (502, "UPSTREAM_ERROR")
    details = reply.json()["error"]["details"]
    assert (details["mayHaveRun"], details["charged"]) == (True, 0)
    again = widget.run("c1")
    assert code(again) == (502, "UPSTREAM_ERROR"), "the same request has the same answer"
    assert again.json()["error"]["details"]["runId"] == details["runId"]
    assert executions(bought.live) == 1
    assert bought.settled(0)["available"] == 100
    assert widget.run("c2").status_code == 200


@pytest.mark.parametrize(("answer", "told"), [("cut_stream", "EXECUTION_UNAVAILABLE"), ("error", "UPSTREAM_ERROR")])
def test_a_stream_that_breaks_says_so_and_costs_nothing(bought: Bought, answer: str, told: str) -> None:
    bought.live.fault("langflow", answer=answer, times=1)
    *pieces, last = events(bought.widget().run("c1", "/words 10", **STREAM).text)
    assert pieces
    assert last["error"]["code"] == told
    assert last["error"]["details"]["mayHaveRun"] is True
    assert last["error"]["traceId"]
    assert bought.settled(0)["available"] == 100


# -- §4 ------------------------------------------------------------------------------------------------------------


def test_4_a_run_that_takes_too_long_is_504_and_costs_nothing(served: Live) -> None:
    bought = buy_with(served, runTimeoutS=1)
    served.fault("langflow", hang=True)
    reply = bought.widget().run("c1")
    assert code(reply) == (504, "RUN_TIMEOUT")
    assert reply.json()["error"]["details"]["charged"] == 0
    assert bought.settled(0)["available"] == 100


def buy_with(live: Live, order: str = "O9", **changed: Any) -> Bought:
    """Pay for a plan that differs from the basic one."""
    plan = live.get("control-plane", "/plans/agent-basic").json()
    document = {name: plan[name] for name in plan if name not in ("sku", "updatedAt")}
    if "limits" in changed:
        changed["limits"] = {**document["limits"], **changed["limits"]}
    reply = live.put("control-plane", "/plans/agent-other", {**document, **changed})
    assert reply.is_success, reply.text
    return buy(live, "u9", "agent-other", order)


def test_4_callers_in_a_hurry_do_not_make_it_look_like_an_outage(store: Store, tmp_path: Path) -> None:
    with running(store, tmp_path / "commerce", instance_cache_s="0.000001") as live:
        widget = buy(live).widget()
        for number in range(15):
            reply = widget.run(f"c{number}", **{"X-Deadline-Ms": "2"})
            assert reply.status_code in (200, 504), reply.text
        assert buy(live, "u2", order="O2").session().status_code == 200


# -- showing runs --------------------------------------------------------------------------------------------------


def test_runs_are_shown_with_what_each_cost(bought: Bought) -> None:
    widget = bought.widget()
    ids = [widget.run(f"c{number}").json()["runId"] for number in range(3)]
    shown = widget.show(ids[0]).json()
    assert (shown["status"], shown["charged"], shown["input"]) == ("settled", 2, "Hello")
    assert shown["ledgerEntryId"] == bought.charges()[0]["ledgerEntryId"]
    page = bought.live.get("gateway", f"/v1/instances/{bought.instance_id}/runs").json()
    assert [run["runId"] for run in page["runs"]] == ids[::-1]
    assert [run["charged"] for run in page["runs"]] == [2, 2, 2]
    assert page["nextCursor"] is None


def test_the_list_of_runs_goes_on_by_its_cursor(bought: Bought, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast_systems.commerce.gateway.service.PAGE_ROWS", 2)
    widget = bought.widget()
    ids = [widget.run(f"c{number}").json()["runId"] for number in range(5)]
    path, found, cursor = f"/v1/instances/{bought.instance_id}/runs", [], ""
    while cursor is not None:
        page = bought.live.get("gateway", path + (f"?cursor={cursor}" if cursor else "")).json()
        found += [run["runId"] for run in page["runs"]]
        cursor = page["nextCursor"]
    assert found == ids[::-1]


def test_ended_runs_are_forgotten_and_their_charges_are_not(store: Store, tmp_path: Path) -> None:
    with running(store, tmp_path / "commerce", sweep_every_s="1", run_days="0.00001") as live:
        bought = buy(live)
        widget = bought.widget()
        run_id = widget.run("c1").json()["runId"]
        wait_until(lambda: widget.show(run_id).status_code == 404, within_s=PATIENCE_S, what="the run is forgotten")
        assert [entry["runId"] for entry in bought.charges()] == [run_id]


# -- states --------------------------------------------------------------------------------------------------------


def test_the_table_of_moves_names_every_state() -> None:
    assert set(states(RUN_MOVES)) == set(RunState)


def test_the_diagram_of_the_docs_is_the_table(root: Path) -> None:
    assert mermaid(RUN_MOVES) in (root / "docs" / "how" / "run-commerce.md").read_text()


def test_the_schema_knows_the_states_of_the_table() -> None:
    schema = (files("holdfast_systems.commerce") / "migrations" / "0002_gateway.sql").read_text()
    found = re.search(r"holdfast_commerce_run_state CHECK \(\s*state IN \(([^)]*)\)", schema)
    assert found is not None
    assert set(re.findall(r"'(\w+)'", found[1])) == set(states(RUN_MOVES))
