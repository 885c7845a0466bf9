"""What a call of the model costs, and what a run may cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast_systems.reports.faults import BUDGET_EXCEEDED
from holdfast_systems.reports.model import ABSENT, each_step

PER = 1_000_000
DIGITS = 9


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens."""

    input: float
    output: float


PRICES: Mapping[str, Price] = {
    "gemini-2.5-pro": Price(1.25, 10.0),
    "gemini-2.5-flash": Price(0.30, 2.50),
    "gemini-2.5-flash-lite": Price(0.10, 0.40),
    "gemini-2.0-flash": Price(0.10, 0.40),
}
"""List prices; settings replace and add."""
FALLBACK = Price(1.25, 10.0)
"""For a model without a known price: rather too much than too little, so that a budget holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What calls of the model have used."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=round(self.cost_usd + other.cost_usd, DIGITS),
        )

    def field(self) -> Any:
        """As a patch writes it on a step: nothing where the model was not called."""
        return self.document() if self.calls else ABSENT

    def document(self) -> dict[str, Any]:
        """As it stands in a document."""
        return {
            "modelCalls": self.calls,
            "inputTokens": self.input_tokens,
            "outputTokens": self.output_tokens,
            "costUsd": self.cost_usd,
        }


def priced(prices: Mapping[str, Price], model: str, *, input_tokens: int, output_tokens: int) -> Usage:
    """One call."""
    price = prices.get(model.removeprefix("models/"), FALLBACK)
    cost = (input_tokens * price.input + output_tokens * price.output) / PER
    return Usage(calls=1, input_tokens=input_tokens, output_tokens=output_tokens, cost_usd=round(cost, DIGITS))


def usage_of(given: object) -> Usage:
    """What a document says that was used."""
    if not isinstance(given, dict):
        return Usage()
    counts = [given.get(name) for name in ("modelCalls", "inputTokens", "outputTokens")]
    calls, tokens_in, tokens_out = (count if type(count) is int else 0 for count in counts)
    cost = given.get("costUsd")
    return Usage(
        calls=calls,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        cost_usd=float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else 0.0,
    )


def spent(document: Mapping[str, Any]) -> Usage:
    """What all steps of a run have used."""
    total = Usage()
    for _, step in each_step(document):
        total += usage_of(step.get("usage"))
    return total


def check_budget(document: Mapping[str, Any], more: Usage, budget_usd: float) -> None:
    """Refuse the next call when the run has spent what it may.

    Args:
        more: what the step at hand has used and not written down yet.

    Raises:
        Failure: BUDGET_EXCEEDED.
    """
    own = document.get("budgetUsd")
    limit = float(own) if isinstance(own, int | float) else budget_usd
    total = (spent(document) + more).cost_usd
    if total >= limit:
        raise BUDGET_EXCEEDED(spent_usd=total, budget_usd=limit)
