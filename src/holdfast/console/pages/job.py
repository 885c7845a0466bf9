"""One job or delivery: what it is, what happened, what it carries, and what can be done about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.base import redacted_json, redacted_text
from holdfast.base.formatting import span_us
from holdfast.base.tracebacks import stored_traceback
from holdfast.console.page import Desk, Live, Page, Part
from holdfast.console.parts import act, aside, badge, code_link, facts, field, link, moment, notice, panel
from holdfast.console.timeline import timeline
from holdfast.console.traceback_view import traceback_view
from holdfast.console.visit import Visit
from holdfast.http.markup import Markup, element, joined
from holdfast.operate.jobs import view

TEXT_CHARS_MAX = 2_000
EVENTS_MAX = 200
"""Of a longer history only the end is shown."""


def page(desk: Desk, visit: Visit, job_id: str) -> Page:
    """Everything about one job.

    Raises:
        Failure: JOB_NOT_FOUND, unless its history is still there.
    """

    found = desk.store.atomic(lambda tx: view(tx, job_id, events_max=EVENTS_MAX), write=False)
    now_us, job, delivery = found.now_us, found.job, found.delivery
    history = _history(visit, found.events, now_us, left_out=found.left_out)
    title = "Delivery" if delivery else "Job"
    head = element("h1", f"{title} ", element("code", job_id, class_="id"))
    section = "deliveries" if delivery else "jobs"
    if job is None:
        gone = notice("It is no longer there: finished and pruned, or discarded. Its history is.")
        return Page(f"{title} {job_id}", [head, gone, history], section)
    parts: list[Part] = [
        head,
        Live("job", panel(str(job["kind"]), _facts(desk, visit, job, now_us, is_delivery=delivery is not None))),
        *([_delivery(visit, delivery, now_us)] if delivery else []),
        _actions(visit, job),
        *_traceback(job, found.events),
        history,
        # The job of a delivery carries what the delivery shows above.
        *(_contents(job) if delivery is None else []),
    ]
    return Page(f"{title} {job_id}", parts, section)


def _history(visit: Visit, events: Sequence[dict[str, Any]], now_us: int, *, left_out: bool) -> Live:
    earlier = [notice(f"Only the last {EVENTS_MAX} events are shown.")] if left_out else []
    return Live("history", panel("What happened", *earlier, timeline(visit, events, now_us)))


def _facts(desk: Desk, visit: Visit, job: dict[str, Any], now_us: int, *, is_delivery: bool) -> Markup:
    queued = job["state"] == "queued"
    stopping = joined(" ", badge("asked to stop", "warn")) if job["cancel_us"] is not None else Markup()
    return facts(
        [
            ("State", joined(badge(job["state"]), stopping)),
            ("Code", code_link(visit, job["error_code"])),
            *_told(desk, job, is_delivery=is_delivery),
            ("Raised at", element("code", job["error_place"]) if job["error_place"] else ""),
            ("The upstream said", _remote(visit, job)),
            ("Group", _group(visit, job)),
            ("Kind", link(visit.to("jobs", kind=job["kind"]), job["kind"])),
            ("Queue", link(visit.to("jobs", queue=job["queue"]), job["queue"])),
            ("Tenant", link(visit.to("jobs", tenant=job["tenant"]), job["tenant"]) if job["tenant"] else ""),
            ("Attempts", _attempts(job)),
            ("Priority", str(job["priority"]) if job["priority"] else ""),
            ("Dedupe key", job["dedupe_key"] or ""),
            ("Timeout", span_us(job["timeout_us"])),
            ("Created", moment(job["created_us"], now_us)),
            ("Due", moment(job["due_us"], now_us) if queued else ""),
            ("Started", moment(job["started_us"], now_us)),
            ("Last attempt", moment(job["last_attempt_us"], now_us)),
            ("Finished", moment(job["finished_us"], now_us)),
            ("Failed", moment(job["failed_us"], now_us)),
            ("Worker", job["lease_owner"] or ""),
            ("Lease until", moment(job["lease_until_us"], now_us)),
            ("Trace", element("code", job["trace"]) if job["trace"] else ""),
        ]
    )


def _told(desk: Desk, job: dict[str, Any], *, is_delivery: bool) -> list[tuple[str, str]]:
    """What the failure says to people and to the log; each once.

    The message of a delivery is what its endpoint answered, for those who look after it; people read the code's words.
    """
    message, technical = job["error_message"] or "", job["error_technical"] or ""
    if is_delivery:
        says = (fault.says for catalog in desk.catalogs for fault in catalog if fault.code == job["error_code"])
        message, technical = next(says, technical), message
    logged = "" if technical == message else redacted_text(technical, TEXT_CHARS_MAX)
    return [("What the person reads", redacted_text(message, TEXT_CHARS_MAX)), ("In the log", logged)]


def _remote(visit: Visit, job: dict[str, Any]) -> Markup:
    """The upstream's own status, code and sentence."""
    code = job["remote_code"]
    parts = [
        str(job["remote_status"]) if job["remote_status"] else "",
        link(visit.to("dead", remote_code=code), element("code", code)) if code else "",
        element("span", redacted_text(job["remote_message"], TEXT_CHARS_MAX), class_="message"),
    ]
    return joined(*(piece for part in parts if part for piece in (part, " "))) if any(parts[:2]) else Markup()


def _traceback(job: dict[str, Any], events: Sequence[dict[str, Any]]) -> list[Markup]:
    """Where the last attempt of a job that failed was when it raised."""
    if job["state"] != "failed":
        return []
    stored = next((event["traceback"] for event in reversed(events) if event["traceback"]), None)
    chain = stored_traceback(stored)
    return [panel("Traceback", traceback_view(chain), note="The last call first.", id="traceback")] if chain else []


def _group(visit: Visit, job: dict[str, Any]) -> Markup:
    if not job["fingerprint"]:
        return Markup()
    return link(visit.to("dead", fingerprint=job["fingerprint"]), element("code", job["fingerprint"]))


def _attempts(job: dict[str, Any]) -> str:
    text = str(job["attempt_count"])
    if job["attempts_max"] is not None:
        text += f" of {job['attempts_max']}"
    if job["pardon_count"]:
        text += f", {job['pardon_count']} not held against it"
    if job["manual_retry_count"]:
        text += f", revived {job['manual_retry_count']} times"
    return text


def _delivery(visit: Visit, delivery: dict[str, Any], now_us: int) -> Markup:
    endpoint = delivery["endpoint_id"]
    return panel(
        "Delivery",
        facts(
            [
                ("Event", element("code", delivery["event_id"])),
                ("Type", delivery["type"] or ""),
                ("Published", moment(delivery["created_us"], now_us)),
                ("Endpoint", link(visit.to("deliveries", endpoint=endpoint), element("code", endpoint))),
                ("Address", redacted_text(delivery["url"], TEXT_CHARS_MAX)),
                ("Endpoint disabled", delivery["disabled_reason"] or ""),
            ]
        ),
        *_body(delivery["body"]),
    )


REVIVES = ", and all its attempts start anew."
DISCARDS = ". This cannot be undone. Its history stays for as long as the journal is kept."
CANCELS = " and fails with JOB_CANCELLED; it can be revived."
STOPS = ": its handler is asked to stop when it looks next. What it has done by then stays done."


def _actions(visit: Visit, job: dict[str, Any]) -> Markup:
    here = visit.to("jobs", job["id"])
    why = field("Why (it stands in the history)", "reason", maxlength="500")
    cancel = act(visit, f"{here}/cancel", "Cancel it", tone="danger")
    match job["state"]:
        case "failed":
            gone = visit.to("dead").removeprefix(visit.root)
            discard = act(visit, f"{here}/discard", "Discard it", why, tone="danger", back=gone)
            revive = act(visit, f"{here}/revive", "Revive", why)
            ways = [
                element("div", _words("It goes back to the queue ", job, REVIVES), revive),
                aside("Discard …", _words("It is deleted from the queue ", job, DISCARDS), discard),
            ]
        case "queued":
            ways = [aside("Cancel …", _words("It leaves the queue ", job, CANCELS), cancel)]
        case "processing":
            ways = [aside("Cancel …", _words("It runs, from the queue ", job, STOPS), cancel)]
        case _:
            return Markup()
    return element("div", *ways, class_="actions")


def _words(before: str, job: dict[str, Any], after: str) -> Markup:
    """What will happen to the job, with its queue."""
    return element("p", before, element("strong", job["queue"]), after)


def _contents(job: dict[str, Any]) -> list[Markup]:
    """What it carries and what came of it; secrets are masked."""
    return [*_json("Payload", job["payload"]), *_json("Result", job["result"])]


def _body(stored: str | None) -> list[Markup]:
    if stored is None:
        return []
    return [
        element("h3", "Body"),
        element("pre", element("code", redacted_json(stored)), tabindex="0", aria_label="Body"),
    ]


def _json(title: str, stored: str | None) -> list[Markup]:
    if stored is None:
        return []
    text = element("pre", element("code", redacted_json(stored)), tabindex="0", aria_label=title)
    return [panel(title, text, note="Secrets are masked.")]
