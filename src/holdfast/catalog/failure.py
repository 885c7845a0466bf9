"""A failure: one occurrence of a fault, and the exception that carries it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from holdfast.base import Private, limits, plain, world
from holdfast.base.secret import MASK
from holdfast.catalog.context import Context, current_context
from holdfast.catalog.fault import FACT, Blame, Fault, occur_as, portable
from holdfast.catalog.remote import Remote

_UNKNOWN = "…"
UNREACHABLE = "unreachable"
"""The detail that says why a database cannot be opened: for the operator who set its address, and in no body."""


STAMP = "__holdfast__"
"""The attribute that the guard leaves on an exception."""
_FACTS = ("_message", "at_us", "context", "details", "fault", "remote", "retry_after_s")


class Failure(Exception):
    """One occurrence of a fault, with its details, its context and, as `__cause__`, what brought it about."""

    # Failures are made on hot paths; slots make that a third cheaper. Notes still find room beside them.
    __slots__ = (*_FACTS, STAMP, "__weakref__")

    __holdfast__: object
    """Which link gave up on it and why, where one did; see `holdfast.guard.stamp_of`."""
    _copied_as: ClassVar[type[Failure] | None] = None
    """What a copy is an instance of, when not of the same class."""

    def __init__(
        self,
        fault: Fault,
        message: str | None = None,
        *,
        details: Mapping[str, Any] | None = None,
        retry_after_s: float | None = None,
        context: Context | None = None,
        remote: Remote | None = None,
    ) -> None:
        self.fault = fault
        self.details: Mapping[str, Any] = details if details is not None else {}
        self.retry_after_s = retry_after_s
        self.context = current_context() if context is None else context
        self.at_us = world().wall_us()
        self._message = message
        self.remote = remote
        """What the upstream said, where one did: for the log and the operator, in no error body."""

    @property
    def code(self) -> str:
        """The code of its fault, which clients compare."""
        return self.fault.code

    @property
    def status(self) -> int:
        """The HTTP status that it is answered with."""
        return self.fault.status

    @property
    def blame(self) -> Blame:
        """Who has to change something before it can work."""
        return self.fault.blame

    @property
    def retryable(self) -> bool:
        """Whether trying this again may help; the rule in force answers, with a look at this occurrence."""
        rule = self.fault.rule
        return rule if isinstance(rule, bool) else rule.allows(self)

    @property
    def message(self) -> str:
        """What the person reads when this is the end of it."""
        return self._said(self.fault.says)

    @property
    def message_retrying(self) -> str:
        """What the person reads while another attempt follows."""
        return self._said(self.fault.says_retrying or self.fault.says)

    @property
    def technical(self) -> str:
        """What the log reads: the technical line and, where there are any, the upstream's words and the cause."""
        line = _filled(self.fault.technical or self.fault.says, self.details, private=True)
        if self.remote is not None and (said := str(self.remote)):
            line = f"{line} [upstream: {said}]"
        cause = self.__cause__
        if cause is not None:
            line = f"{line} ({type(cause).__name__}: {_text(cause)})"
        return line[: limits().message_chars_max]

    def _said(self, sentence: str) -> str:
        text = sentence if self._message is None else self._message
        return _filled(text, self.details)[: limits().message_chars_max]

    def __str__(self) -> str:
        why = self.details.get(UNREACHABLE)
        return f"{self.code}: {self.message}" + (f" ({why.value})" if isinstance(why, Private) else "")

    def __repr__(self) -> str:
        return f"<Failure {self.code} {self.status}>"

    def __copy__(self) -> Failure:
        return self._twin(dict(self.details))

    def __deepcopy__(self, memo: dict[int, Any]) -> Failure:
        from copy import deepcopy

        return self._twin(deepcopy(dict(self.details), memo))

    def __reduce__(self) -> tuple[Any, ...]:
        """A failure crosses to another process without its cause and traceback, as every exception does.

        A `Secret` arrives as `***`, and any other detail that cannot be pickled in its plain form.
        """
        facts = {name: _portable(value) for name, value in self.details.items()}
        return _arrived, (self._copied_as or type(self), self._state(facts))

    def _state(self, details: dict[str, Any]) -> dict[str, Any]:
        stamped = {STAMP: self.__holdfast__} if hasattr(self, STAMP) else {}
        return {**self.__dict__, **stamped, **{name: getattr(self, name) for name in _FACTS}, "details": details}

    def _twin(self, details: dict[str, Any]) -> Failure:
        twin = _arrived(self._copied_as or type(self), self._state(details))
        twin.__cause__, twin.__context__ = self.__cause__, self.__context__
        twin.__suppress_context__ = self.__suppress_context__
        return twin


def occurred(
    fault: Fault, details: Mapping[str, Any], retry_after_s: float | None, message: str | None = None
) -> Failure:
    """The same as `Failure(...)`, for half the price: a class that is called passes everything on twice."""
    failure = _made(Failure)
    failure.fault = fault
    failure.details = details
    failure.retry_after_s = retry_after_s
    failure.context = current_context()
    failure.at_us = world().wall_us()
    failure._message = message
    failure.remote = None
    return failure


def again(failure: Failure) -> Failure:
    """The same again: a new exception without cause and traceback, because a raised one gathers both."""
    return Failure(
        failure.fault,
        failure._message,
        details=failure.details,
        retry_after_s=failure.retry_after_s,
        context=failure.context,
        remote=failure.remote,
    )


_made = Failure.__new__
occur_as(occurred)


def _arrived(kind: type[Failure], state: dict[str, Any]) -> Failure:
    failure = kind.__new__(kind)
    for name, value in state.items():
        setattr(failure, name, value)
    return failure


def _portable(value: Any) -> Any:
    if isinstance(value, Private):
        return Private(_portable(value.value))
    return portable(value, instead=plain(value))


def _filled(template: str, details: Mapping[str, Any], *, private: bool = False) -> str:
    """Fill `{name}`; every other brace stays as it was written.

    Not `str.format`: a sentence may come from outside, and `{key._value}` or `{x:>99999999}` must do nothing.
    """
    if "{" not in template:
        return template
    return FACT.sub(lambda found: _shown(found[1], details.get(found[1], _UNKNOWN), private), template)


def _shown(name: str, value: Any, private: bool) -> str:
    from holdfast.base.redaction import is_secret  # loaded by the first sentence that has a name in it

    if is_secret(name, value):
        return MASK
    if isinstance(value, Private):
        value = value.value if private else _UNKNOWN
    return _text(value)


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a message must not fail because of what it reports
        return f"<{type(value).__name__}>"
