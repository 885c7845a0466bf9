"""The routes put together, and the edge around them."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, FastAPI

from holdfast.catalog import Catalog, Dialect
from holdfast.http import BodyRule, Edge, Idempotency
from holdfast.http.asgi import Application, Scope, header
from holdfast.http.openapi import describe
from holdfast_systems.records.admission import ADMIN, API, Admission, Doors, below, is_admin, is_api
from holdfast_systems.records.api_imports import FORMATS
from holdfast_systems.records.faults import UNSUPPORTED_CONTENT_TYPE
from holdfast_systems.records.openapi import with_security
from holdfast_systems.records.service import BODY_BYTES_MAX, JSON, Service

IMPORTS = f"{API}/imports"
IMPORT_WAIT_S = 30.0
SMALL = BodyRule(bytes_max=BODY_BYTES_MAX)


def application(
    service: Service, doors: Doors, catalog: Catalog, *, routes: Sequence[APIRouter], admin: APIRouter, page: APIRouter
) -> Application:
    """The whole system as an ASGI application that guards its own doors."""
    app = FastAPI(
        title="Records",
        version="1",
        summary="Companies, people and slots behind an error model that people can program against",
        openapi_url="/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for one in routes:
        app.include_router(one, prefix=API)
    app.include_router(admin, prefix=ADMIN[0])
    app.include_router(admin, prefix=ADMIN[1], include_in_schema=False)
    app.include_router(page, include_in_schema=False)
    plain = app.openapi
    app.openapi = lambda: with_security(plain())  # type: ignore[method-assign]
    remap, admission = doors.telling.remap(), Admission(doors)
    describe(app, catalog=catalog, dialect=Dialect.FULL, remap=remap)
    imports = BodyRule(bytes_max=service.settings.import_bytes_max, wait_s=IMPORT_WAIT_S, json_checked=False)
    return Edge(
        app,
        catalog=catalog,
        dialect=Dialect.FULL,
        remap=remap,
        body=lambda scope: _body(scope, imports),
        access=admission,
        # Keys are not kept for operators, whose answers hold secrets, nor for imports, whose bodies are large.
        idempotency=Idempotency(keys=service.keys, access=admission, when=_is_keyed),
        on_failure=doors.telling.complete,
    )


def _is_keyed(scope: Scope) -> bool:
    path = below(scope)
    return is_api(path) and not is_admin(path) and not path.startswith(IMPORTS)


def _body(scope: Scope, imports: BodyRule) -> BodyRule:
    """The rule of a body.

    Raises:
        Failure: UNSUPPORTED_CONTENT_TYPE when it does not say that it is what the route takes.
    """
    path = below(scope)
    kind = header(scope, "content-type").partition(";")[0].strip().lower()
    takes = tuple(FORMATS) if path == IMPORTS else (JSON,)
    if kind not in takes and (is_api(path) or is_admin(path)):
        raise UNSUPPORTED_CONTENT_TYPE(supported=list(takes))
    return imports if path == IMPORTS else SMALL
