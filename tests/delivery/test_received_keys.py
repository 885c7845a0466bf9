"""Events that come at the same time: their keys are written many at a time, and each is still worked on once."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from holdfast.base import Secret, canonical
from holdfast.base.combiner import Combiner
from holdfast.catalog.core import SERVICE_UNAVAILABLE
from holdfast.delivery import BodyHmac, Incoming, Receiver
from holdfast.delivery.faults import INVALID_PAYLOAD
from holdfast.delivery.receive import OPERATION
from holdfast.delivery.received_keys import ReceivedKeys
from holdfast.guard import Answer
from holdfast.guard.idempotency import Keys
from holdfast.guard.key_batches import Finish
from holdfast.guard.key_ledger import stored
from holdfast.lifecycle.idempotency import Started
from holdfast.store import Store

SECRET = Secret("0123456789abcdef")
TWINS = 4


def request(number: int) -> tuple[dict[str, str], bytes]:
    body = b'{"event_id":"evt_%d"}' % number
    return dict(BodyHmac().sign(body, event_id="", at_us=0, secrets=[SECRET])), body


def journal(store: Store) -> Counter[str]:
    rows = store.atomic(
        lambda tx: tx._execute("SELECT verb, count(*) FROM holdfast_journal GROUP BY verb", {}).fetchall(), write=False
    )
    return Counter(dict(rows))


def test_each_event_is_worked_on_once_however_many_bring_it_at_once(store: Store) -> None:
    handled: Counter[str] = Counter()
    lock = threading.Lock()

    def handle(incoming: Incoming) -> Any:
        name = incoming.json()["event_id"]
        with lock:
            handled[name] += 1
        if name == "evt_3":
            raise INVALID_PAYLOAD(field="x")
        return {"for": name}

    receiver = Receiver(BodyHmac(), secrets=[SECRET], store=store, wait_s=60.0)
    requests = [request(number) for number in range(25) for _ in range(TWINS)]
    with ThreadPoolExecutor(len(requests)) as threads:
        answers = list(threads.map(lambda one: receiver.receive(*one, handle), requests))
    assert handled == Counter({f"evt_{number}": 1 for number in range(25)})
    for first in range(0, len(answers), TWINS):
        assert len({(one.status, one.body) for one in answers[first : first + TWINS]}) == 1
    assert [one.status for one in answers[::TWINS]] == [200] * 3 + [400] + [200] * 21
    verbs = journal(store)
    assert verbs == {"key.finished": 25}


async def test_an_event_loop_hands_requests_over_to_threads(store: Store) -> None:
    async def one(number: int) -> Answer:
        return await receiver.receive_async(*request(number), lambda incoming: {"got": incoming.json()})

    receiver = Receiver(BodyHmac(), secrets=[SECRET], store=store)
    answers = await asyncio.gather(*(one(number) for number in range(50)))
    assert {answer.status for answer in answers} == {200}
    assert len({answer.body for answer in answers}) == 50
    again = await one(7)
    assert again.body == answers[7].body
    assert ("Idempotent-Replayed", "true") in again.headers


@pytest.mark.parametrize("how", ["on the loop", "in a thread"])
async def test_a_coroutine_handles_what_a_function_would(store: Store, how: str) -> None:
    # A function that knows the secrets may ask a database, so that all of it goes to a thread.
    secrets: Any = [SECRET] if how == "on the loop" else lambda: [SECRET]
    reported: list[Exception] = []
    receiver = Receiver(BodyHmac(), secrets=secrets, store=store, report=reported.append)
    calls: Counter[str] = Counter()

    async def handle(incoming: Incoming) -> Any:
        name = incoming.json()["event_id"]
        calls[name] += 1
        assert asyncio.get_running_loop() is here
        await asyncio.sleep(0)
        match name:
            case "evt_1":
                raise INVALID_PAYLOAD(field="x")
            case "evt_2":
                raise SERVICE_UNAVAILABLE()
            case "evt_3":
                raise RuntimeError("hush")
            case "evt_4":
                return object()
        return {"for": name}

    here = asyncio.get_running_loop()
    statuses = []
    for _ in range(2):
        answers = await asyncio.gather(*(receiver.receive_async(*request(number), handle) for number in range(5)))
        statuses.append([answer.status for answer in answers])
        assert b"hush" not in b"".join(answer.body for answer in answers)
    assert statuses == [[200, 400, 503, 500, 500]] * 2
    assert calls == {"evt_0": 1, "evt_1": 1, "evt_2": 2, "evt_3": 2, "evt_4": calls["evt_4"]}
    assert (await receiver.receive_async({}, b"{}", handle)).status == 401
    assert "hush" in str(reported)


class Handler:
    """A handler that is an object."""

    async def __call__(self, incoming: Incoming) -> Any:
        await asyncio.sleep(0)
        return incoming.json()


@pytest.mark.parametrize("handle", [Handler(), partial(Handler())])
async def test_an_object_whose_call_is_a_coroutine_handles_too(handle: Any) -> None:
    receiver = Receiver(BodyHmac(), secrets=[SECRET])
    answer = await receiver.receive_async(*request(1), handle)
    assert (answer.status, answer.body) == (200, b'{"event_id":"evt_1"}')


async def test_twins_on_one_loop_share_an_answer(store: Store) -> None:
    receiver = Receiver(BodyHmac(), secrets=[SECRET], store=store, wait_s=60.0)
    calls = []

    async def handle(incoming: Incoming) -> Any:
        calls.append(incoming.json()["event_id"])
        await asyncio.sleep(0.05)
        return {"for": calls[-1]}

    asked = [receiver.receive_async(*request(number), handle) for number in range(10) for _ in range(TWINS)]
    answers = await asyncio.gather(*asked)
    assert {answer.status for answer in answers} == {200}
    assert sorted(calls) == sorted(f"evt_{number}" for number in range(10))


async def test_a_request_that_is_cancelled_gives_its_key_back(store: Store) -> None:
    receiver = Receiver(BodyHmac(), secrets=[SECRET], store=store, wait_s=60.0)
    begun = asyncio.Event()

    async def hang(incoming: Incoming) -> None:
        begun.set()
        await asyncio.sleep(600)

    async def handle(incoming: Incoming) -> str:
        return "done"

    task = asyncio.create_task(receiver.receive_async(*request(1), hang))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await receiver.receive_async(*request(1), handle)).body == b'"done"'


def test_what_is_to_be_tried_again_gives_its_key_back(store: Store) -> None:
    receiver = Receiver(BodyHmac(), secrets=[SECRET], store=store)

    def failing(incoming: Incoming) -> None:
        raise SERVICE_UNAVAILABLE()

    assert receiver.receive(*request(1), failing).status == 503
    assert receiver.receive(*request(1), lambda _: "done").body == b'"done"'


class Together:
    """Holds the flushes of a combiner until so many items wait, so that they go in one."""

    def __init__(self, combiner: Combiner[Any, Any], count: int) -> None:
        self._count = count
        self._flush = combiner._flush
        self._gate = threading.Event()
        self._combiner = combiner
        combiner._flush = self._held
        self.sizes: list[int] = []

    def _held(self, items: Any) -> Any:
        self.sizes.append(len(items))
        if len(self.sizes) == 1:
            while len(self._combiner._pending) < self._count - 1:
                self._gate.wait(0.001)
        return self._flush(items)


@pytest.fixture
def keys(store: Store) -> ReceivedKeys:
    return ReceivedKeys(store, tenant="t", operation=OPERATION)


def begin(keys: Keys, key: str) -> Started:
    begun = keys.begin(tenant="t", operation=OPERATION, key=key, request_hash="h")
    assert isinstance(begun, Started)
    return begun


@pytest.mark.parametrize("answer", [Answer(201, (("Content-Type", "text/plain"),), b"\0\xff", {"id": "7"}), Answer()])
def test_received_keys_leave_the_same_rows_as_all_others(store: Store, answer: Answer) -> None:
    scope = {"tenant": "t", "operation": OPERATION}
    left = []
    for keys in (Keys(store), ReceivedKeys(store, **scope)):
        name = f"by {type(keys).__name__}"
        begun = keys.begin(**scope, key=name, request_hash="h")
        assert isinstance(begun, Started)
        rows = [one_row(store, scope, name)]
        keys.finish(begun, answer, code="GONE")
        subject = canonical([scope["tenant"], scope["operation"], name])
        text = (
            "SELECT verb, kind, code, duration_us IS NULL, reason"
            f" FROM holdfast_journal WHERE subject = '{subject}' ORDER BY id"
        )
        rows += [one_row(store, scope, name), store.atomic(lambda tx, text=text: tx._execute(text, {}).fetchall())]
        left.append(rows)
    assert left[0] == left[1]


def one_row(store: Store, scope: dict[str, str], key: str) -> list[Any]:
    """All of it but the token and the moments, of which the distances are told."""
    (found,) = store.atomic(lambda tx: tx.rows("idempotency.look", **scope, key=key), write=False)
    request_hash, state, _, lease_us, status, headers, body, resources, first_us, expires_us, _ = found
    lease_s = None if lease_us is None else round((lease_us - first_us) / 1e6)
    body = None if body is None else bytes(body)
    return [request_hash, state, lease_s, status, headers, body, resources, round((expires_us - first_us) / 1e6)]


def test_a_holder_that_lost_its_key_learns_it_and_the_others_keep_their_answers(
    keys: ReceivedKeys, store: Store
) -> None:
    started = [begin(keys, f"k{number}") for number in range(5)]
    started[2].token += 1  # as if somebody else had taken it over
    together = Together(keys._together._writes, len(started))

    def finish(one: Started) -> str | None:
        try:
            keys.finish(one, Answer(201, (("Content-Type", "text/plain"),), one.key.encode() + b"\x00\xff"))
        except Exception as error:
            return str(getattr(error, "code", error))
        return None

    with ThreadPoolExecutor(5) as threads:
        told = list(threads.map(finish, started))
    assert together.sizes == [1, 4]
    assert sorted(told, key=str) == ["IDEMPOTENCY_LOST", None, None, None, None]
    assert told[2] == "IDEMPOTENCY_LOST"
    for number in (0, 1, 3, 4):
        replay = Keys(store).begin(tenant="t", operation=OPERATION, key=f"k{number}", request_hash="h")
        assert replay.answer == Answer(201, (("Content-Type", "text/plain"),), b"k%d\x00\xff" % number)  # type: ignore[union-attr]
    verbs = journal(store)
    assert verbs == {"key.finished": 4, "key.lost": 1}


def test_a_flush_that_is_repeated_after_a_lost_reply_changes_nothing(
    keys: ReceivedKeys, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    atomic = store.atomic

    def twice(phase: Any, **said: Any) -> Any:
        atomic(phase, **said)
        return atomic(phase, **said)

    monkeypatch.setattr(store, "atomic", twice)
    started = begin(keys, "k")
    monkeypatch.setattr(store, "atomic", atomic)
    finishing = [Finish(started, stored(Answer(200), ()), None)]
    assert keys._together.write_all(finishing) == [True]
    assert keys._together.write_all(finishing) == [True]
    keys.finish(started, Answer(200))
    verbs = journal(store)
    assert verbs == {"key.finished": 1}
