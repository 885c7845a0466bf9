"""Where notices go. A sink is pure: it makes the request, and its caller sends it.

Always true: the secrets of a sink are `Secret`s, so neither a log nor a table shows them; `shown` is what may be shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from holdfast.base import MASK, ArgumentInvalid, Json, Secret, encode, utc_text
from holdfast.catalog.fault import Severity
from holdfast.delivery.exchange import Outgoing
from holdfast.delivery.standard import StandardWebhooks
from holdfast.watch.alert_notice import Notice

TIMEOUT_S = 10.0
BOTH = frozenset({Severity.WARNING, Severity.CRITICAL})
JSON = ("Content-Type", "application/json")
AGENT = ("User-Agent", "holdfast")


class Sink(Protocol):
    """One receiver of notices."""

    @property
    def name(self) -> str:
        """Stands in jobs and tables."""
        ...

    @property
    def severities(self) -> frozenset[Severity]:
        """What it wants to hear of."""
        ...

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """What must not be seen in any text about it."""
        ...

    def request(self, notice: Notice, *, notice_id: str, at_us: int) -> Outgoing:
        """What is to be sent. The id is the same through all attempts."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSink:
    """Any webhook: the notice as JSON, signed as Standard Webhooks says where there is a secret."""

    name: str
    url: Secret
    secret: Secret | None = None
    severities: frozenset[Severity] = BOTH

    def __post_init__(self) -> None:
        check_secrets(self.name, url=self.url, **({} if self.secret is None else {"secret": self.secret}))

    @property
    def secrets(self) -> tuple[Secret, ...]:
        return (self.url,) if self.secret is None else (self.url, self.secret)

    def request(self, notice: Notice, *, notice_id: str, at_us: int) -> Outgoing:
        body = _body(
            {
                "type": f"alert.{notice.verb}",
                "timestamp": utc_text(notice.at_us),
                "data": {
                    "key": notice.key,
                    "rule": notice.rule,
                    "cause": notice.cause,
                    "label": notice.per,
                    "severity": notice.severity,
                    "summary": notice.summary,
                    "remedy": notice.remedy,
                    "condition": notice.condition,
                    "value": notice.value,
                    "threshold": notice.threshold,
                    "action": notice.action,
                    "began_at": utc_text(notice.began_us),
                },
            }
        )
        signed = (
            ()
            if self.secret is None
            else StandardWebhooks().sign(body, event_id=notice_id, at_us=at_us, secrets=(self.secret,))
        )
        return posted(self.url, body, signed)


def check_secrets(sink: str, **secrets: object) -> None:
    """Refuse an address or a key that is plain text: it would be shown wherever the sink is.

    Raises:
        ArgumentInvalid: it names the setting.
    """
    for name, secret in secrets.items():
        if not isinstance(secret, Secret):
            raise ArgumentInvalid(f"{sink}: {name} is not a Secret; write {name}=Secret(…)")


def posted(url: Secret, body: bytes, headers: Iterable[tuple[str, str]] = ()) -> Outgoing:
    """A POST of JSON."""
    return Outgoing(url=url.reveal(), headers=(JSON, AGENT, *headers), body=body, timeout_s=TIMEOUT_S)


def _body(document: Json) -> bytes:
    return encode(document).encode()


def scrubbed(text: str, secrets: Iterable[Secret]) -> str:
    """The text without any of the secrets, nor the path and query of a secret address."""
    for secret in secrets:
        value = secret.reveal()
        path = value.partition("://")[2].partition("/")[2]
        for one in (value, path):
            if len(one) > 3:
                text = text.replace(one, MASK)
    return text
