"""Payloads and results are JSON by one rule; what would change on the way is refused, and nothing is stored."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.catalog import Failure
from holdfast.guard.request import request_hash
from holdfast.worker import Jobs
from holdfast.worker.attempt import ResultRefused, result_text

WRONG: dict[str, tuple[Any, str]] = {
    "a key that is a number": ({7: "lamp"}, "the key 7 is not text"),
    "bytes": ({"photo": b"\x00"}, "photo is bytes"),
    "NaN": ({"share": float("nan")}, "share is nan"),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_a_payload_that_would_change_is_refused_with_its_place(jobs: Jobs, name: str) -> None:
    payload, told = WRONG[name]
    with pytest.raises(Failure, match="BAD_REQUEST: payload has no JSON form") as refused:
        jobs.enqueue("k", payload)
    assert told in refused.value.message
    assert jobs.list() == []


@pytest.mark.parametrize("name", list(WRONG))
def test_a_result_and_the_body_of_a_keyed_request_likewise(name: str) -> None:
    value, told = WRONG[name]
    with pytest.raises(ResultRefused, match=told):
        result_text(value)
    with pytest.raises(ValueError, match=f"body: .*{told}"):
        request_hash(body=value)
