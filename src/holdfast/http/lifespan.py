"""The life of an ASGI application inside another one: started before the first request, stopped after the last.

An application that knows nothing of lifespans lives too: it is told from one that failed by whether it ever asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.http.asgi import Application, Message, Scope

if TYPE_CHECKING:
    from asyncio import Future, Queue, Task

START_S_MAX = 60.0
STOP_S_MAX = 10.0


class StartFailed(Exception):
    """A part did not start."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.name} did not start: {self.reason}"


class Life:
    """One application's lifespan, in a task of its own."""

    def __init__(self, name: str, app: Application) -> None:
        self.name = name
        self.state: dict[str, Any] = {}
        """What the application put there when it started; every request gets a copy."""
        self._app = app
        self._asked = False
        self._events: Queue[Message]
        self._answer: Future[Message]
        self._task: Task[None] | None = None

    async def start(self) -> None:
        """Let it start.

        Raises:
            StartFailed: the application said so, raised, or took longer than START_S_MAX.
        """
        import asyncio

        self._events = asyncio.Queue()
        scope: Scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        self._task = asyncio.get_running_loop().create_task(self._live(scope))
        answer = await self._told("startup", START_S_MAX)
        if answer is not None and answer["type"] == "lifespan.startup.failed":
            await self._end()
            raise StartFailed(self.name, _last_line(answer.get("message", "")) or "it does not say why")
        if answer is None and not self._task.done():
            await self._end()
            raise StartFailed(self.name, f"it took longer than {START_S_MAX:g} s")
        error = self._task.exception() if self._task.done() and not self._task.cancelled() else None
        # One that raises without having looked at the first event has no lifespan at all; most frameworks of one
        # function are like that.
        if answer is None and error is not None and self._asked:
            raise StartFailed(self.name, f"{type(error).__name__}: {_last_line(str(error))}".rstrip(": ")) from error

    async def stop(self) -> None:
        """Let it end; whatever it raises now is reported by the loop and changes nothing."""
        if self._task is not None and not self._task.done():
            await self._told("shutdown", STOP_S_MAX)
        await self._end()

    async def _told(self, event: str, seconds: float) -> Message | None:
        """The application's answer to the event; None when it ended or the time is over."""
        import asyncio

        assert self._task is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._events.put_nowait({"type": f"lifespan.{event}"})
        waited: set[Future[Any]] = {self._task, self._answer}
        await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return self._answer.result() if self._answer.done() else None

    async def _end(self) -> None:
        import asyncio

        if self._task is None:
            return
        await asyncio.wait({self._task}, timeout=0.1)
        self._task.cancel()
        await asyncio.wait({self._task}, timeout=STOP_S_MAX)
        if self._task.done() and not self._task.cancelled():
            self._task.exception()  # seen, so that the loop does not complain of it

    async def _live(self, scope: Scope) -> None:
        await self._app(scope, self._receive, self._send)

    async def _receive(self) -> Message:
        self._asked = True
        return await self._events.get()

    async def _send(self, message: Message) -> None:
        if not self._answer.done():
            self._answer.set_result(message)


def _last_line(text: str) -> str:
    """Frameworks send a whole traceback; its last line says what happened."""
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""
