"""The front: one ASGI application for many, each below a path of its own.

Always true: the longest path wins, by whole segments; a part sees its path in `root_path` and the whole `path`, as
Starlette mounts do; all parts are started before the first request and stopped after the last, in reverse.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from holdfast.catalog import CORE, Fault, continued, enriched, new_request_id
from holdfast.catalog.dialect import Dialect, render
from holdfast.http.asgi import Application, Receive, Reply, Scope, Send, give, header
from holdfast.http.body import has_two_lengths
from holdfast.http.lifespan import Life, StartFailed
from holdfast.http.this_machine import within_this_machine

POLICY_VIOLATED = 1008
"""How a WebSocket is closed that may not be opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """An application and where it stands."""

    path: str
    """Such as `/shop`; empty is everything that no other mount takes."""
    app: Application
    name: str = ""
    """For messages; without one, the path."""
    rooted: bool = True
    """Whether the path is part of the application's root; one that is not sees the same request as we do."""
    loopback: bool = False
    """Only for clients on this very machine."""


class Front:
    """Hands each request to the mount whose path it begins with."""

    def __init__(self, mounts: Sequence[Mount]) -> None:
        """
        Raises:
            ValueError: a path is misspelt, or taken by two mounts.
        """
        self._mounts: dict[str, Mount] = {}
        for mount in mounts:
            if mount.path and (not mount.path.startswith("/") or mount.path.endswith("/")):
                raise ValueError(f"{mount.path!r} is not a path to mount at: write /name, without a slash at the end")
            if mount.path in self._mounts:
                raise ValueError(f"two applications want to stand at {mount.path or '/'}")
            self._mounts[mount.path] = mount
        # Those that are mounted twice live once.
        self._lives: dict[int, Life] = {}
        for mount in mounts:
            self._lives.setdefault(id(mount.app), Life(mount.name or mount.path or "/", mount.app))

    @property
    def paths(self) -> tuple[str, ...]:
        """Where something is mounted."""
        return tuple(self._mounts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._live(receive, send)
        if has_two_lengths(scope):
            return await _refuse(CORE["BAD_REQUEST"], scope, receive, send, connection="close")
        root = scope.get("root_path", "")
        path = scope["path"].removeprefix(root)
        mount = self._found(path)
        if mount is None:
            return await _refuse(CORE["NOT_FOUND"], scope, receive, send)
        if mount.loopback and not within_this_machine(scope):
            return await _refuse(CORE["FORBIDDEN"], scope, receive, send)
        if mount.rooted and mount.path and path == mount.path and scope["type"] == "http":
            return await _redirect(scope, send)
        below = {**scope, "state": dict(self._lives[id(mount.app)].state)}
        if mount.rooted:
            below["root_path"] = root + mount.path
        return await mount.app(below, receive, send)

    @asynccontextmanager
    async def living(self) -> AsyncIterator[None]:
        """All parts are alive within the block.

        Raises:
            StartFailed: one did not start; those before it are stopped again.
        """
        started: list[Life] = []
        try:
            for life in self._lives.values():
                await life.start()
                started.append(life)
            yield
        finally:
            for life in reversed(started):
                await life.stop()

    def _found(self, path: str) -> Mount | None:
        while True:
            found = self._mounts.get(path)
            if found is not None or not path:
                return found
            path = path.rpartition("/")[0]

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            async with self.living():
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except StartFailed as failed:
            return await send({"type": "lifespan.startup.failed", "message": str(failed)})
        return await send({"type": "lifespan.shutdown.complete"})


async def _refuse(fault: Fault, scope: Scope, receive: Receive, send: Send, **more: str) -> None:
    with enriched(request_id=new_request_id(), **continued(header(scope, "traceparent"))):
        failure = fault.occur()
        if scope["type"] != "http":
            await receive()
            return await send({"type": "websocket.close", "code": POLICY_VIOLATED, "reason": failure.code})
        rendered = render(failure, Dialect.PROBLEM)
    headers = {name.lower(): value for name, value in rendered.headers} | {"cache-control": "no-store", **more}
    reply = Reply(body=rendered.body, content_type=headers.pop("content-type"), status=rendered.status, headers=headers)
    return await give(reply, send, head=scope["method"] == "HEAD")


async def _redirect(scope: Scope, send: Send) -> None:
    """To the same address with a slash: below it, relative links lead where they should."""
    query = scope.get("query_string", b"").decode("latin-1")
    # From the last segment alone: it holds behind a proxy that has put something before the path.
    place = scope.get("raw_path", scope["path"].encode()).decode("latin-1").rpartition("/")[2]
    location = f"{place}/{f'?{query}' if query else ''}"
    await give(Reply(body=b"", status=308, headers={"location": location}), send, head=True)
