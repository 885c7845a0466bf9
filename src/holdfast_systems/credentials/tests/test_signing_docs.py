"""The signature examples in the documentation, run as they stand there against a real engine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast_systems.credentials.client import signed

from .live import SECRET, WEBHOOK, Live, signature

PAGE = Path(__file__).parents[4] / "docs" / "how" / "sign-a-webhook.md"
PROGRAMS = {"javascript": ("node", ["node", "-e"]), "bash": ("curl", ["bash", "-euc"])}


def example(language: str) -> str:
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(found) == 1, f"{len(found)} examples in {language}"
    return found[0]


@pytest.mark.parametrize("language", PROGRAMS)
def test_the_example_is_accepted_by_the_engine(server: Live, language: str) -> None:
    program, command = PROGRAMS[language]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed: the example in {language} was NOT run")
    environment = {**os.environ, "URL": f"{server.url}{WEBHOOK}", "SECRET": SECRET, "NO_PROXY": "127.0.0.1"}
    ended = subprocess.run(
        [*command, example(language)], env=environment, capture_output=True, text=True, timeout=90, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert '"status":"applied"' in ended.stdout
    assert "200" in ended.stdout
    assert server.member("user123")["reputation"] == 50


def test_the_library_signs_as_everybody_else_does() -> None:
    body = b'{"event_type":"contribution_created"}'
    assert signed(body, SECRET)["X-GR-Signature"] == signature(body)["X-GR-Signature"]
