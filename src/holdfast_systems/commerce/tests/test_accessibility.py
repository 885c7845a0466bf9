"""The shop, the account and the chat, on a desk and on a phone, by day and by night: axe-core finds nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.base import new_id
from holdfast.store import Store
from holdfast.testing.accessibility import Inspector

from .live import running


@pytest.mark.timeout(600)
def test_every_page_is_free_of_serious_findings(inspected: Inspector, tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'pages.db'}")
    store.migrate()
    with running(store, tmp_path / "commerce") as live:
        for page in inspected.pages():
            page.goto(f"{live.urls['control-plane']}/")
            page.locator("#outside").wait_for()
            inspected.check(page, "account without a session")
            page.goto(f"{live.standin('saleor')}/")
            page.fill("#buyer", f"u-{new_id()}")
            page.get_by_role("button", name="Buy Trial").click()
            page.locator("#lines code").wait_for()
            inspected.check(page, "shop")
            page.get_by_role("button", name="Open your account").click()
            page.get_by_role("link", name="Chat").wait_for()
            account = page.url
            page.get_by_role("link", name="Chat").click()
            page.get_by_label("Message").fill("Hello")
            page.get_by_label("Message").press("Enter")
            page.locator(".message small").wait_for()
            inspected.check(page, "chat")
            live.fault("langflow", status=503)
            page.get_by_label("Message").fill("Hello again")
            page.get_by_label("Message").press("Enter")
            page.get_by_role("alert").get_by_role("button", name="Try again").wait_for()
            inspected.check(page, "chat without an answer")
            live.fault("langflow")
            page.goto(account)
            page.get_by_role("button", name="Runs").click()
            page.locator("#run-rows tr").first.wait_for()
            inspected.check(page, "account")
    store.close()
    assert inspected.found == {}
    assert len(inspected.checked) == 5
