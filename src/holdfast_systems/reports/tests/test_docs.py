"""What the documentation says about this system is what the code does."""

from __future__ import annotations

from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from holdfast.catalog import Blame
from holdfast.lifecycle import mermaid
from holdfast_systems.reports import REPORTS, Settings, read_settings
from holdfast_systems.reports.cost import Price
from holdfast_systems.reports.model import STEP
from holdfast_systems.reports.settings import SettingInvalid

HOW = Path(__file__).parents[4] / "docs" / "how" / "run-reports.md"
README = Path(__file__).parents[1] / "README.md"
SEED = {
    "FLOW_RUN_NOT_FOUND": False,
    "FLOW_RUN_INVALID": False,
    "PROMPT_NOT_FOUND": False,
    "LLM_PROFILE_INVALID": False,
    "INVALID_STEP_INPUTS": False,
    "LLM_SAFETY_BLOCK": False,
    "INVALID_STRUCTURED_OUTPUT": False,
    "FIRESTORE_UNAVAILABLE": True,
    "GCS_WRITE_FAILED": True,
    "GEMINI_REQUEST_FAILED": True,
    "RATE_LIMITED": True,
    "FIRESTORE_CLAIM_FAILED": True,
    "FIRESTORE_FINALIZE_FAILED": True,
    "NO_READY_STEP": False,
    "DEPENDENCY_NOT_SUCCEEDED": False,
    "STEP_CLAIM_CONFLICT": False,
    "STEP_FINALIZE_CONFLICT": False,
}
"""The codes of the seed, and whether they are transient."""


def cells(page: Path) -> list[list[str]]:
    lines = [line for line in page.read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_setting_is_listed_with_its_default() -> None:
    told = {row[0].strip("`"): row[1] for row in cells(HOW) if len(row) == 3}
    for field in fields(Settings):
        name, default = field.name.upper(), field.default
        assert name in told
        if default not in ("", MISSING):
            number = type(default) in (int, float)
            assert told[name] == (f"{default:g}" if number else str(default)), name


def test_every_code_is_listed_with_its_status() -> None:
    told = {row[0].strip("`"): row[1] for row in cells(README) if len(row) == 4 and row[0].startswith("`")}
    assert told == {fault.code: str(fault.status) for fault in REPORTS}


def test_the_diagram_is_the_table_of_moves() -> None:
    drawn = [line.strip() for line in mermaid(STEP).splitlines() if "-->" in line]
    assert all(line in README.read_text() for line in drawn if "[*]" not in line)


def test_the_codes_of_the_seed_are_all_there_with_their_class() -> None:
    assert {code: REPORTS[code].retryable for code in SEED} == SEED
    assert {fault.code for fault in REPORTS if fault.blame is Blame.NO_OP} == {
        "NO_READY_STEP",
        "DEPENDENCY_NOT_SUCCEEDED",
        "STEP_CLAIM_CONFLICT",
        "STEP_FINALIZE_CONFLICT",
    }
    assert all(fault.causes and fault.remedy for fault in REPORTS)


def test_the_defaults_are_those_of_the_seed() -> None:
    settings = Settings()
    assert (settings.gemini_timeout_s, settings.invocation_timeout_s, settings.finalize_budget_s) == (600, 780, 120)
    assert (settings.max_gemini_attempts, settings.max_repair_attempts) == (1, 1)
    assert 3 <= settings.claim_tries <= 5
    assert (settings.claim_delay_min_s, settings.claim_delay_max_s) == (0.1, 0.5)
    retry = (settings.retry_attempts, settings.retry_base_s, settings.retry_factor, settings.retry_max_s)
    assert retry == (5, 1, 2, 32)


def test_settings_come_from_the_environment_that_is_given() -> None:
    given = {
        "HOLDFAST_REPORTS_FEED": "false",
        "HOLDFAST_REPORTS_REAP": "failed",
        "HOLDFAST_REPORTS_BUDGET_USD": "0",
        "HOLDFAST_REPORTS_GEMINI_API_KEY": "a key",
        "HOLDFAST_REPORTS_PRICES": '{"mine": [1, 2.5]}',
        "ELSE": "x",
    }
    read = read_settings(given)
    assert (read.feed, read.reap, read.budget_usd) == (False, "failed", 0)
    assert read.prices["mine"] == Price(1.0, 2.5)
    assert "gemini-2.5-flash" in read.prices
    assert "a key" not in repr(read)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("NOTHING", "1"),
        ("LEASE_S", "soon"),
        ("LEASE_S", "100"),
        ("CLAIM_TRIES", "6"),
        ("CLAIM_DELAY_MIN_S", "9"),
        ("FINALIZE_BUDGET_S", "800"),
        ("FEED", "perhaps"),
        ("REAP", "never"),
        ("PRICES", "[]"),
        ("PRICES", '{"a": [1]}'),
        ("GEMINI_URL", "localhost"),
        ("RETRY_ATTEMPTS", "0"),
        ("BUDGET_USD", "-1"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused(name: str, text: str) -> None:
    with pytest.raises(SettingInvalid, match=name):
        read_settings({f"HOLDFAST_REPORTS_{name}": text})
