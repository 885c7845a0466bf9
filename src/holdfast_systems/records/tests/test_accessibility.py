"""The operator's page, on a desk and on a phone, by day and by night: axe-core finds nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.store import Store
from holdfast.testing.accessibility import Inspector

from .live import TOKEN, running


@pytest.mark.timeout(600)
def test_every_part_of_the_page_is_free_of_serious_findings(inspected: Inspector, tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'page.db'}")
    store.migrate()
    with running(store, tmp_path / "records", worker=True) as live:
        account = live.account()
        uid = account.company("Acme Tools", website="https://acme.example")
        ada = account.person(uid, "Ada Lovelace")
        account.person(uid, "Grace Hopper")
        account.put_slot(f"SL-{uid}-CEO", ada)
        for page in inspected.pages():
            page.goto(f"{live.url}/records/")
            inspected.check(page, "sign in")
            page.fill("#token", TOKEN)
            page.get_by_role("button", name="Sign in").click()
            page.locator("#company-rows strong").first.wait_for()
            inspected.check(page, "companies")
            page.locator("#company-rows li").first.get_by_role("button", name="Slots").click()
            page.locator("#board-slots li").first.wait_for()
            inspected.check(page, "board")
            page.locator("#people li", has_text="Grace Hopper").get_by_role("combobox").select_option(label="CEO")
            page.locator("#conflict .ways button").first.wait_for()
            inspected.check(page, "conflict")
            page.reload()
            page.locator("[role=tab]").first.wait_for()
            for tab in page.get_by_role("tab").all():
                tab.click()
                inspected.check(page, tab.inner_text())
    store.close()
    assert inspected.found == {}
    assert {"sign in", "companies", "board", "conflict", "Imports", "Keys and quotas"} <= inspected.checked
