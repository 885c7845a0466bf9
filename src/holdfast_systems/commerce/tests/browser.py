"""A browser for the tests of the pages; whatever its console complains about fails the test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from .live import PATIENCE_S

CHROMIUM = "/usr/bin/chromium"
LAUNCH_MS = 90_000
PHONE = {"width": 390, "height": 844}

expect.set_options(timeout=PATIENCE_S * 1_000)


@contextmanager
def launched() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        pytest.skip("NO CHROMIUM HERE: the pages of commerce were NOT looked at")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=LAUNCH_MS)
        yield found
        found.close()


@contextmanager
def opened(browser: Browser, **settings: Any) -> Iterator[Page]:
    context = browser.new_context(**settings)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_S * 1_000)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    yield page
    context.close()
    # That a request was answered with an error is told by the page itself.
    assert [text for text in complaints if "Failed to load resource" not in text] == []


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
