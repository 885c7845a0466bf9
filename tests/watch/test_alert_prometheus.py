"""The rule file: promtool takes it, and on the same numbers Prometheus fires what the built-in evaluator fires.

The numbers are told as events, counted, flushed and scraped; the scrapes are the series of promtool's test.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from holdfast.catalog import CORE
from holdfast.store import Store
from holdfast.testing import VirtualTime, instant
from holdfast.watch import names
from holdfast.watch.alert_state import Phase
from holdfast.watch.alerts import Alerts
from holdfast.watch.exposition import Exposition
from holdfast.watch.names import BY_NAME
from holdfast.watch.promql import ALWAYS_SHOWN, condition, duration, promql
from holdfast.watch.promql_rules import rule_file
from holdfast.watch.rules import key
from holdfast.watch.rules_builtin import RULES
from holdfast.watch.rules_measure import Count, Counted, metrics_of
from holdfast.watch.series import StoreSeries

from .alert_scene import Process, open_sqlite, stand_at_a_slice

STEP_S = 30
MINUTES = 44
SETTLED_STEPS = 3
"""Both sides are compared where the built-in one has not just moved: the last scrape decides those moments."""
LABELS = "alertname, link, queue, error_code"
MISSING = "promtool is not installed: the rule file is NOT checked against Prometheus (apt-get install prometheus)"


@pytest.fixture(scope="session")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip(MISSING)
    return found


def test_the_rule_file_is_one_for_promtool(promtool: str, tmp_path: Path) -> None:
    file = tmp_path / "holdfast.rules.yml"
    file.write_text(rule_file(RULES))
    ended = subprocess.run([promtool, "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{len(RULES)} rules found" in ended.stdout


class Played:
    """A run of the whole: what was scraped at each step, and what fired."""

    def __init__(self, store: Store, time: VirtualTime) -> None:
        self.process = Process(store)
        self.alerts = Alerts(store, StoreSeries(store))
        self.exposition = Exposition(store)
        self.time = time
        self.scraped: dict[str, list[float | None]] = defaultdict(list)
        self.firing: list[set[str]] = []

    def step(self) -> None:
        self.alerts.turn()
        standing = self.alerts.standings()
        self.firing.append({key(one.rule.name, one.cause) for one in standing if one.state.phase is Phase.FIRING})
        for family in self.exposition.collect():
            for sample in family.samples:
                labels = ", ".join(f"{name}={json.dumps(value)}" for name, value in sorted(sample.labels.items()))
                series = self.scraped[f"{sample.name}{{{labels}}}"]
                series.extend([None] * (len(self.firing) - 1 - len(series)))
                series.append(sample.value)
        self.time.advance(STEP_S)


def tell(process: Process, minute: float) -> None:
    """An outage from minute 6 to 14, then a long time in which a few deliveries fail, then calm."""
    bad, shaky, stuck = 6 <= minute < 14, 14 <= minute < 26, 6 <= minute < 18
    facts = {"endpoint": "shop", "duration_s": 0.1, "flush": False}
    failed = 8 if bad else 1 if shaky else 0
    process.tell(
        "delivery.attempted", outcome="delivered", attempt=5 if bad else 1, status=200, times=28 - failed, **facts
    )
    process.tell("delivery.attempted", outcome="retried", attempt=1, status=503, code="X", times=failed, **facts)
    served = {"endpoint": "/x", "method": "GET", "duration_s": 0.1, "flush": False}
    process.tell("request.served", status=200, times=40, **served)
    timed_out = CORE["DATABASE_TIMEOUT"].facts
    process.tell("request.served", status=503, times=12 if bad else 0, **timed_out, **served)
    # Once, and never before: Prometheus has to see a series that begins with its first occurrence.
    process.tell("worker.trouble", **CORE["STORAGE_FULL"].facts, times=int(minute == 8), flush=False)
    process.tell("worker.trouble", **CORE["COMMIT_UNKNOWN"].facts, times=25 if minute == 8 else 0, flush=False)
    process.tell("webhook.received", source="shop", code=None, times=5, flush=False)
    process.tell("webhook.received", source="shop", code="UNAUTHORIZED", times=12 if bad else 0, flush=False)
    for link, times in (("api → bank", 6 if bad else 0), ("api → mail", 1)):
        given_up = {"code": "UPSTREAM_ERROR", "blame": "upstream", "reason": "attempts_used", "flush": False}
        process.tell("link.gave_up", link=link, times=times, **given_up)
        process.tell("link.succeeded", link=link, attempt=1, times=9, flush=False)
    process.tell("job.finished", queue="pdf", duration_us=1_000, times=20, flush=False)
    process.tell("job.failed", queue="pdf", code="GW_5XX", duration_us=1_000, times=10 if bad else 0, flush=False)
    process.tell(
        "job.failed", queue="pdf", code="GW_4XX", duration_us=1_000, times=int(minute == int(minute)), flush=False
    )
    process.meter.set(names.WEBHOOK_DEAD, value=120 if bad else 70 if shaky else 3)
    for queue, waits_s in (("pdf", 900), ("mial", 900), ("held", 1_000), ("paused", 4_000)):
        process.meter.set(names.QUEUE_OLDEST, queue, value=waits_s if stuck else 0)
        process.meter.set(names.JOBS_ACTIVE, queue, value=0 if stuck else 2)
        process.meter.set(names.QUEUE_WORKERS, queue, value=queue != "mial")
        process.meter.set(names.QUEUE_HELD, queue, value=queue == "held")
        process.meter.set(names.QUEUE_PAUSED, queue, value=queue == "paused")
    process.flush()


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    with instant() as time:
        stand_at_a_slice(time)
        store = open_sqlite(tmp_path_factory.mktemp("played"))
        run = Played(store, time)
        for step in range(MINUTES * 60 // STEP_S):
            tell(run.process, step * STEP_S / 60)
            run.step()
        store.close()
        return run


def of_rule(firing: set[str], rule: str) -> set[str]:
    return {one for one in firing if one.partition("/")[0] == rule}


def settled(firing: list[set[str]], step: int, rule: str) -> bool:
    near = firing[max(0, step - SETTLED_STEPS) : step + SETTLED_STEPS + 1]
    return all(of_rule(one, rule) == of_rule(firing[step], rule) for one in near)


def causes(rule: str) -> set[str]:
    return {
        "critical_fault": {"STORAGE_FULL"},
        "warning_fault": {"COMMIT_UNKNOWN"},
        "external_service_down": {"api → bank"},
        "job_failures_spike": {"GW_5XX"},
        "queue_stuck": {"pdf"},
        "queue_without_worker": {"mial"},
        "queue_held_long": {"held"},
        "queue_paused_long": {"paused"},
    }.get(rule, {""})


def test_every_rule_fires_in_the_outage_and_is_over_at_the_end(played: Played) -> None:
    ever = set().union(*played.firing)
    assert ever == {key(rule.name, cause) for rule in RULES for cause in causes(rule.name)}
    assert played.firing[0] == played.firing[-1] == set()


def expected(one: str) -> str:
    rule, _, cause = one.partition("/")
    per = next(each.per for each in RULES if each.name == rule)
    labels = [f"alertname={json.dumps(rule)}", *([f"{per}={json.dumps(cause, ensure_ascii=False)}"] if cause else [])]
    return "{" + ", ".join(labels) + "}"


def promtool_test(played: Played) -> dict[str, object]:
    """The same run, as promtool tests it."""
    tests = [
        {
            "expr": f'count by ({LABELS}) (ALERTS{{alertstate="firing", alertname="{rule.name}"}})',
            "eval_time": f"{step * STEP_S}s",
            "exp_samples": [{"labels": expected(one), "value": 1} for one in sorted(of_rule(firing, rule.name))],
        }
        for step, firing in enumerate(played.firing)
        for rule in RULES
        if settled(played.firing, step, rule.name)
    ]
    series = [
        {"series": name, "values": " ".join("_" if value is None else f"{value:g}" for value in values)}
        for name, values in played.scraped.items()
    ]
    return {
        "rule_files": ["holdfast.rules.yml"],
        "evaluation_interval": f"{STEP_S}s",
        "tests": [{"interval": f"{STEP_S}s", "input_series": series, "promql_expr_test": tests}],
    }


def test_prometheus_fires_what_the_built_in_evaluator_fires(promtool: str, tmp_path: Path, played: Played) -> None:
    written = promtool_test(played)
    compared = written["tests"][0]["promql_expr_test"]  # type: ignore[index]
    # Each rule is compared both where it fires and where it does not; otherwise the test would claim too much.
    for rule in RULES:
        asked = [bool(test["exp_samples"]) for test in compared if f'"{rule.name}"' in test["expr"]]
        assert (True in asked, False in asked) == (True, True), rule.name
        assert len(asked) > len(played.firing) * 0.7, rule.name
    (tmp_path / "holdfast.rules.yml").write_text(rule_file(RULES, interval_s=STEP_S))
    file = tmp_path / "test.json"
    file.write_text(json.dumps(written, ensure_ascii=False))
    ended = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[:4_000]


def test_prometheus_sees_each_number_once_however_many_processes_it_scrapes(promtool: str, tmp_path: Path) -> None:
    rule = next(rule for rule in RULES if rule.name == "webhook_signature_failures")
    (tmp_path / "holdfast.rules.yml").write_text(rule_file([rule], interval_s=STEP_S))
    labels = 'source="shop", error_code="UNAUTHORIZED"'
    document = {
        "rule_files": ["holdfast.rules.yml"],
        "evaluation_interval": f"{STEP_S}s",
        "tests": [
            {
                "interval": f"{STEP_S}s",
                "input_series": [
                    {"series": f'webhook_rejected_total{{{labels}, instance="{one}"}}', "values": "0+4x20"}
                    for one in ("a:1", "b:2")
                ],
                "promql_expr_test": [
                    {"expr": promql(rule.what), "eval_time": "5m", "exp_samples": [{"labels": "{}", "value": 8}]}
                ],
            }
        ],
    }
    (tmp_path / "test.json").write_text(json.dumps(document))
    ended = subprocess.run(
        [promtool, "test", "rules", str(tmp_path / "test.json")], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_names_metrics_that_exist(rule) -> None:
    suffix = re.compile(r"_(sum|count|bucket)\Z")
    words = set(re.findall(r"[a-z_]+(?=[\[{)])", condition(rule)))
    named = {suffix.sub("", word) for word in words if word not in {"by", "without"}}
    assert {metric.name for metric in metrics_of(rule.what)} <= named
    rare = isinstance(rule.what, Count) and rule.what.rare
    shown = {ALWAYS_SHOWN.name} if rare else set()
    assert named & set(BY_NAME) == {metric.name for metric in metrics_of(rule.what)} | shown


@pytest.mark.parametrize(("seconds", "text"), [(300, "5m"), (90, "90s"), (3_600, "1h"), (86_400, "1d"), (0.5, "500ms")])
def test_durations_are_written_as_prometheus_reads_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_value_with_signs_of_a_pattern_matches_itself_alone() -> None:
    counted = Counted(names.REFUSED, only=(("source", ("a.b", 'c"d|e')),))
    assert 'source=~"a\\\\.b|c\\"d\\\\|e"' in promql(Count(of=(counted,), over_s=60))


def test_rules_that_are_switched_off_are_left_out() -> None:
    from dataclasses import replace

    assert "alert:" not in rule_file([replace(RULES[0], enabled=False)])
    assert "rules: []" in rule_file([replace(RULES[0], enabled=False)])


def test_text_that_looks_like_a_template_stays_text() -> None:
    from dataclasses import replace

    assert '{{ \\"{{\\" }} $value }}' in rule_file([replace(RULES[0], summary="{{ $value }}")])
