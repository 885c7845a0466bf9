"""The front: which part gets a request, what it sees of it, and how parts live together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request

from holdfast.http import lifespan
from holdfast.http.front import Front, Mount
from holdfast.http.lifespan import StartFailed


def named(name: str, seen: list[Any] | None = None) -> Any:
    """An application that answers with its name and keeps the scopes it saw."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            raise NotImplementedError
        if seen is not None:
            seen.append(scope)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": name.encode()})

    return application


def living(name: str, diary: list[str], *, fails: str = "") -> Any:
    """An application with a life that it writes down."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "lifespan"
        await receive()
        if fails == "raises":
            raise RuntimeError("no bank")
        if fails == "says":
            return await send({"type": "lifespan.startup.failed", "message": "Traceback …\nRuntimeError: no bank\n"})
        if fails == "hangs":
            await receive()
        diary.append(f"{name} started")
        scope["state"]["name"] = name
        await send({"type": "lifespan.startup.complete"})
        await receive()
        diary.append(f"{name} stopped")
        return await send({"type": "lifespan.shutdown.complete"})

    return application


def mounted(**apps: Any) -> Front:
    return Front([Mount(path=f"/{name}" if name != "root" else "", app=app) for name, app in apps.items()])


async def ask(
    front: Any, path: str, method: str = "GET", client: tuple[str, int] = ("127.0.0.1", 1), **headers: str
) -> httpx.Response:
    transport = httpx.ASGITransport(front, client=client)
    async with httpx.AsyncClient(transport=transport, base_url="http://front") as asking:
        return await asking.request(method, path, headers=headers)


@pytest.mark.parametrize(
    ("path", "who"),
    [
        ("/shop/", "shop"),
        ("/shop/orders/7", "shop"),
        ("/shop/admin/", "admin"),
        ("/shop/admin/x", "admin"),
        ("/shop/administrator", "shop"),
        ("/shopping", "rest"),
        ("/", "rest"),
        ("//shop/", "rest"),
    ],
)
async def test_the_longest_path_wins_by_whole_segments(path: str, who: str) -> None:
    front = Front(
        [
            Mount(path="", app=named("rest")),
            Mount(path="/shop", app=named("shop")),
            Mount(path="/shop/admin", app=named("admin")),
        ]
    )
    assert (await ask(front, path)).text == who


async def test_a_part_sees_its_root_and_the_whole_path() -> None:
    seen: list[Any] = []
    await ask(mounted(shop=named("shop", seen)), "/shop/orders?id=7")
    scope = seen[0]
    assert (scope["root_path"], scope["path"], scope["query_string"]) == ("/shop", "/shop/orders", b"id=7")


async def test_a_front_below_another_path_extends_the_root_it_was_given() -> None:
    seen: list[Any] = []
    outer = mounted(api=mounted(shop=named("shop", seen)))
    await ask(outer, "/api/shop/orders")
    assert (seen[0]["root_path"], seen[0]["path"]) == ("/api/shop", "/api/shop/orders")


async def test_a_part_that_is_not_rooted_sees_the_request_as_it_came() -> None:
    seen: list[Any] = []
    await ask(Front([Mount(path="/errors", app=named("site", seen), rooted=False)]), "/errors")
    assert (seen[0].get("root_path", ""), seen[0]["path"]) == ("", "/errors")


async def test_a_mounted_framework_finds_its_routes_and_makes_its_links() -> None:
    shop = FastAPI()

    @shop.get("/orders/{number}")
    def order(number: int, request: Request) -> dict[str, Any]:
        return {"number": number, "link": str(request.url_for("order", number=8))}

    answer = await ask(mounted(shop=shop), "/shop/orders/7")
    assert answer.json() == {"number": 7, "link": "http://front/shop/orders/8"}


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_path_without_its_slash_is_sent_to_the_one_with_it(method: str) -> None:
    answer = await ask(mounted(shop=named("shop")), "/shop?a=1", method)
    assert (answer.status_code, answer.headers["location"]) == (308, "shop/?a=1")
    assert str(answer.url.join(answer.headers["location"])) == "http://front/shop/?a=1"


async def test_a_path_that_nobody_has_is_a_404_of_our_own() -> None:
    answer = await ask(mounted(shop=named("shop")), "/elsewhere")
    assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")
    assert answer.headers["content-type"] == "application/problem+json"


# -- this machine only -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "headers", "let_in"),
    [
        (("127.0.0.1", 5), {}, True),
        (("127.9.9.9", 5), {}, True),
        (("::1", 5), {}, True),
        (("::ffff:127.0.0.1", 5), {}, True),
        (("192.0.2.7", 5), {}, False),
        (("::ffff:192.0.2.7", 5), {}, False),
        (("testclient", 5), {}, False),
        (("127.0.0.1", 5), {"X-Forwarded-For": "127.0.0.1"}, False),
        (("127.0.0.1", 5), {"Forwarded": "for=203.0.113.9"}, False),
        (("127.0.0.1", 5), {"Via": "1.1 proxy"}, False),
        (("127.0.0.1", 5), {"X-Real-Ip": "127.0.0.1"}, False),
        (("127.0.0.1", 5), {"Host": "evil.example"}, False),
    ],
)
async def test_a_part_for_this_machine_refuses_everybody_else(
    client: tuple[str, int], headers: Mapping[str, str], let_in: bool
) -> None:
    front = Front([Mount(path="/standins/bank", app=named("bank"), loopback=True)])
    answer = await ask(front, "/standins/bank/", client=client, **{"Host": "localhost", **headers})
    assert answer.status_code == (200 if let_in else 403)
    if not let_in:
        assert answer.json()["code"] == "FORBIDDEN"


async def test_a_web_socket_that_may_not_be_opened_is_closed() -> None:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    front = Front([Mount(path="/standins/bank", app=named("bank"), loopback=True)])
    scope = {"type": "websocket", "path": "/standins/bank/", "client": ("192.0.2.7", 1), "headers": []}
    await front(scope, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008, "reason": "FORBIDDEN"}]


@pytest.mark.parametrize("paths", [("shop",), ("/shop/",), ("/shop", "/shop"), ("", "")])
def test_a_misspelt_or_taken_path_is_refused(paths: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"path to mount|want to stand at"):
        Front([Mount(path=path, app=named("one")) for path in paths])


# -- lives -------------------------------------------------------------------------------------------------------------


async def test_parts_start_in_order_and_stop_in_reverse() -> None:
    diary: list[str] = []
    async with mounted(a=living("a", diary), b=living("b", diary), c=named("c")).living():
        diary.append("requests")
    assert diary == ["a started", "b started", "requests", "b stopped", "a stopped"]


async def test_an_application_that_is_mounted_twice_lives_once() -> None:
    diary: list[str] = []
    one = living("a", diary)
    async with mounted(a=one, b=one).living():
        pass
    assert diary == ["a started", "a stopped"]


async def test_what_a_part_keeps_when_it_starts_is_in_its_requests_alone() -> None:
    shop, seen = FastAPI(), []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return await living("a", [])(scope, receive, send)
        seen.append(scope["state"])
        return await shop(scope, receive, send)

    other: list[Any] = []
    front = mounted(a=application, b=named("b", other))
    async with front.living():
        await ask(front, "/a/")
        seen[0]["name"] = "changed"
        await ask(front, "/a/")
        await ask(front, "/b/")
    assert seen == [{"name": "changed"}, {"name": "a"}]
    assert other[0]["state"] == {}


@pytest.mark.parametrize("fails", ["raises", "says"])
async def test_a_part_that_does_not_start_is_named_and_the_others_are_stopped(fails: str) -> None:
    diary: list[str] = []
    with pytest.raises(StartFailed, match=r"/b did not start: RuntimeError: no bank"):
        async with mounted(a=living("a", diary), b=living("b", diary, fails=fails)).living():
            diary.append("requests")
    assert diary == ["a started", "a stopped"]


async def test_a_part_that_never_starts_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifespan, "START_S_MAX", 0.05)
    with pytest.raises(StartFailed, match="longer than"):
        async with mounted(a=living("a", [], fails="hangs")).living():
            pass


@pytest.mark.parametrize(
    ("fails", "answers"), [("", ["startup.complete", "shutdown.complete"]), ("says", ["startup.failed"])]
)
async def test_a_server_that_sends_lifespan_events_is_answered_for_all_parts(fails: str, answers: list[str]) -> None:
    events = iter(["lifespan.startup", "lifespan.shutdown"])
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": next(events)}

    async def send(message: Any) -> None:
        sent.append(message)

    await mounted(a=living("a", [], fails=fails))({"type": "lifespan"}, receive, send)
    assert [message["type"].removeprefix("lifespan.") for message in sent] == answers
    if fails:
        assert sent[0]["message"] == "/a did not start: RuntimeError: no bank"
