"""The pages of both halves, on a desk and on a phone, by day and by night: axe-core finds nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.store import Store
from holdfast.testing.accessibility import Inspector

from .live import TOKEN
from .scene import filled
from .test_pages import fill

PAGES = (
    "platform/", "platform/events", "platform/events/evt_refused", "platform/events/none", "platform/deliveries",
    "platform/dead-letters", "platform/dead-letters/reprocess", "platform/dead-letters/discard?event_id=evt_vouch",
    "engine/", "engine/people/gotong_royong/budi", "engine/people/gotong_royong/nobody",
    "engine/events/gotong_royong/evt_verified",
)  # fmt: skip


@pytest.mark.timeout(600)
def test_every_page_is_free_of_serious_findings(inspected: Inspector, tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'page.db'}")
    store.migrate()
    with filled(store, tmp_path) as (live, _):
        fill(live)
        for page in inspected.pages():
            page.goto(f"{live.url}/platform/")
            inspected.check(page, "sign in")
            page.get_by_label("Operator’s token").fill(TOKEN)
            page.get_by_role("button", name="Sign in").click()
            page.get_by_role("heading", level=1).wait_for()
            for path in PAGES:
                page.goto(f"{live.url}/{path}")
                page.get_by_role("heading", level=1).wait_for()
                inspected.check(page, path)
    store.close()
    assert inspected.found == {}
    assert inspected.checked == {"sign in", *PAGES}
