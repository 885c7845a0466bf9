"""Every code that the API documents is produced by a request to a server, and by nothing less."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from holdfast_systems.records.faults import RECORDS, RETRY_CLASSES

from .code_scenes import SCENES, Stage
from .live import Live

SEED = (
    "NETWORK_TIMEOUT", "CONNECTION_RESET", "DATABASE_CONNECTION_ERROR", "EXTERNAL_SERVICE_TIMEOUT",
    "TEMPORARY_UNAVAILABLE", "RATE_LIMIT_EXCEEDED", "QUOTA_EXCEEDED", "SERVICE_OVERLOADED", "INVALID_API_KEY",
    "API_KEY_EXPIRED", "INSUFFICIENT_PERMISSIONS", "VALIDATION_ERROR", "MALFORMED_JSON", "UNSUPPORTED_CONTENT_TYPE",
    "COMPANY_NOT_FOUND", "DUPLICATE_RECORD", "BUSINESS_RULE_VIOLATION", "SLOT_CONFLICT", "VALIDATION_QUEUE_FULL",
    "IDEMPOTENCY_CONFLICT", "VALIDATION_SERVICE_ERROR",
)  # fmt: skip
"""The codes of the error model that this system implements."""
FOR_OPERATORS = {"PROVIDER_REFUSES_US"}
"""What a provider says to us; callers are told of the verification that failed."""


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with ExitStack() as stack:
        yield Stage(tmp_path, stack, monkeypatch)


@pytest.mark.parametrize("code", SCENES)
def test_a_request_gets_this_code(stage: Stage, code: str) -> None:
    reply = SCENES[code](stage)
    body = reply.json()
    assert body["error_code"] == code, body
    assert reply.status_code == RECORDS[code].status
    assert reply.headers["content-type"].startswith("application/json")
    assert body["request_id"] == reply.headers["x-request-id"]
    assert body["message"]
    assert body["documentation_url"].endswith(f"/errors/{code}")
    if "retry_after" in body:
        assert reply.headers["retry-after"] == str(body["retry_after"])


def test_there_is_a_scene_for_every_code_that_is_documented_and_for_no_other(solo: Live) -> None:
    described = solo.http.get("/records/openapi.json").json()
    assert set(SCENES) == set(documented(described))
    assert set(RETRY_CLASSES) - set(SCENES) == FOR_OPERATORS
    assert set(SEED) <= set(SCENES)


def documented(described: dict[str, Any]) -> Iterator[str]:
    """Every code in the examples of every status of every route."""
    for routes in described["paths"].values():
        for operation in routes.values():
            for response in operation["responses"].values():
                yield from response["content"]["application/json"].get("examples", {})
