"""Assembly: the ground in, the system out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from holdfast.artifact import Artifacts
from holdfast.base.private_files import make_folder
from holdfast.catalog import Blame
from holdfast.http import Check
from holdfast.http.system import Ground, System
from holdfast.store.shared_secret import shared_secret
from holdfast.worker import Handlers, QueueSettings
from holdfast.worker.handlers import CONCURRENCY_MAX
from holdfast_systems.conversion import tables
from holdfast_systems.conversion.api import Patient, application
from holdfast_systems.conversion.bulk import Bulk
from holdfast_systems.conversion.capacity import Capacity
from holdfast_systems.conversion.conversions import Conversions
from holdfast_systems.conversion.faults import CONVERSION_FAULTS, GW_5XX
from holdfast_systems.conversion.gateway import faults_door
from holdfast_systems.conversion.links import Gateway
from holdfast_systems.conversion.live import Live
from holdfast_systems.conversion.model import CONVERT, PURGE, QUEUE, UPKEEP_QUEUE
from holdfast_systems.conversion.place import Place
from holdfast_systems.conversion.quota import Quota
from holdfast_systems.conversion.session import Sessions, WithSession
from holdfast_systems.conversion.settings import BreakerMode, Settings, read_settings
from holdfast_systems.conversion.steps import Converter
from holdfast_systems.conversion.upkeep import Upkeep

STORAGE_THREADS = 16
"""Maximum number of uploads and downloads that wait for the storage at once; further ones wait for them."""


def build(ground: Ground) -> System:
    """The conversion system on this ground.

    Raises:
        SettingInvalid: a setting cannot be meant.
    """
    settings = read_settings(ground.environment)
    tables.prepare(ground.store)
    artifacts = Artifacts.open(settings.artifacts or str(ground.folder / "artifacts"))
    spool = ground.folder / "spool"
    make_folder(spool)
    place = Place(settings.gateway, ground.folder / "gateway", bytes_max=settings.bytes_max, switchable=ground.standins)
    gateway = Gateway(place.address, timeout_s=settings.gateway_timeout_s, result_bytes_max=settings.result_bytes_max)
    secret = shared_secret(ground.store, "conversion:session")
    quota = Quota(ground.store, settings, secret)
    conversions = Conversions(ground.store, artifacts, settings, quota)
    parts = urlsplit(ground.address)
    threads = ThreadPoolExecutor(STORAGE_THREADS, thread_name_prefix="conversion-storage")
    bulk = Bulk(ground.store, conversions)
    live = Live(conversions)
    inner = application(
        conversions, bulk, live, settings, ground.store, Patient(threads), quota, address=ground.address, spool=spool
    )
    sessions = Sessions(secret)
    # How many run at once here without that is set by the queue, or by the program that starts the worker.
    capacity = Capacity(CONCURRENCY_MAX)

    def stop() -> None:
        threads.shutdown(wait=False, cancel_futures=True)
        conversions.close()
        gateway.close()
        place.stop()

    return System(
        name="conversion",
        title="PDF → XML with a queue",
        catalogs=[CONVERSION_FAULTS],
        parts={"": WithSession(inner, sessions, path=parts.path, secure=parts.scheme == "https")},
        handlers=_handlers(
            settings,
            gateway,
            capacity,
            Converter(ground.store, artifacts, gateway, capacity, settings),
            Upkeep(ground.store, artifacts, settings),
        ),
        standins={"conversion-gateway": faults_door(place.address, place.token)}
        if ground.standins and place.own
        else {},
        checks={"gateway": Check(gateway.healthy, vital=False)},
        says=[f"{ground.address}/  upload PDFs and watch them"],
        start=place.start,
        closing=live.close,
        stop=stop,
    )


def _handlers(
    settings: Settings, gateway: Gateway, capacity: Capacity, converter: Converter, upkeep: Upkeep
) -> Handlers:
    handlers = Handlers()
    handlers.serve(
        QueueSettings(
            QUEUE,
            concurrency=settings.concurrency,
            breaker=settings.breaker,
            fails_with=GW_5XX if settings.breaker_mode is BreakerMode.FAIL_FAST else None,
            probe=gateway.healthy,
            # What fails on our own side, the storage above all, says nothing about the gateway.
            blames=(Blame.UPSTREAM,),
            # A person sees "converting" for what is converted, and a PDF is in memory only then.
            prefetch=False,
            room=capacity.room,
        )
    )
    # A queue of its own: an open breaker must not hold the cleaning.
    handlers.serve(QueueSettings(UPKEEP_QUEUE, concurrency=1))
    handlers.handle(CONVERT, retry=settings.retry)(converter.convert)
    handlers.handle(PURGE)(upkeep.run)
    handlers.enqueue_by_clock(PURGE, every_s=settings.sweep_s, kind=PURGE, queue=UPKEEP_QUEUE)
    return handlers
