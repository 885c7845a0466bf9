"""The page of runs and the report itself, on a desk and on a phone, by day and by night: axe-core finds nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.testing.accessibility import Inspector

from .system import TOKEN, Running, run_body

Site = Callable[..., Running]


def sign_in(page: Any, here: Running) -> None:
    page.fill("#token", TOKEN)
    page.get_by_role("button", name="Sign in").click()


@pytest.mark.timeout(600)
def test_the_page_is_free_of_serious_findings(solo: Site, inspected: Inspector) -> None:
    here = solo()
    for page in inspected.pages():
        page.goto(f"{here.address}/reports/")
        inspected.check(page, "sign in")
        sign_in(page, here)
        page.locator("#none:visible, #run:visible").first.wait_for()
        if page.locator("#none").is_visible():
            inspected.check(page, "no run")
        page.get_by_role("button", name="Start a sample run").click()
        page.locator("#graph g.READY, #graph g.PENDING").first.wait_for()
        inspected.check(page, "waiting")
        with here.working():
            page.locator("#run-status", has_text="SUCCEEDED").wait_for()
        page.locator("#report-frame").wait_for()
        inspected.check(page, "done")
        page.goto(f"{here.address}/reports/{page.locator('#report-link').get_attribute('href')}")
        page.get_by_role("heading").first.wait_for()
        inspected.check(page, "report")
    assert inspected.found == {}
    assert inspected.checked == {"sign in", "no run", "waiting", "done", "report"}


@pytest.mark.timeout(600)
def test_a_failure_is_free_of_serious_findings(solo: Site, inspected: Inspector) -> None:
    here = solo()
    here.define()
    here.standin.switch("safety_block")
    here.done(run_body("run_1"))
    for page in inspected.pages():
        page.goto(f"{here.address}/reports/")
        sign_in(page, here)
        page.locator("#steps .error").first.wait_for()
        inspected.check(page, "failed")
    assert inspected.found == {}
