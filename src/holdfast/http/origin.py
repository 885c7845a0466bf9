"""Which site a request comes from, as the browser says it."""

from __future__ import annotations

from urllib.parse import urlsplit

from holdfast.http.asgi import Scope, header


def origin_of(address: str) -> str:
    """The origin of an address: `https://ops.example` of `https://ops.example/console`."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"


def is_own(scope: Scope, origin: str) -> bool:
    """Whether a page of this very address asks, where we are known by this origin or by the host that was asked for."""
    return header(scope, "origin") in {origin, f"{scope.get('scheme', 'http')}://{header(scope, 'host')}"}


def is_foreign(scope: Scope, origin: str) -> bool:
    """Whether a page of another site asks. Programs name no origin; a browser does whenever something may change."""
    if header(scope, "origin"):
        return not is_own(scope, origin)
    return header(scope, "sec-fetch-site") not in {"", "same-origin", "none"}
