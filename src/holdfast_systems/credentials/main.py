"""Assembly: the ground in, the system out. Both halves stand beside each other, or one of them alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from holdfast.base import Secret
from holdfast.delivery import BodyHmac
from holdfast.http import Check, Reach
from holdfast.http.asgi import Application
from holdfast.http.system import Ground, System
from holdfast.store import Store
from holdfast.store.shared_secret import shared_secret
from holdfast.worker import Handlers, Jobs
from holdfast_systems.credentials import seed_views, tables
from holdfast_systems.credentials.alerts import OPS_TENANT, Alerts
from holdfast_systems.credentials.engine import Engine
from holdfast_systems.credentials.engine_api import WEBHOOK, engine_application
from holdfast_systems.credentials.faults import CREDENTIALS
from holdfast_systems.credentials.links import sender, target
from holdfast_systems.credentials.platform import CONCURRENCY, SCHEME, Platform
from holdfast_systems.credentials.platform_api import platform_application
from holdfast_systems.credentials.settings import PLATFORM, SECRET_VARIABLE, Settings, read_settings

DEAD_LETTERS_MAX = 100
"""With more of them the system calls itself degraded."""


def build(ground: Ground) -> System:
    """The credentials system on this ground.

    Raises:
        SettingsInvalid: a setting cannot be meant.
        Failure: TABLE_NAME_TAKEN when views are asked for and the database has something of their names.
    """
    settings = read_settings(ground.environment)
    tables.prepare(ground.store)
    if settings.views:
        seed_views.create(ground.store)
    secrets, made = _secrets(ground.store, settings)
    parts: dict[str, Application] = {}
    says: list[str] = []
    starts: list[Callable[[], None]] = []
    stops: list[Callable[[], None]] = []
    half = _Half(ground, settings, secrets[PLATFORM][0]) if "platform" in settings.parts else None
    if half is not None:
        parts["platform"] = half.application
        starts.append(half.start)
        stops.append(half.stop)
        says.append(f"Events, deliveries and dead letters: {ground.address}/platform/")
        if "engine" not in settings.parts:
            says.append(f"Events go to: {half.engine_url}")
    if "engine" in settings.parts:
        engine = Engine(ground.store, settings, secrets)
        parts["engine"] = engine_application(
            engine, ground.token, address=ground.address, platform_beside=half is not None
        )
        starts.append(engine.refusal_log.start)
        stops.append(engine.refusal_log.stop)
        says.append(f"Credentials page: {ground.address}/engine/")
    if made:
        says.append(f"Webhook secret of {PLATFORM} ({SECRET_VARIABLE} sets another): {secrets[PLATFORM][0].reveal()}")
    return System(
        name="credentials",
        title="Webhooks that arrive, and an engine that takes each once",
        catalogs=[CREDENTIALS],
        parts=parts,
        handlers=None if half is None else half.handlers,
        checks={} if half is None else half.checks,
        says=says,
        start=lambda: _each(starts),
        stop=lambda: _each(stops),
    )


def _each(steps: Sequence[Callable[[], None]]) -> None:
    for step in steps:
        step()


class _Half:
    """The sending half with everything that has to be started and stopped."""

    def __init__(self, ground: Ground, settings: Settings, secret: Secret) -> None:
        own = f"{ground.address}/engine{WEBHOOK.format(platform=PLATFORM)}"
        self._settings = settings.sender
        self._serves = ground.serves
        self.engine_url = settings.sender.engine_url or own
        self._secret = secret
        self._jobs = Jobs(ground.store)
        self.platform = Platform(ground.store, self._jobs, settings.sender)
        self._alerts = Alerts(ground.store, self.platform.deliveries, ops=settings.sender.ops_url is not None)
        urls = [url for url in (self.engine_url, settings.sender.ops_url) if url]
        reach = Reach(allowed=settings.sender.allowed_targets | {target(url) for url in urls})
        beside = "engine" in settings.parts
        self.application = platform_application(
            self.platform, ground.token, reach, address=ground.address, engine_beside=beside
        )
        self.handlers = Handlers()
        self.handlers.serve(self.platform.deliveries.queue(CONCURRENCY))
        send = sender(settings.sender, *urls, engine_url=self.platform.engine_url)
        self.platform.deliveries.handlers(send, self.handlers)
        self.checks = {
            "dead_letters": Check(lambda: self.platform.dead_count() <= DEAD_LETTERS_MAX, vital=False),
            "endpoints": Check(self.platform.has_endpoint, vital=False),
        }

    def start(self) -> None:
        """Events go to the engine, alerts to the operators."""
        if self._serves:
            self.platform.come_home(self.engine_url, self._secret)
            if self._settings.ops_url is not None:
                self._tell_ops(self._settings.ops_url)
        self._alerts.start()

    def stop(self) -> None:
        self._alerts.stop()
        self._jobs.close()

    def _tell_ops(self, url: str) -> None:
        """Alerts go to this address and no longer to one of an earlier start."""
        endpoints = self.platform.deliveries.endpoints
        held = [one for one in endpoints.list(tenant=OPS_TENANT) if one.enabled]
        kept = next((one.id for one in held if one.url == url), None)
        if kept is None:
            kept = endpoints.add(url, tenant=OPS_TENANT, scheme=SCHEME).id
        for one in held:
            if one.id != kept:
                endpoints.disable(one.id, reason="operators are told elsewhere")


def _secrets(store: Store, settings: Settings) -> tuple[Mapping[str, Sequence[Secret]], bool]:
    """The secrets of every platform, and whether one was made just now: it is the same in all processes, and kept."""
    known = {name: one.secrets for name, one in settings.platforms.items()}
    if known[PLATFORM]:
        return known, False
    fresh = BodyHmac().new_secret()
    kept = shared_secret(store, f"credentials:{PLATFORM}", lambda: fresh)
    return {**known, PLATFORM: (kept,)}, kept == fresh
