"""A stand-in for the Gemini API: the real protocol of `generateContent`, with faults that can be switched.

Besides the usual faults, `PUT …/faults {"answer": "safety_block" | "cut" | "wrong" | "wrong_once"}` switches the
model's own ways to fail; `times` bounds it.
"""

from __future__ import annotations

import re
from collections import deque
from enum import StrEnum
from threading import Lock
from typing import Any

from holdfast.base import CodecError, Json, decode, encode
from holdfast.catalog import Dialect, Failure, render
from holdfast.http.asgi import Receive, Scope, Send, header
from holdfast.http.faults import INVALID_JSON, VALIDATION_ERROR
from holdfast.http.this_machine import within_this_machine
from holdfast.testing.faulty import Faults, Faulty, read_body
from holdfast_systems.reports.writer import written

BODY_BYTES_MAX = 32 * 1_048_576
SWITCH_BYTES_MAX = 4_096
CALLS_KEPT_MAX = 1_000
CHARS_PER_TOKEN = 4
IMAGE_TOKENS = 258
PATH = re.compile(r"/(v1|v1beta|v1alpha)/models/(?P<model>[^/:]+):generateContent\Z")
NO_JSON_MODE = re.compile(r"gemma|embedding|-image|-tts|aqa")
"""Models of the real API that have no structured output."""
STATUS_NAMES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class Answering(StrEnum):
    """The model's own ways to fail."""

    SAFETY_BLOCK = "safety_block"
    CUT = "cut"
    WRONG = "wrong"
    WRONG_ONCE = "wrong_once"


class GeminiStandIn:
    """An ASGI application that answers as the API does; the outermost of it switches its faults."""

    def __init__(self) -> None:
        self.calls: deque[dict[str, Any]] = deque(maxlen=CALLS_KEPT_MAX)
        """The calls that reached the model, the newest last."""
        self.call_count = 0
        self.faults = Faults()
        self._lock = Lock()
        self._answering: Answering | None = None
        self._left: int | None = None
        self._faulty = Faulty(self._answer, faults=self.faults, words=_words)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _below(scope) == "/faults":
            await self._switch(scope, receive, send)
        else:
            await self._faulty(scope, receive, send)

    def switch(self, answer: str | None, times: int | None = None) -> None:
        """Let the model answer in this way; None is the right way."""
        with self._lock:
            self._answering = None if answer is None else Answering(answer)
            self._left = 1 if answer == Answering.WRONG_ONCE else times

    # -- the API ---------------------------------------------------------------------------------------------------

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = _below(scope)
        if scope["method"] == "GET" and path in ("", "/health"):
            return await _say(send, 200, {"ok": True, "standIn": "gemini", "calls": self.call_count})
        called = PATH.match(path)
        if called is None:
            return await _error(send, 404, "The requested URL was not found on this server.")
        if scope["method"] != "POST":
            return await _error(send, 405, "Method not allowed.")
        if not (header(scope, "x-goog-api-key") or b"key=" in scope.get("query_string", b"")):
            return await _error(send, 403, "Method doesn't allow unregistered callers. Please use API Key.")
        body = await read_body(receive, BODY_BYTES_MAX, kept=BODY_BYTES_MAX)
        try:
            request = decode(body, bytes_max=BODY_BYTES_MAX)
        except CodecError:
            return await _error(send, 400, "Invalid JSON payload received.")
        refused = _refusal(called["model"], request)
        if refused:
            return await _error(send, 400, refused)
        assert isinstance(request, dict)
        return await _say(send, 200, self._generated(called["model"], request))

    def _generated(self, model: str, request: dict[str, Any]) -> dict[str, Any]:
        prompt, images = _prompt(request)
        with self._lock:
            self.call_count += 1
            self.calls.append({"model": model, "prompt": prompt, "images": images})
            answering = self._answering
            if self._left is not None:
                self._left -= 1
                if self._left <= 0:
                    self._answering = self._left = None
        tokens = max(1, len(prompt) // CHARS_PER_TOKEN) + images * IMAGE_TOKENS
        if answering is Answering.SAFETY_BLOCK:
            usage = {"promptTokenCount": tokens, "totalTokenCount": tokens}
            return {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": usage, "modelVersion": model}
        schema = request["generationConfig"].get("responseJsonSchema") or request["generationConfig"]["responseSchema"]
        text = encode(written(prompt, schema))
        finish = "STOP"
        if answering is Answering.CUT:
            text, finish = text[: len(text) // 2], "MAX_TOKENS"
        elif answering in (Answering.WRONG, Answering.WRONG_ONCE):
            text = encode({"summary": {"text": "no markdown here"}})
        out = max(1, len(text) // CHARS_PER_TOKEN)
        return {
            "candidates": [
                {"content": {"parts": [{"text": text}], "role": "model"}, "finishReason": finish, "index": 0}
            ],
            "usageMetadata": {
                "promptTokenCount": tokens,
                "candidatesTokenCount": out,
                "totalTokenCount": tokens + out,
            },
            "modelVersion": model,
        }

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
        if answer is not None and answer not in set(Answering):
            wrong = {"field": "answer", "constraint": "enum", "message": f"One of {', '.join(Answering)}"}
            raise VALIDATION_ERROR(errors=[wrong], total_errors=1)
        times = wanted.get("times")
        own = answer is not None and not wanted.keys() - {"times"}
        if own and times is not None and (type(times) is not int or times < 1):
            wrong = {"field": "times", "constraint": "range", "message": "A whole number from 1"}
            raise VALIDATION_ERROR(errors=[wrong], total_errors=1)
        if own:
            self.faults.clear()
        else:
            self.faults.switch(**wanted)
        self.switch(answer, times if own else None)
        return {**self.faults.told(), **({} if answer is None else {"answer": answer})}


def _refusal(model: str, request: Any) -> str:
    """What the API says about a request that it does not take; empty when it does."""
    if not isinstance(request, dict) or not isinstance(request.get("contents"), list) or not request["contents"]:
        return "* GenerateContentRequest.contents: contents is not specified"
    config = request.get("generationConfig")
    if not isinstance(config, dict):
        return "* GenerateContentRequest.generation_config: this stand-in only writes structured output"
    if config.get("responseMimeType") != "application/json":
        return "* GenerateContentRequest.generation_config.response_mime_type: this stand-in only writes JSON"
    if NO_JSON_MODE.search(model):
        return f"JSON mode is not enabled for models/{model[:80]}"
    if not isinstance(config.get("responseJsonSchema") or config.get("responseSchema"), dict):
        return "* GenerateContentRequest.generation_config.response_schema: missing"
    count = config.get("candidateCount", 1)
    if type(count) is not int or not 1 <= count <= 8:
        return "* GenerateContentRequest.generation_config.candidate_count: must be between 1 and 8"
    return ""


def _prompt(request: dict[str, Any]) -> tuple[str, int]:
    """The text of a request and how many images came with it."""
    texts, images = [], 0
    for content in request["contents"]:
        for part in content.get("parts") or () if isinstance(content, dict) else ():
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                texts.append(part["text"])
            elif isinstance(part, dict) and "inlineData" in part:
                images += 1
    return "\n".join(texts), images


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
    """An error as Google's APIs write it."""
    name = STATUS_NAMES.get(status, "UNKNOWN")
    body = {"error": {"code": status, "message": f"{name} (a switched fault of the stand-in)", "status": name}}
    return "application/json; charset=UTF-8", encode(body).encode()


async def _error(send: Send, status: int, message: str) -> None:
    body = {"error": {"code": status, "message": message, "status": STATUS_NAMES.get(status, "UNKNOWN")}}
    await _say(send, status, body)


async def _say(send: Send, status: int, body: Any) -> None:
    content = body if isinstance(body, bytes) else encode(body).encode()
    headers = [
        (b"content-type", b"application/json; charset=UTF-8"),
        (b"content-length", str(len(content)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
