"""The breaker that all processes share: it holds or fails jobs, lets few probes through, and says why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.catalog import Blame
from holdfast.catalog.core import BAD_GATEWAY, INTERNAL_ERROR, NOT_FOUND
from holdfast.policy import Breaker
from holdfast.store import Store
from holdfast.testing import VirtualTime, instant
from holdfast.worker import Handlers, Job, Jobs, Queues, QueueSettings
from holdfast.worker.attempt import attempt
from holdfast.worker.breakers import SharedBreaker, Tally
from holdfast.worker.crew import Crew
from holdfast.worker.pump import Pump

RULE = Breaker(failure_ratio=0.5, calls_min=4, window_s=120, open_s=30, probes=2)


@pytest.fixture
def time() -> Iterator[VirtualTime]:
    with instant() as virtual:
        yield virtual


def tripped(store: Store, breaker: SharedBreaker) -> None:
    store.atomic(lambda tx: breaker.report(tx, Tally(calls=4, failures=4, code="BAD_GATEWAY")))


def admitted(store: Store, breaker: SharedBreaker, wanted: int = 10) -> int:
    return store.atomic(lambda tx: breaker.admit(tx, wanted)).count


def probing(store: Store, breaker: SharedBreaker, wanted: int) -> tuple[int, int]:
    """Claim so many as probes; how many were allowed, and the round."""

    def phase(tx):
        admission = breaker.admit(tx, wanted)
        if admission.count:
            breaker.spend(tx, admission.count)
        return admission.count, admission.generation or 0

    return store.atomic(phase)


def test_it_opens_at_half_failures_and_not_below(virtual_store: Store, time: VirtualTime) -> None:
    breaker = SharedBreaker("gateway", RULE)
    virtual_store.atomic(lambda tx: breaker.report(tx, Tally(calls=3, failures=1, code="X")))
    assert admitted(virtual_store, breaker) == 10
    virtual_store.atomic(lambda tx: breaker.report(tx, Tally(calls=1, failures=1, code="X")))
    assert admitted(virtual_store, breaker) == 0
    [status] = Queues(virtual_store).breakers()
    assert status.state == "open"
    assert status.reason == "2 of 4 jobs failed in the last 120 s, the last with X"


def test_a_few_calls_never_open_it(virtual_store: Store, time: VirtualTime) -> None:
    breaker = SharedBreaker("gateway", RULE)
    virtual_store.atomic(lambda tx: breaker.report(tx, Tally(calls=3, failures=3, code="X")))
    assert admitted(virtual_store, breaker) == 10


def test_failures_older_than_the_window_are_forgotten(virtual_store: Store, time: VirtualTime) -> None:
    breaker = SharedBreaker("gateway", RULE)
    virtual_store.atomic(lambda tx: breaker.report(tx, Tally(calls=3, failures=3, code="X")))
    time.advance(140)
    virtual_store.atomic(lambda tx: breaker.report(tx, Tally(calls=3, failures=1, code="X")))
    assert admitted(virtual_store, breaker) == 10


def test_counts_of_two_processes_add_up(virtual_store: Store, time: VirtualTime) -> None:
    one, other = SharedBreaker("gateway", RULE), SharedBreaker("gateway", RULE)
    virtual_store.atomic(lambda tx: one.report(tx, Tally(calls=2, failures=2, code="X")))
    virtual_store.atomic(lambda tx: other.report(tx, Tally(calls=2, failures=2, code="X")))
    assert admitted(virtual_store, one) == admitted(virtual_store, other) == 0


def test_after_the_pause_exactly_the_probes_get_through(virtual_store: Store, time: VirtualTime) -> None:
    one, other = SharedBreaker("gateway", RULE), SharedBreaker("gateway", RULE)
    tripped(virtual_store, one)
    time.advance(29)
    assert admitted(virtual_store, one) == 0
    time.advance(2)
    assert probing(virtual_store, one, 1)[0] == 1
    assert probing(virtual_store, other, 10)[0] == 1
    assert probing(virtual_store, one, 10)[0] == probing(virtual_store, other, 10)[0] == 0


def test_good_probes_close_it_and_the_old_failures_are_gone(virtual_store: Store, time: VirtualTime) -> None:
    breaker = SharedBreaker("gateway", RULE)
    tripped(virtual_store, breaker)
    time.advance(31)
    count, generation = probing(virtual_store, breaker, 10)
    assert count == 2
    virtual_store.atomic(lambda tx: breaker.report_probes(tx, generation, good=2, bad=0, silent=0, code=""))
    assert admitted(virtual_store, breaker) == 10
    virtual_store.atomic(lambda tx: breaker.report(tx, Tally(calls=1, failures=1, code="X")))
    assert admitted(virtual_store, breaker) == 10


def test_a_bad_probe_reopens_it(virtual_store: Store, time: VirtualTime) -> None:
    breaker = SharedBreaker("gateway", RULE)
    tripped(virtual_store, breaker)
    time.advance(31)
    _, generation = probing(virtual_store, breaker, 10)
    virtual_store.atomic(lambda tx: breaker.report_probes(tx, generation, good=1, bad=1, silent=0, code="X"))
    assert admitted(virtual_store, breaker) == 0
    assert Queues(virtual_store).breakers()[0].reason == "a probe failed with X"


def test_probes_of_an_earlier_round_change_nothing(virtual_store: Store, time: VirtualTime) -> None:
    breaker = SharedBreaker("gateway", RULE)
    tripped(virtual_store, breaker)
    time.advance(31)
    _, first = probing(virtual_store, breaker, 10)
    time.advance(31)  # nobody reported: a new round begins
    count, second = probing(virtual_store, breaker, 10)
    assert (count, second) == (2, first + 1)
    virtual_store.atomic(lambda tx: breaker.report_probes(tx, first, good=2, bad=0, silent=0, code=""))
    assert Queues(virtual_store).breakers()[0].state == "half_open"


def test_probes_that_come_seldom_close_it_all_the_same(virtual_store: Store, time: VirtualTime) -> None:
    breaker = SharedBreaker("gateway", RULE)
    tripped(virtual_store, breaker)
    for allowed in (2, 1):
        time.advance(31)  # one job in each round, and none is left over
        assert admitted(virtual_store, breaker) == allowed
        _, generation = probing(virtual_store, breaker, 1)
        report = {"good": 1, "bad": 0, "silent": 0, "code": ""}
        virtual_store.atomic(lambda tx: breaker.report_probes(tx, generation, **report))  # noqa: B023
    assert Queues(virtual_store).breakers()[0].state == "closed"


def test_a_probe_that_began_late_has_its_whole_time_before_others_take_its_place(
    virtual_store: Store, time: VirtualTime
) -> None:
    breaker = SharedBreaker("gateway", RULE)
    tripped(virtual_store, breaker)
    time.advance(31)
    assert probing(virtual_store, breaker, 1)[0] == 1
    time.advance(29)
    assert probing(virtual_store, breaker, 1)[0] == 1
    time.advance(2)
    assert probing(virtual_store, breaker, 10)[0] == 0
    time.advance(29)
    assert probing(virtual_store, breaker, 10)[0] == 2


def test_a_probe_that_says_nothing_is_given_back(virtual_store: Store, time: VirtualTime) -> None:
    breaker = SharedBreaker("gateway", RULE)
    tripped(virtual_store, breaker)
    time.advance(31)
    _, generation = probing(virtual_store, breaker, 10)
    virtual_store.atomic(lambda tx: breaker.report_probes(tx, generation, good=0, bad=0, silent=1, code=""))
    assert probing(virtual_store, breaker, 10)[0] == 1


def test_a_health_probe_decides_when_to_try_again(virtual_store: Store, time: VirtualTime) -> None:
    healthy = False
    breaker = SharedBreaker("gateway", RULE, probe=lambda: healthy)
    tripped(virtual_store, breaker)
    time.advance(31)
    assert breaker.tend(virtual_store) is False
    assert admitted(virtual_store, breaker) == 0
    healthy = True
    time.advance(31)
    assert breaker.tend(virtual_store) is True
    assert admitted(virtual_store, breaker) == 2


def test_a_health_probe_that_raises_says_no(virtual_store: Store, time: VirtualTime) -> None:
    def broken() -> bool:
        raise ConnectionRefusedError

    breaker = SharedBreaker("gateway", RULE, probe=broken)
    tripped(virtual_store, breaker)
    time.advance(31)
    assert breaker.tend(virtual_store) is False


def test_one_job_can_be_let_through_by_hand(virtual_store: Store, time: VirtualTime) -> None:
    breaker = SharedBreaker("gateway", RULE)
    queues = Queues(virtual_store)
    assert queues.probe("gateway") is False
    tripped(virtual_store, breaker)
    assert queues.probe("gateway") is True
    assert probing(virtual_store, breaker, 10)[0] == 1
    assert probing(virtual_store, breaker, 10)[0] == 0


class Bench:
    """A worker's pump without its threads: jobs are run by hand, so that time can stand still."""

    def __init__(self, store: Store, settings: QueueSettings) -> None:
        self.answers: list[Exception | None] = []
        self.ran: list[str] = []
        self.finishing: Store | None = None
        handlers = Handlers()
        handlers.handle("call")(self._call)
        self._handler = handlers.get("call")
        self._held: list[Job] = []
        self._crew = _HandCrew(settings, handlers, self._held)
        self._pump = Pump(store, [self._crew], lambda: True)
        self._pump.worker = "worker"

    def _call(self, job: Job) -> None:
        self.ran.append(job.id)
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        if self.finishing is not None:
            self.finishing.atomic(job.finish)

    def turn(self) -> int:
        """Claim once, run what came, settle it; how many ran."""
        self._pump.wake()
        self._pump.turn()
        jobs = list(self._held)
        self._held.clear()
        for job in jobs:
            self._pump.done(job, attempt(self._handler, job))
        self._pump.claiming = False
        self._pump.turn()
        self._pump.claiming = True
        return len(jobs)


class _HandCrew(Crew):
    def __init__(self, settings: QueueSettings, handlers: Handlers, held: list[Job]) -> None:
        super().__init__(settings, handlers, lambda *_: None, lambda: None)  # type: ignore[arg-type,return-value]
        self._taken = held

    def put(self, jobs) -> None:
        self._taken.extend(jobs)


def test_an_outage_holds_the_queue_and_burns_no_attempts(virtual_store: Store, time: VirtualTime) -> None:
    jobs = Jobs(virtual_store)
    bench = Bench(virtual_store, QueueSettings("q", concurrency=4, breaker=RULE))
    failing = [jobs.enqueue("call", queue="q") for _ in range(4)]
    bench.answers = [BAD_GATEWAY() for _ in range(4)]
    assert bench.turn() == 4
    waiting = jobs.enqueue("call", queue="q")
    assert bench.turn() == 0
    assert jobs.show(waiting.id)["state"] == "queued"
    assert jobs.show(waiting.id)["attempt_count"] == 0
    assert jobs.show(failing[0].id)["attempt_count"] == 1
    time.advance(31)
    assert bench.turn() == 1
    assert jobs.show(waiting.id)["state"] == "complete"


def test_it_closes_after_good_probes_and_the_backlog_drains(virtual_store: Store, time: VirtualTime) -> None:
    jobs = Jobs(virtual_store)
    bench = Bench(virtual_store, QueueSettings("q", concurrency=50, breaker=RULE))
    for _ in range(4):
        jobs.enqueue("call", queue="q", attempts=1)
    bench.answers = [BAD_GATEWAY() for _ in range(4)]
    bench.turn()
    for _ in range(20):
        jobs.enqueue("call", queue="q")
    time.advance(31)
    assert bench.turn() == 2
    assert bench.turn() == 18
    assert Queues(virtual_store).breakers()[0].state == "closed"


def test_jobs_that_their_handlers_finished_count_for_the_breaker(virtual_store: Store, time: VirtualTime) -> None:
    jobs = Jobs(virtual_store)
    bench = Bench(virtual_store, QueueSettings("q", concurrency=50, breaker=RULE))
    for _ in range(4):
        jobs.enqueue("call", queue="q", attempts=1)
    bench.answers = [BAD_GATEWAY() for _ in range(4)]
    bench.turn()
    bench.finishing = virtual_store
    for _ in range(20):
        jobs.enqueue("call", queue="q")
    time.advance(31)
    assert bench.turn() == 2
    assert Queues(virtual_store).breakers()[0].state == "closed"
    assert bench.turn() == 18


def test_failing_fast_fails_new_jobs_with_the_chosen_code(
    virtual_store: Store, time: VirtualTime, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = Jobs(virtual_store)
    settings = QueueSettings("q", concurrency=4, breaker=RULE, fails_with=BAD_GATEWAY)
    bench = Bench(virtual_store, settings)
    for _ in range(4):
        jobs.enqueue("call", queue="q", attempts=1)
    bench.answers = [BAD_GATEWAY() for _ in range(4)]
    bench.turn()
    late = jobs.enqueue("call", queue="q")
    assert bench.turn() == 0
    shown = jobs.show(late.id)
    assert (shown["state"], shown["error_code"]) == ("failed", "BAD_GATEWAY")
    assert late.id not in bench.ran
    told = [one.getMessage() for one in caplog.records if getattr(one, "job_id", "") == late.id]
    assert [line for line in told if "failed for good" in line and "the breaker is open" in line] == told != []


def test_refusals_that_are_the_callers_fault_never_open_it(virtual_store: Store, time: VirtualTime) -> None:
    jobs = Jobs(virtual_store)
    bench = Bench(virtual_store, QueueSettings("q", concurrency=20, breaker=RULE))
    for _ in range(20):
        jobs.enqueue("call", queue="q")
    bench.answers = [NOT_FOUND() for _ in range(20)]
    assert bench.turn() == 20
    jobs.enqueue("call", queue="q")
    assert bench.turn() == 1


def test_failures_that_blame_another_than_it_counts_neither_open_nor_dilute_it(
    virtual_store: Store, time: VirtualTime
) -> None:
    jobs = Jobs(virtual_store)
    bench = Bench(virtual_store, QueueSettings("q", concurrency=20, breaker=RULE, blames=(Blame.UPSTREAM,)))
    for _ in range(24):
        jobs.enqueue("call", queue="q", attempts=1)
    bench.answers = [INTERNAL_ERROR() for _ in range(20)] + [BAD_GATEWAY() for _ in range(4)]
    assert bench.turn() == 20
    assert bench.turn() == 4
    [status] = Queues(virtual_store).breakers()
    assert status.state == "open"
    assert status.reason == "4 of 4 jobs failed in the last 120 s, the last with BAD_GATEWAY"


def test_a_probe_that_failed_on_our_own_side_is_given_back(virtual_store: Store, time: VirtualTime) -> None:
    jobs = Jobs(virtual_store)
    bench = Bench(virtual_store, QueueSettings("q", concurrency=4, breaker=RULE, blames=(Blame.UPSTREAM,)))
    for _ in range(9):
        jobs.enqueue("call", queue="q", attempts=1)
    bench.answers = [BAD_GATEWAY() for _ in range(4)] + [INTERNAL_ERROR() for _ in range(2)]
    assert bench.turn() == 4
    time.advance(31)
    assert bench.turn() == 2
    assert Queues(virtual_store).breakers()[0].state == "half_open"
    assert bench.turn() == 2
    assert Queues(virtual_store).breakers()[0].state == "closed"


def test_moves_of_the_breaker_are_in_the_journal(virtual_store: Store, time: VirtualTime) -> None:
    breaker = SharedBreaker("gateway", RULE)
    tripped(virtual_store, breaker)
    time.advance(31)
    _, generation = probing(virtual_store, breaker, 10)
    virtual_store.atomic(lambda tx: breaker.report_probes(tx, generation, good=2, bad=0, silent=0, code=""))
    events = Jobs(virtual_store).history("breaker:gateway")
    assert [event["verb"] for event in events] == ["tripped", "probed", "recovered"]
