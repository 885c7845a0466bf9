"""The other side of the suite `delivery`: one party in a process of its own, told what to do by its arguments.

`python -m bench.delivery_program PARTY [ARGUMENT …]`. A party says one line when it is ready, most then
wait for a line, and all end when their standard input does: none outlives who started it.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import itertools
import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Coroutine
from time import perf_counter, process_time, sleep, time
from typing import Any

from bench.delivery_process import Count

CONNECTIONS = 100
PAYLOAD = {"order": 7, "note": "x" * 980}
BODY = b'{"order":7,"note":"' + b"x" * 980 + b'"}'
EVENT_TYPE = "order.paid"
KEY = b"a key of 24 bytes, here!"
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"
REPLY = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"
BATCH = 1_000


def sink(count_path: str) -> None:
    """Receive as cheaply as can be: read a request, count it, say 200."""
    count = Count(count_path)

    class Sink(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            self._transport = transport
            self._rest = b""

        def data_received(self, data: bytes) -> None:
            rest = self._rest + data
            while (end := rest.find(b"\r\n\r\n")) >= 0:
                head = rest[:end].lower()
                length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
                size = end + 4 + int(length)
                if len(rest) < size:
                    break
                rest = rest[size:]
                count.value += 1
                self._transport.write(REPLY)
            self._rest = rest

    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", 0)
        _tell(str(server.sockets[0].getsockname()[1]))
        _end_with_stdin()
        await server.serve_forever()

    _run(serve(), "uvloop")


def bare(port: str, events: str, loop: str) -> None:
    """The same posts from a loop around aiohttp, signed the same way; nothing is written down."""
    import aiohttp

    async def post() -> None:
        numbers = iter(range(int(events)))
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONNECTIONS)) as session:

            async def sender() -> None:
                for number in numbers:
                    async with session.post(_url(port), data=BODY, headers=_signed(f"evt_{number:016x}")) as reply:
                        await reply.read()
                        if reply.status != 200:
                            raise RuntimeError(f"the receiver said {reply.status}")

            await asyncio.to_thread(_at_the_gate)
            await asyncio.gather(*(sender() for _ in range(CONNECTIONS)))
            await asyncio.sleep(60)  # until it is ended: what comes after is not measured

    _run(post(), loop)


def fill(address: str, port: str, events: str, keys: str = "0") -> None:
    """Add an endpoint and publish this many events to it; it is ordered when there are keys."""
    from holdfast.base import Secret
    from holdfast.delivery import Deliveries, NewEvent
    from holdfast.store import Store
    from holdfast.worker import Jobs

    store = Store.open(address)
    store.migrate()
    jobs = Jobs(store)
    deliveries = Deliveries(store, jobs)
    lines = int(keys)
    deliveries.endpoints.add(_url(port), secret=Secret(SECRET), in_flight_max=CONNECTIONS, ordered=lines > 0)
    for first in range(0, int(events), BATCH):
        numbers = range(first, min(first + BATCH, int(events)))
        deliveries.publish_many(
            [NewEvent(EVENT_TYPE, PAYLOAD, key=f"key-{number % lines}" if lines else None) for number in numbers]
        )
    jobs.close()
    store.close()
    _tell("filled")


def work(address: str, loop: str) -> None:
    """A worker that makes deliveries, as a service would run it."""
    from holdfast.delivery import Deliveries
    from holdfast.http import Reach, WebhookSender
    from holdfast.store import Store
    from holdfast.worker import Jobs, Worker

    if loop != "uvloop":
        sys.modules["uvloop"] = None  # type: ignore[assignment]  # a worker takes it wherever it is installed
    store = Store.open(address)
    deliveries = Deliveries(store, Jobs(store))
    (endpoint,) = deliveries.endpoints.list()
    allowed = frozenset({endpoint.url.removeprefix("http://").partition("/")[0]})
    sender = WebhookSender(reach=Reach(allowed=allowed), connections_max=CONNECTIONS)
    worker = Worker(store, deliveries.handlers(sender), queues=[deliveries.queue(CONNECTIONS)])
    _at_the_gate()
    worker.run()


def publish(way: str, address: str, milliseconds: str) -> None:
    """Publish for this many milliseconds; reports the events per second and the cost of one in this process."""
    from holdfast.delivery import Deliveries, NewEvent
    from holdfast.store import Store
    from holdfast.worker import Jobs

    store = Store.open(address)
    store.migrate()
    jobs = Jobs(store)
    deliveries = Deliveries(store, jobs)
    deliveries.endpoints.add("http://127.0.0.1:9/")
    deliveries.publish(EVENT_TYPE, PAYLOAD)
    published = itertools.count()
    seconds = int(milliseconds) / 1_000

    def many() -> None:
        deliveries.publish_many([NewEvent(EVENT_TYPE, PAYLOAD) for _ in range(BATCH)])
        for _ in range(BATCH):
            next(published)

    def one() -> None:
        deliveries.publish(EVENT_TYPE, PAYLOAD)
        next(published)

    def repeat() -> None:
        while perf_counter() < end_s:
            (many if way == "many" else one)()

    _at_the_gate()
    threads = [threading.Thread(target=repeat) for _ in range(CONNECTIONS if way == "together" else 1)]
    began_s, cpu_s = perf_counter(), process_time()
    end_s = began_s + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took_s, used_s, events = perf_counter() - began_s, process_time() - cpu_s, next(published)
    _tell(json.dumps({"rate": events / took_s, "cpu_us": used_s / events * 1e6, "events": events}))
    sleep(60)  # until it is ended: its connections are looked at first


def serve(kind: str, address: str) -> None:
    """An endpoint under uvicorn: bare, with the signature checked, or with repeats recognised as well."""
    import uvicorn

    from holdfast.base import Secret
    from holdfast.delivery import Incoming, Receiver, StandardWebhooks
    from holdfast.store import Store

    store = Store.open(address)
    store.migrate()
    receiver = Receiver(StandardWebhooks(), secrets=[Secret(SECRET)], store=store if kind == "once" else None)

    async def handle(incoming: Incoming) -> None:
        return None

    async def app(scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        body = message["body"]
        while message.get("more_body"):
            message = await receive()
            body += message["body"]
        status = 200
        if kind == "checked":
            status = receiver.receive(scope["headers"], body, lambda _: None).status
        elif kind == "once":
            status = (await receiver.receive_async(scope["headers"], body, handle)).status
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, loop="uvloop", http="httptools", lifespan="off", log_level="critical", access_log=False
    )
    _tell(str(listener.getsockname()[1]))
    _end_with_stdin()
    uvicorn.Server(config).run(sockets=[listener])


def post(count_path: str, port: str, events: str) -> None:
    """Send events that are signed and written already, and count what is answered with 200."""
    count = Count(count_path)
    waiting = [_written(port, f"evt_{number:016x}") for number in range(int(events))]

    class Client(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            self._transport = transport
            self._next()

        def data_received(self, data: bytes) -> None:
            self._reply += data
            if not self._reply.startswith(b"HTTP/1.1 200 "):
                os._exit(1)
            if self._reply.endswith(b"\r\n\r\nok"):
                count.value += 1
                self._next()

        def _next(self) -> None:
            self._reply = b""
            if waiting:
                self._transport.write(waiting.pop())

    async def send() -> None:
        await asyncio.to_thread(_at_the_gate)
        loop = asyncio.get_running_loop()
        for _ in range(CONNECTIONS):
            await loop.create_connection(Client, "127.0.0.1", int(port))
        await asyncio.sleep(600)  # until it is ended

    _run(send(), "uvloop")


def _written(port: str, event_id: str) -> bytes:
    headers = {"Host": f"127.0.0.1:{port}", **_signed(event_id), "Content-Length": str(len(BODY))}
    return b"POST /hook HTTP/1.1\r\n%s\r\n%s" % ("".join(f"{k}: {v}\r\n" for k, v in headers.items()).encode(), BODY)


def _url(port: str) -> str:
    return f"http://127.0.0.1:{port}/hook"


def _signed(event_id: str) -> dict[str, str]:
    seconds = str(int(time()))
    made = hmac.digest(KEY, b"%s.%s.%s" % (event_id.encode(), seconds.encode(), BODY), "sha256")
    return {
        "Content-Type": "application/json",
        "User-Agent": "bench",
        "webhook-id": event_id,
        "webhook-timestamp": seconds,
        "webhook-signature": f"v1,{base64.b64encode(made).decode()}",
    }


def _run(work: Coroutine[Any, Any, None], loop: str) -> None:
    if loop == "uvloop":
        import uvloop

        uvloop.run(work)
    else:
        asyncio.run(work)


def _at_the_gate() -> None:
    """Everything is imported and connected: wait for the start, and end with the process that started this one."""
    _tell("ready")
    if not sys.stdin.readline():
        os._exit(0)
    _end_with_stdin()


def _end_with_stdin() -> None:
    def watch() -> None:
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def _tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())


PARTIES: dict[str, Callable[..., None]] = {one.__name__: one for one in (sink, bare, fill, work, publish, serve, post)}

if __name__ == "__main__":
    PARTIES[sys.argv[1]](*sys.argv[2:])
