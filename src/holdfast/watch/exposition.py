"""Metrics as Prometheus reads them: the totals of all processes, and the gauges as they stand.

Every process answers the same, so any one of them may be scraped. What the answering process has counted itself is in
the answer; what others have counted comes with their next flush.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from holdfast.base import monotonic_s
from holdfast.base.lazy import name_extra
from holdfast.catalog import Dialect, Failure, render
from holdfast.catalog.core import METHOD_NOT_ALLOWED
from holdfast.store import Store
from holdfast.watch.flush import bound_text
from holdfast.watch.gauges import REMEMBERED_S, Gauges
from holdfast.watch.labels import Labels, read_labels
from holdfast.watch.names import METRICS, Kind, Metric
from holdfast.watch.watching import bring_in

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family

ROWS_MAX = 200_000
METHODS = ("GET", "HEAD")

Message = MutableMapping[str, Any]
Application = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]

Found = Mapping[str, list[tuple[Labels, float]]]
"""The series of each name."""


class Exposition:
    """What a scrape gets; remembered for a moment, so that many cost no more than one. Threads may share it."""

    def __init__(self, store: Store, *, remembered_s: float = REMEMBERED_S) -> None:
        try:
            from prometheus_client import CollectorRegistry
        except ModuleNotFoundError as missing:
            name_extra(missing)
            raise

        self._store = store
        self._gauges = Gauges(store, remembered_s=remembered_s)
        self._remembered_s = remembered_s
        self._reading = threading.Lock()
        self._known: tuple[float, list[Family]] | None = None
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def collect(self) -> Iterable[Family]:
        """Every metric, for a registry of prometheus_client.

        Raises:
            Failure: the database's own.
        """
        with self._reading:
            known = self._known
            if known is None or not 0 <= monotonic_s() - known[0] < self._remembered_s:
                found = self._found()
                known = self._known = monotonic_s(), [_family(metric, found) for metric in METRICS]
            return known[1]

    def page(self, accept: str = "") -> tuple[str, bytes]:
        """The content type that suits the Accept header, and the text.

        Raises:
            Failure: the database's own.
        """
        from prometheus_client.exposition import choose_encoder

        try:
            encoder, content_type = choose_encoder(accept)
        except (ValueError, TypeError):
            encoder, content_type = choose_encoder("")
        return content_type, encoder(self._registry)

    def _found(self) -> Found:
        bring_in(self._store)
        rows = self._store.atomic(lambda tx: tx.rows("metric.totals", most=ROWS_MAX), write=False)
        found: dict[str, list[tuple[Labels, float]]] = {}
        for name, text, value in rows:
            found.setdefault(name, []).append((read_labels(text), value))
        for one in self._gauges.read():
            found.setdefault(one.name, []).append((one.labels, one.value))
        return found


def metrics_app(store: Store) -> Application:
    """An ASGI application that answers every path with the metrics; GET and HEAD only."""
    exposition = Exposition(store)

    async def application(scope: Message, _receive: Any, send: Callable[[Message], Awaitable[None]]) -> None:
        if scope["type"] != "http":
            return
        import asyncio

        if scope["method"] not in METHODS:
            await _refuse(METHOD_NOT_ALLOWED(method=scope["method"]), send)
            return
        accept = b",".join(value for name, value in scope["headers"] if name == b"accept").decode("latin-1")
        try:
            content_type, body = await asyncio.to_thread(exposition.page, accept)
        except Failure as failure:
            await _refuse(failure, send)
            return
        await _answer(
            200, [("Content-Type", content_type)], b"" if scope["method"] == "HEAD" else body, len(body), send
        )

    return application


async def _refuse(failure: Failure, send: Callable[[Message], Awaitable[None]]) -> None:
    rendered = render(failure, Dialect.PROBLEM)
    headers = list(rendered.headers)
    if failure.status == METHOD_NOT_ALLOWED.status:
        headers.append(("Allow", ", ".join(METHODS)))
    await _answer(rendered.status, headers, rendered.body, len(rendered.body), send)


async def _answer(
    status: int, headers: list[tuple[str, str]], body: bytes, size: int, send: Callable[[Message], Awaitable[None]]
) -> None:
    told = [
        *headers,
        ("Content-Length", str(size)),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
    ]
    written = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in told]
    await send({"type": "http.response.start", "status": status, "headers": written})
    await send({"type": "http.response.body", "body": body})


def _family(metric: Metric, found: Found) -> Family:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    if metric.kind is Kind.HISTOGRAM:
        family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for values, (buckets, total) in _histograms(metric, found).items():
            family.add_metric(values, buckets, total)
        return family
    make = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    simple = make(metric.name, metric.help, labels=metric.labels)
    for labels, value in found.get(metric.name, ()):
        simple.add_metric(_values(metric, labels), value)
    return simple


def _histograms(metric: Metric, found: Found) -> dict[tuple[str, ...], tuple[list[tuple[str, float]], float]]:
    """The cumulative buckets and the sum of each series."""
    bounds = [bound_text(bound) for bound in (*metric.buckets, float("inf"))]
    counts: dict[tuple[str, ...], dict[str, float]] = {}
    for labels, value in found.get(f"{metric.name}_bucket", ()):
        counts.setdefault(_values(metric, labels), {})[labels["le"]] = value
    sums = {_values(metric, labels): value for labels, value in found.get(f"{metric.name}_sum", ())}
    return {
        values: (
            list(zip(bounds, accumulate(counted.get(bound, 0.0) for bound in bounds), strict=True)),
            sums.get(values, 0.0),
        )
        for values, counted in counts.items()
    }


def _values(metric: Metric, labels: Labels) -> tuple[str, ...]:
    return tuple(labels.get(name, "") for name in metric.labels)
