"""The conformance of the port `Model`: Google's client against the stand-in, and against servers that misbehave."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import google.genai  # noqa: F401 - loading it is not part of any time that is measured here
import httpx
import pytest

from holdfast.base import REAL, Secret, monotonic_s
from holdfast.catalog import Failure
from holdfast.testing.ports import listening_socket
from holdfast.testing.processes import wait_until
from holdfast.testing.upstream import BadUpstream
from holdfast_systems.reports.gemini import Gemini
from holdfast_systems.reports.ports import ModelClosed, Request
from holdfast_systems.reports.standins import GeminiStandIn

from .system import SCHEMA, served

REQUEST = Request(model="gemini-2.5-flash", prompt="2026-01-01,1,2,1,2,3\n", schema=SCHEMA, timeout_s=5.0)
PATH = "v1/models/gemini-2.5-flash:generateContent"


@pytest.fixture
def standin() -> Iterator[tuple[GeminiStandIn, str]]:
    app = GeminiStandIn()
    with listening_socket() as listener, served(app, listener):
        yield app, f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def upstream() -> Iterator[BadUpstream]:
    with BadUpstream() as bad:
        yield bad


def opened(address: str, **settings: Any) -> Gemini:
    return Gemini(**{"base_url": address, "api_key": Secret("a key"), "concurrency": 4, **settings})


def refused(model: Gemini, request: Request = REQUEST) -> str:
    with pytest.raises(Failure) as caught:
        model.generate(request)
    return caught.value.code


def test_an_answer_has_its_text_and_its_tokens(standin: tuple[GeminiStandIn, str]) -> None:
    app, address = standin
    model = opened(address)
    answer = model.generate(replace(REQUEST, images=(b"\x89PNG",), temperature=0.5, max_output_tokens=500))
    assert answer.text.startswith('{"summary"')
    assert (answer.blocked, answer.incomplete) == ("", "")
    assert answer.input_tokens > 258, "the image counts"
    assert answer.output_tokens > 0
    assert app.calls[0]["images"] == 1
    model.close()
    with pytest.raises(ModelClosed):
        model.generate(REQUEST)


class ClosesWhenUsedAgain(socketserver.StreamRequestHandler):
    """Answers the first request of a connection, and closes the connection when a second one comes."""

    def handle(self) -> None:
        if not self._received():
            return
        body = json.dumps({"candidates": [{"content": {"parts": [{"text": "{}"}]}, "finishReason": "STOP"}]}).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self.wfile.write(head.encode() + body)
        self._received()

    def _received(self) -> bool:
        length = 0
        for line in iter(self.rfile.readline, b""):
            if line == b"\r\n":
                self.rfile.read(length)
                return True
            name, _, value = line.decode().partition(":")
            length = int(value) if name.lower() == "content-length" else length
        return False


def test_no_call_is_lost_on_a_connection_that_the_server_has_just_closed() -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), ClosesWhenUsedAgain) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        model = opened(f"http://127.0.0.1:{server.server_address[1]}")
        assert [model.generate(REQUEST).text for _ in range(3)] == ["{}"] * 3
        model.close()
        server.shutdown()


def test_a_call_that_is_cut_off_by_our_own_stop_says_nothing_about_the_model(
    standin: tuple[GeminiStandIn, str],
) -> None:
    app, address = standin
    app.faults.switch(hang=True)
    model = opened(address)
    with ThreadPoolExecutor(1) as threads:
        under_way = threads.submit(model.generate, replace(REQUEST, timeout_s=30.0))
        wait_until(lambda: app.faults.met == 1, within_s=30, what="the call has arrived")
        began_s = monotonic_s()
        model.close()
        with pytest.raises(ModelClosed):
            under_way.result()
    assert monotonic_s() - began_s < 10


def test_no_more_calls_are_under_way_than_the_process_may_make(standin: tuple[GeminiStandIn, str]) -> None:
    app, address = standin
    app.faults.switch(delay_s=0.1)
    model = opened(address, concurrency=2)
    under_way, most, lock = 0, 0, threading.Lock()
    real = model._generated

    def counted(request: Request) -> Any:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        try:
            return real(request)
        finally:
            with lock:
                under_way -= 1

    model._generated = counted  # type: ignore[method-assign]
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(lambda _: model.generate(REQUEST), range(6)))
    assert (len(answers), most) == (6, 2)
    # A place that does not become free in time is the same as a quota that is used up.
    app.faults.switch(hang=True)
    with ThreadPoolExecutor(2) as threads:
        held = [threads.submit(refused, model, replace(REQUEST, timeout_s=1.0)) for _ in range(2)]
        REAL.sleep(0.1)
        assert refused(model, replace(REQUEST, timeout_s=0.2)) == "RATE_LIMITED"
        assert [one.result() for one in held] == ["GEMINI_REQUEST_FAILED"] * 2
    model.close()


def test_an_answer_that_trickles_does_not_outlive_its_time(upstream: BadUpstream) -> None:
    async def trickle(exchange: Any) -> None:
        await exchange.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n")
        for _ in range(100):
            await exchange.write(b" ")
            await REAL.pause(0.05)

    upstream.behave(PATH, trickle)
    model = opened(f"http://{upstream.address}")
    began_s = monotonic_s()
    assert refused(model, replace(REQUEST, timeout_s=0.5)) == "GEMINI_REQUEST_FAILED"
    assert monotonic_s() - began_s < 4.5
    model.close()


ANSWERS = {
    "no candidates": (b'{"candidates": []}', "", "the answer has no candidate"),
    "a candidate without content": (b'{"candidates": [{"finishReason": "STOP"}]}', "", ""),
    "blocked at its end": (b'{"candidates": [{"finishReason": "SAFETY"}]}', "SAFETY", ""),
    "recitation": (b'{"candidates": [{"finishReason": "RECITATION"}]}', "RECITATION", ""),
    "cut": (b'{"candidates": [{"finishReason": "MAX_TOKENS"}]}', "", "the answer ended with MAX_TOKENS"),
    "a reason of the future": (b'{"candidates": [{"finishReason": "WEARY"}]}', "", "the answer ended with WEARY"),
}


@pytest.mark.filterwarnings("ignore:WEARY is not a valid FinishReason")
def test_each_way_to_say_nothing_is_told_apart(upstream: BadUpstream) -> None:
    model = opened(f"http://{upstream.address}")
    for why, (body, blocked, incomplete) in ANSWERS.items():
        upstream.answer(PATH, body, content_type="application/json")
        answer = model.generate(REQUEST)
        assert (answer.blocked, answer.incomplete, answer.text) == (blocked, incomplete, ""), why
    model.close()


def test_an_error_of_the_model_is_told_in_our_words(upstream: BadUpstream) -> None:
    body = b'{"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "key AIza-secret is not allowed"}}'
    upstream.answer(PATH, body, status=403, content_type="application/json")
    model = opened(f"http://{upstream.address}")
    with pytest.raises(Failure, match="LLM_PROFILE_INVALID") as caught:
        model.generate(REQUEST)
    assert "AIza" not in caught.value.message
    assert "PERMISSION_DENIED" in caught.value.message
    assert len(upstream.asked) == 1
    model.close()


def test_where_nobody_listens_the_call_is_made_once_and_fails(upstream: BadUpstream) -> None:
    model = opened(upstream.refused_url())
    began_s = monotonic_s()
    assert refused(model) == "GEMINI_REQUEST_FAILED"
    # Left to itself the client would wait and connect again.
    assert monotonic_s() - began_s < 4.5
    model.close()


def test_without_a_key_nobody_is_called() -> None:
    model = opened("", api_key=Secret(""))
    assert refused(model) == "LLM_PROFILE_INVALID"
    model.close()


def test_the_stand_in_refuses_what_the_api_refuses(standin: tuple[GeminiStandIn, str]) -> None:
    _, address = standin
    good: dict[str, Any] = {
        "contents": [{"parts": [{"text": "x"}]}],
        "generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA},
    }
    with httpx.Client(base_url=address, verify=False) as http:
        assert http.post(f"/{PATH}", json=good).status_code == 403
        key = {"x-goog-api-key": "k"}
        assert http.post(f"/{PATH}", json=good, headers=key).status_code == 200
        for body in ({}, {"contents": []}, {**good, "generationConfig": {}}, {**good, "generationConfig": None}):
            reply = http.post(f"/{PATH}", json=body, headers=key)
            assert (reply.status_code, reply.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")
        assert http.post("/v1beta/models/x:embedContent", json=good, headers=key).status_code == 404
        assert http.put("/faults", json={"answer": "nonsense"}).status_code == 400
        assert http.put("/faults", json={"answer": "wrong", "times": 0}).status_code == 400
        assert http.put("/faults", json={"answer": "wrong", "times": 2}).status_code == 200
        assert http.put("/faults", json={"answer": "cut", "delay_s": 0.01}).json() == {"answer": "cut", "delay_s": 0.01}
        assert http.delete("/faults").status_code == 204
