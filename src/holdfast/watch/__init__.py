"""What happens, seen from outside: metrics of all processes together, alerts, redacted logs, and traces."""

from typing import TYPE_CHECKING

from holdfast.base.lazy import lazily

if TYPE_CHECKING:
    from holdfast.watch.alert_state import AlertState, Phase, judge
    from holdfast.watch.alerts import Alerts, Standing
    from holdfast.watch.exposition import Exposition, metrics_app
    from holdfast.watch.grafana import dashboard_file
    from holdfast.watch.logs import log_events
    from holdfast.watch.meter import Meter
    from holdfast.watch.names import BY_NAME, METRICS, Kind, Metric
    from holdfast.watch.panels import SUBJECTS, Panel
    from holdfast.watch.promql_rules import rule_file
    from holdfast.watch.rules import Action, Rule
    from holdfast.watch.rules_builtin import RULES
    from holdfast.watch.rules_file import AlertPolicy, load_alerts
    from holdfast.watch.rules_measure import Average, Count, Counted, Level, Measure, Quantile, Ratio, Surge
    from holdfast.watch.series import Series, StoreSeries
    from holdfast.watch.sinks import Sink, WebhookSink
    from holdfast.watch.sinks_pagerduty import PagerDutySink
    from holdfast.watch.sinks_slack import SlackSink
    from holdfast.watch.switch import Side, Switch
    from holdfast.watch.traces import trace_events
    from holdfast.watch.watching import Watching, start

# Who only reads numbers needs nothing of logs and traces: loaded when first used.
_HOMES = {
    "Action": "rules",
    "AlertPolicy": "rules_file",
    "AlertState": "alert_state",
    "Alerts": "alerts",
    "Average": "rules_measure",
    "BY_NAME": "names",
    "Count": "rules_measure",
    "Counted": "rules_measure",
    "Exposition": "exposition",
    "Kind": "names",
    "Level": "rules_measure",
    "METRICS": "names",
    "Measure": "rules_measure",
    "Meter": "meter",
    "Metric": "names",
    "PagerDutySink": "sinks_pagerduty",
    "Panel": "panels",
    "Phase": "alert_state",
    "Quantile": "rules_measure",
    "RULES": "rules_builtin",
    "Ratio": "rules_measure",
    "Rule": "rules",
    "SUBJECTS": "panels",
    "Series": "series",
    "Side": "switch",
    "Sink": "sinks",
    "SlackSink": "sinks_slack",
    "Standing": "alerts",
    "StoreSeries": "series",
    "Surge": "rules_measure",
    "Switch": "switch",
    "Watching": "watching",
    "WebhookSink": "sinks",
    "dashboard_file": "grafana",
    "judge": "alert_state",
    "load_alerts": "rules_file",
    "log_events": "logs",
    "metrics_app": "exposition",
    "rule_file": "promql_rules",
    "start": "watching",
    "trace_events": "traces",
}

__getattr__ = lazily(__name__, globals(), {name: f"{__name__}.{home}" for name, home in _HOMES.items()})

__all__ = [
    "BY_NAME",
    "METRICS",
    "RULES",
    "SUBJECTS",
    "Action",
    "AlertPolicy",
    "AlertState",
    "Alerts",
    "Average",
    "Count",
    "Counted",
    "Exposition",
    "Kind",
    "Level",
    "Measure",
    "Meter",
    "Metric",
    "PagerDutySink",
    "Panel",
    "Phase",
    "Quantile",
    "Ratio",
    "Rule",
    "Series",
    "Side",
    "Sink",
    "SlackSink",
    "Standing",
    "StoreSeries",
    "Surge",
    "Switch",
    "Watching",
    "WebhookSink",
    "dashboard_file",
    "judge",
    "load_alerts",
    "log_events",
    "metrics_app",
    "rule_file",
    "start",
    "trace_events",
]
