"""The dashboard that is written from the panels, and the panels themselves."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from holdfast.watch import names
from holdfast.watch.grafana import ACROSS, dashboard, dashboard_file
from holdfast.watch.panels import LINKS, QUEUES, SUBJECTS, WEBHOOKS, Chart, Line, Panel, Unit
from holdfast.watch.rules_builtin import DEAD_SIZE, RULES


def panels() -> dict[str, dict]:
    return {panel["title"]: panel for panel in dashboard((WEBHOOKS,))["panels"]}


def test_the_six_panels_are_there_for_webhooks_links_and_queues() -> None:
    six = [
        ("success_rate", Chart.LINES),
        ("errors", Chart.BARS),
        ("latency", Chart.LINES),
        ("dead_letters", Chart.LINES),
        ("retries", Chart.DISTRIBUTION),
        ("top_errors", Chart.TABLE),
    ]
    assert [(panel.name, panel.chart) for panel in WEBHOOKS.panels] == six
    assert [(panel.name, panel.chart) for panel in QUEUES.panels[:6]] == six
    assert len(LINKS.panels) == 6
    assert {"depth", "active", "oldest"} <= {panel.name for panel in QUEUES.panels}


def test_every_panel_has_a_place_of_its_own_and_a_query() -> None:
    made = dashboard()["panels"]
    assert len(made) == len(SUBJECTS) + sum(len(subject.panels) for subject in SUBJECTS)
    assert len({panel["id"] for panel in made}) == len(made)
    taken: set[tuple[int, int]] = set()
    for panel in made:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken
        assert max(x for x, _ in cells) < ACROSS
        taken |= cells
        assert panel["type"] == "row" or all(target["expr"] for target in panel["targets"])


def test_the_file_is_json_and_the_same_each_time() -> None:
    assert json.loads(dashboard_file())["uid"] == "holdfast"
    assert dashboard_file() == dashboard_file()


def test_the_thresholds_of_the_rules_are_drawn_in() -> None:
    success = panels()["Success rate"]["fieldConfig"]["defaults"]
    assert success["thresholds"]["steps"] == [
        {"color": "red", "value": None},
        {"color": "orange", "value": 0.95},
        {"color": "green", "value": 0.98},
    ]
    assert success["custom"]["thresholdsStyle"] == {"mode": "line"}
    dead = panels()["Dead letters"]["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert dead == [
        {"color": "green", "value": None},
        {"color": "orange", "value": 50},
        {"color": "red", "value": 100},
    ]


def test_thresholds_follow_the_policy_and_rules_that_are_off_draw_none() -> None:
    rules = [replace(rule, enabled=False) for rule in RULES]
    made = {panel["title"]: panel for panel in dashboard((WEBHOOKS,), rules)["panels"]}
    defaults = made["Dead letters"]["fieldConfig"]["defaults"]
    assert defaults["thresholds"]["steps"] == [{"color": "green", "value": None}]
    assert defaults["custom"]["thresholdsStyle"] == {"mode": "off"}


def test_each_kind_of_panel_asks_in_its_own_way() -> None:
    made = panels()
    assert [target["legendFormat"] for target in made["Latency"]["targets"]] == ["p50", "p95", "p99"]
    assert made["Errors by status code"]["targets"][0]["legendFormat"] == "{{status_code}}"
    spread = made["Retries of a delivery"]["targets"][0]
    assert (spread["format"], spread["instant"]) == ("heatmap", True)
    assert "webhook_retry_count_bucket[$__range]" in spread["expr"]
    top = made["Most frequent errors"]["targets"][0]
    assert top["expr"].startswith("topk(10, sum by (error_code)")


def test_the_rules_that_panels_name_exist() -> None:
    named = {name for subject in SUBJECTS for panel in subject.panels for name in panel.rules}
    assert named <= {rule.name for rule in RULES}


@pytest.mark.parametrize(
    "make",
    [
        lambda: Panel(name="x", title="x", chart=Chart.LINES, unit=Unit.COUNT),
        lambda: Panel(name="x", title="x", chart=Chart.DISTRIBUTION, unit=Unit.COUNT),
        lambda: Panel(name="x", title="x", chart=Chart.LINES, unit=Unit.COUNT, histogram=names.DELIVERY_RETRIES),
        lambda: Line(title="x", what=DEAD_SIZE, per="endpoint"),
    ],
)
def test_a_wrong_panel_is_refused_where_it_is_written(make) -> None:
    with pytest.raises(ValueError):
        make()
