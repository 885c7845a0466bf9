"""The prompt: a stored template with the step's inputs put in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.base import encode
from holdfast_systems.reports.ohlcv import HEADER, Candle

TEMPLATE_CHARS_MAX = 100_000
ROWS_IN_PROMPT = 500
"""The newest rows; a model reads no more of them with profit."""
PROMPT_CHARS_MAX = 2_000_000
ANSWER_IN_REPAIR_CHARS = 20_000
_PLACE = re.compile(r"\{(ohlcv|charts|previousReports)\}")

REPAIR = """The answer below does not have the required form: {reason}
Answer again with the whole corrected JSON document and nothing else.

{answer}"""


def build_prompt(
    template: str, candles: Sequence[Candle], manifest: Mapping[str, Any], previous: Sequence[Mapping[str, Any]]
) -> str:
    """The template with its places filled; every other brace stays as it is."""
    filled = {
        "ohlcv": f"\n{table(candles[-ROWS_IN_PROMPT:])}\n",
        "charts": encode(_described(manifest)),
        "previousReports": "\n\n".join(_summary(report) for report in previous) or "none",
    }
    return _PLACE.sub(lambda place: filled[place[1]], template)[:PROMPT_CHARS_MAX]


def repair_prompt(reason: str, answer: str) -> str:
    """What the model is asked after an answer that cannot be used."""
    return REPAIR.format(reason=reason, answer=answer[:ANSWER_IN_REPAIR_CHARS])


def table(candles: Sequence[Candle]) -> str:
    """The rows as CSV."""
    lines = [",".join(HEADER)]
    lines += [",".join([one.time, *(f"{value:.10g}" for value in one[1:])]) for one in candles]
    return "\n".join(lines)


def _described(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{name: chart.get(name) for name in ("name", "title")} for chart in manifest.get("charts", ())]


def _summary(report: Mapping[str, Any]) -> str:
    summary = report.get("summary")
    return str(summary.get("markdown", "")) if isinstance(summary, dict) else ""
