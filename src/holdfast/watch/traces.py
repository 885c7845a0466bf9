"""Traces: what the bus tells becomes OpenTelemetry spans, made when a thing has ended, with the times it had.

A request, the job that it enqueued, the calls and the webhook that followed are one trace: the ids are those that
Holdfast carries itself, in the context, in `job.trace` and in the `traceparent` header. Without an SDK nothing is made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from holdfast.base import Facts, bus, now_us
from holdfast.catalog import current_context

SCOPE = "holdfast"
TracerProvider = Any
"""OpenTelemetry's."""
Tracer = Any
_TRACED = frozenset({
    "request_id", "user_agent", "api_version", "server_id", "database_shard", "external_service", "api_key_id",
    "account_id", "request_source",
})  # fmt: skip
FAILED_FROM = 500
"""From this status on a request counts as the server's failure."""


def trace_events(provider: TracerProvider | None = None) -> Callable[[], None]:
    """Make spans from now on; what is returned ends it. Without OpenTelemetry nothing happens.

    Args:
        provider: the one that is configured globally unless given; it may be configured later.
    """
    try:
        spans = _Spans(provider)
    except ImportError:
        return _nothing
    return bus.listen(spans.hear)


@dataclass(frozen=True, slots=True)
class _Span:
    """A span that has ended, before an SDK knows of it."""

    name: str
    kind: str
    took_s: float
    attributes: Mapping[str, Any]
    error: str | None = None
    """The code, when it failed."""
    parent: str | None = None
    """The traceparent of the parent span; it counts only where `rooted` is set."""
    rooted: bool = False
    """Whether only `parent` counts: without one it has no parent, because the surrounding span is not its cause."""
    trace_id: str = ""
    span_id: str = ""
    """What others already call it by; the trace matters only where there is no parent."""


class _Spans:
    """Listens, and hands what has ended to the SDK."""

    def __init__(self, provider: TracerProvider | None) -> None:
        self._api = _api()
        self._provider = provider
        self._tracer: tuple[TracerProvider, Tracer] | None = None
        self._ids = _Ids()

    def hear(self, verb: str, facts: Facts) -> None:
        shape = SHAPES.get(verb)
        if shape is None:
            return
        tracer = self._current_tracer()
        if tracer is None:
            return
        span = shape(verb, facts)
        if span is not None:
            self._export(tracer, span)

    def _current_tracer(self) -> Tracer | None:
        provider = self._provider or self._api.get_tracer_provider()
        if isinstance(provider, self._api.ProxyTracerProvider):
            return None  # nobody has configured an SDK
        if self._tracer is None or self._tracer[0] is not provider:
            tracer = provider.get_tracer(SCOPE)
            usual = getattr(tracer, "id_generator", None)
            if usual is not None and not isinstance(usual, _Ids):
                # This tracer is ours alone. Jobs and webhooks have named their parents before these are made.
                self._ids = _Ids(usual)
                tracer.id_generator = self._ids
            self._tracer = provider, tracer
        return self._tracer[1]

    def _export(self, tracer: Tracer, span: _Span) -> None:
        ended_ns = now_us() * 1_000
        self._ids.chosen = span.trace_id, span.span_id
        try:
            made = tracer.start_span(
                span.name,
                context=self._around(span),
                kind=self._api.SpanKind[span.kind],
                attributes={name: value for name, value in span.attributes.items() if value is not None},
                start_time=ended_ns - int(span.took_s * 1_000_000_000),
            )
        finally:
            self._ids.chosen = "", ""
        if span.error is not None:
            made.set_attribute("error.type", span.error)
            made.set_status(self._api.Status(self._api.StatusCode.ERROR, span.error))
        made.end(end_time=ended_ns)

    def _around(self, span: _Span) -> Any:
        """The context that the span stands in; None is the one that is active here."""
        if span.rooted:
            return _following(span.parent or "")
        ours = current_context()
        active = self._api.get_current_span().get_span_context()
        if not ours.traceparent or (active.is_valid and format(active.trace_id, "032x") == ours.trace_id):
            return None
        return _following(ours.traceparent)


class _Ids(threading.local):
    """Gives the ids that were chosen, and otherwise those that the SDK would have given."""

    def __init__(self, usual: Any = None) -> None:
        self._usual = usual
        self.chosen = "", ""

    def generate_trace_id(self) -> int:
        return int(self.chosen[0], 16) if self.chosen[0] else int(self._usual.generate_trace_id())

    def generate_span_id(self) -> int:
        return int(self.chosen[1], 16) if self.chosen[1] else int(self._usual.generate_span_id())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_usual"], name)


def _api() -> Any:
    # It is a namespace package, which type checkers do not look into; and it may not be there.
    return import_module("opentelemetry.trace")


def _following(traceparent: str) -> Any:
    """The context of a remote parent; an empty one where the header is invalid."""
    context = import_module("opentelemetry.context").Context()
    propagation = import_module("opentelemetry.trace.propagation.tracecontext")
    return propagation.TraceContextTextMapPropagator().extract({"traceparent": traceparent}, context)


def _of_link(verb: str, facts: Facts) -> _Span:
    failed = verb != "link.succeeded"
    return _Span(
        name=f"link {facts.get('link')}",
        kind="CLIENT",
        took_s=facts.get("duration_s") or 0.0,
        error=_code(facts) if failed else None,
        attributes={
            "holdfast.link": facts.get("link"),
            "holdfast.attempt": facts.get("attempt"),
            "holdfast.outcome": verb.removeprefix("link."),
            "holdfast.reason": _text(facts.get("reason")),
            "holdfast.delay_s": facts.get("delay_s"),
        },
    )


def _of_job(verb: str, facts: Facts) -> _Span | None:
    took_us = facts.get("duration_us")
    if took_us is None:
        return None  # it ended without having run
    return _Span(
        name=f"job {facts.get('kind')}",
        kind="CONSUMER",
        took_s=took_us / 1_000_000,
        error=_code(facts) if verb in ("job.failed", "job.retried") else None,
        parent=facts.get("trace"),
        rooted=True,
        span_id=facts.get("span") or "",
        attributes={
            "holdfast.job": facts.get("id"),
            "holdfast.kind": facts.get("kind"),
            "holdfast.queue": facts.get("queue"),
            "holdfast.attempt": facts.get("attempt"),
            "holdfast.outcome": verb.removeprefix("job."),
        },
    )


def _of_delivery(_verb: str, facts: Facts) -> _Span:
    delivered = facts.get("outcome") == "delivered"
    return _Span(
        name="webhook delivery",
        kind="CLIENT",
        took_s=facts.get("duration_s") or 0.0,
        error=None if delivered else _code(facts),
        attributes={
            "holdfast.endpoint": facts.get("endpoint"),
            "holdfast.event_type": facts.get("event_type"),
            "holdfast.event": facts.get("event_id"),
            "holdfast.attempt": facts.get("attempt"),
            "holdfast.outcome": _text(facts.get("outcome")),
            "http.response.status_code": facts.get("status"),
        },
    )


def _of_request(_verb: str, facts: Facts) -> _Span:
    here, status = current_context(), facts.get("status") or 0
    return _Span(
        name=f"{facts.get('method')} {facts.get('endpoint')}",
        kind="SERVER",
        took_s=facts.get("duration_s") or 0.0,
        error=_code(facts) if status >= FAILED_FROM else None,
        parent=facts.get("parent"),
        rooted=True,
        trace_id=here.trace_id,
        span_id=here.span_id,
        attributes={
            "http.request.method": facts.get("method"),
            "http.route": facts.get("endpoint"),
            "http.response.status_code": status,
            "holdfast.code": facts.get("code"),
            # Who asked, where it was answered and by which version: what the system has put into the context.
            **{f"holdfast.{name}": value for name, value in here.known().items() if name in _TRACED},
        },
    )


def _code(facts: Facts) -> str:
    return str(facts.get("code") or "UNKNOWN")


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _nothing() -> None:
    """There is nothing to end."""


SHAPES: Mapping[str, Callable[[str, Facts], _Span | None]] = {
    **dict.fromkeys(("link.succeeded", "link.retried", "link.gave_up", "link.rejected"), _of_link),
    **dict.fromkeys(
        ("job.finished", "job.retried", "job.failed", "job.snoozed", "job.cancelled", "job.settled_late"), _of_job
    ),
    "delivery.attempted": _of_delivery,
    "request.served": _of_request,
}
"""What becomes a span, and how."""
