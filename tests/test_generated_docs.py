"""What is generated in the documentation says what the code says today."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[1] / "docs"
POLICIES = ("backoff", "retry", "breaker", "rate-limit", "budget", "deadline", "link")
HEADINGS = ["Promise", "Use", "Defaults", "Events", "Diagram", "Misuse"]


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_page_is_stale() -> None:
    ended = subprocess.run(
        [sys.executable, str(DOCS / "generate.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert ended.stdout + ended.stderr == ""
    assert ended.returncode == 0


def test_a_stale_page_is_found_and_left_as_it_is(
    generate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    page = folder / "page.md"
    stale = "before\n<!-- generated: breaker-states -->\nold\n<!-- end -->\nafter\n"
    page.write_text(stale)
    monkeypatch.setattr(generate, "FOLDER", folder)
    assert generate.main(["--check"]) == 1
    assert page.read_text() == stale
    assert "stale: docs/page.md" in capsys.readouterr().out
    assert generate.main([]) == 0
    assert "stateDiagram-v2" in page.read_text()
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("after\n")
    assert generate.main(["--check"]) == 0


def test_a_marker_that_names_nothing_is_an_error(generate: ModuleType) -> None:
    with pytest.raises(KeyError, match="nothing"):
        generate.filled("<!-- generated: nothing -->\n<!-- end -->")


def test_everything_that_is_generated_stands_on_a_page(generate: ModuleType) -> None:
    used = {
        name for page in DOCS.rglob("*.md") for name in re.findall(r"<!-- generated: ([\w-]+) -->", page.read_text())
    }
    assert used == set(generate.PARTS)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_page_has_the_same_headings(policy: str) -> None:
    text = (DOCS / "reference" / f"{policy}.md").read_text()
    assert [heading for heading in re.findall(r"^## (.*)$", text, re.MULTILINE) if heading in HEADINGS] == HEADINGS


def test_every_marker_is_closed() -> None:
    for page in DOCS.rglob("*.md"):
        text = page.read_text()
        assert text.count("<!-- generated:") == text.count("<!-- end -->"), page.name
