"""The site in a real browser, on a desk and on a phone, by day and by night: axe-core finds nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import uvicorn

from holdfast.cli.catalogs import chosen_catalogs
from holdfast.http.pages import Place
from holdfast.http.site import site
from holdfast.testing.accessibility import Inspector
from holdfast.testing.ports import listening_socket

STOP_S = 60.0
PATHS = ("/", "/errors/", "/errors/NETWORK_TIMEOUT", "/errors/NOT_FOUND", "/nowhere")


@contextmanager
def standing() -> Iterator[str]:
    """The site with every catalog that is installed."""
    places = [Place("/console/", "the operator's page"), Place("/metrics", "numbers for Prometheus")]
    with listening_socket() as listener:
        shown = site(chosen_catalogs([]), places=places)
        server = uvicorn.Server(uvicorn.Config(shown, log_level="critical", access_log=False, ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(STOP_S)


@pytest.mark.timeout(600)
def test_the_site_is_free_of_serious_findings(inspected: Inspector) -> None:
    with standing() as address:
        for page in inspected.pages():
            for path in PATHS:
                page.goto(address + path)
                inspected.check(page, path)
    assert inspected.found == {}
    assert inspected.checked == set(PATHS)


@pytest.mark.timeout(600)
def test_the_codes_are_folded_by_catalog_and_unfold_without_script(inspected: Inspector) -> None:
    with standing() as address:
        page = inspected.browser.new_context(java_script_enabled=False).new_page()
        page.goto(f"{address}/errors/")
        code = page.get_by_role("link", name="NETWORK_TIMEOUT")
        assert not code.is_visible()
        page.locator("summary", has_text="holdfast").first.click()
        assert code.is_visible()
