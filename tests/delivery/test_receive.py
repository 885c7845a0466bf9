"""The receiver: size, signature, rate limit, repeats and handler, in this order; an answer comes whatever happens."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast.base import Secret, now_us
from holdfast.catalog.core import SERVICE_UNAVAILABLE
from holdfast.delivery import BodyHmac, Incoming, Receiver, StandardWebhooks
from holdfast.delivery.faults import INVALID_PAYLOAD
from holdfast.guard import Answer
from holdfast.policy import Bucket, RateLimit
from holdfast.store import Store
from holdfast.testing import instant

SECRET = Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
BODY = b'{"event_id":"evt_a1b2c3d4e5f6789a","event_type":"contribution_created"}'
Headers = dict[str, str]


@pytest.fixture
def memory() -> Iterator[Store]:
    store = Store.open("sqlite://")
    store.migrate()
    yield store
    store.close()


def signed(body: bytes = BODY, secret: Secret = SECRET) -> Headers:
    return dict(BodyHmac().sign(body, event_id="", at_us=0, secrets=[secret]))


def standard(body: bytes = BODY, event_id: str = "msg_1") -> Headers:
    return dict(StandardWebhooks().sign(body, event_id=event_id, at_us=now_us(), secrets=[SECRET]))


def receiver(store: Store | None = None, **settings: Any) -> Receiver:
    return Receiver(BodyHmac(), **{"secrets": [SECRET], "store": store, "wait_s": 0.0} | settings)


class Counting:
    """A handler that counts how often it was called."""

    def __init__(self, answer: Callable[[int], Any] = lambda count: {"processed": count}) -> None:
        self.calls = 0
        self._answer = answer

    def __call__(self, incoming: Incoming) -> Any:
        self.calls += 1
        return self._answer(self.calls)


def raising(error: Exception) -> Callable[[int], Any]:
    def answer(count: int) -> Any:
        raise error

    return answer


def document(answer: Answer) -> Any:
    return json.loads(answer.body)


def header(answer: Answer, name: str) -> str | None:
    return dict(answer.headers).get(name)


def test_a_genuine_event_reaches_the_handler(memory: Store) -> None:
    seen: list[Any] = []
    answer = receiver(memory).receive(signed(), BODY, lambda incoming: seen.append(incoming.json()) or {"processed": 1})
    assert (answer.status, document(answer)) == (200, {"processed": 1})
    assert seen == [json.loads(BODY)]


@pytest.mark.parametrize(
    ("returned", "status", "body"),
    [(None, 200, b""), ({"a": 1}, 200, b'{"a":1}'), (Answer(202, (), b"queued"), 202, b"queued")],
)
def test_a_handler_may_answer_with_nothing_with_json_or_with_an_answer(
    memory: Store, returned: Any, status: int, body: bytes
) -> None:
    answer = receiver(memory).receive(signed(), BODY, lambda _: returned)
    assert (answer.status, answer.body) == (status, body)


def test_a_body_that_is_too_large_is_refused_before_its_signature_is_looked_at(memory: Store) -> None:
    handler = Counting()
    answer = receiver(memory, bytes_max=len(BODY) - 1).receive({}, BODY, handler)
    assert (answer.status, document(answer)["code"], handler.calls) == (413, "PAYLOAD_TOO_LARGE", 0)


def test_a_wrong_signature_gets_exactly_the_documented_answer(memory: Store) -> None:
    answer = receiver(memory).receive(signed(secret=Secret("another")), BODY, Counting())
    assert (answer.status, header(answer, "Content-Type")) == (401, "application/json")
    assert document(answer) == {"error": "Signature verification failed", "code": "UNAUTHORIZED"}


def test_a_malformed_signature_has_its_own_code(memory: Store) -> None:
    answer = receiver(memory).receive({"X-GR-Signature": "sha256=zz"}, BODY, Counting())
    assert (answer.status, document(answer)["code"]) == (401, "INVALID_SIGNATURE_FORMAT")
    assert document(answer)["error"] == "Signature header malformed"


def test_strangers_do_not_use_up_the_rate_limit_and_the_refusal_says_when_to_come_back(memory: Store) -> None:
    with instant():
        limited = receiver(memory, limit=Bucket(RateLimit(count=1, per_s=60.0)))
        for _ in range(5):
            assert limited.receive({}, BODY, Counting()).status == 401
        assert limited.receive(signed(), BODY, Counting()).status == 200
        answer = limited.receive(signed(), BODY, Counting())
    assert (answer.status, header(answer, "Retry-After")) == (429, "60")
    assert document(answer) == {
        "error": "Rate limit exceeded",
        "code": "RATE_LIMIT_EXCEEDED",
        "details": {"retry_after_seconds": 60, "limit": 1, "window_seconds": 60},
    }


def test_a_repeat_gets_the_first_answer_byte_for_byte_and_is_marked(store: Store) -> None:
    handler, taking = Counting(), receiver(store)
    first = taking.receive(signed(), BODY, handler)
    again = taking.receive(signed(), BODY, handler)
    assert (handler.calls, again.status, again.body) == (1, 200, first.body)
    assert (header(first, "Idempotent-Replayed"), header(again, "Idempotent-Replayed")) == (None, "true")


def test_a_repeat_is_known_by_its_id_also_when_it_was_written_anew(memory: Store) -> None:
    handler, taking = Counting(), receiver(memory)
    other = BODY.replace(b",", b", ")
    assert taking.receive(signed(), BODY, handler).status == taking.receive(signed(other), other, handler).status == 200
    assert handler.calls == 1


def test_an_event_without_an_id_is_known_by_its_bytes(memory: Store) -> None:
    handler, taking = Counting(), receiver(memory)
    for body in (b"[1]", b"[1]", b"not json", b"not json", b"[2]"):
        assert taking.receive(signed(body), body, handler).status == 200
    assert handler.calls == 3


def test_the_signed_id_counts_more_than_what_the_body_says(memory: Store) -> None:
    handler = Counting()
    taking = Receiver(StandardWebhooks(), secrets=[SECRET], store=memory)
    for event_id in ("msg_1", "msg_2", "msg_1"):
        assert taking.receive(standard(event_id=event_id), BODY, handler).status == 200
    assert handler.calls == 2


def test_a_captured_request_that_is_sent_again_has_no_effect_for_ever(virtual_store: Store) -> None:
    handler = Counting()
    with instant() as time:
        taking = Receiver(StandardWebhooks(), secrets=[SECRET], store=virtual_store)
        captured = standard()
        assert taking.receive(captured, BODY, handler).status == 200
        time.advance(299)
        assert taking.receive(captured, BODY, handler).status == 200
        for later_s in (10, 86_400, 30 * 86_400):
            time.advance(later_s)
            answer = taking.receive(captured, BODY, handler)
            assert (answer.status, document(answer)["code"]) == (401, "SIGNATURE_EXPIRED")
    assert handler.calls == 1


def test_repeats_cannot_be_forgotten_sooner_than_signatures_expire(memory: Store) -> None:
    with pytest.raises(ValueError, match="remembered_s"):
        Receiver(StandardWebhooks(), secrets=[SECRET], store=memory, remembered_s=599)


@pytest.mark.parametrize("name", ["tenant", "source"])
def test_ids_of_different_tenants_and_sources_do_not_meet(memory: Store, name: str) -> None:
    handler = Counting()
    for value in ("acme", "other", "acme"):
        receiver(memory, **{name: value}).receive(signed(), BODY, handler)
    assert handler.calls == 2


@pytest.mark.parametrize("name", ["tenant", "source"])
@pytest.mark.parametrize("value", ["x" * 201, "a\nb"])
def test_a_tenant_or_source_that_cannot_be_stored_is_refused_at_once(memory: Store, name: str, value: str) -> None:
    with pytest.raises(ValueError, match=name):
        receiver(memory, **{name: value})


@pytest.mark.parametrize("event_id", ["7", '["x"]', '"' + "x" * 256 + '"', '"a\\nb"', "{}"])
def test_an_id_that_is_none_is_the_sender_s_mistake(memory: Store, event_id: str) -> None:
    body = f'{{"event_id":{event_id}}}'.encode()
    answer = receiver(memory).receive(signed(body), body, Counting())
    assert (answer.status, document(answer)["code"]) == (400, "INVALID_PAYLOAD")
    assert document(answer)["details"]["field"] == "event_id"


def test_a_final_failure_is_the_answer_to_repeats_too(store: Store) -> None:
    missing = INVALID_PAYLOAD("Missing required field: {field}", field="actor.username", reason="required")
    handler, taking = Counting(raising(missing)), receiver(store)
    first, again = (taking.receive(signed(), BODY, handler) for _ in range(2))
    assert first.status == again.status == 400
    assert document(first) == document(again) == {
        "error": "Missing required field: actor.username",
        "code": "INVALID_PAYLOAD",
        "details": {"field": "actor.username", "reason": "required"},
    }  # fmt: skip
    assert handler.calls == 1


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [(SERVICE_UNAVAILABLE(retry_after_s=7), 503, "SERVICE_UNAVAILABLE"), (KeyError("a secret"), 500, "INTERNAL_ERROR")],
)
def test_what_passes_by_itself_is_run_again_when_the_event_comes_again(
    store: Store, error: Exception, status: int, code: str
) -> None:
    reported: list[Exception] = []
    handler, taking = Counting(raising(error)), receiver(store, report=reported.append)
    answer = taking.receive(signed(), BODY, handler)
    assert (answer.status, document(answer)["code"]) == (status, code)
    assert b"secret" not in answer.body
    assert reported == ([error] if isinstance(error, KeyError) else [])
    good = Counting()
    assert taking.receive(signed(), BODY, good).status == 200
    assert (handler.calls, good.calls) == (1, 1)


def test_a_twin_is_told_to_come_back_in_a_way_that_senders_retry(store: Store) -> None:
    inside, go_on, answers = threading.Event(), threading.Event(), []
    taking = receiver(store)

    def slowly(_: Incoming) -> dict[str, int]:
        inside.set()
        assert go_on.wait(60)
        return {"processed": 1}

    first = threading.Thread(target=lambda: answers.append(taking.receive(signed(), BODY, slowly)))
    first.start()
    assert inside.wait(60)
    twin = taking.receive(signed(), BODY, Counting())
    go_on.set()
    first.join()
    assert (twin.status, document(twin)["code"], header(twin, "Retry-After")) == (503, "EVENT_IN_PROGRESS", "1")
    assert (answers[0].status, taking.receive(signed(), BODY, Counting()).body) == (200, answers[0].body)


def test_a_stampede_of_the_same_event_has_one_effect(store: Store) -> None:
    handler, taking = Counting(), receiver(store, wait_s=60.0)
    answers: list[Answer] = []
    threads = [
        threading.Thread(target=lambda: answers.append(taking.receive(signed(), BODY, handler))) for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert handler.calls == 1
    assert {(answer.status, answer.body) for answer in answers} == {(200, b'{"processed":1}')}


def test_without_a_store_every_request_reaches_the_handler() -> None:
    handler = Counting()
    for _ in range(2):
        assert receiver().receive(signed(), BODY, handler).status == 200
    assert handler.calls == 2


def test_secrets_may_be_asked_for_anew_at_each_request(memory: Store) -> None:
    secrets = [SECRET]
    taking = receiver(memory, secrets=lambda: secrets)
    assert taking.receive(signed(), BODY, Counting()).status == 200
    secrets[:] = [Secret("rotated")]
    assert taking.receive(signed(), BODY, Counting()).status == 401


def test_a_receiver_without_a_secret_lets_nobody_in_and_says_nothing(memory: Store) -> None:
    reported: list[Exception] = []
    answer = receiver(memory, secrets=[], report=reported.append).receive(signed(), BODY, Counting())
    assert (answer.status, document(answer)["code"], len(reported)) == (500, "INTERNAL_ERROR", 1)


def test_broken_json_is_told_by_the_handler_that_wants_json(memory: Store) -> None:
    answer = receiver(memory).receive(signed(b"{"), b"{", lambda incoming: incoming.json())
    assert (answer.status, document(answer)["code"]) == (400, "INVALID_JSON")


def test_without_a_reporter_the_log_has_what_the_answer_hides(caplog: pytest.LogCaptureFixture) -> None:
    answer = receiver().receive(signed(), BODY, Counting(raising(KeyError("order"))))
    assert (answer.status, b"order" in answer.body) == (500, False)
    # Only ours: threads that other tests left behind may log as well.
    (line,) = [record for record in caplog.records if record.name == "holdfast.delivery"]
    assert "Traceback (most recent call last):" in line.getMessage()
    assert "KeyError" in line.getMessage().splitlines()[-1]


@pytest.mark.parametrize(
    "secrets", [["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]
)
def test_a_secret_given_as_text_is_refused_before_the_first_request(secrets: Any) -> None:
    with pytest.raises(TypeError, match=r"secrets: give each as a Secret") as refused:
        receiver(secrets=secrets)
    assert "MfKQ" not in str(refused.value)
