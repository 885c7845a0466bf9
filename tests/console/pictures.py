"""Takes the pictures of every page that are kept in `docs/console/`: `python tests/console/pictures.py`."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from browser import browser
from PIL import Image
from scene import deeds, live_an_hour
from standing import TOKEN, standing

from holdfast.store import Store
from holdfast.worker import DeadFilter, DeadLetters

COLOURS = 64
HEIGHT_MAX = 2_100
"""Of longer pages the beginning says enough."""
FOLDER = Path(__file__).parents[2] / "docs" / "console"
LOOKS = (
    ("light", {"width": 1280, "height": 900}, "light"),
    ("phone", {"width": 390, "height": 844}, "dark"),
)
ON_A_PHONE = {"overview", "jobs", "dead-letters", "fault"}
"""So few are also kept as a phone shows them at night; the others say nothing new there."""


def pages(store: Store) -> dict[str, str]:
    """Each page by its name, and where it is."""
    letter = DeadLetters(store).list(DeadFilter(queue="webhooks"), count=1).letters[0]["id"]
    group = DeadLetters(store).groups(DeadFilter())[0]["fingerprint"]
    return {
        "overview": "/?scope=queue:",
        "overview-endpoints": "/?scope=endpoint:",
        "jobs": "/jobs",
        "jobs-unreadable": "/jobs?queue=mail&since=yesterday",
        "delivery": f"/jobs/{letter}",
        "deliveries": "/deliveries",
        "dead-letters": "/dead",
        "dead-letters-revive": f"/dead/revive?fingerprint={group}",
        "faults": "/faults",
        "fault": "/faults/NETWORK_TIMEOUT",
        "breakers": "/breakers",
        "limits": "/limits",
        "alerts": "/alerts",
        "audit": "/audit",
        "enter": "/enter-first",
    }


def take(store: Store, wanted: list[str]) -> None:
    """Every page, some of them also on a phone; or only those whose names are given."""
    FOLDER.mkdir(exist_ok=True)
    with standing(store) as here, browser() as chromium:
        for look, size, scheme in LOOKS:
            context = chromium.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
            page = context.new_page()
            if look == "light":
                page.goto(here.console.link)
            else:
                page.goto(f"{here.address}/")
                page.fill("input[name=token]", TOKEN)
                page.click("button")
            page.wait_for_selector("nav.menu")
            for name, path in pages(store).items():
                if (not wanted or name in wanted) and (look == "light" or name in ON_A_PHONE):
                    shoot(page, here.address + path, FOLDER / f"{name}-{look}.png", anonymous=name == "enter")
            context.close()


def shoot(page: Any, address: str, file: Path, *, anonymous: bool) -> None:
    if anonymous:
        page = page.context.browser.new_context(viewport=page.viewport_size, color_scheme="light").new_page()
    page.goto(address)
    page.wait_for_timeout(150)
    tall = page.evaluate("document.documentElement.scrollHeight")
    size = {"x": 0, "y": 0, "width": page.viewport_size["width"], "height": min(tall, HEIGHT_MAX)}
    page.screenshot(path=str(file), full_page=True, clip=size)
    with Image.open(file) as picture:
        # A page has few colours: a quarter of the size, and nobody sees a difference.
        picture.convert("RGB").quantize(COLOURS).save(file, optimize=True)


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        database = Store.open(f"sqlite:///{folder}/pictures.db")
        database.migrate()
        live_an_hour(database)
        deeds(database)
        take(database, sys.argv[1:])
        database.close()
