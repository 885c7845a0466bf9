"""The seed's tables, row by row, against a real receiver: what is delivered, what is tried again, what is given up."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Iterator

import pytest

from holdfast.delivery import Deliveries
from holdfast.delivery.exchange import Reply
from holdfast.delivery.outcome import read_reply
from holdfast.testing import VirtualTime

from .loopback import Loopback, Say, VirtualWorker, closed_port

FINAL = {
    400: "BAD_REQUEST", 401: "UNAUTHORIZED", 403: "FORBIDDEN", 404: "NOT_FOUND", 413: "PAYLOAD_TOO_LARGE",
    409: "CONFLICT", 418: "BAD_REQUEST", 422: "UNPROCESSABLE",
    301: "REDIRECTED", 302: "REDIRECTED", 307: "REDIRECTED", 308: "REDIRECTED",
}  # fmt: skip
AGAIN = (500, 501, 502, 503, 504, 507, 599, 408, 425)

WAYS = {"enqueued", "claimed"}
PATIENCE_S = 60.0
NO_HOST = f"{'no-such-host-' * 4}.{'a' * 60}.{'b' * 60}.{'c' * 60}.{'d' * 60}.invalid"
"""Longer than a name can be, so that the resolver says no by itself, whatever name server there is or is not."""


def starts_s(receiver: Loopback, path: str = "/") -> list[float]:
    """When the requests came, counted from the first."""
    times = [got.at_us for got in receiver.at(path)]
    return [round((at_us - times[0]) / 1e6, 1) for at_us in times]


def state_of(deliveries: Deliveries, event_id: str) -> str | None:
    (delivery,) = deliveries.history(event_id).deliveries
    return delivery.state


def one_for_each(deliveries: Deliveries, receiver: Loopback, says: Iterable[Say]) -> dict[str, Say]:
    """An endpoint for each answer, and one event for all of them; the answers by the endpoints' ids."""
    made = {}
    for number, say in enumerate(says):
        receiver.always[f"/{number}"] = say
        made[deliveries.endpoints.add(f"{receiver.url}/{number}").id] = say
    deliveries.publish("order.paid", {"order": 7})
    return made


@pytest.mark.parametrize("ordered", [False, True])
def test_every_attempt_in_the_history_has_the_status_of_its_answer(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback, ordered: bool
) -> None:
    deliveries.endpoints.add(receiver.url, ordered=ordered)
    receiver.answers["/"].extend([Say(500), Say(429, {"Retry-After": "1"}), Say(202)])
    event = deliveries.publish("order.paid", {}, key="order:7" if ordered else None)
    worker.run()
    (delivery,) = deliveries.history(event.id).deliveries
    told = [(step["verb"], step["upstream_status"]) for step in delivery.events if step["verb"] not in WAYS]
    assert told == [("retried", 500), ("retried", 429), ("finished", 202)]


def test_a_2xx_marks_the_event_delivered(deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback) -> None:
    one_for_each(deliveries, receiver, [Say(status) for status in (200, 201, 202, 204)])
    worker.run()
    assert deliveries.undelivered.count() == 0
    assert [(got.path, got.data) for got in sorted(receiver.got, key=lambda got: got.path)] == [
        (f"/{number}", {"order": 7}) for number in range(4)
    ]


def test_what_is_final_is_given_up_at_once_and_redirects_are_not_followed(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    elsewhere = {"Location": f"{receiver.url}/elsewhere"}
    made = one_for_each(deliveries, receiver, [Say(status, elsewhere, b'{"error":"no"}') for status in FINAL])
    worker.run()
    dead = deliveries.undelivered.list().events
    assert {one.endpoint_id for one in dead} == set(made)
    assert {one.status_code: one.error_code for one in dead} == FINAL
    for one in dead:
        assert (one.status_code, one.attempts) == (made[one.endpoint_id].status, 1)
        assert one.error_message == f'The endpoint answered {one.status_code}: {{"error":"no"}}'
    assert len(receiver.got) == len(FINAL)


def test_what_may_pass_is_tried_at_once_and_after_1_2_4_8_seconds_then_given_up(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    made = one_for_each(deliveries, receiver, [Say(status) for status in AGAIN])
    worker.run()
    assert [starts_s(receiver, f"/{number}") for number in range(len(AGAIN))] == [[0, 1, 3, 7, 15]] * len(AGAIN)
    dead = deliveries.undelivered.list().events
    assert {(one.endpoint_id, one.status_code, one.attempts) for one in dead} == {
        (endpoint_id, say.status, 5) for endpoint_id, say in made.items()
    }


def test_an_event_that_comes_through_late_is_delivered(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    deliveries.endpoints.add(receiver.url)
    receiver.answers["/"].extend([Say(500), Say(502), Say(200)])
    event = deliveries.publish("order.paid", {})
    worker.run()
    assert (starts_s(receiver), state_of(deliveries, event.id)) == ([0, 1, 3], "complete")
    assert deliveries.undelivered.count() == 0
    verbs = [step["verb"] for step in deliveries.history(event.id).deliveries[0].events]
    assert verbs == ["enqueued", "claimed", "retried", "claimed", "retried", "claimed", "finished"]


def test_retry_after_counts_on_429_and_503_and_has_a_ceiling(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    table = [
        (429, "7", 7), (429, None, 60), (429, "soon", 60), (503, "7", 7), (429, "99999", 3_600), (503, "99999", 3_600),
        (503, "-1", 1), (503, None, 1), (500, "7", 1), (504, "7", 1), (429, "0", 1), (503, "0", 1),
        (503, "Sun, 06 Nov 1994 08:49:37 GMT", 1), (429, "5, 9", 9),
    ]  # fmt: skip
    for number, (status, asked, _) in enumerate(table):
        receiver.answers[f"/{number}"].append(Say(status, {} if asked is None else {"Retry-After": asked}))
    one_for_each(deliveries, receiver, [Say()] * len(table))
    worker.run(10_000)
    for number, (_, _, gap_s) in enumerate(table):
        assert starts_s(receiver, f"/{number}") == [0, pytest.approx(gap_s, abs=0.15)]


def test_an_endpoint_that_asks_for_time_gets_it_for_all_its_events(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback, time: VirtualTime
) -> None:
    deliveries.endpoints.add(receiver.url)
    receiver.answers["/"].append(Say(429, {"Retry-After": "30"}))
    deliveries.publish("order.paid", {"first": True})
    worker.turn()
    other = deliveries.publish("order.paid", {"first": False})
    worker.run(20)
    assert len(receiver.got) == 1
    worker.run(20)
    assert len(receiver.got) == 3
    steps = [step["verb"] for step in deliveries.history(other.id).deliveries[0].events]
    assert steps == ["enqueued", "claimed", "snoozed", "claimed", "finished"]


def test_a_410_gives_the_event_up_and_disables_the_endpoint(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    endpoint = deliveries.endpoints.add(receiver.url)
    receiver.answers["/"].append(Say(410))
    first = deliveries.publish("order.paid", {})
    worker.run()
    found = deliveries.endpoints.show(endpoint.id)
    assert not found.enabled
    assert found.disabled_reason == f"it answered 410 to the event {first.id}"
    later = deliveries.publish("order.paid", {})
    worker.run()
    assert (later.endpoint_ids, len(receiver.got)) == ((), 1)


def test_what_was_under_way_to_an_endpoint_that_is_disabled_waits_among_the_dead_letters(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    endpoint = deliveries.endpoints.add(receiver.url)
    event = deliveries.publish("order.paid", {})
    assert deliveries.endpoints.disable(endpoint.id, reason="maintenance")
    assert not deliveries.endpoints.disable(endpoint.id, reason="again")
    worker.run()
    (dead,) = deliveries.undelivered.list().events
    assert (dead.event_id, dead.error_code, receiver.got) == (event.id, "ENDPOINT_DISABLED", [])
    assert deliveries.endpoints.enable(endpoint.id)
    deliveries.undelivered.replay(event.id)
    worker.run(2)
    assert len(receiver.got) == 1


def test_a_network_that_fails_is_tried_again_on_the_schedule(
    deliveries: Deliveries, worker: VirtualWorker, places: dict[str, int]
) -> None:
    table = {
        f"http://127.0.0.1:{places['closed']}/": "CONNECTION_REFUSED",
        f"http://{NO_HOST}/": "DNS_FAILED",
        f"http://127.0.0.1:{places['silent']}/": "NETWORK_TIMEOUT",
        f"http://127.0.0.1:{places['rude']}/": "CONNECTION_RESET",
    }
    # Only what is never answered may run out of time, however slow this machine is.
    limits_s = {code: 0.2 if code == "NETWORK_TIMEOUT" else PATIENCE_S for code in table.values()}
    expected = {deliveries.endpoints.add(url, timeout_s=limits_s[code]).id: code for url, code in table.items()}
    event = deliveries.publish("order.paid", {})
    worker.run()
    for delivery in deliveries.history(event.id).deliveries:
        codes = [step["code"] for step in delivery.events if step["verb"] in {"retried", "failed"}]
        assert codes == [expected[delivery.endpoint_id]] * 5
        times = [step["at_us"] for step in delivery.events if step["verb"] == "claimed"]
        assert [round((at_us - times[0]) / 1e6) for at_us in times] == [0, 1, 3, 7, 15]
    dead = deliveries.undelivered.list().events
    assert [(one.status_code, one.attempts) for one in dead] == [(None, 5)] * 4


def test_a_tls_error_is_final(deliveries: Deliveries, worker: VirtualWorker, places: dict[str, int]) -> None:
    deliveries.endpoints.add(f"https://127.0.0.1:{places['plain']}/")
    deliveries.publish("order.paid", {})
    worker.run()
    (dead,) = deliveries.undelivered.list().events
    assert (dead.error_code, dead.attempts, dead.status_code) == ("TLS_ERROR", 1, None)


def test_an_endpoint_has_a_schedule_of_its_own(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    deliveries.endpoints.add(receiver.url, delays_s=[5, 300])
    deliveries.endpoints.add(receiver.url + "/once", delays_s=[])
    receiver.always = {"/": Say(500), "/once": Say(500)}
    deliveries.publish("order.paid", {})
    worker.run(1_000)
    assert starts_s(receiver) == [0, 5, 305]
    assert len(receiver.at("/once")) == 1


@pytest.mark.parametrize("status", [100, 199, 600, 999])
def test_a_status_that_is_no_answer_is_tried_again(status: int) -> None:
    failure = read_reply(Reply(status))
    assert failure is not None
    assert (failure.code, failure.retryable) == ("INVALID_RESPONSE", True)


def test_what_is_kept_of_an_answer_is_short_and_harmless() -> None:
    failure = read_reply(Reply(400, {}, b"\x1b[31m\xff\x00 {name} " + b"x" * 5_000))
    assert failure is not None
    assert len(failure.message) < 250
    assert failure.message.isprintable()


@pytest.fixture
def places() -> Iterator[dict[str, int]]:
    """Ports where things go wrong: nobody listens, nobody answers, or the connection is cut."""
    silent, rude, plain = (socket.create_server(("127.0.0.1", 0)) for _ in range(3))
    stopping = threading.Event()

    def serve(server: socket.socket, answer: bytes, read_bytes: int) -> None:
        server.settimeout(0.05)
        while not stopping.is_set():
            try:
                connection = server.accept()[0]
            except TimeoutError:
                continue
            with connection:
                connection.settimeout(PATIENCE_S)
                connection.recv(read_bytes)
                connection.sendall(answer)

    table = ((rude, b"", 100), (plain, b"HTTP/1.1 200 OK", 65_536))  # what is left unread resets the connection
    threads = [threading.Thread(target=serve, args=arguments) for arguments in table]
    for thread in threads:
        thread.start()
    ports = {name: server.getsockname()[1] for name, server in (("silent", silent), ("rude", rude), ("plain", plain))}
    with closed_port() as closed:
        yield ports | {"closed": closed}
    stopping.set()
    for thread in threads:
        thread.join()
    for server in (silent, rude, plain):
        server.close()
