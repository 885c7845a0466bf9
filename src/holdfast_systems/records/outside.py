"""The outside world put together: verifiers, websites, and the jobs that call them."""

from __future__ import annotations

from holdfast.base import Secret
from holdfast.http.system import Ground
from holdfast.store import Store
from holdfast.watch.switch import Switch
from holdfast.worker import Handlers, QueueSettings
from holdfast_systems.records import enrichment, verification
from holdfast_systems.records.enrichment import Enrichments
from holdfast_systems.records.faults import RETRY
from holdfast_systems.records.links import LINKS, MILLIONVERIFIER, ZEROBOUNCE, HttpVerifier, millionverifier, zerobounce
from holdfast_systems.records.settings import Settings
from holdfast_systems.records.verification import Verifications, Verifiers
from holdfast_systems.records.website import Websites

VERIFY_CONCURRENCY = 10
ENRICH_CONCURRENCY = 10
STANDIN_KEY = Secret("stand-in")


class Outside:
    """Everything of this system that calls others, with what has to be closed."""

    def __init__(self, ground: Ground, settings: Settings, *, root: str) -> None:
        store = ground.store
        self.first = self._verifier(ground, settings, MILLIONVERIFIER, root)
        self.second = self._verifier(ground, settings, ZEROBOUNCE, root)
        self._verifiers = Verifiers(store, self.first, self.second, budget_s=settings.verification_budget_s)
        self._websites = Websites(
            store,
            timeout_s=settings.enrichment_timeout_s,
            interval_s=settings.enrichment_host_interval_s,
            targets=settings.enrichment_targets,
        )

    def declare(self, store: Store) -> None:
        """Let alerts find the switch between the two providers."""
        Switch(store).declare(verification.SWITCH, primary=LINKS[MILLIONVERIFIER], fallback=LINKS[ZEROBOUNCE])

    def add_handlers(self, handlers: Handlers, verifications: Verifications, enrichments: Enrichments) -> None:
        """The jobs that call others."""
        handlers.serve(QueueSettings(verification.QUEUE, concurrency=VERIFY_CONCURRENCY))
        handlers.serve(QueueSettings(enrichment.QUEUE, concurrency=ENRICH_CONCURRENCY))
        handlers.handle(verification.KIND, retry=RETRY)(lambda job: verifications.work(job, self._verifiers))
        handlers.handle(enrichment.KIND, retry=RETRY)(lambda job: enrichments.work(job, self._websites))

    def close(self) -> None:
        """Close every connection."""
        self.first.close()
        self.second.close()
        self._websites.close()

    @staticmethod
    def _verifier(ground: Ground, settings: Settings, name: str, root: str) -> HttpVerifier:
        make = {MILLIONVERIFIER: millionverifier, ZEROBOUNCE: zerobounce}[name]
        address: str = getattr(settings, f"{name}_url")
        key: Secret = getattr(settings, f"{name}_key")
        if ground.standins and not address:
            address, key = f"{root}/standins/{name}", key or STANDIN_KEY
        return make(address, key, timeout_s=settings.verification_timeout_s)
