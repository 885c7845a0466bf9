"""The panels of the dashboard, as data: the console draws them, and the Grafana dashboard is written from them.

Six for each subject: success rate over time, errors by code, latency percentiles, what is left over, retries, and what
goes wrong most often. A subject is something that a label names: an endpoint of webhooks, a link, a queue.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from holdfast.watch import names
from holdfast.watch.names import Metric
from holdfast.watch.rules_builtin import DEAD_SIZE, ERROR_RATE, SUCCESS_RATE, WINDOW_S
from holdfast.watch.rules_measure import Count, Counted, Level, Measure, Quantile, Ratio, labels_of

TOP_ROWS = 10
SHARES = (0.5, 0.95, 0.99)


class Chart(StrEnum):
    LINES = "lines"
    BARS = "bars"
    DISTRIBUTION = "distribution"
    """How often each bucket of a histogram was hit."""
    TABLE = "table"
    """The highest values, one row each."""


class Unit(StrEnum):
    SHARE = "share"
    """Between 0 and 1."""
    SECONDS = "seconds"
    COUNT = "count"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a panel, or one for each value of a label."""

    title: str
    what: Measure
    per: str | None = None

    def __post_init__(self) -> None:
        if self.per is not None and self.per not in labels_of(self.what):
            raise ValueError(f"{self.title}: {self.per} is not a label of what it shows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel."""

    name: str
    title: str
    chart: Chart
    unit: Unit
    lines: tuple[Line, ...] = ()
    histogram: Metric | None = None
    """What a distribution shows; it has no lines."""
    rules: tuple[str, ...] = ()
    """The rules whose thresholds are drawn in."""

    def __post_init__(self) -> None:
        if (self.chart is Chart.DISTRIBUTION) != (self.histogram is not None) or (self.histogram is None) != bool(
            self.lines
        ):
            raise ValueError(f"{self.name}: a distribution shows a histogram, and everything else shows lines")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a set of panels is about, and the label that names one of them."""

    name: str
    title: str
    label: str
    panels: tuple[Panel, ...]


def _success(measure: Ratio, *rules: str) -> Panel:
    return Panel(
        name="success_rate",
        title="Success rate",
        chart=Chart.LINES,
        unit=Unit.SHARE,
        lines=(Line(title="success", what=measure),),
        rules=rules,
    )


def _counts(name: str, title: str, counted: Counted, per: str, chart: Chart = Chart.BARS) -> Panel:
    line = Line(title=f"{{{per}}}", what=Count(of=(counted,), over_s=WINDOW_S), per=per)
    return Panel(name=name, title=title, chart=chart, unit=Unit.COUNT, lines=(line,))


def _latency(metric: Metric) -> Panel:
    return Panel(
        name="latency",
        title="Latency",
        chart=Chart.LINES,
        unit=Unit.SECONDS,
        lines=tuple(
            Line(title=f"p{share * 100:g}", what=Quantile(of=Counted(metric), share=share, over_s=WINDOW_S))
            for share in SHARES
        ),
    )


def _levels(name: str, title: str, *lines: Line, unit: Unit = Unit.COUNT, rules: tuple[str, ...] = ()) -> Panel:
    return Panel(name=name, title=title, chart=Chart.LINES, unit=unit, lines=lines, rules=rules)


def _retries(title: str, metric: Metric, *rules: str) -> Panel:
    return Panel(
        name="retries",
        title=title,
        chart=Chart.DISTRIBUTION,
        unit=Unit.COUNT,
        histogram=metric,
        rules=rules,
    )


def _jobs(*verbs: str) -> Counted:
    return Counted(names.JOB_TRANSITIONS, only=(("verb", verbs),))


WEBHOOKS = Subject(
    name="webhook",
    title="Webhooks",
    label="endpoint",
    panels=(
        _success(SUCCESS_RATE, "webhook_success_rate_critical", "webhook_success_rate_warning"),
        _counts("errors", "Errors by status code", Counted(names.DELIVERIES_BAD), "status_code"),
        _latency(names.DELIVERY_DURATION),
        _levels(
            "dead_letters",
            "Dead letters",
            Line(title="all", what=DEAD_SIZE),
            Line(title="of the last hour", what=Level(of=names.WEBHOOK_DEAD_LATELY)),
            rules=("webhook_dead_letters_critical", "webhook_dead_letters_warning"),
        ),
        _retries("Retries of a delivery", names.DELIVERY_RETRIES, "webhook_retries_warning"),
        _counts(
            "top_errors",
            "Most frequent errors",
            Counted(names.ERRORS, only=(("layer", ("delivery",)),)),
            "error_code",
            Chart.TABLE,
        ),
    ),
)

LINKS = Subject(
    name="link",
    title="Links",
    label="link",
    panels=(
        _success(
            Ratio(
                part=Counted(names.LINK_ATTEMPTS, only=(("outcome", ("succeeded",)),)),
                whole=Counted(names.LINK_ATTEMPTS),
                over_s=WINDOW_S,
            )
        ),
        _counts("errors", "Errors by link", Counted(names.LINK_FAILURES), "link"),
        _latency(names.LINK_DURATION),
        _levels(
            "breakers",
            "Breakers (1 half open, 2 open)",
            Line(title="{link}", what=Level(of=names.LINK_BREAKER), per="link"),
        ),
        _counts("retries", "What followed a failure", Counted(names.LINK_DECISIONS), "decision"),
        _counts("top_errors", "Most frequent errors", Counted(names.LINK_FAILURES), "error_code", Chart.TABLE),
    ),
)

QUEUES = Subject(
    name="queue",
    title="Queues",
    label="queue",
    panels=(
        _success(Ratio(part=_jobs("finished"), whole=_jobs("failed", "finished", "retried"), over_s=WINDOW_S)),
        _counts("errors", "Failed jobs by code", Counted(names.JOBS_FAILED), "error_code"),
        _latency(names.JOB_DURATION),
        _levels("dead_letters", "Dead letters", Line(title="{queue}", what=Level(of=names.DEAD_LETTERS), per="queue")),
        _retries("Retries of a job", names.JOB_RETRIES),
        _counts("top_errors", "Most frequent errors", Counted(names.JOBS_FAILED), "error_code", Chart.TABLE),
        _levels("depth", "Waiting jobs", Line(title="{queue}", what=Level(of=names.QUEUE_DEPTH), per="queue")),
        _levels("active", "Jobs at work", Line(title="{queue}", what=Level(of=names.JOBS_ACTIVE), per="queue")),
        _levels(
            "oldest",
            "Oldest job that is due",
            Line(title="{queue}", what=Level(of=names.QUEUE_OLDEST), per="queue"),
            unit=Unit.SECONDS,
            rules=("queue_stuck",),
        ),
    ),
)

REQUESTS = Subject(
    name="request",
    title="Requests",
    label="endpoint",
    panels=(
        _levels(
            "error_rate",
            "Error rate",
            Line(title="errors", what=ERROR_RATE),
            unit=Unit.SHARE,
            rules=("high_error_rate",),
        ),
        _counts("errors", "Errors by code", Counted(names.REQUEST_ERRORS), "error_code"),
        _levels(
            "latency",
            "Response time, p95",
            *(
                Line(
                    title=outcome,
                    what=Quantile(
                        of=Counted(names.REQUEST_DURATION, only=(("outcome", (outcome,)),)), share=0.95, over_s=WINDOW_S
                    ),
                )
                for outcome in ("good", "failed")
            ),
            unit=Unit.SECONDS,
        ),
        _levels(
            "retry_success",
            "Retries that succeed",
            Line(
                title="{layer}",
                what=Ratio(part=Counted(names.RETRIES_GOOD), whole=Counted(names.RETRIES_MADE), over_s=WINDOW_S),
                per="layer",
            ),
            unit=Unit.SHARE,
        ),
    ),
)

SUBJECTS = (WEBHOOKS, REQUESTS, LINKS, QUEUES)
"""All of them, in the order in which they are shown."""
