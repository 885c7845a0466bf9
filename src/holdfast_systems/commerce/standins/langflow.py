"""A stand-in for Langflow: the real protocol of `POST /api/v1/run/{flow}`, with faults that can be switched.

A repeat is recognised by its run id (`X-Run-Id`, else `session_id`): it waits for the first call and gets its answer,
and no tool is called twice. What the input begins with decides what comes back: `/words 250` writes 250 words,
`/tool weather.read {"city": "Oslo"}` calls a tool of the connectors, everything else is talked about.

Besides the usual faults, `PUT …/faults {"answer": "cut_reply" | "cut_stream" | "error" | "wrong"}` switches the
runtime's own ways to fail, each after the flow has run; `times` bounds it.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock
from typing import Any
from urllib.parse import parse_qs

from holdfast.base import CodecError, Json, decode, encode, new_id, now_us, utc_text, world
from holdfast.catalog import Dialect, Failure, render
from holdfast.http.asgi import Receive, Scope, Send, header
from holdfast.http.faults import INVALID_JSON, VALIDATION_ERROR
from holdfast.http.this_machine import within_this_machine
from holdfast.testing.faulty import Faults, Faulty, cut, read_body
from holdfast_systems.commerce.standins.langflow_protocol import completed, ended, flow_error, opened, token_event

BODY_BYTES_MAX = 1_048_576
SWITCH_BYTES_MAX = 4_096
RUNS_KEPT_MAX = 10_000
WORDS_MAX = 5_000
PAUSE_S = 0.005
"""The time between two words of a stream."""
PATH = re.compile(r"/api/v1/run/(?P<flow>[^/]{1,200})\Z")
NO_FLOW = "missing"
"""A flow whose name begins with this is not there."""
TOOL = re.compile(r"/tool\s+(?P<name>[A-Za-z0-9._-]{1,64})\s*(?P<arguments>\{.*\})?\s*\Z", re.DOTALL)
WORDS = re.compile(r"/words\s+(?P<count>[0-9]{1,4})\s*\Z")
INSTANCE_HEADER = "x-langflow-global-var-instance-id"
RUN_HEADER = "x-run-id"

CallTool = Callable[[str, str, dict[str, Any], str], Awaitable[str]]
"""Calls a tool: the instance, the tool, its arguments and the run; answers what to say about it."""


class Answering(StrEnum):
    """The runtime's own ways to fail, after the flow has run."""

    CUT_REPLY = "cut_reply"
    CUT_STREAM = "cut_stream"
    ERROR = "error"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request to run a flow."""

    flow: str
    run_id: str
    instance_id: str
    session_id: str
    text: str
    streams: bool


class LangflowStandIn:
    """An ASGI application that answers as Langflow does; the outermost of it switches its faults."""

    def __init__(self, call_tool: CallTool | None = None, *, pause_s: float = PAUSE_S) -> None:
        """
        Args:
            call_tool: how a flow reaches its tools; without it there are none.
            pause_s: the time between two words of a stream.
        """
        self.faults = Faults()
        self.requests = 0
        """How many requests to run a flow were accepted, repeats included."""
        self.executions: OrderedDict[str, int] = OrderedDict()
        """How often each run was executed, by its id; more than once would be one too many."""
        self._call_tool = call_tool
        self._pause_s = pause_s
        self._lock = Lock()
        self._answers: OrderedDict[str, asyncio.Task[str]] = OrderedDict()
        self._answering: Answering | None = None
        self._left: int | None = None
        self._faulty = Faulty(self._answer, faults=self.faults, words=_words)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _below(scope) == "/faults":
            await self._switch(scope, receive, send)
        else:
            await self._faulty(scope, receive, send)

    def switch(self, answer: str | None, times: int | None = None) -> None:
        """Let the runtime fail in this way; None is the right way."""
        with self._lock:
            self._answering = None if answer is None else Answering(answer)
            self._left = times

    # -- the API ---------------------------------------------------------------------------------------------------

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return None
        path = _below(scope)
        if scope["method"] == "GET" and path in ("", "/health"):
            executed = sum(self.executions.values())
            told = {"status": "ok", "standIn": "langflow", "requests": self.requests, "executions": executed}
            return await _say(send, 200, told)
        called = PATH.match(path)
        if called is None:
            return await _say(send, 404, {"detail": "Not Found"})
        if scope["method"] != "POST":
            return await _say(send, 405, {"detail": "Method Not Allowed"})
        body = await read_body(receive, BODY_BYTES_MAX, kept=BODY_BYTES_MAX)
        if not header(scope, "x-api-key"):
            return await _say(send, 403, {"detail": "An API key must be passed as query or header"})
        if called["flow"].startswith(NO_FLOW):
            return await _say(send, 404, {"detail": f"Flow identifier {called['flow']} not found"})
        asked = _asked(scope, called["flow"], body)
        if asked is None:
            return await _say(send, 422, {"detail": [{"loc": ["body"], "msg": "Input should be a valid request"}]})
        return await self._run(asked, receive, send)

    async def _run(self, asked: Asked, receive: Receive, send: Send) -> None:
        with self._lock:
            self.requests += 1
            task = self._answers.get(asked.run_id)
            if task is None:
                self.executions[asked.run_id] = self.executions.get(asked.run_id, 0) + 1
                task = self._answers[asked.run_id] = asyncio.ensure_future(self._executed(asked))
                while len(self._answers) > RUNS_KEPT_MAX:
                    self._answers.popitem(last=False)
                    self.executions.popitem(last=False)
        text = await asyncio.shield(task)
        answering = self._next_answering()
        if answering is Answering.CUT_REPLY:
            await cut(receive, send)
        elif asked.streams:
            await self._stream(asked, text, answering, receive, send)
        elif answering is Answering.ERROR:
            await _say(send, 500, flow_error("Error running graph"))
        elif answering is Answering.WRONG:
            await _say(send, 200, {"session_id": asked.session_id, "outputs": []})
        else:
            await _say(send, 200, completed(asked.text, text, asked.session_id))

    async def _executed(self, asked: Asked) -> str:
        if words := WORDS.match(asked.text):
            return " ".join(["word"] * min(int(words["count"]), WORDS_MAX))
        if tool := TOOL.match(asked.text):
            return await self._tool(asked, tool["name"], tool["arguments"] or "{}")
        said = " ".join(asked.text.split())[:400]
        return f"You said: “{said}”. I am the stand-in of a flow, so this is all I know about it."

    async def _tool(self, asked: Asked, name: str, arguments: str) -> str:
        try:
            given = decode(arguments)
        except CodecError:
            return f"The arguments of {name} are not JSON."
        if self._call_tool is None or not isinstance(given, dict):
            return f"The tool {name} cannot be called."
        return await self._call_tool(asked.instance_id, name, given, asked.run_id)

    async def _stream(self, asked: Asked, text: str, answering: Answering | None, receive: Receive, send: Send) -> None:
        """Events as Langflow streams them: JSON objects with blank lines between, under the type of an event stream."""
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")],
            }
        )
        message_id = new_id()
        await _event(send, opened(asked.text, asked.session_id, message_id))
        words = re.findall(r"\s*\S+", text)
        for index, word in enumerate(words):
            if answering in (Answering.CUT_STREAM, Answering.ERROR) and index >= len(words) // 2:
                break
            await _event(send, token_event(word, message_id, utc_text(now_us())))
            await world().pause(self._pause_s)
        if answering is Answering.CUT_STREAM:
            return await cut(receive, send)
        if answering is Answering.ERROR:
            await _event(send, {"event": "error", "data": {"error": "Error running graph"}})
        elif answering is Answering.WRONG:
            await _event(send, {"event": "end", "data": {"result": {"session_id": asked.session_id, "outputs": []}}})
        else:
            await _event(send, ended(asked.text, text, asked.session_id))
        return await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _next_answering(self) -> Answering | None:
        with self._lock:
            answering = self._answering
            if self._left is not None:
                self._left -= 1
                if self._left <= 0:
                    self._answering = self._left = None
            return answering

    # -- the switches ----------------------------------------------------------------------------------------------

    async def _switch(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["method"] != "PUT" or not within_this_machine(scope):
                if scope["method"] == "DELETE" and within_this_machine(scope):
                    self.switch(None)
                return await self._faulty(scope, receive, send)
            body = await read_body(receive, SWITCH_BYTES_MAX, kept=SWITCH_BYTES_MAX)
            told = self._switched(_object(body))
        except Failure as failure:
            rendered = render(failure, Dialect.NESTED)
            return await _say(send, rendered.status, rendered.body)
        return await _say(send, 200, told)

    def _switched(self, wanted: dict[str, Any]) -> Json:
        answer = wanted.pop("answer", None)
        if answer is None:
            self.faults.switch(**wanted)
            self.switch(None)
            return self.faults.told()
        if answer not in set(Answering):
            raise _refused("answer", "enum", f"One of {', '.join(Answering)}")
        times = wanted.pop("times", None)
        if times is not None and (type(times) is not int or times < 1):
            raise _refused("times", "range", "A whole number from 1")
        if wanted:
            raise _refused(next(iter(wanted)), "conflict", "An answer of the runtime's own stands alone, or with times")
        self.faults.clear()
        self.switch(answer, times)
        return {"answer": answer, **({} if times is None else {"times": times})}


def _asked(scope: Scope, flow: str, body: bytes) -> Asked | None:
    """The request; None when it is not one that Langflow takes."""
    try:
        read = decode(body or b"{}", bytes_max=BODY_BYTES_MAX)
    except CodecError:
        return None
    if not isinstance(read, dict) or not isinstance(read.get("input_value", ""), str):
        return None
    session_id = read.get("session_id") or new_id()
    if not isinstance(session_id, str):
        return None
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
    return Asked(
        flow=flow,
        run_id=header(scope, RUN_HEADER) or session_id,
        instance_id=header(scope, INSTANCE_HEADER),
        session_id=session_id,
        text=read.get("input_value", ""),
        streams=query.get("stream", ["false"])[0].lower() in ("true", "1"),
    )


def _refused(field: str, constraint: str, message: str) -> Failure:
    return VALIDATION_ERROR(
        errors=[{"field": field[:64], "constraint": constraint, "message": message}], total_errors=1
    )


def _object(body: bytes) -> dict[str, Any]:
    try:
        read = decode(body, bytes_max=SWITCH_BYTES_MAX)
    except CodecError as broken:
        raise INVALID_JSON(reason=broken.reason, explanation=broken.explanation[:200]) from None
    if not isinstance(read, dict):
        raise INVALID_JSON(reason="no_object", explanation="the faults are one JSON object")
    return read


def _below(scope: Scope) -> str:
    path, root = str(scope["path"]), str(scope.get("root_path", "")).rstrip("/")
    return path.removeprefix(root).rstrip("/") if root and path.startswith(root) else path.rstrip("/")


def _words(status: int) -> tuple[str, bytes]:
    """An error as FastAPI writes it, which Langflow is built on."""
    return "application/json", encode({"detail": f"a switched fault of the stand-in ({status})"}).encode()


async def _event(send: Send, event: Json) -> None:
    await send({"type": "http.response.body", "body": encode(event).encode() + b"\n\n", "more_body": True})


async def _say(send: Send, status: int, body: Any) -> None:
    content = body if isinstance(body, bytes) else encode(body).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
