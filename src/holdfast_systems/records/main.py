"""Assembly: the ground in, the system out."""

from __future__ import annotations

from urllib.parse import urlsplit

from holdfast.artifact import Artifacts
from holdfast.catalog import Dialect
from holdfast.guard import Keys
from holdfast.http import link_check
from holdfast.http.sign_in import SignIn
from holdfast.http.system import Ground, System
from holdfast.store.shared_secret import shared_secret
from holdfast.worker import Handlers, Jobs, QueueSettings
from holdfast_systems.records import imports, tables
from holdfast_systems.records.admission import Doors
from holdfast_systems.records.alerts import load_rules
from holdfast_systems.records.api import application
from holdfast_systems.records.api_admin import admin_routes
from holdfast_systems.records.api_imports import import_routes
from holdfast_systems.records.api_outside import enrichment_routes, verification_routes
from holdfast_systems.records.api_records import company_routes, people_routes
from holdfast_systems.records.api_slots import review_routes, slot_routes
from holdfast_systems.records.callers import Callers
from holdfast_systems.records.cursors import Cursors
from holdfast_systems.records.enrichment import Enrichments
from holdfast_systems.records.faults import NAME, RECORDS, catalog_at
from holdfast_systems.records.imports import Importer
from holdfast_systems.records.maintenance import Maintenance
from holdfast_systems.records.openapi import Describing
from holdfast_systems.records.outside import Outside
from holdfast_systems.records.page_routes import page_routes
from holdfast_systems.records.quotas import Quotas
from holdfast_systems.records.service import Service
from holdfast_systems.records.session import Session
from holdfast_systems.records.settings import read_settings
from holdfast_systems.records.shedding import Workers
from holdfast_systems.records.standins import standins
from holdfast_systems.records.troubles import Telling
from holdfast_systems.records.upkeep import Upkeep, add_upkeep
from holdfast_systems.records.verification import Verifications

IMPORT_CONCURRENCY = 2
"""Imports that are worked on at once in each worker process."""


def build(ground: Ground) -> System:
    """The records system on this ground.

    Raises:
        SettingInvalid: a setting cannot be meant.
    """
    settings = read_settings(ground.environment)
    store = ground.store
    tables.prepare(store)
    # Where the site stands: one system alone stands at the address itself, several stand below it.
    root = ground.address.removesuffix(f"/{NAME}")
    catalog = catalog_at(root)
    say = Describing(catalog)
    callers = Callers(store, key_days=settings.key_days, renewal_url=settings.renewal_url or f"{ground.address}/")
    quotas = Quotas(store, per_minute=settings.requests_per_minute)
    maintenance = Maintenance(store)
    workers = Workers(
        threads=settings.threads, target_s=settings.queueing_target_s, interval_s=settings.queueing_interval_s
    )
    service = Service(
        store=store,
        settings=settings,
        keys=Keys(store, dialect=Dialect.FULL),
        jobs=Jobs(store),
        numbers=tables.Numbers(store),
        cursors=Cursors(shared_secret(store, "records:cursors")),
        workers=workers,
    )
    doors = Doors(
        callers=callers,
        token=ground.token,
        session=Session(ground.store, ground.token),
        maintenance=maintenance,
        workers=workers,
        quotas=quotas,
        telling=Telling(catalog, settings),
    )
    verifications = Verifications(store, service.jobs, settings, catalog)
    enrichments = Enrichments(store, service.jobs, catalog)
    outside = Outside(ground, settings, root=root)
    handlers = Handlers()
    outside.add_handlers(handlers, verifications, enrichments)
    artifacts = Artifacts.open(settings.artifacts or str(ground.folder / "artifacts"))
    importer = Importer(store, service.jobs, artifacts, service.numbers, batch_rows=settings.import_batch_rows)
    handlers.serve(QueueSettings(imports.QUEUE, concurrency=IMPORT_CONCURRENCY))
    handlers.handle(imports.KIND, retry=imports.RETRY)(importer.work)
    add_upkeep(handlers, Upkeep(store, artifacts))
    routes = [
        *(make(service, say) for make in (company_routes, people_routes, slot_routes, review_routes)),
        verification_routes(service, say, verifications, catalog),
        enrichment_routes(service, say, enrichments, catalog),
        import_routes(service, say, artifacts, catalog),
    ]
    admin = admin_routes(service, callers, quotas, maintenance, say)

    page = page_routes(doors.session, root=urlsplit(ground.address).path.rstrip("/"))

    inner = application(service, doors, catalog, routes=routes, admin=admin, page=page)

    def stop() -> None:
        workers.close()
        outside.close()
        service.jobs.close()

    return System(
        name=NAME,
        title="Companies, people and slots",
        catalogs=[RECORDS],
        parts={"": SignIn(inner, doors.session, title="Records", address=ground.address)},
        handlers=handlers,
        rules=load_rules(),
        standins=standins() if ground.standins else {},
        checks={one.name: link_check(one.link) for one in (outside.first, outside.second)},
        start=lambda: outside.declare(store),
        says=[
            f"{ground.address}/  companies, slots, imports and keys",
            f"{ground.address}/openapi.json  what the API takes and answers",
        ],
        stop=stop,
    )
