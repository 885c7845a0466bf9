"""The body of an event by Standard Webhooks: its type, when it happened, and the payload as `data`.

```json
{"type": "order.paid", "timestamp": "2026-11-17T05:00:00Z", "data": {"order": 7}}
```
"""

from __future__ import annotations

from holdfast.base import Json, encode, utc_text

ENVELOPE = frozenset({"type", "timestamp", "data"})


def wrapped(event_type: str, occurred_us: int | None, data: str) -> str:
    """The body that is sent: the envelope around a payload (JSON text), or the payload itself without a time."""
    if occurred_us is None:
        return data
    return f'{{"type":{encode(event_type)},"timestamp":"{utc_text(occurred_us)}","data":{data}}}'


def unwrapped(document: Json) -> tuple[str, Json] | None:
    """The type and the payload that an envelope holds; None when the document is not an envelope."""
    if not isinstance(document, dict) or not document.keys() >= ENVELOPE:
        return None
    event_type, timestamp = document["type"], document["timestamp"]
    if not isinstance(event_type, str) or not isinstance(timestamp, str):
        return None
    return event_type, document["data"]
