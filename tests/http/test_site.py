"""The site as an ASGI application, called without a server."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from holdfast.catalog import CORE, Catalog
from holdfast.http import site
from holdfast.http.asgi import prefers_html
from holdfast.http.markup import Markup, element


class Answer:
    """What came back."""

    def __init__(self, messages: list[dict[str, Any]]) -> None:
        start, end = messages
        self.status: int = start["status"]
        self.headers = {name.decode(): value.decode() for name, value in start["headers"]}
        self.text: str = end["body"].decode()


async def ask(path: str, *catalogs: Catalog, method: str = "GET", **headers: str) -> Answer:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    written = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "headers": written}
    await site(catalogs or [CORE])(scope, receive, send)
    return Answer(sent)


@pytest.mark.parametrize("code", [fault.code for fault in CORE])
async def test_every_core_fault_has_a_page_that_tells_it(code: str) -> None:
    answer = await ask(f"/errors/{code}")
    assert answer.status == 200
    for told in (code, str(CORE[code].status), "Nested", "Flat", "Full", "RFC 9457"):
        assert told in answer.text


@pytest.mark.parametrize("path", ["/", "/errors/", "/errors/BREAKER_OPEN"])
async def test_every_link_on_a_page_leads_somewhere(path: str) -> None:
    links = set(re.findall(r'href="(/[^"]*)"', (await ask(path)).text))
    assert len(links) > 3
    assert {link: (await ask(link)).status for link in links} == dict.fromkeys(links, 200)


async def test_the_index_and_the_list_name_every_fault() -> None:
    for path in ("/", "/errors/"):
        text = (await ask(path)).text
        assert [fault.code for fault in CORE if fault.code not in text] == []


@pytest.mark.parametrize(
    ("path", "method"), [("/", "GET"), ("/health", "GET"), ("/nowhere", "GET"), ("/", "POST"), ("/site.css", "GET")]
)
async def test_every_reply_forbids_script_and_frames(path: str, method: str) -> None:
    policy = (await ask(path, method=method)).headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "script" not in policy
    assert "unsafe" not in policy


async def test_words_of_a_catalog_cannot_become_html() -> None:
    wild = Catalog("<b>shop</b>")
    wild.fault(
        "WILD",
        status=400,
        says='<script>alert("1")</script>',
        technical="<i>",
        causes=("<u>",),
        remedy="<s>",
        related=("<em>",),
        examples=({"name": "<h6>"},),
    )
    for path in ("/", "/errors/", "/errors/WILD"):
        assert re.findall(r"<(?:script|i|u|s|em|b|h6)>", (await ask(path, wild)).text) == []


async def test_the_path_of_a_refusal_cannot_become_html() -> None:
    answer = await ask("/<script>", accept="text/html")
    assert "<script>" not in answer.text


async def test_a_person_gets_a_page_and_a_program_a_problem() -> None:
    page = await ask("/nowhere", accept="text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")
    problem = await ask("/nowhere", accept="application/json")
    assert (page.status, problem.status) == (404, 404)
    assert page.headers["content-type"].startswith("text/html")
    assert problem.headers["content-type"] == "application/problem+json"
    assert page.headers["vary"] == problem.headers["vary"] == "accept"
    assert json.loads(problem.text)["code"] == "NOT_FOUND"


async def test_a_wrong_method_on_an_unknown_path_is_a_404() -> None:
    assert (await ask("/nowhere", method="POST")).status == 404


async def test_a_refusal_continues_the_trace_of_the_caller() -> None:
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    answer = await ask("/nowhere", traceparent=f"00-{trace_id}-00f067aa0ba902b7-01")
    assert json.loads(answer.text)["trace_id"] == trace_id


async def test_the_list_has_one_address() -> None:
    answer = await ask("/errors")
    assert (answer.status, answer.headers["location"]) == (308, "/errors/")


async def test_a_code_that_two_catalogs_word_differently_shows_both() -> None:
    shop = Catalog("shop", extends=(CORE,))
    shop.refine("NOT_FOUND", says="There is no such product.")
    text = (await ask("/errors/NOT_FOUND", CORE, shop)).text
    assert "There is no such product." in text
    assert CORE["NOT_FOUND"].says in text


async def test_a_fault_taken_over_unchanged_is_shown_once() -> None:
    shop = Catalog("shop", extends=(CORE,), docs="https://shop.example/errors/")
    text = (await ask("/errors/", CORE, shop)).text
    assert text.count(">GONE<") == 1


async def test_a_rule_from_the_policy_file_is_the_one_that_is_shown() -> None:
    shop = Catalog("shop", extends=(CORE,))
    assert "Not retried" in (await ask("/errors/GONE", shop)).text
    shop.overlay({"GONE": True})
    assert "Not retried" not in (await ask("/errors/GONE", shop)).text


async def test_the_health_check_is_never_stored() -> None:
    answer = await ask("/health")
    assert answer.headers["cache-control"] == "no-store"
    assert json.loads(answer.text)["faults"] == {"holdfast": len(CORE)}


async def test_it_starts_and_stops_with_the_server() -> None:
    events = iter(["lifespan.startup", "lifespan.shutdown"])
    sent: list[str] = []

    async def receive() -> dict[str, Any]:
        return {"type": next(events)}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await site([CORE])({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


@pytest.mark.parametrize(
    ("accept", "html"),
    [
        ("", False),
        ("*/*", False),
        ("text/html", True),
        ("text/html;q=0", False),
        ("text/html;q=0.5, application/json", False),
        ("TEXT/HTML, application/problem+json;q=0.9", True),
        ("text/html;q=nonsense", False),
    ],
)
def test_the_accept_header_decides_between_page_and_problem(accept: str, html: bool) -> None:
    assert prefers_html(accept) is html


def test_an_element_escapes_everything_but_markup() -> None:
    assert element("p", "<a>", Markup("<b>"), title='"') == '<p title="&quot;">&lt;a&gt;<b></p>'
