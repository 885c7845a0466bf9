"""A failure: one occurrence of a fault, and the exception that carries it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.base import Private, Secret, limits, now_us
from holdfast.catalog.context import Context, current_context
from holdfast.catalog.fault import Blame, Fault


class Failure(Exception):
    """One occurrence of a fault, with its details, its context and, as `__cause__`, what brought it about."""

    def __init__(
        self,
        fault: Fault,
        message: str | None = None,
        *,
        details: Mapping[str, Any] | None = None,
        retry_after_s: float | None = None,
        context: Context | None = None,
    ) -> None:
        self.fault = fault
        self.details: Mapping[str, Any] = details if details is not None else {}
        self.retry_after_s = retry_after_s
        self.context = current_context() if context is None else context
        self.at_us = now_us()
        self._message = message

    @property
    def code(self) -> str:
        return self.fault.code

    @property
    def status(self) -> int:
        return self.fault.status

    @property
    def blame(self) -> Blame:
        return self.fault.blame

    @property
    def retryable(self) -> bool:
        """Whether trying this again may help; the rule in force answers, with a look at this occurrence."""
        rule = self.fault.rule
        return rule if isinstance(rule, bool) else rule.allows(self)

    @property
    def message(self) -> str:
        """What the person reads."""
        text = self.fault.says if self._message is None else self._message
        return _filled(text, self.details)[: limits().message_chars_max]

    @property
    def technical(self) -> str:
        """What the log reads: the technical line and, where there is one, the cause."""
        line = _filled(self.fault.technical or self.fault.says, self.details, private=True)
        cause = self.__cause__
        return f"{line} ({type(cause).__name__}: {cause})" if cause is not None else line

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def __repr__(self) -> str:
        return f"<Failure {self.code} {self.status}>"


class _Facts(dict[str, Any]):
    def __missing__(self, name: str) -> str:
        return "…"


def _filled(template: str, details: Mapping[str, Any], *, private: bool = False) -> str:
    if "{" not in template:
        return template
    facts = _Facts({name: _shown(value, private) for name, value in details.items()})
    try:
        return template.format_map(facts)
    except (ValueError, AttributeError, IndexError, KeyError, TypeError):
        return template  # a sentence with stray braces is shown as it was written


def _shown(value: Any, private: bool) -> Any:
    if isinstance(value, Private):
        return value.value if private and not isinstance(value.value, Secret) else "…"
    return value
