"""CloudEvents as Cloud Run receives them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from google.cloud.firestore_v1.types import Document

from holdfast_systems.reports.events import read_event

from .system import Running, cloud_event, run_body

Site = Callable[..., Running]

NAME = "projects/p/databases/(default)/documents/flow_runs/run_1"


def protobuf(name: str = NAME, *, old: bool = False) -> bytes:
    """A DocumentEventData in wire format: the document, as Google's own library writes it, in field 1 or 2."""
    document = Document.serialize(Document(name=name, fields={"status": {"string_value": "RUNNING"}}))
    length, size = b"", len(document)
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([0x12 if old else 0x0A]) + length + bytes([size]) + document


def binary(content_type: str, **more: str) -> dict[str, str]:
    event = cloud_event("run_1")
    named = {f"ce-{name}": str(event[name]) for name in ("id", "source", "type", "specversion", "subject")}
    return {**named, "content-type": content_type, **more}


MODES: dict[str, tuple[dict[str, str], Any]] = {
    "structured, JSON": ({"content-type": "application/cloudevents+json; charset=utf-8"}, cloud_event("run_1")),
    "structured, protobuf": (
        {"content-type": "application/cloudevents+json"},
        {
            **{name: value for name, value in cloud_event("run_1").items() if name not in ("data", "subject")},
            "datacontenttype": "application/protobuf",
            "data_base64": b64encode(protobuf()).decode(),
        },
    ),
    "binary, JSON": (binary("application/json"), {"value": {"name": NAME}}),
    "binary, protobuf": (binary("application/protobuf"), protobuf()),
    "binary, protobuf, deleted value": (
        {name: value for name, value in binary("application/protobuf").items() if name != "ce-subject"},
        protobuf(old=True),
    ),
    "binary with the attribute of Eventarc": (binary("application/json", **{"ce-document": "flow_runs/run_1"}), {}),
}


def test_each_mode_starts_the_next_step(solo: Site) -> None:
    here = solo(FEED="false")
    here.define()
    here.submit(run_body("run_1"))
    results = []
    for headers, body in MODES.values():
        content = {"content": body} if isinstance(body, bytes) else {"json": body}
        reply = here.http.post("/v1/events", headers=headers, **content)
        assert reply.status_code == 200, reply.text
        results.append(reply.json()["result"])
    assert results == ["SUCCEEDED"] * 3 + ["NO_READY_STEP"] * 3
    assert here.run("run_1")["status"] == "SUCCEEDED"


@pytest.mark.parametrize(
    "change", [{"type": "google.cloud.storage.object.v1.finalized"}, {"subject": "documents/users/7", "data": {}}]
)
def test_an_event_about_something_else_is_taken_and_ignored(solo: Site, change: dict[str, Any]) -> None:
    here = solo()
    reply = here.http.post(
        "/v1/events", json={**cloud_event("run_1"), **change}, headers={"content-type": "application/cloudevents+json"}
    )
    assert (reply.status_code, reply.json()) == (200, {"result": "IGNORED"})


BROKEN: dict[str, tuple[dict[str, str], bytes]] = {
    "nothing": ({}, b""),
    "no headers of an event": ({"content-type": "application/json"}, b"{}"),
    "JSON that is cut": ({"content-type": "application/cloudevents+json"}, b'{"id": '),
    "a list": ({"content-type": "application/cloudevents+json"}, b"[]"),
    "a batch": ({"content-type": "application/cloudevents-batch+json"}, b"[]"),
    "another version": (binary("application/json", **{"ce-specversion": "0.3"}), b"{}"),
    "another kind of data": (binary("image/png"), b"x"),
    "protobuf that is none": (binary("application/protobuf"), b"\xff\xff\xff"),
    "base64 that is none": (
        {"content-type": "application/cloudevents+json"},
        b'{"id":"1","source":"s","specversion":"1.0","type":"t","data_base64":"*"}',
    ),
}


def test_what_is_not_an_event_is_refused(solo: Site) -> None:
    here = solo()
    for why, (headers, body) in BROKEN.items():
        reply = here.http.post("/v1/events", headers=headers, content=body)
        assert (reply.status_code, reply.json()["error"]["code"]) == (400, "VALIDATION_ERROR"), why


def test_a_run_is_found_wherever_the_event_names_it() -> None:
    bare = {"ce-id": "1", "ce-source": "s", "ce-specversion": "1.0", "ce-type": cloud_event("x")["type"]}
    assert read_event({**bare, "ce-subject": "documents/flow_runs/run%5F1"}, b"").run_id == "run_1"
    assert read_event({**bare, "content-type": "application/protobuf"}, protobuf()).run_id == "run_1"
    assert read_event({**bare, "ce-subject": "documents/flow_runs/../x"}, b"").run_id is None
    assert read_event(bare, b"").run_id is None


def test_a_retryable_failure_is_a_5xx_and_anything_else_is_not(solo: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast_systems.reports.faults import FIRESTORE_UNAVAILABLE
    from holdfast_systems.reports.tables import SqlRuns

    here = solo(FEED="false", STEP_ATTEMPTS_MAX="2")
    here.define()
    here.submit(run_body("run_1"))
    assert [here.result("run_1") for _ in range(2)] == ["SUCCEEDED"] * 2
    here.standin.faults.switch(status=500)
    first: httpx.Response = here.event("run_1")
    assert (first.status_code, first.json()["error"]["code"]) == (502, "GEMINI_REQUEST_FAILED")
    second = here.event("run_1")
    assert (second.status_code, second.json()) == (
        200,
        {"result": "FAILED", "stepId": "report", "code": "GEMINI_REQUEST_FAILED"},
    )

    def down(*_: Any) -> Any:
        raise FIRESTORE_UNAVAILABLE(reason="down")

    monkeypatch.setattr(SqlRuns, "get", down)
    reply = here.event("run_1")
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "FIRESTORE_UNAVAILABLE")
