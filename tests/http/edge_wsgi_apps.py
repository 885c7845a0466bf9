"""Flask and Django with the same mishaps, for the tests of the WSGI adapter."""

from __future__ import annotations

from typing import Any

import django
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.http import require_GET
from flask import Flask, abort, request

from holdfast.catalog import Catalog, current_context
from holdfast.http.idempotent import created
from holdfast.policy import left_s

errors = Catalog("shop")
SOLD_OUT = errors.fault("SOLD_OUT", status=409, says="{item} is sold out.", retry=True)
TEXT = "hunter2"


def flask_app() -> Any:
    app = Flask("shop")
    app.config["PROPAGATE_EXCEPTIONS"] = True
    made: list[str] = []

    @app.get("/sold-out")
    def sold_out() -> str:
        raise SOLD_OUT(item="lamp")

    @app.get("/broken")
    def broken() -> str:
        raise RuntimeError(TEXT)

    @app.get("/context")
    def context() -> dict[str, Any]:
        return {**current_context().known(), "left_s": min(left_s(), 1e9)}

    @app.post("/size")
    def size() -> str:
        return str(len(request.get_data()))

    @app.post("/orders")
    def orders() -> tuple[dict[str, int], int]:
        made.append("order")
        created(orderId=str(len(made)))
        return {"order": len(made), "given": len(request.get_json())}, 201

    @app.get("/forbidden")
    def forbidden() -> None:
        abort(403)

    @app.get("/stream")
    def stream() -> Any:
        return app.response_class(iter([b"one,", b"two,", b"three"]), mimetype="text/plain")

    return app


def django_app() -> Any:
    if not settings.configured:
        settings.configure(
            ROOT_URLCONF=__name__,
            ALLOWED_HOSTS=["*"],
            DEBUG_PROPAGATE_EXCEPTIONS=True,
            LOGGING_CONFIG=None,
            SECRET_KEY="x",
        )
        django.setup()
    return WSGIHandler()


def _sold_out(asked: HttpRequest) -> HttpResponse:
    raise SOLD_OUT(item="lamp")


def _broken(asked: HttpRequest) -> HttpResponse:
    raise RuntimeError(TEXT)


def _context(asked: HttpRequest) -> HttpResponse:
    return JsonResponse({**current_context().known(), "left_s": min(left_s(), 1e9)})


def _size(asked: HttpRequest) -> HttpResponse:
    return HttpResponse(str(len(asked.body)))


urlpatterns = [
    path("sold-out", require_GET(_sold_out)),
    path("broken", _broken),
    path("context", _context),
    path("size", _size),
]
