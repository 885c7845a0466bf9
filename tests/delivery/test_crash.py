"""A worker that dies between the reply and its note of it: the event comes again, under the same id."""

from __future__ import annotations

import subprocess
import sys

from holdfast.base import Secret
from holdfast.delivery import Deliveries, NewEvent, StandardWebhooks
from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast.worker import Jobs, Worker

from .loopback import Loopback, post

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
DYING = """
import http.client, os, sys
from urllib.parse import urlsplit
from holdfast.delivery import Deliveries
from holdfast.store import Store
from holdfast.worker import Jobs, Worker

def send(request):
    address = urlsplit(request.url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=10)
    connection.request("POST", "/", body=request.body, headers=dict(request.headers))
    connection.getresponse().read()
    os._exit(9)  # the reply is here, and nobody knows

store = Store.open(sys.argv[1])
deliveries = Deliveries(store, Jobs(store))
Worker(store, deliveries.handlers(send), queues=[deliveries.queue()], lease_s=600.0).run()
"""


ORDERED = """
import http.client, os, signal, sys, threading
from urllib.parse import urlsplit
from holdfast.delivery import Deliveries
from holdfast.store import Store
from holdfast.worker import Jobs, Worker

def send(request):
    address = urlsplit(request.url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    connection.request("POST", "/", body=request.body, headers=dict(request.headers))
    answer = connection.getresponse()
    from holdfast.delivery import Reply
    return Reply(answer.status, dict(answer.getheaders()), answer.read())

store = Store.open(sys.argv[1])
deliveries = Deliveries(store, Jobs(store))
Worker(store, deliveries.handlers(send), queues=[deliveries.queue(16)], lease_s=600.0).run()
"""


def run_out(store: Store) -> None:
    """Let the leases of all workers run out, as time would."""
    with store.database.transaction(write=True) as execute:
        execute("UPDATE holdfast_worker SET lease_until_us = 0", {})


def test_a_crash_between_the_reply_and_its_note_repeats_the_event_under_the_same_id(
    store: Store, database_url: str, receiver: Loopback
) -> None:
    jobs = Jobs(store)
    deliveries = Deliveries(store, jobs)
    deliveries.endpoints.add(receiver.url, secret=Secret(SECRET))
    event = deliveries.publish("order.paid", {"order": 7})
    died = subprocess.run([sys.executable, "-c", DYING, database_url], timeout=100, check=False)
    assert (died.returncode, len(receiver.got)) == (9, 1)
    run_out(store)
    worker = Worker(store, deliveries.handlers(post), queues=[deliveries.queue()], lease_s=600.0)
    worker.start()
    wait_until(
        lambda: deliveries.history(event.id).deliveries[0].state == "complete", within_s=60, what="the second delivery"
    )
    worker.stop()
    worker.join()
    jobs.close()
    assert [got.headers["webhook-id"] for got in receiver.got] == [event.id] * 2
    assert receiver.got[0].body == receiver.got[1].body
    assert receiver.got[0].data == {"order": 7}
    for got in receiver.got:
        StandardWebhooks().verify(got.headers, got.body, secrets=[Secret(SECRET)])


def test_a_worker_that_is_killed_again_and_again_stalls_no_key_and_keeps_the_order_of_each(
    store: Store, database_url: str, receiver: Loopback
) -> None:
    keys, count = "abcd", 30
    jobs = Jobs(store)
    deliveries = Deliveries(store, jobs)
    deliveries.endpoints.add(receiver.url, ordered=True)
    deliveries.publish_many([NewEvent("e", [key, number], key=key) for number in range(count) for key in keys])
    for kills in range(1, 4):
        victim = subprocess.Popen([sys.executable, "-c", ORDERED, database_url])
        try:
            enough = kills * len(keys) * count // 5
            wait_until(lambda enough=enough: len(receiver.got) >= enough, within_s=100, what="some events")
        finally:
            victim.kill()  # wherever it is: in a request, in a transaction, or between two
            victim.wait()
        run_out(store)
    worker = Worker(store, deliveries.handlers(post), queues=[deliveries.queue(16)], lease_s=600.0)
    worker.start()
    wait_until(
        lambda: not jobs.list(state="queued") and not jobs.list(state="processing"), within_s=100, what="the end"
    )
    worker.stop()
    worker.join()
    jobs.close()
    assert deliveries.undelivered.count() == 0
    for key in keys:
        mine = [number for whose, number in (got.data for got in receiver.got) if whose == key]
        # What was on its way when the worker died comes again before anything else of its key.
        assert mine == sorted(mine)
        assert sorted(set(mine)) == list(range(count))
