"""The model by Google's own client: `generateContent` with structured output, at any base address."""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError
from functools import partial
from threading import BoundedSemaphore, Lock, Thread
from typing import TYPE_CHECKING, Any

from holdfast.base import Secret
from holdfast.catalog import Failure
from holdfast.catalog.retry_after import retry_after_s
from holdfast_systems.reports.faults import GEMINI_REQUEST_FAILED, LLM_PROFILE_INVALID, RATE_LIMITED
from holdfast_systems.reports.ports import Answer, ModelClosed, Request

if TYPE_CHECKING:
    from aiohttp import ClientSession
    from google.genai import Client
    from google.genai.types import GenerateContentResponse

JOIN_S = 5.0
OPEN_S = 60.0
"""Loading the client takes a second, on a busy machine many."""
GRACE_S = 5.0
"""The client keeps the time of a call itself; this much later it is given up from outside."""
BLOCKED = frozenset(
    {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT"}
)
COMPLETE = "STOP"


class Gemini:
    """Calls the model; threads may share it. The client is loaded with the first call."""

    def __init__(self, *, base_url: str, api_key: Secret, concurrency: int) -> None:
        """
        Args:
            base_url: where the API is; empty is Google's own address.
            concurrency: calls of this process at once; further ones wait for their turn.
        """
        self._base_url = base_url
        self._api_key = api_key
        self._places = BoundedSemaphore(concurrency)
        self._lock = Lock()
        self._client: Client | None = None
        self._session: ClientSession | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="reports-model", daemon=True)
        self._closed = False
        self._leaving = False

    def generate(self, request: Request) -> Answer:
        """Call the model once.

        Raises:
            Failure: RATE_LIMITED, GEMINI_REQUEST_FAILED or LLM_PROFILE_INVALID.
            ModelClosed: the process is stopping.
        """
        if not self._base_url and not self._api_key:
            raise LLM_PROFILE_INVALID(reason="there is no key for the model: set HOLDFAST_REPORTS_GEMINI_API_KEY")
        if not self._places.acquire(timeout=request.timeout_s):
            raise RATE_LIMITED(reason="all calls that this process may make at once are under way")
        try:
            return self._generated(request)
        finally:
            self._places.release()

    def leave(self) -> None:
        """The process is about to stop: a call that fails from now on may have been cut off by ourselves."""
        self._leaving = True

    def close(self) -> None:
        """Close every connection and end the thread."""
        self.leave()
        with self._lock:
            opened, self._client, self._closed = self._client is not None, None, True
        if opened:
            asyncio.run_coroutine_threadsafe(self._close_session(), self._loop).result(JOIN_S)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(JOIN_S)
        if not self._loop.is_running():
            self._loop.close()

    async def _close_session(self) -> None:
        own = asyncio.current_task()
        for task in asyncio.all_tasks():
            if task is not own:
                task.cancel()
        if self._session is not None:
            await self._session.close()

    def _generated(self, request: Request) -> Answer:
        client = self._ready()
        calling = asyncio.run_coroutine_threadsafe(self._call(client, request), self._loop)
        try:
            response = calling.result(request.timeout_s + GRACE_S)
        except TimeoutError:
            calling.cancel()
            raise GEMINI_REQUEST_FAILED(reason=f"no answer within {request.timeout_s:g} s") from None
        except CancelledError:
            raise ModelClosed from None
        except Exception as error:
            if self._leaving:
                raise ModelClosed from error
            raise failure_of(error) from error
        return answer_of(response)

    async def _call(self, client: Client, request: Request) -> GenerateContentResponse:
        from google.genai import types

        images: list[Any] = [types.Part.from_bytes(data=image, mime_type="image/png") for image in request.images]
        config = types.GenerateContentConfig(
            response_mime_type="application/json",
            response_json_schema=dict(request.schema),
            candidate_count=1,
            temperature=request.temperature,
            max_output_tokens=request.max_output_tokens,
            http_options=types.HttpOptions(timeout=int(request.timeout_s * 1_000)),
        )
        async with asyncio.timeout(request.timeout_s):
            return await client.aio.models.generate_content(
                model=request.model, contents=[request.prompt, *images], config=config
            )

    def _ready(self) -> Client:
        with self._lock:
            if self._closed:
                raise ModelClosed
            if self._client is None:
                if not self._thread.is_alive():
                    self._thread.start()
                self._client = asyncio.run_coroutine_threadsafe(self._opened(), self._loop).result(OPEN_S)
            return self._client

    async def _opened(self) -> Client:
        from aiohttp import ClientSession, TCPConnector
        from google.genai import Client
        from google.genai.types import HttpOptions, HttpRetryOptions

        # A server may close a connection that is kept open in the moment in which a call is sent on it. Nobody could
        # tell then whether the model has worked, and such a call is not repeated: each has a connection of its own.
        self._session = ClientSession(connector=TCPConnector(force_close=True))
        # Left to itself the client repeats a call whose connection broke, and the model may be paid twice.
        once = HttpRetryOptions(attempts=1)
        options = HttpOptions(base_url=self._base_url or None, retry_options=once, aiohttp_client=self._session)
        return Client(api_key=self._api_key.reveal() or "none", vertexai=False, http_options=options)


def answer_of(response: GenerateContentResponse) -> Answer:
    """What a response of the API says."""
    usage = response.usage_metadata
    said = partial(
        Answer,
        input_tokens=(usage.prompt_token_count or 0) if usage else 0,
        output_tokens=((usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)) if usage else 0,
    )
    feedback = response.prompt_feedback
    if feedback is not None and feedback.block_reason is not None:
        return said(text="", blocked=str(feedback.block_reason.value))
    candidate = response.candidates[0] if response.candidates else None
    if candidate is None:
        return said(text="", incomplete="the answer has no candidate")
    parts = candidate.content.parts if candidate.content is not None else None
    text = "".join(part.text or "" for part in parts or () if not part.thought)
    finish = candidate.finish_reason.value if candidate.finish_reason is not None else ""
    if finish in BLOCKED:
        return said(text="", blocked=finish)
    incomplete = "" if finish == COMPLETE else f"the answer ended with {finish or 'no reason'}"
    return said(text=text, incomplete=incomplete)


def failure_of(error: Exception) -> Failure:
    """The failure that an exception of the client is. Its words are not passed on."""
    from google.genai.errors import APIError

    if isinstance(error, APIError):
        reason = f"HTTP {error.code}" + (f" {error.status}" if isinstance(error.status, str) else "")
        if error.code == 429:
            return RATE_LIMITED(reason=reason[:80], retry_after_s=_retry_after(error))
        if error.code == 408 or error.code >= 500:
            return GEMINI_REQUEST_FAILED(reason=reason[:80])
        return LLM_PROFILE_INVALID(reason=f"the model's endpoint answered {reason[:80]}")
    if isinstance(error, TimeoutError):
        return GEMINI_REQUEST_FAILED(reason="no answer in time")
    if isinstance(error, ValueError):
        return GEMINI_REQUEST_FAILED(reason="an answer that cannot be read")
    return GEMINI_REQUEST_FAILED(reason=type(error).__name__)


def _retry_after(error: Any) -> float | None:
    headers = getattr(error.response, "headers", None)
    return retry_after_s(headers.get("Retry-After")) if headers is not None else None
