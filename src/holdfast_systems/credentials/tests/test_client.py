"""The sender library against a real receiver: what is tried again, when, and what is not."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.base import Secret, monotonic_s
from holdfast.catalog import Failure, Remote
from holdfast.guard import stamp_of
from holdfast.policy import within
from holdfast.testing import instant
from holdfast_systems.credentials.client import Sender

from .live import SECRET, created, signature
from .receiver import Receiver, Say, receiving


@pytest.fixture
def receiver():
    with receiving() as one:
        yield one


@pytest.fixture
def sender(receiver: Receiver):
    with Sender(receiver.url, secret=SECRET) as one:
        yield one


def test_it_retries_on_500_and_returns_the_answer(receiver: Receiver, sender: Sender) -> None:
    receiver.answers.append(Say(500))
    with instant() as time:
        assert sender.send(created()) == {"processed": 1}
    assert (len(receiver.got), time.waits_s) == (2, [1.0])


def test_it_does_not_retry_on_400(receiver: Receiver, sender: Sender) -> None:
    receiver.always = Say(400, b'{"error":"x","code":"INVALID_PAYLOAD"}')
    with instant() as time, pytest.raises(Failure) as caught:
        sender.send(created())
    assert (len(receiver.got), time.waits_s) == (1, [])
    assert (caught.value.code, caught.value.remote) == ("UPSTREAM_REJECTED", Remote(400, "INVALID_PAYLOAD", "x"))
    assert "INVALID_PAYLOAD" not in caught.value.message


@pytest.mark.parametrize(("headers", "waited_s"), [({"Retry-After": "2"}, 2.0), ({}, 60.0)])
def test_it_respects_retry_after_on_429(
    receiver: Receiver, sender: Sender, headers: dict[str, str], waited_s: float
) -> None:
    receiver.answers.append(Say(429, b"{}", headers))
    with instant() as time:
        assert sender.send(created()) == {"processed": 1}
    assert time.waits_s == [waited_s]


def test_a_429_spends_no_attempt(receiver: Receiver, sender: Sender) -> None:
    receiver.answers += [Say(429, b"{}", {"Retry-After": "1"})] * 9 + [Say(500)] + [Say(429, b"{}")]
    with instant() as time:
        assert sender.send(created()) == {"processed": 1}
    assert len(receiver.got) == 12
    assert time.passed_s >= 9 * 1 + 1 + 60


def test_an_event_that_meets_nothing_but_429_is_given_up_when_its_time_is_over(receiver: Receiver) -> None:
    receiver.always = Say(429, b"{}", {"Retry-After": "10"})
    with (
        Sender(receiver.url, secret=SECRET, rate_limited_max_s=100.0) as sender,
        instant() as time,
        pytest.raises(Failure) as caught,
    ):
        sender.send(created())
    assert (caught.value.code, caught.value.remote and caught.value.remote.status) == ("UPSTREAM_BUSY", 429)
    assert 80 <= time.passed_s <= 100
    assert stamp_of(caught.value).attempts == 1


def test_a_deadline_counts_more_than_the_time_that_the_engine_asks_for(receiver: Receiver, sender: Sender) -> None:
    receiver.always = Say(429, b"{}", {"Retry-After": "10"})
    with instant() as time, within(15.0), pytest.raises(Failure) as caught:
        sender.send(created())
    assert caught.value.code == "UPSTREAM_BUSY"
    assert time.passed_s <= 15


def test_many_at_once_keep_to_the_limit_of_the_engine_and_all_arrive_once(receiver: Receiver) -> None:
    limit, window_s, count = 20, 0.5, 60
    taken: Counter[int] = Counter()
    arrived: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    lock = threading.Lock()

    def judge(body: bytes) -> Say | None:
        event_id = json.loads(body)["event_id"]
        with lock:
            window = int(monotonic_s() // window_s)
            taken[window] += 1
            (arrived if taken[window] <= limit else refused)[event_id] += 1
            return None if taken[window] <= limit else Say(429, b"{}", {"Retry-After": "1"})

    receiver.judge = judge
    with Sender(receiver.url, secret=SECRET) as sender, ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(lambda number: sender.send(created(event_id=f"evt_{number}")), range(count)))
    assert answers == [{"processed": 1}] * count
    assert arrived == dict.fromkeys((f"evt_{number}" for number in range(count)), 1)


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_server_that_stays_broken_is_tried_five_times_on_the_schedule(
    receiver: Receiver, sender: Sender, status: int
) -> None:
    receiver.always = Say(status)
    with instant() as time, pytest.raises(Failure):
        sender.send(created())
    assert (len(receiver.got), time.waits_s) == (5, [1.0, 2.0, 4.0, 8.0])


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413])
def test_a_refusal_is_final(receiver: Receiver, sender: Sender, status: int) -> None:
    receiver.always = Say(status)
    with pytest.raises(Failure):
        sender.send(created())
    assert len(receiver.got) == 1


def test_every_attempt_brings_the_same_signed_bytes_under_one_id(receiver: Receiver, sender: Sender) -> None:
    receiver.answers += [Say(None), Say(503)]
    with instant():
        sender.send(created())
    bodies = {body for _, body in receiver.got}
    assert (len(receiver.got), len(bodies)) == (3, 1)
    body = bodies.pop()
    assert json.loads(body)["event_id"].startswith("evt_")
    assert len(json.loads(body)["event_id"]) == 20
    assert {headers["x-gr-signature"] for headers, _ in receiver.got} == set(signature(body).values())


def test_a_refused_connection_is_tried_again() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # taken, and nobody listens
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}/"
        with Sender(url, secret=Secret(SECRET)) as sender, instant() as time, pytest.raises(Failure) as caught:
            sender.send(created())
    assert caught.value.code == "CONNECTION_REFUSED"
    assert len(time.waits_s) == 4


def test_a_connection_that_is_not_secure_is_not_tried_again(receiver: Receiver) -> None:
    secure = receiver.url.replace("http:", "https:")
    with Sender(secure, secret=SECRET) as sender, instant() as time, pytest.raises(Failure) as caught:
        sender.send(created())
    assert (caught.value.code, time.waits_s) == ("TLS_ERROR", [])


def test_a_receiver_that_is_silent_is_tried_again_when_the_time_of_an_attempt_is_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with Sender(url, secret=SECRET, delays_s=(0.0,), timeout_s=0.05) as sender, pytest.raises(Failure) as caught:
            sender.send(created())
    assert (caught.value.code, stamp_of(caught.value).attempts) == ("NETWORK_TIMEOUT", 2)


@pytest.mark.parametrize(("said", "told"), [(b"OK", "OK"), (b"", None), (b"\xff", "\ufffd"), (b"[1]", [1])])
def test_an_event_that_has_arrived_is_no_failure_however_that_is_said(
    receiver: Receiver, sender: Sender, said: bytes, told: object
) -> None:
    receiver.always = Say(200, said)
    assert sender.send(created()) == told
    assert len(receiver.got) == 1


async def test_it_sends_on_an_event_loop_too(receiver: Receiver) -> None:
    receiver.answers.append(Say(500))
    async with Sender(receiver.url, secret=SECRET, delays_s=(0.0,)) as sender:
        assert await sender.send_async(created()) == {"processed": 1}
    assert len(receiver.got) == 2
