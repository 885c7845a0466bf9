"""What axe-core finds on a page, and whether a finger can hit what is there to be pressed.

The page is one of Playwright's. Nothing of axe-core is shipped: its npm package is installed where a test needs it.
`inspector` opens a browser; `Inspector.pages` gives a page for each look, and `Inspector.check` writes down what is
wrong with it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.testing.npm import NotInstalled, npm_package

AXE = "axe-core@4.14.0"
SERIOUS = ("serious", "critical")
TARGET_PX = 44
"""The least height of what is pressed with a finger."""
NODES_SHOWN_MAX = 4
PHONE_WIDTH_PX = 390
PHONE_HEIGHT_PX_MAX = 12_000
"""Nobody scrolls further on a phone."""
LOOKS = tuple(
    {"viewport": {"width": width, "height": height}, "color_scheme": scheme, "reduced_motion": "reduce"}
    for width, height in ((1_280, 900), (PHONE_WIDTH_PX, 844))
    for scheme in ("light", "dark")
)
"""What a browser's context is made with: a desk and a phone, by day and by night."""

_FINDINGS = """async () => {
  const found = await axe.run(document, { resultTypes: ["violations"] });
  return found.violations.map((one) => [one.impact, one.id, one.nodes.map((node) =>
    node.html.slice(0, 160) + " | " + (node.any[0] || node.all[0] || node.none[0] || {}).message)]);
}"""

# A link within a sentence is as high as its line: it is read, and not hunted for.
_SMALL = """(least) => {
  const pressed = "a[href], button, input:not([type=hidden]), select, textarea, summary, [role=button], [role=tab]";
  const seen = (one) => {
    const style = getComputedStyle(one), box = one.getBoundingClientRect();
    return style.visibility !== "hidden" && box.width > 1 && box.height > 1 && !one.closest("svg");
  };
  const inSentence = (one) => one.tagName === "A" && getComputedStyle(one).display === "inline"
    && [...one.parentElement.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim().length > 1);
  const box = (one) => {
    const label = one.matches("input[type=checkbox], input[type=radio], input[type=file]") && one.closest("label");
    return (label || one).getBoundingClientRect();
  };
  return [...document.querySelectorAll(pressed)].filter((one) => seen(one) && !inSentence(one))
    .filter((one) => box(one).height < least - 0.5)
    .map((one) => Math.round(box(one).height) + " px: " + one.outerHTML.slice(0, 120));
}"""


BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LAUNCH_MS = 90_000
PATIENCE_MS = 60_000


@dataclass(slots=True)
class Inspector:
    """A browser with axe-core, and what was found with it."""

    script: str
    browser: Any
    found: dict[str, list[str]] = field(default_factory=dict)
    """By the name of the page and the look, what is wrong with it."""
    checked: set[str] = field(default_factory=set)

    def pages(self) -> Iterator[Any]:
        """A new page in a new context for each look, one after the other."""
        for look in LOOKS:
            context = self.browser.new_context(**look)
            page = context.new_page()
            page.set_default_timeout(PATIENCE_MS)
            yield page
            context.close()

    def check(self, page: Any, name: str) -> None:
        """Look at the page as it is now."""
        self.checked.add(name)
        scheme = "dark" if page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") else "light"
        wrong = troubles(page, self.script)
        if wrong:
            self.found[f"{name}, {scheme}, {page.viewport_size['width']} px"] = wrong


@contextmanager
def inspector(folder: Path) -> Iterator[Inspector]:
    """A browser with axe-core, which is installed below a folder.

    Raises:
        NotInstalled: there is no browser, or no axe-core and no way to install it.
    """
    program = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if program is None:
        raise NotInstalled("there is no Chromium on the path")
    script = axe_script(folder)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"], timeout=LAUNCH_MS)
        try:
            yield Inspector(script, browser)
        finally:
            browser.close()


def axe_script(folder: Path) -> str:
    """The source of axe-core, installed below a folder.

    Raises:
        NotInstalled: it is not there, and npm cannot install it.
    """
    return (npm_package(AXE, folder) / "axe-core" / "axe.min.js").read_text("utf-8")


def findings(page: Any, script: str, *, impacts: Sequence[str] = SERIOUS) -> list[str]:
    """What axe-core finds on the page as it is now, of these impacts; one sentence for each rule."""
    page.evaluate(f"() => {{ if (!window.axe) {{ {script} }} }}")
    return [
        f"{impact}: {rule}, {len(nodes)} times: {' ; '.join(nodes[:NODES_SHOWN_MAX])}"
        for impact, rule, nodes in page.evaluate(_FINDINGS)
        if impact in impacts
    ]


def troubles(page: Any, script: str) -> list[str]:
    """Everything that is wrong with the page as it is now: serious findings with all details unfolded, and on a phone
    what is too small to be pressed, too wide or too long."""
    found = []
    phone = page.viewport_size["width"] <= PHONE_WIDTH_PX
    wide, tall = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
    if phone and wide > page.viewport_size["width"]:
        found.append(f"it is {wide} px wide")
    if phone and tall > PHONE_HEIGHT_PX_MAX:
        found.append(f"it is {tall} px long")
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    return found + findings(page, script) + (small_targets(page) if phone else [])


def small_targets(page: Any, *, least_px: int = TARGET_PX) -> list[str]:
    """What is to be pressed on the page and lower than a finger needs; links within sentences do not count."""
    found: list[str] = page.evaluate(_SMALL, least_px)
    return found
