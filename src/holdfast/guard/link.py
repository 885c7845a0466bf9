"""A link: one integration point, caller to callee, with everything that protects it.

```python
bank = Link("shop → bank", timeout_s=2, total_s=10, breaker=Breaker())

@bank
def balance(account: str) -> int: ...
```
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from holdfast.base.arguments import is_a, numeric, shown
from holdfast.base.bus import bus
from holdfast.base.colour import is_asynchronous
from holdfast.base.world import monotonic_s
from holdfast.catalog.classify import DEFAULT_CLASSIFIER, LINK_CLASSIFIER, Classifier
from holdfast.guard.attempts import Attempts
from holdfast.guard.drivers import guard_async, guard_sync
from holdfast.guard.gate import Gate
from holdfast.guard.key import checked_key, under_key
from holdfast.guard.live import enlist
from holdfast.guard.parts import check_parts
from holdfast.guard.telling import SUCCEEDED, tell
from holdfast.guard.unwanted import refusing, refusing_async, returning, returning_async
from holdfast.policy.backoff import PolicyInvalid
from holdfast.policy.budget import Budget
from holdfast.policy.deadline import within
from holdfast.policy.decide import usual_delays

if TYPE_CHECKING:
    from holdfast.catalog.catalog import Catalog
    from holdfast.guard.events import Listener
    from holdfast.guard.recovery import Recovery
    from holdfast.policy.breaker import Breaker
    from holdfast.policy.rate_limit import Concurrency, RateLimit
    from holdfast.policy.retry import Retry

DEFAULT_BUDGET = Budget()
_GENERATOR = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR

P = ParamSpec("P")
R = TypeVar("R")


class Link:
    """One integration point: how long it may take, when it is retried, and when it is not called at all.

    Reads are retried. Writes (`writes=True`) are retried only under a key: `link.keyed("order:7").call(...)`.
    The caller always gets the original exception; `stamp_of(error)` tells why there was no further attempt.
    """

    def __init__(
        self,
        name: str,
        *,
        retry: Retry | None = None,
        timeout_s: float | None = None,
        total_s: float | None = None,
        breaker: Breaker | None = None,
        rate: RateLimit | None = None,
        concurrency: Concurrency | None = None,
        budget: Budget | None = DEFAULT_BUDGET,
        classifier: Classifier | None = None,
        upstream: Catalog | None = None,
        writes: bool = False,
    ) -> None:
        """
        Args:
            name: who calls whom; it stands in events, notes and refusals.
            retry: the rule of the whole call; None leaves it to the rule of each fault.
            timeout_s: how long one attempt may take.
            total_s: how long all attempts and the waits between them may take.
            breaker: when to stop calling.
            rate: how many attempts in a time.
            concurrency: how many attempts at once.
            budget: how many retries the traffic pays for; None grants every one.
            classifier: what an exception means here; None knows what Holdfast knows.
            upstream: the callee's own catalog: codes in its error bodies are read only with it.
            writes: the calls change something; they are retried only under a key.

        Raises:
            PolicyInvalid: a time or a part cannot be meant; it names which.
        """
        check_parts(
            name,
            retry=retry,
            breaker=breaker,
            rate=rate,
            concurrency=concurrency,
            budget=budget,
            classifier=classifier,
            upstream=upstream,
        )
        if not is_a(name, str) or not name.strip():
            raise PolicyInvalid(f'name: {shown(name)} is not the name of a link; write Link("shop → bank")')
        if not isinstance(writes, bool):
            raise PolicyInvalid(f"{name}: writes: {shown(writes)} is neither True nor False")
        for field, seconds in (("timeout_s", timeout_s), ("total_s", total_s)):
            if seconds is not None:
                numeric(f"{name}: {field}", seconds, raises=PolicyInvalid)
            if seconds is not None and not (isfinite(seconds) and seconds > 0):
                raise PolicyInvalid(f"{name}: {field}: {seconds} is not a positive number of seconds")
        self.name = name
        self.retry = retry
        self.timeout_s = timeout_s
        self.total_s = total_s
        self.writes = writes
        self.upstream = upstream
        plain = classifier is None and upstream is None
        self.classifier = LINK_CLASSIFIER if plain else (classifier or DEFAULT_CLASSIFIER).on_link(upstream)
        self.ordinary = self.classifier.ordinary
        self.usual_delays = usual_delays(retry) or ()
        """The delays of failures that leave everything to the link's own rule; none when more has to be looked at."""
        self.listeners: list[Listener] = []
        if retry is not None and retry.attempts == 1:
            budget = None  # nothing is retried, so nothing is counted
        self.gate = Gate(name, self.listeners, breaker=breaker, rate=rate, concurrency=concurrency, budget=budget)
        enlist(self)

    @property
    def attempt_limit_s(self) -> float | None:
        """The time limit of one attempt; with only a total, the rest of the total is the limit."""
        return self.timeout_s if self.timeout_s is not None or self.total_s is None else inf

    @property
    def clocked(self) -> bool:
        """Whether the start of a call has to be known."""
        return self.retry is not None and self.retry.within_s is not None

    def on(self, listener: Listener) -> Listener:
        """Tell this function everything that happens on the link; usable as a decorator."""
        self.listeners.append(listener)
        return listener

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Guard every call of the function.

        Raises:
            TypeError: it is a class, a generator or nothing that can be called.
        """
        _not_a_class(function)
        return functools.wraps(function)(self._guarded(function, keyed=False))

    def call(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function once, guarded; for a coroutine function the result is to be awaited."""
        return self._guarded(function, keyed=False)(*args, **kwargs)  # type: ignore[no-any-return]

    def attempts(self) -> Attempts:
        """The iterator form: `for attempt in link.attempts(): with attempt: ...`.

        Raises:
            TypeError: the rule has `on_result`, and a loop has no result to look at.
        """
        self.check_loop()
        return Attempts(self, key=None)

    def check_loop(self) -> None:
        """Refuse the iterator form where it cannot work.

        Raises:
            TypeError: as `attempts`.
        """
        if self.retry is not None and self.retry.on_result is not None:
            raise TypeError(f"{self.name}: attempts() sees no result for Retry.on_result; guard a function instead")

    def keyed(self, key: str | Callable[..., str]) -> Keyed:
        """The same link under an idempotency key, or under one that a function makes from the arguments."""
        return Keyed(self, key)

    def settle_success(self, recovery: Recovery | None, began_s: float | None) -> None:
        """Take note that an attempt worked: the place under the limit is free, the listeners are told."""
        self.gate.leave()
        if recovery is not None:
            recovery.succeed(began_s)
        elif self.listeners or bus.listeners:
            duration_s = None if began_s is None else monotonic_s() - began_s
            tell(self.listeners, SUCCEEDED, self.name, 1, duration_s=duration_s)

    def __repr__(self) -> str:
        return f"<Link {self.name}>"

    def _guarded(self, function: Callable[..., Any], *, keyed: bool) -> Callable[..., Any]:
        refuses = None if self.retry is None else self.retry.on_result
        if _is_async(function):
            if refuses is None:
                return _in_total_async(self.total_s, guard_async(self, function, keyed=keyed))
            guarded = guard_async(self, refusing_async(function, refuses), keyed=keyed)
            return _in_total_async(self.total_s, returning_async(guarded))
        if refuses is None:
            return _in_total(self.total_s, guard_sync(self, function, keyed=keyed))
        return _in_total(self.total_s, returning(guard_sync(self, refusing(function, refuses), keyed=keyed)))


class Keyed:
    """A link under a key: every attempt has the same one, so a write may be repeated."""

    def __init__(self, link: Link, key: str | Callable[..., str]) -> None:
        self._link = link
        self._key = key if callable(key) else checked_key(key)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Guard every call of the function; the key is made from its arguments."""
        _not_a_class(function)
        return functools.wraps(function)(self._guarded(function))

    def call(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function once, guarded, under the key."""
        return self._guarded(function)(*args, **kwargs)  # type: ignore[no-any-return]

    def attempts(self) -> Attempts:
        """The iterator form; `current_key()` is the key inside each attempt.

        Raises:
            TypeError: the key is a function, and a loop has no arguments to make a key from.
        """
        if not isinstance(self._key, str):
            raise TypeError(
                "attempts() has no arguments to make a key from; give the key itself: link.keyed('order:7')"
            )
        self._link.check_loop()
        return Attempts(self._link, key=self._key)

    def _guarded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        guarded = self._link._guarded(function, keyed=True)
        key = self._key
        if _is_async(function):

            async def under_async(*args: Any, **kwargs: Any) -> Any:
                with under_key(key if isinstance(key, str) else key(*args, **kwargs)):
                    return await guarded(*args, **kwargs)

            return under_async

        def under(*args: Any, **kwargs: Any) -> Any:
            with under_key(key if isinstance(key, str) else key(*args, **kwargs)):
                return guarded(*args, **kwargs)

        return under


def _not_a_class(function: object) -> None:
    if isinstance(function, type):
        raise TypeError(
            f"a link guards functions: put it on the methods of {function.__name__} that call out, not on the class"
        )


def _is_async(function: Callable[..., Any]) -> bool:
    code = getattr(function, "__code__", None)
    if code is None:
        return _is_async_object(function)
    if code.co_flags & _GENERATOR:
        raise _no_work_yet(function)
    return bool(code.co_flags & inspect.CO_COROUTINE)


def _is_async_object(function: Any) -> bool:
    """The same for what is called without being a function: a partial, an object, a class, a builtin."""
    if isinstance(function, classmethod | staticmethod):
        name = type(function).__name__
        raise TypeError(
            f"a {name} is guarded from inside: put @{name} above the link, so that the link is nearest to def"
        )
    if inspect.iscoroutine(function):
        function.close()
        raise TypeError("a coroutine has begun already and cannot be repeated; give the function and its arguments")
    if not callable(function):
        raise TypeError(f"{function!r} is not callable, so there is nothing to guard")
    while isinstance(function, functools.partial):
        function = function.func
    called = function if inspect.isroutine(function) else type(function).__call__
    for kind in (function, called):
        if inspect.isgeneratorfunction(kind) or inspect.isasyncgenfunction(kind):
            raise _no_work_yet(function)
    return is_asynchronous(function)


def _no_work_yet(function: object) -> TypeError:
    return TypeError(f"{function!r} is a generator: calling it does no work yet, so there is nothing to guard")


def _in_total(total_s: float | None, guarded: Callable[..., Any]) -> Callable[..., Any]:
    if total_s is None:
        return guarded

    def limited(*args: Any, **kwargs: Any) -> Any:
        with within(total_s):
            return guarded(*args, **kwargs)

    return limited


def _in_total_async(total_s: float | None, guarded: Callable[..., Any]) -> Callable[..., Any]:
    if total_s is None:
        return guarded

    async def limited(*args: Any, **kwargs: Any) -> Any:
        with within(total_s):
            return await guarded(*args, **kwargs)

    return limited
