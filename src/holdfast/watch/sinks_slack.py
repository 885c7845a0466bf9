"""Slack-compatible webhooks: a text for notifications and blocks for the channel."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.base import Secret, encode, utc_text
from holdfast.catalog.fault import Severity
from holdfast.delivery.exchange import Outgoing
from holdfast.watch.alert_notice import RESOLVED, Notice
from holdfast.watch.sinks import BOTH, check_secrets, posted

TEXT_CHARS_MAX = 2_900
"""Slack refuses a section of more than 3000."""
SIGNS = {"critical": ":rotating_light:", "warning": ":warning:"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackSink:
    """An incoming webhook of Slack, Mattermost, Rocket.Chat or whatever takes the same JSON; the URL is the secret."""

    name: str
    url: Secret
    severities: frozenset[Severity] = BOTH

    def __post_init__(self) -> None:
        check_secrets(self.name, url=self.url)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        return (self.url,)

    def request(self, notice: Notice, *, notice_id: str, at_us: int) -> Outgoing:  # noqa: ARG002 - Slack has no ids
        sign = ":white_check_mark:" if notice.verb == RESOLVED else SIGNS[notice.severity]
        lines = [f"{sign} *{_escaped(notice.title)}*", f"Read: {notice.reading}; told when {notice.condition}."]
        if notice.verb != RESOLVED and notice.remedy:
            lines.append(_escaped(notice.remedy))
        since = f"`{_escaped(notice.key)}` since {utc_text(notice.began_us)}"
        document = {
            "text": _escaped(notice.title)[:TEXT_CHARS_MAX],
            "blocks": [
                {"type": "section", "text": {"type": "mrkdwn", "text": "\n".join(lines)[:TEXT_CHARS_MAX]}},
                {"type": "context", "elements": [{"type": "mrkdwn", "text": since[:TEXT_CHARS_MAX]}]},
            ],
        }
        return posted(self.url, encode(document).encode())


def _escaped(text: str) -> str:
    """Slack's own three: a label that holds `<!channel>` must not ring."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "'")
