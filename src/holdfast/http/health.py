"""Health and readiness: whether the process answers, whether it should get traffic, and what is degraded.

`/health` is 200 as long as the process answers, and tells what is degraded. `/ready` is 503 while something vital is
down or the process is stopping. A check that fails is told by its code, never by its text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from holdfast.base import encode, is_asynchronous, monotonic_s, now_us, utc_text
from holdfast.base.arguments import function, instance, number
from holdfast.catalog.classify import DEFAULT_CLASSIFIER
from holdfast.delivery.threads import Threads
from holdfast.http.asgi import Send
from holdfast.http.aside import loop_runs

if TYPE_CHECKING:
    from concurrent.futures import Future

    from holdfast.guard import Link
    from holdfast.store import Store

TIMEOUT_S = 2.0
REMEMBERED_S = 1.0
"""Minimum time between two runs of the checks, however often they are asked for."""

Probe = Callable[[], object | Awaitable[object]]
"""Raises or answers False when something is wrong; may block, or be a coroutine function."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that this process needs."""

    probe: Probe
    vital: bool = True
    """Whether the process should get no traffic without it; otherwise it is only degraded."""
    timeout_s: float = TIMEOUT_S

    def __post_init__(self) -> None:
        function("probe", self.probe, "write Check(lambda: …)", optional=False)
        number("timeout_s", self.timeout_s, above=0)


@dataclass(slots=True)
class Health:
    """The checks of a process, and the two paths that tell of them."""

    checks: Mapping[str, Check] = field(default_factory=dict)
    health_path: str = "/health"
    ready_path: str = "/ready"
    stopping: bool = False
    """Set when the process is about to stop: it is ready no longer, and finishes what it has."""
    _known: tuple[float, dict[str, Any]] | None = field(default=None, init=False, repr=False)
    _under_way: dict[str, Future[object]] = field(default_factory=dict, init=False, repr=False)
    _threads: Threads = field(init=False, repr=False)

    def __post_init__(self) -> None:
        instance("checks", self.checks, Mapping, 'write {"database": store_check(store)}')
        for name, check in self.checks.items():
            instance(f"checks[{name!r}]", check, Check, "write Check(function)")
        # One for each, so that none waits for another that hangs.
        self._threads = Threads(max(1, len(self.checks)), name="holdfast-health")

    def answers(self, path: str) -> bool:
        """Whether the path is one of the two."""
        return path in (self.health_path, self.ready_path)

    async def report(self) -> dict[str, Any]:
        """Every check and how it ended: `status` is `ok`, `degraded` or `down`."""
        until_s = monotonic_s() + REMEMBERED_S
        if self._known is None:
            self._known = until_s, await self._checked()
        elif monotonic_s() >= self._known[0]:
            self._known = until_s, self._known[1]  # for those who ask while the checks run
            self._known = until_s, await self._checked()
        found = self._known[1]
        bad = {name: self.checks[name].vital for name, one in found.items() if one["status"] != "ok"}
        status = "down" if self.stopping or any(bad.values()) else "degraded" if bad else "ok"
        told = {"status": status, "degraded": sorted(bad), "checks": found, "time": utc_text(now_us())}
        return {**told, "stopping": True} if self.stopping else told

    async def say(self, path: str, send: Send, *, head: bool) -> None:
        """Answer one of the two paths."""
        report = await self.report()
        status = 503 if path == self.ready_path and report["status"] == "down" else 200
        body = encode(report).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if head else body, "more_body": False})

    async def _checked(self) -> dict[str, Any]:
        if not loop_runs():
            return {name: await self._run(name, check) for name, check in self.checks.items()}
        import asyncio

        ended = await asyncio.gather(*(self._run(name, check) for name, check in self.checks.items()))
        return dict(zip(self.checks, ended, strict=True))

    async def _run(self, name: str, check: Check) -> dict[str, Any]:
        begun_s = monotonic_s()
        try:
            good = await (self._on_loop(name, check) if loop_runs() else self._without_loop(check))
            told: dict[str, Any] = {"status": "ok" if good is not False else "failed"}
        except Exception as error:  # noqa: BLE001 - a check tells that it failed; it must not fail the report
            told = {"status": "failed", "code": DEFAULT_CLASSIFIER.classify(error).code}
        return {**told, "vital": check.vital, "took_ms": round((monotonic_s() - begun_s) * 1_000, 1)}

    async def _on_loop(self, name: str, check: Check) -> object:
        import asyncio

        async with asyncio.timeout(check.timeout_s):
            if is_asynchronous(check.probe):
                return await check.probe()
            answered = await asyncio.wrap_future(self._in_thread(name, check))
            return await answered if isawaitable(answered) else answered

    def _in_thread(self, name: str, check: Check) -> Future[object]:
        """One that hangs is not begun again until it has ended: it holds one thread of ours, and none of others."""
        begun = self._under_way.get(name)
        if begun is None or begun.done():
            begun = self._under_way[name] = self._threads.submit(check.probe)
        return begun

    @staticmethod
    async def _without_loop(check: Check) -> object:
        answered = check.probe()
        if not isawaitable(answered):
            return answered
        import asyncio

        return asyncio.run(_awaited(answered, check.timeout_s))


def store_check(store: Store, *, vital: bool = True) -> Check:
    """The store can be reached."""
    return Check(lambda: store.atomic(lambda tx: tx.now_us(), write=False), vital=vital)


def link_check(link: Link, *, vital: bool = False) -> Check:
    """The link's breaker is closed."""
    circuit = link.gate.circuit
    return Check(lambda: circuit is None or circuit.state == "closed", vital=vital)


async def _awaited(answered: Awaitable[object], timeout_s: float) -> object:
    import asyncio

    async with asyncio.timeout(timeout_s):
        return await answered
