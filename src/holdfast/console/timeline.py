"""A job's history in sentences: `429, Retry-After 30 s → next at 14:02:11`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.base import redacted_text
from holdfast.base.formatting import SECOND_US, cut, span
from holdfast.base.tracebacks import stored_traceback
from holdfast.console.parts import aside, code_link, moment
from holdfast.console.traceback_view import traceback_view
from holdfast.console.visit import Visit
from holdfast.http.markup import Markup, element, joined
from holdfast.worker.settlement import ASKED

Event = dict[str, Any]
REASON_CHARS_MAX = 400
WORKER_CHARS_MAX = 60
TONES = {
    "finished": "good",
    "failed": "bad",
    "cancelled": "bad",
    "discarded": "bad",
    "retried": "warn",
    "reclaimed": "warn",
    "snoozed": "warn",
}
ROUNDING_S = 0.5
_NAMED = re.compile(rf"{ASKED} ([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?) s: ")
"""How the journal begins a reason when the other side named the wait."""
_WORDS = {
    "enqueued": "Enqueued",
    "claimed": "Claimed",
    "finished": "Finished",
    "retried": "Failed, to be tried again",
    "snoozed": "Not now",
    "released": "Given back by a worker that stopped",
    "reclaimed": "Taken back from a worker that was lost",
    "failed": "Failed for good",
    "cancelled": "Cancelled",
    "cancel_asked": "Asked to stop",
    "revived": "Revived by hand",
    "discarded": "Discarded by hand",
    "settled_late": "Settled too late; it did not count",
}


@dataclass(frozen=True, slots=True)
class Moment:
    """One entry: an event, the worker that had claimed the job for it, and how often the same came in a row."""

    event: Event
    worker: str = ""
    times: int = 1


def timeline(visit: Visit, events: Sequence[Event], now_us: int) -> Markup:
    """The events in order."""
    if not events:
        return element("p", "Its history has been pruned.", class_="empty")
    shown = [_entry(visit, moment_, now_us) for moment_ in moments(events)]
    return element("ol", *shown, class_="timeline")


def moments(events: Sequence[Event]) -> list[Moment]:
    """The entries: a claim is told with its outcome, and the same delay again and again is told once."""
    found: list[Moment] = []
    for event in events:
        last = found[-1] if found else None
        worker = ""
        if last is not None and last.event["verb"] == "claimed" and event["attempt"] == last.event["attempt"]:
            worker = last.event["worker"]
            found.pop()
            last = found[-1] if found else None
        same = last is not None and event["verb"] == "snoozed" and _alike(last.event, event)
        if last is not None and same:
            found[-1] = Moment(event, worker, last.times + 1)
        else:
            found.append(Moment(event, worker))
    return found


def _alike(one: Event, other: Event) -> bool:
    return all(one[name] == other[name] for name in ("verb", "attempt", "code", "reason"))


def _entry(visit: Visit, one: Moment, now_us: int) -> Markup:
    event, verb = one.event, one.event["verb"]
    details = [f"attempt {event['attempt']}"] if event["attempt"] else []
    details += [f"by {cut(one.worker or event['worker'], WORKER_CHARS_MAX)}"] if one.worker or event["worker"] else []
    details += [f"{one.times} times in a row"] if one.times > 1 else []
    head = element(
        "p",
        moment(event["at_us"], now_us),
        " ",
        element("strong", _WORDS.get(verb, verb.replace("_", " ").capitalize())),
        " ",
        element("span", ", ".join(details), class_="attempt"),
        class_="head",
    )
    what = _what(visit, event, now_us)
    why = redacted_text(_NAMED.sub("", event["reason"] or "", count=1), REASON_CHARS_MAX)
    reason = [element("p", why, class_="message")] if why else []
    chain = stored_traceback(event["traceback"])
    raised = [aside("Traceback", traceback_view(chain))] if chain else []
    named = [element("p", what)] if what else []
    return element("li", head, *named, *reason, *raised, class_=TONES.get(verb, "plain"))


def _what(visit: Visit, event: Event, now_us: int) -> Markup:
    """What was answered, how long it took, and what follows."""
    told: list[str] = []
    if event["upstream_status"] is not None:
        told.append(str(event["upstream_status"]))
    if event["remote_code"]:
        told.append(element("code", event["remote_code"]))
    if event["code"]:
        told.append(code_link(visit, event["code"]))
    if event["duration_us"]:
        told.append(f"took {span(event['duration_us'] / SECOND_US)}")
    wait = _wait(event)
    if wait:
        told.append(wait)
    listed = joined(*(part for number, one in enumerate(told) for part in ([", "] if number else []) + [one]))
    if event["due_us"] is None or event["due_us"] <= event["at_us"]:
        return listed
    return joined(listed, " → next at " if told else "next at ", moment(event["due_us"], now_us))


def _wait(event: Event) -> str:
    if event["due_us"] is None or event["due_us"] <= event["at_us"]:
        return ""
    wait_s = (event["due_us"] - event["at_us"]) / SECOND_US
    asked_s = _asked_s(event)
    if asked_s is None:
        return f"waits {span(wait_s)}"
    longer = "" if abs(asked_s - wait_s) <= ROUNDING_S else f", waits {span(wait_s)}"
    return f"{ASKED} {asked_s:.0f}{longer}"


def _asked_s(event: Event) -> float | None:
    """How long the other side asked to be left alone; None where the wait is our own."""
    named = _NAMED.match(event["reason"] or "")
    return None if named is None else float(named[1])
