"""The operator's console, put together."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import holdfast.operate.retention  # noqa: F401 - who has a console and a worker also prunes the audit
from holdfast.base import Secret
from holdfast.catalog import Catalog
from holdfast.console.access import Access
from holdfast.console.app import App
from holdfast.console.page import Desk
from holdfast.http.asgi import Application
from holdfast.store import Store
from holdfast.watch.rules import Rule
from holdfast.watch.rules_builtin import RULES
from holdfast.watch.series import StoreSeries


class Console:
    """An ASGI application to mount, and the link that opens it."""

    def __init__(self, app: App, *, link: str) -> None:
        self.app: Application = app
        """To be mounted where `address` says; every page is closed without access."""
        self.link = link
        """Opens the console once, in a browser on this machine."""
        self._app = app

    def close(self) -> None:
        """End live updates and stop work on many dead letters; call it when the server begins to stop."""
        self._app.close()

    def __repr__(self) -> str:
        return "<Console>"  # the link is as good as the token


def console(
    store: Store,
    token: Secret,
    catalogs: Sequence[Catalog],
    *,
    address: str,
    trusted_proxy_header: str | None = None,
    rules: Sequence[Rule] = RULES,
) -> Console:
    """The console of a store.

    Args:
        token: the operator's; every caller that has it is let in.
        catalogs: whose faults are shown; the first one's words come first.
        address: where it stands, such as `http://127.0.0.1:8080/console`; no slash at the end.
        trusted_proxy_header: a header that only a reverse proxy can set, and that names the person; the proxy has to
            take it off what comes from outside.
        rules: the alert rules that are shown, and whose thresholds the charts draw.

    Raises:
        ValueError: the token is empty.
    """
    if not token:
        raise ValueError("the console needs a token: without one everybody would come in")
    access = Access(store, token, address=address, trusted_proxy_header=trusted_proxy_header)
    desk = Desk(
        store=store,
        catalogs=tuple(catalogs),
        address=address.rstrip("/"),
        series=StoreSeries(store),
        rules=tuple(rules),
        codes=frozenset(fault.code for catalog in catalogs for fault in catalog),
    )
    link = f"{desk.address}/enter?token={quote(access.link_token.reveal())}"
    return Console(App(desk, access), link=link)
