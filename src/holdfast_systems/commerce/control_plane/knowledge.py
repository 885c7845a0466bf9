"""The knowledge base of the control plane, put together: uploads, ingestions, questions, and their stand-in."""

from __future__ import annotations

from fastapi import APIRouter

from holdfast.artifact import Artifacts
from holdfast.http import HttpClient, Timeouts, link_check
from holdfast.http.asgi import Application
from holdfast.http.health import Check
from holdfast.policy import Backoff, Retry
from holdfast.worker import Handlers, Jobs, QueueSettings
from holdfast_systems.commerce.control_plane.api_knowledge import ingestion_routes, retrieval_routes, upload_routes
from holdfast_systems.commerce.control_plane.cursors import Cursors
from holdfast_systems.commerce.control_plane.ingestion import Ingestions, Links
from holdfast_systems.commerce.control_plane.rag import Ragflow
from holdfast_systems.commerce.control_plane.service import Service
from holdfast_systems.commerce.control_plane.storage import Storage
from holdfast_systems.commerce.control_plane.uploads import INGEST, QUEUE
from holdfast_systems.commerce.loop_client import LoopClient
from holdfast_systems.commerce.model import CONTROL_PLANE
from holdfast_systems.commerce.parts import Context
from holdfast_systems.commerce.standins import ragflow

CONCURRENCY = 4
UPKEEP_QUEUE = "commerce.ingestion.upkeep"
SWEEP = "commerce.ingestion.sweep"
SWEEP_EVERY_S = 60.0
JOB_RETRY = Retry(attempts=20, backoff=Backoff.exponential(1.0, cap_s=60.0), attempts_unknown=20)
"""Of the job itself, for failures of the database and bugs; what is away is waited for without spending attempts."""


class Knowledge:
    """Everything of the control plane that has to do with files and RAGFlow."""

    def __init__(self, context: Context, service: Service, cursors: Cursors) -> None:
        settings, ground = context.settings, context.ground
        self._context = context
        self._outgoing = LoopClient(Timeouts())
        self._links = Links(settings)
        self._jobs = Jobs(ground.store)
        self._storage = Storage(
            Artifacts.open(settings.artifacts or str(ground.folder / "artifacts"), bytes_max=settings.upload_bytes_max),
            address=context.address_of(CONTROL_PLANE),
            secret=context.tokens.derived("uploads"),
        )
        self._ingestions = Ingestions(
            ground.store,
            self._storage,
            lambda client: self._rag(client, settings.rag_ingest_timeout_s),
            self._links,
            settings,
        )
        self.routes: list[APIRouter] = [
            upload_routes(service, self._storage, settings),
            ingestion_routes(service, self._storage, self._jobs, cursors, settings),
            retrieval_routes(
                service, lambda: self._rag(self._outgoing.here, settings.rag_query_timeout_s), self._links.query
            ),
        ]
        self.checks: dict[str, Check] = {"ragflow": link_check(self._links.query)}

    @property
    def standins(self) -> dict[str, Application]:
        """What stands in for the outside world."""
        return {"ragflow": ragflow.RagflowStandIn().app()} if self._context.ground.standins else {}

    def add_handlers(self, handlers: Handlers) -> None:
        """The jobs of ingestions."""
        handlers.serve(QueueSettings(QUEUE, concurrency=CONCURRENCY))
        # A queue of its own: uploads that take a minute must not keep the sweep waiting.
        handlers.serve(QueueSettings(UPKEEP_QUEUE, concurrency=1))
        handlers.handle(INGEST, retry=JOB_RETRY)(self._ingestions.work)
        handlers.handle(SWEEP, retry=JOB_RETRY)(self._ingestions.sweep)
        handlers.enqueue_by_clock(SWEEP, every_s=SWEEP_EVERY_S, kind=SWEEP, queue=UPKEEP_QUEUE)

    def stop(self) -> None:
        """Close every connection."""
        self._outgoing.close()
        self._storage.close()
        self._jobs.close()

    def _rag(self, client: HttpClient, timeout_s: float) -> Ragflow:
        settings = self._context.settings
        stands_in = self._context.ground.standins and not settings.ragflow_url
        key = ragflow.KEY if stands_in else settings.ragflow_key
        return Ragflow(client, address=self._context.standin("ragflow"), key=key, timeout_s=timeout_s)
