"""PagerDuty's Events API v2, and whatever takes the same JSON: an incident for each cause, resolved by itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from socket import gethostname

from holdfast.base import Secret, digest, encode, utc_text
from holdfast.catalog.fault import Severity
from holdfast.delivery.exchange import Outgoing
from holdfast.watch.alert_notice import RESOLVED, Notice
from holdfast.watch.sinks import check_secrets, posted

EVENTS_URL = "https://events.pagerduty.com/v2/enqueue"
KEY_CHARS_MAX = 255
SUMMARY_CHARS_MAX = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class PagerDutySink:
    """A service of PagerDuty; the routing key is the secret. Without severities it hears of what is critical."""

    name: str
    routing_key: Secret
    url: Secret = field(default_factory=lambda: Secret(EVENTS_URL))
    severities: frozenset[Severity] = frozenset({Severity.CRITICAL})
    source: str = ""
    """Who says it; without one, the name of this machine."""

    def __post_init__(self) -> None:
        check_secrets(self.name, routing_key=self.routing_key)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        return self.routing_key, self.url

    def request(self, notice: Notice, *, notice_id: str, at_us: int) -> Outgoing:  # noqa: ARG002 - it has dedup_key
        document: dict[str, object] = {
            "routing_key": self.routing_key.reveal(),
            "event_action": "resolve" if notice.verb == RESOLVED else "trigger",
            "dedup_key": dedup_key(notice.key),
        }
        if notice.verb != RESOLVED:
            document["payload"] = {
                "summary": notice.title[:SUMMARY_CHARS_MAX],
                "source": self.source or gethostname(),
                "severity": notice.severity,
                "timestamp": utc_text(notice.at_us),
                "component": notice.cause or notice.rule,
                "group": "holdfast",
                "class": notice.rule,
                "custom_details": {
                    "reading": notice.reading,
                    "condition": notice.condition,
                    "remedy": notice.remedy,
                    "began_at": utc_text(notice.began_us),
                },
            }
        return posted(self.url, encode(document).encode())


def dedup_key(key: str) -> str:
    """The key of an incident: as it is, or its digest where it is longer than they take."""
    whole = f"holdfast/{key}"
    return whole if len(whole) <= KEY_CHARS_MAX else f"holdfast/{digest(key)}"
