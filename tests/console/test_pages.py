"""Pages: what they show is true, and nothing that others wrote can become part of the page itself."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from urllib.parse import quote

import pytest

from holdfast.base import bus
from holdfast.catalog import CORE, Catalog
from holdfast.catalog.core import FORBIDDEN, RATE_LIMIT_EXCEEDED
from holdfast.delivery import Deliveries
from holdfast.delivery.exchange import Outgoing, Reply
from holdfast.operate.dead_groups import latest_groups
from holdfast.operate.delivery_list import PAGE_ROWS
from holdfast.policy import Backoff, Retry
from holdfast.store import Store
from holdfast.watch.alerts import Alerts
from holdfast.watch.flush import Flusher
from holdfast.watch.meter import Meter
from holdfast.watch.series import StoreSeries
from holdfast.worker import Handlers, Jobs, Queues, ledger
from holdfast.worker.attempt import attempt
from holdfast.worker.dead_filter import LATEST_US, DeadFilter

from .asking import Asker, asker
from .making import finish, hold, kill

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}"
LISTS = ("/", "/jobs", "/jobs?state=failed", "/jobs?state=queued", "/jobs?state=processing", "/dead", "/deliveries",
         "/breakers", "/limits", "/alerts", "/audit", "/faults")  # fmt: skip


class Elements(HTMLParser):
    """Counts the elements of a page, and collects its links and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.links += [value for name, value in attrs if name in {"href", "action"} and value]
        assert not [name for name, _ in attrs if name.startswith("on")]


def test_what_others_wrote_stays_text(store: Store, jobs: Jobs, inside: Asker) -> None:
    [dead] = kill(store, jobs, queue=HOSTILE[:60], message=HOSTILE)
    jobs.enqueue(HOSTILE[:90], {HOSTILE: HOSTILE}, queue=HOSTILE[:50], tenant=HOSTILE[:40])
    hold(store, jobs, queue=HOSTILE[:40])
    Queues(store).pause(HOSTILE, HOSTILE)
    inside.act("/queues/pause", {"name": "x", "reason": HOSTILE})
    Deliveries(store, jobs).endpoints.add("http://127.0.0.1:9/<script>", event_types=["a.*"])
    for path in (*LISTS, f"/jobs/{dead}", f"/jobs?text={html.escape('<script>')}"):
        answer = inside.get(path)
        assert answer.status == 200
        names = Elements(answer.text).names
        assert names.count("script") == 1, path
        assert "img" not in names


def test_every_link_stands_below_the_root_and_leads_somewhere(store: Store, jobs: Jobs, inside: Asker) -> None:
    kill(store, jobs, 2)
    finish(store, jobs, 1)
    inside.act("/queues/pause", {"name": "mail", "reason": "r"})
    seen: set[str] = set()
    waiting = ["/"]
    while waiting and len(seen) < 80:
        path = waiting.pop(0)
        answer = inside.get(path)
        assert answer.status == 200, path
        for link in Elements(answer.text).links:
            if link.startswith(("#", "data:", "/errors/")):
                continue
            assert link.startswith("/console/"), link
            below = html.unescape(link).removeprefix("/console")
            shape = re.sub(r"[0-9a-f-]{16,}|=[^&]*", "·", below)
            if (
                shape not in seen
                and not below.startswith(("/static", "/enter", "/leave", "/live"))
                and not (re.search(r"/(pause|resume|probe|trip|recover|cancel)$|/jobs/[^/]+/(revive|discard)$", below))
            ):
                seen.add(shape)
                waiting.append(below)
    assert {"/jobs", "/dead", "/faults", "/breakers", "/audit", "/dead/revive"} <= seen


def test_a_payload_is_shown_without_its_secrets(jobs: Jobs, inside: Asker) -> None:
    payload = {"to": "ann", "api_key": "k-123", "deep": [{"password": "hunter2", "note": "Bearer abcdef123456"}]}
    text = inside.get(f"/jobs/{jobs.enqueue('mail.send', payload).id}").text
    assert "ann" in text
    for secret in ("k-123", "hunter2", "abcdef123456"):
        assert secret not in text
    assert "***" in text


def test_a_job_tells_each_attempt_and_the_next(store: Store, jobs: Jobs, inside: Asker) -> None:
    handlers = Handlers()

    @handlers.handle("call", retry=Retry(attempts=3, backoff=Backoff.constant(5)))
    def call(job: object) -> None:
        raise RATE_LIMIT_EXCEEDED(retry_after_s=30.0, upstream_status=429)

    made = jobs.enqueue("call").id
    [job] = store.atomic(lambda tx: ledger.claim(tx, queue="default", worker="w-7", count=1))
    store.atomic(lambda tx: ledger.settle(tx, "w-7", (), [attempt(handlers.get("call"), job)]))
    text = inside.get(f"/jobs/{made}").text
    told = re.sub(r"<[^>]+>", "", text)
    assert re.search(
        r"attempt 1, by w-7429, RATE_LIMIT_EXCEEDED, took [^,]+, Retry-After 30 → next at \d\d:\d\d:\d\d", told
    )


@pytest.mark.parametrize(
    ("status", "asked", "words"),
    [
        (429, "30", "Retry-After 30 → next at"),
        (503, "1", "Retry-After 1 → next at"),  # the same as the schedule's own
        (503, "86400", "Retry-After 86400, waits 60 min → next at"),
        (429, None, "waits 60 s → next at"),
        (503, None, "waits 1 s → next at"),
        (500, "30", "waits 1 s → next at"),
    ],
)
def test_a_delivery_says_whether_the_endpoint_named_the_wait(
    store: Store, jobs: Jobs, inside: Asker, status: int, asked: str | None, words: str
) -> None:
    deliveries = Deliveries(store, jobs)
    deliveries.endpoints.add("http://127.0.0.1:9/hook", delays_s=[1.0])
    handlers = deliveries.handlers(lambda request: Reply(status, {} if asked is None else {"retry-after": asked}, b""))
    deliveries.publish("order.paid", {})
    [job] = store.atomic(lambda tx: ledger.claim(tx, queue="webhooks", worker="w-7", count=1))
    outcome = attempt(handlers.get(job.kind), job)
    store.atomic(lambda tx: ledger.settle(tx, "w-7", (), [outcome]))
    told = re.sub(r"<[^>]+>", "", inside.get(f"/jobs/{job.id}").text)
    assert words in told
    assert told.count("Retry-After") == words.count("Retry-After")


def test_a_delivery_says_what_the_endpoint_asked_for(store: Store, jobs: Jobs, inside: Asker) -> None:
    deliveries = Deliveries(store, jobs)
    endpoint = deliveries.endpoints.add("http://127.0.0.1:9/hook")

    def send(request: Outgoing) -> Reply:
        return Reply(429, {"retry-after": "30"}, b"slow down")

    handlers = deliveries.handlers(send)
    deliveries.publish("order.paid", {"order": 7, "token": "t-secret"})
    [job] = store.atomic(lambda tx: ledger.claim(tx, queue="webhooks", worker="w-7", count=1))
    outcome = attempt(handlers.get(job.kind), job)
    store.atomic(lambda tx: ledger.settle(tx, "w-7", (), [outcome]))
    told = re.sub(r"<[^>]+>", "", inside.get(f"/jobs/{job.id}").text)
    assert re.search(r"429, RATE_LIMIT_EXCEEDED, took .*?, Retry-After 30 → next at \d\d:\d\d:\d\d", told)
    assert "t-secret" not in told
    listing = inside.get(f"/deliveries?endpoint={endpoint.id}&type=order.paid&state=queued").text
    assert job.id in listing
    assert job.id not in inside.get("/deliveries?type=order.lost").text


def test_deliveries_are_paged_by_whole_events(store: Store, jobs: Jobs, inside: Asker) -> None:
    deliveries = Deliveries(store, jobs)
    for _ in range(2):
        deliveries.endpoints.add("http://127.0.0.1:9/hook")
    for number in range(PAGE_ROWS + 1):
        deliveries.publish("order.paid", {"order": number})
    path, seen = "/deliveries", []
    while path:
        text = inside.get(path).text
        seen += re.findall(r'/console/jobs/([0-9a-f-]{36})"', text)
        found = re.search(r'href="/console(/deliveries\?before=[^"]+)" rel="next"', text)
        path = html.unescape(found[1]) if found else ""
    assert len(seen) == len(set(seen)) == 2 * (PAGE_ROWS + 1)


def test_groups_are_counted_with_first_and_last(store: Store, jobs: Jobs, inside: Asker, monkeypatch) -> None:
    first = kill(store, jobs, 3)
    kill(store, jobs, 2, fault=FORBIDDEN, queue="other")
    found = store.atomic(lambda tx: latest_groups(tx, DeadFilter(), (LATEST_US, "")), write=False)
    assert sorted(group.count for group in found.groups) == [2, 3]
    group = next(one for one in found.groups if one.count == 3)
    assert group.first_us == jobs.show(first[0])["failed_us"]
    assert group.last_us == jobs.show(first[-1])["failed_us"]
    assert sum(group.slices) == 3
    assert group.slices[-1] == 3
    monkeypatch.setattr("holdfast.operate.dead_groups.WALK_ROWS_MAX", 2)
    text = inside.get("/dead").text
    assert "Look further back" in text
    before = html.unescape(re.search(r'href="/console(/dead\?before=[^"]+)"', text)[1])
    assert inside.get(before).status == 200


def test_a_fault_is_documented_with_its_schedule(store: Store) -> None:
    shop = Catalog("shop", extends=(CORE,))
    shop.fault("BANK_SILENT", status=503, says="The bank did not answer.", remedy="Wait.", related=("NOT_FOUND",),
               causes=("the bank sleeps",), retry=Retry(attempts=4, backoff=Backoff.listed(1, 2, 4)))  # fmt: skip
    visitor = asker(store, (shop,)).enter()
    text = visitor.get("/faults/BANK_SILENT").text
    told = re.sub(r"<[^>]+>", " ", text)
    for words in ("The bank did not answer.", "the bank sleeps", "Wait.", "503 Service Unavailable", "Nested", "Flat",
                  "Full", "Problem (RFC 9457)"):  # fmt: skip
        assert words in told
    assert "/console/faults/NOT_FOUND" in text
    assert re.findall(r'aria-label="attempt (\d) starts after ([^"]+)"', text) == [
        ("1", "0 s"), ("2", "1 s"), ("3", "3 s"), ("4", "7 s"),
    ]  # fmt: skip


def test_numbers_of_all_processes_reach_the_charts(store: Store, inside: Asker) -> None:
    meter = Meter()
    deaf = bus.listen(meter.hear)
    for number in range(20):
        facts = {"link": "shop → bank", "attempt": 1, "duration_s": 0.2}
        if number < 5:
            bus.tell("link.gave_up", **facts, code="CONNECTION_REFUSED", reason="attempts_used")
        else:
            bus.tell("link.succeeded", **facts)
    deaf()
    assert Flusher(store, meter).flush()
    text = html.unescape(inside.get(f"/?scope={quote('link:shop → bank')}&range=15m").text)
    assert "success 75 %" in re.sub(r"</?b>", "", text)
    assert re.search(r"CONNECTION_REFUSED", text)
    numbers = inside.get("/table/success_rate?scope=link:&range=15m").text
    assert "75 %" in numbers
    assert "5" in inside.get("/faults/CONNECTION_REFUSED").text


def test_thresholds_of_the_rules_are_drawn(store: Store, inside: Asker) -> None:
    meter = Meter()
    deaf = bus.listen(meter.hear)
    bus.tell("delivery.attempted", endpoint="ep_1", attempt=1, status=500, outcome="retried", duration_s=0.1, code="X")
    deaf()
    Flusher(store, meter).flush()
    text = inside.get("/?scope=endpoint:&range=15m").text
    assert text.count('class="threshold bad"') >= 2, "drawn, and in the legend"
    assert "95 % critical" in text
    assert "98 % warning" in text
    assert "/console/deliveries?state=failed&amp;text=answered+500" in text


def test_an_alert_that_fires_is_on_the_overview(store: Store, inside: Asker) -> None:
    meter = Meter()
    deaf = bus.listen(meter.hear)
    for _ in range(11):
        bus.tell("webhook.received", source="partner", event_id="e", code="INVALID_SIGNATURE_FORMAT", duration_s=0.1)
    deaf()
    Flusher(store, meter).flush()
    assert "Look at the alerts" not in inside.get("/").text
    assert [one.rule.name for one in Alerts(store, StoreSeries(store)).turn()] == ["webhook_signature_failures"]
    assert "Look at the alerts" in inside.get("/").text
    assert '<span class="badge bad">firing</span>' in inside.get("/alerts").text


def test_a_job_that_was_pruned_still_has_its_history(store: Store, jobs: Jobs, inside: Asker) -> None:
    [one] = kill(store, jobs)
    inside.act(f"/jobs/{one}/discard", {"reason": "useless"})
    text = inside.get(f"/jobs/{one}").text
    assert "no longer there" in text
    assert "Discarded by hand" in text
