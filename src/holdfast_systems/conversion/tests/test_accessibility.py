"""The queue page, on a desk and on a phone, by day and by night: axe-core finds nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.testing.accessibility import Inspector

from .system import Running
from .test_page import files, row, shows

Site = Callable[..., Running]


@pytest.mark.timeout(600)
def test_the_page_is_free_of_serious_findings(solo: Site, inspected: Inspector) -> None:
    here = solo()
    for page in inspected.pages():
        page.goto(here.address)
        page.get_by_text("Nothing here yet.").wait_for()
        inspected.check(page, "empty")
        page.set_input_files("#files", files("one.pdf", "two.pdf"))
        shows(page, "one.pdf", "Queued")
        inspected.check(page, "queued")
        with here.working():
            shows(page, "one.pdf", "Ready")
            shows(page, "two.pdf", "Ready")
            page.set_input_files("#files", files("broken.pdf", content=b"%PDF-1.7 and nothing more"))
            shows(page, "broken.pdf", "Failed")
        assert row(page, "broken.pdf").is_visible()
        inspected.check(page, "ready and failed")
    assert inspected.found == {}
    assert inspected.checked == {"empty", "queued", "ready and failed"}
