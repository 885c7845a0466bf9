"""A notice: the message that is sent when an alert fires or is resolved. It is stored as the payload of a job."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from holdfast.watch.alert_state import AlertState, Phase
from holdfast.watch.rules import Rule, key
from holdfast.watch.rules_wording import condition_of, summary_of, value_text

FIRED = "fired"
RESOLVED = "resolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One alert, at one move; everything that a sink may want to say."""

    rule: str
    cause: str
    verb: str
    """`fired` or `resolved`."""
    severity: str
    summary: str
    remedy: str
    condition: str
    """`below 95 % for 5 min`."""
    reading: str
    """`91.2 %`."""
    value: float | None
    threshold: float
    per: str | None
    action: str | None
    began_us: int
    at_us: int
    version: int
    """Which move of this alert it is: the higher one is the more recent."""

    @property
    def key(self) -> str:
        """What receivers deduplicate by; the same for firing and resolving."""
        return key(self.rule, self.cause)

    @property
    def title(self) -> str:
        """One line."""
        of = f" ({self.per}: {self.cause})" if self.cause else ""
        return f"{'Resolved' if self.verb == RESOLVED else self.severity.capitalize()}: {self.summary}{of}"

    def document(self) -> dict[str, Any]:
        """As JSON says it."""
        return asdict(self)


def notice_of(rule: Rule, cause: str, state: AlertState, *, version: int) -> Notice:
    """The notice of a state that an alert has just come to."""
    assert state.began_us is not None
    return Notice(
        rule=rule.name,
        cause=cause,
        verb=FIRED if state.phase is Phase.FIRING else RESOLVED,
        severity=rule.severity.value,
        summary=summary_of(rule),
        remedy=rule.remedy,
        condition=condition_of(rule),
        reading=value_text(rule.what, state.value),
        value=state.value,
        threshold=rule.threshold,
        per=rule.per,
        action=None if rule.action is None else rule.action.value,
        began_us=state.began_us,
        at_us=state.at_us,
        version=version,
    )


def read_notice(document: dict[str, Any]) -> Notice:
    """The notice that was stored."""
    return Notice(**document)
