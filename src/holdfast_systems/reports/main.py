"""Assembly: the ground in, the system out."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from holdfast.base import Secret
from holdfast.http.sign_in import SignIn
from holdfast.http.system import Ground, System
from holdfast.policy import Backoff, Retry, Spread
from holdfast.worker import Handlers, Jobs, QueueSettings
from holdfast_systems.reports import tables
from holdfast_systems.reports.api import Threads, api
from holdfast_systems.reports.artifacts import RunArtifacts
from holdfast_systems.reports.charts import keep_caches_in
from holdfast_systems.reports.faults import REPORTS
from holdfast_systems.reports.flows import Flows
from holdfast_systems.reports.gemini import Gemini
from holdfast_systems.reports.invocation import Invocations
from holdfast_systems.reports.links import Links
from holdfast_systems.reports.model import CHANGED, QUEUE, REAP, UPKEEP_QUEUE
from holdfast_systems.reports.pages import Pages, Session
from holdfast_systems.reports.ports import Definitions, FlowRuns
from holdfast_systems.reports.reaper import Reaper
from holdfast_systems.reports.settings import Settings, read_settings
from holdfast_systems.reports.standins import GeminiStandIn
from holdfast_systems.reports.steps import Steps
from holdfast_systems.reports.work import Work

STANDIN = "gemini"
STANDIN_KEY = Secret("stand-in")
JOB_ATTEMPTS = 20
JITTER_SHARE = 0.2


def build(ground: Ground) -> System:
    """The reports system on this ground.

    Raises:
        SettingInvalid: a setting cannot be meant.
    """
    settings = read_settings(ground.environment)
    tables.prepare(ground.store)
    keep_caches_in(ground.folder)
    jobs = Jobs(ground.store)
    links = Links(settings)
    runs, definitions = _stores(ground, settings, jobs)
    artifacts = RunArtifacts.open(settings.artifacts or str(ground.folder / "artifacts"), links)
    own = ground.standins and not settings.gemini_url
    model = Gemini(
        base_url=_standin_address(ground.address) if own else settings.gemini_url,
        api_key=STANDIN_KEY if own else settings.gemini_api_key,
        concurrency=settings.model_concurrency,
    )
    work = Work(artifacts, definitions, model, links, settings)
    reaper = Reaper(runs, work, links, settings)
    invocations = Invocations(runs, work, reaper, links, settings)
    flows = Flows(runs, definitions, artifacts, store=ground.store, embedded=not settings.firestore)
    threads = Threads()
    session = Session(ground.store, ground.token)

    pages = Pages(api(flows, invocations, ground, threads, signed_in=session.admits), session)

    def stop() -> None:
        threads.close()
        model.close()
        runs.close()
        jobs.close()

    return System(
        name="reports",
        title="Reports by a language model",
        catalogs=[REPORTS],
        parts={"": SignIn(pages, session, title="Reports", address=ground.address, catalog=REPORTS)},
        handlers=_handlers(settings, Steps(invocations, reaper)),
        standins={STANDIN: GeminiStandIn()} if ground.standins else {},
        says=[f"{ground.address}/  submit a run and watch it", *_missing(settings, own=own)],
        closing=model.leave,
        stop=stop,
    )


def _stores(ground: Ground, settings: Settings, jobs: Jobs) -> tuple[FlowRuns, Definitions]:
    if settings.firestore:
        from holdfast_systems.reports.firestore import FirestoreDefinitions, FirestoreRuns, connect

        client = connect(settings.firestore, host=settings.firestore_host)
        return FirestoreRuns(client, lease_s=settings.lease_s), FirestoreDefinitions(client)
    embedded = tables.SqlRuns(ground.store, jobs, lease_s=settings.lease_s, feeds=settings.feed)
    return embedded, tables.SqlDefinitions(ground.store)


def _handlers(settings: Settings, steps: Steps) -> Handlers:
    backoff = Backoff.exponential(
        settings.retry_base_s, factor=settings.retry_factor, cap_s=settings.retry_max_s, jitter=Spread(JITTER_SHARE)
    )
    retry = Retry(attempts=JOB_ATTEMPTS, backoff=backoff, attempts_unknown=3)
    handlers = Handlers()
    handlers.serve(QueueSettings(QUEUE, concurrency=settings.concurrency))
    # A queue of its own: long calls of the model must not keep the reaper waiting.
    handlers.serve(QueueSettings(UPKEEP_QUEUE, concurrency=1))
    handlers.handle(CHANGED, retry=retry)(steps.changed)
    handlers.handle(REAP, retry=retry)(steps.reap)
    handlers.enqueue_by_clock(REAP, every_s=settings.reap_every_s, kind=REAP, queue=UPKEEP_QUEUE)
    return handlers


def _missing(settings: Settings, *, own: bool) -> list[str]:
    """What has to be set before the model can be called."""
    if own or settings.gemini_url or settings.gemini_api_key:
        return []
    return ["No model: set HOLDFAST_REPORTS_GEMINI_API_KEY, or start with --standins"]


def _standin_address(address: str) -> str:
    """Where the stand-in of the model is, on whatever serves this system."""
    parts = urlsplit(address)
    return urlunsplit((parts.scheme, parts.netloc, f"/standins/{STANDIN}", "", ""))
