"""Switched faults over a real server: what the client of a stand-in meets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
import uvicorn

from holdfast.base import REAL, Secret, replaced
from holdfast.catalog import Failure
from holdfast.http import Edge
from holdfast.testing.faulty import GARBAGE, Faults, Faulty
from holdfast.testing.ports import listening_socket
from holdfast.testing.processes import wait_until

BIG = b"x" * 2_000_000
CUT = (httpx.NetworkError, httpx.RemoteProtocolError)
"""What httpx makes of a reset: the latter where it met the reset while it was sending, and then found no reply."""


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the length of the body."""
    if scope["type"] != "http":
        return
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Faulty, str]]:
    app = Faulty(echo)
    with listening_socket() as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield app, f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.fixture
def client(served: tuple[Faulty, str]) -> Iterator[httpx.Client]:
    app, address = served
    with httpx.Client(base_url=address, timeout=60) as opened:
        yield opened
    app.faults.clear()


def test_nothing_is_changed_while_nothing_is_switched(client: httpx.Client) -> None:
    assert client.get("/faults").json() == {}
    assert client.post("/any", content=BIG).text == str(len(BIG))


def test_a_status_carries_its_catalog_code_and_retry_after(client: httpx.Client) -> None:
    assert client.put("/faults", json={"status": 503, "retry_after": 7}).json() == {"status": 503, "retry_after": 7}
    reply = client.post("/any", content=BIG)
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "7")
    assert reply.json()["error"]["code"] == "SERVICE_UNAVAILABLE"


@pytest.mark.parametrize(("status", "code"), [(400, "BAD_REQUEST"), (418, "BAD_REQUEST"), (599, "UPSTREAM_ERROR")])
def test_any_failing_status_can_be_asked_for(client: httpx.Client, status: int, code: str) -> None:
    client.put("/faults", json={"status": status})
    reply = client.get("/any")
    assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)


def test_garbage_says_ok_and_lies_about_its_type(client: httpx.Client) -> None:
    client.put("/faults", json={"garbage": True})
    reply = client.post("/any", content=BIG)
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json")
    assert reply.content == GARBAGE


@pytest.mark.parametrize("body", [b"", BIG])
def test_a_reset_is_a_broken_connection_with_no_reply(client: httpx.Client, body: bytes) -> None:
    client.put("/faults", json={"reset": True, "times": 1})
    with pytest.raises(CUT):
        client.post("/any", content=body)
    assert client.get("/any").status_code == 200


def test_a_hanging_request_ends_when_its_client_goes(client: httpx.Client, served: tuple[Faulty, str]) -> None:
    client.put("/faults", json={"hang": True})
    with pytest.raises(httpx.ReadTimeout):
        client.get("/any", timeout=0.2)
    assert served[0].faults.told() == {"hang": True}


def test_a_delay_comes_before_the_true_answer(client: httpx.Client) -> None:
    client.put("/faults", json={"delay_s": 0.3})
    begun = REAL.monotonic_s()
    assert client.post("/any", content=b"abc").text == "3"
    assert REAL.monotonic_s() - begun >= 0.29  # a loop may round its clock to milliseconds


def test_times_counts_down_and_then_all_is_well(client: httpx.Client) -> None:
    client.put("/faults", json={"status": 500, "times": 2})
    assert client.get("/any").status_code == 500
    assert client.get("/faults").json() == {"status": 500, "times": 1}
    assert [client.get("/any").status_code for _ in range(2)] == [500, 200]
    assert client.get("/faults").json() == {}


def test_delete_clears(client: httpx.Client) -> None:
    client.put("/faults", json={"status": 500})
    assert client.delete("/faults").status_code == 204
    assert client.get("/any").status_code == 200


def test_health_fails_too_but_uses_nothing_up(client: httpx.Client) -> None:
    client.put("/faults", json={"status": 503, "times": 1})
    assert [client.get("/health").status_code for _ in range(3)] == [503, 503, 503]
    assert client.get("/any").status_code == 503


def test_health_can_be_spared(client: httpx.Client) -> None:
    client.put("/faults", json={"status": 503, "health": False})
    assert (client.get("/health").status_code, client.get("/any").status_code) == (200, 503)


@pytest.mark.parametrize(
    ("body", "field", "constraint"),
    [
        ({"statuss": 503}, "statuss", "unknown_field"),
        ({"self": 503}, "self", "unknown_field"),
        ({"status": "503"}, "status", "type"),
        ({"status": True}, "status", "type"),
        ({"status": 503.0}, "status", "type"),
        ({"status": None}, "status", "type"),
        ({"status": 200}, "status", "range"),
        ({"status": 600}, "status", "range"),
        ({"status": 500, "rate": 0}, "rate", "range"),
        ({"status": 500, "rate": 1.01}, "rate", "range"),
        ({"status": 500, "rate": True}, "rate", "type"),
        ({"delay_s": -1}, "delay_s", "range"),
        ({"delay_s": 1e9}, "delay_s", "range"),
        ({"hang": 1}, "hang", "type"),
        ({"reset": "yes"}, "reset", "type"),
        ({"garbage": []}, "garbage", "type"),
        ({"status": 503, "retry_after": -1}, "retry_after", "range"),
        ({"status": 503, "retry_after": 1.5}, "retry_after", "type"),
        ({"hang": True, "retry_after": 5}, "retry_after", "conflict"),
        ({"status": 503, "times": 0}, "times", "range"),
        ({"status": 503, "times": 10**30}, "times", "range"),
        ({"status": 503, "health": 0}, "health", "type"),
        ({"status": 503, "hang": True}, "hang", "conflict"),
        ({"rate": 0.5}, "", "required"),
        ({"hang": False}, "", "required"),
        ({}, "", "required"),
    ],
)
def test_a_bad_body_names_its_field_and_changes_nothing(
    client: httpx.Client, body: dict[str, Any], field: str, constraint: str
) -> None:
    client.put("/faults", json={"status": 500})
    reply = client.put("/faults", json=body)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "VALIDATION_ERROR")
    (told,) = reply.json()["error"]["details"]["errors"]
    assert (told["field"], told["constraint"]) == (field, constraint)
    assert client.get("/faults").json() == {"status": 500}


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"", 400, "INVALID_JSON"),
        (b"[]", 400, "INVALID_JSON"),
        (b'{"status": NaN}', 400, "INVALID_JSON"),
        (b'{"status": 500, "status": 503}', 400, "INVALID_JSON"),
        (b"\xff", 400, "INVALID_JSON"),
        (b"[" * 4_000, 400, "INVALID_JSON"),
        (b" " * 5_000, 413, "PAYLOAD_TOO_LARGE"),
    ],
)
def test_what_is_no_json_object_is_refused(client: httpx.Client, content: bytes, status: int, code: str) -> None:
    reply = client.put("/faults", content=content)
    assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)


def test_other_methods_are_told_which_there_are(client: httpx.Client) -> None:
    reply = client.post("/faults", json={"status": 500})
    assert (reply.status_code, reply.headers["allow"]) == (405, "GET, PUT, DELETE")
    assert client.get("/any").status_code == 200


def test_a_browser_page_under_another_name_is_forbidden(client: httpx.Client) -> None:
    reply = client.put("/faults", json={"status": 500}, headers={"Host": "evil.example"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (403, "FORBIDDEN")


def test_rate_is_the_share_of_requests() -> None:
    faults = Faults()
    faults.switch(status=503, rate=0.3)
    dice = iter([0.0, 0.29, 0.3, 0.99])
    with replaced(replace(REAL, dice=lambda: next(dice))):
        assert [faults.meet() is not None for _ in range(4)] == [True, True, False, False]
    assert faults.met == 2


def test_a_switch_in_the_same_process_is_checked_as_well() -> None:
    with pytest.raises(Failure) as refused:
        Faults().switch(statuss=503)
    assert refused.value.code == "VALIDATION_ERROR"


async def test_under_a_root_path_the_switches_are_where_the_standin_is() -> None:
    app = Faulty(echo)
    transport = httpx.ASGITransport(app, root_path="/standins/bank")
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        assert (await client.put("/standins/bank/faults", json={"status": 500})).status_code == 200
        assert (await client.get("/standins/bank/any")).status_code == 500


def test_a_reset_behind_the_edge_breaks_the_connection_too() -> None:
    app = Faulty(echo)
    app.faults.switch(reset=True)
    with listening_socket() as listener:
        server = uvicorn.Server(uvicorn.Config(Edge(app), log_level="critical"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            wait_until(lambda: server.started, within_s=60, what="the server starts")
            with pytest.raises(CUT):
                httpx.post(f"http://127.0.0.1:{listener.getsockname()[1]}/", content=b"abc", timeout=60)
        finally:
            server.should_exit = True
            thread.join()


async def test_where_nobody_lets_us_at_the_connection_the_reply_ends_too_early() -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    app = Faulty(echo)
    app.faults.switch(reset=True)
    await app({"type": "http", "path": "/", "method": "GET", "headers": []}, receive, send)
    assert [message["type"] for message in sent] == ["http.response.start"]
    assert dict(sent[0]["headers"])[b"content-length"] == b"1024"


async def test_a_standin_can_answer_in_the_words_of_its_service() -> None:
    app = Faulty(echo, words=lambda status: ("text/plain", f"sealed {status}".encode()))
    app.faults.switch(status=503)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        assert (await client.get("/v1/secret")).text == "sealed 503"


async def test_with_a_token_only_who_brings_it_moves_a_switch() -> None:
    app = Faulty(echo, token=Secret("of the switches"))
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 5_000))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        for given in ({}, {"Authorization": "Bearer wrong"}):
            reply = await client.put("/faults", json={"status": 500}, headers=given)
            assert (reply.status_code, reply.json()["error"]["code"]) == (401, "UNAUTHORIZED")
        known = {"Authorization": "Bearer of the switches"}
        assert (await client.put("/faults", json={"status": 500}, headers=known)).status_code == 200
