"""Every example in the documentation runs, and every link in it leads somewhere."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]

FENCE = re.compile(
    r"(?:^[ ]*<!--(?P<comment>(?:(?!-->).)*)-->\s*\n)?"
    r"^(?P<indent>[ ]*)(?P<mark>`{3,})(?P<language>[^\n`]*)\n(?P<body>.*?)^(?P=indent)(?P=mark)[ ]*$",
    re.MULTILINE | re.DOTALL,
)
NOT_RUN = re.compile(r"\s*not run\b[\s:,–—-]*(?P<reason>.*?)\s*\Z", re.DOTALL)
LINK = re.compile(r"\]\((?P<inline>[^)\s]+)[^)]*\)|^\[[^\]]+\]:\s*(?P<listed>\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its text, the line it starts on, and the comment just before it."""

    language: str
    text: str
    line: int
    comment: str

    @property
    def excused(self) -> str | None:
        """Why it is not run; None when it is."""
        found = NOT_RUN.match(self.comment)
        return found["reason"] if found else None


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(text: str) -> Iterator[Block]:
    for found in FENCE.finditer(text):
        line = text.count("\n", 0, found.start("body")) + 1
        language = found["language"].strip().split(" ")[0]
        yield Block(language, textwrap.dedent(found["body"]), line, found["comment"] or "")


def run(block: Block, page: str, module: ModuleType) -> None:
    """Execute the block as if it stood in the page, so that a traceback shows the page and its line."""
    code = compile("\n" * (block.line - 1) + block.text, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(code, module.__dict__)
    if inspect.iscoroutine(result):
        asyncio.run(result)


def run_page(page: str, text: str) -> int:
    """Run the page's Python blocks in order, in one namespace; tells how many ran."""
    module = ModuleType("page")
    sys.modules["page"] = module  # dataclasses and type hints look their module up
    try:
        chosen = [block for block in blocks(text) if block.language == "python" and block.excused is None]
        for block in chosen:
            run(block, page, module)
        return len(chosen)
    finally:
        del sys.modules["page"]


def anchors(text: str) -> set[str]:
    """The addresses of a page's headings, as GitHub makes them."""
    bare = FENCE.sub("", text)
    titles = (
        re.sub(r"[^\w\s-]", "", re.sub(r"\]\([^)]*\)", "", title)).strip().lower() for title in HEADING.findall(bare)
    )
    return {title.replace(" ", "-") for title in titles}


def dead_links(page: Path, text: str) -> list[str]:
    dead = []
    for found in LINK.finditer(re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))):
        link = found["inline"] or found["listed"]
        if re.match(r"[a-z]+:|/", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target.read_text())):
            dead.append(link)
    return dead


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(name_of(page), page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_an_example_that_is_not_run_says_why(page: Path) -> None:
    assert [f"line {block.line}" for block in blocks(page.read_text()) if block.excused == ""] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_fence_is_closed(page: Path) -> None:
    assert "```" not in FENCE.sub("", page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    assert dead_links(page, page.read_text()) == []


def test_blocks_of_a_page_share_their_names_and_may_await() -> None:
    first = "```python\nx = 1\n```\n"
    second = "- item\n  ```python\n  import asyncio\n  await asyncio.sleep(0)\n  assert x == 1\n  ```\n"
    assert run_page("page.md", first + second) == 2


def test_a_wrong_example_fails_at_its_line() -> None:
    with pytest.raises(AssertionError) as caught:
        run_page("page.md", "# Title\n\n```python\nassert 1 == 2\n```\n")
    assert caught.traceback[-1].lineno + 1 == 4


def test_an_excused_block_is_not_run() -> None:
    assert run_page("page.md", "<!-- not run: it needs a bank -->\n```python\n1 / 0\n```\n") == 0


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One place\n[a](#one-place) [b](#another) [c](gone.md) [d](page.md) [e](https://example.com)\n")
    assert dead_links(page, page.read_text()) == ["#another", "gone.md"]
