"""What the stand-in of the model writes: a plausible report from the numbers in the prompt, in the schema's form."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean, pstdev
from typing import Any, NamedTuple

DEPTH_MAX = 12
ITEMS = 3
ROW = re.compile(
    r"^(?P<time>\d{4}-\d\d-\d\d[^,\s]*),(?P<open>[\d.e+-]+),(?P<high>[\d.e+-]+),(?P<low>[\d.e+-]+),"
    r"(?P<close>[\d.e+-]+),(?P<volume>[\d.e+-]+)\s*$",
    re.MULTILINE,
)


class Facts(NamedTuple):
    """What the numbers say."""

    periods: int
    first: str
    last: str
    opening: float
    closing: float
    highest: float
    lowest: float
    change: float
    """In percent."""
    volatility: float
    """The standard deviation of the changes from close to close, in percent."""
    volume: float
    volume_trend: float
    """The mean volume of the newer half against the older, in percent."""

    @property
    def trend(self) -> str:
        return "sideways" if abs(self.change) < 1 else "up" if self.change > 0 else "down"


def written(prompt: str, schema: Mapping[str, Any]) -> Any:
    """A report on the market data in the prompt, valid against the schema as far as a simple writer can tell."""
    facts = read_facts(prompt)
    return _instance(schema, schema, facts, (), 0)


def read_facts(prompt: str) -> Facts | None:
    """The facts of the rows in the prompt; None when there are none."""
    rows = [found.groupdict() for found in ROW.finditer(prompt)]
    try:
        numbers = [{name: float(row[name]) for name in ("open", "high", "low", "close", "volume")} for row in rows]
    except ValueError:
        return None
    if not numbers:
        return None
    closes = [one["close"] for one in numbers]
    moves = [100 * (after / before - 1) for before, after in pairwise(closes) if before]
    volumes = [one["volume"] for one in numbers]
    half = len(volumes) // 2
    older, newer = fmean(volumes[:half] or volumes), fmean(volumes[half:])
    return Facts(
        periods=len(rows),
        first=rows[0]["time"],
        last=rows[-1]["time"],
        opening=numbers[0]["open"],
        closing=closes[-1],
        highest=max(one["high"] for one in numbers),
        lowest=min(one["low"] for one in numbers),
        change=100 * (closes[-1] / numbers[0]["open"] - 1) if numbers[0]["open"] else 0.0,
        volatility=pstdev(moves) if len(moves) > 1 else 0.0,
        volume=fmean(volumes),
        volume_trend=100 * (newer / older - 1) if older else 0.0,
    )


def markdown(facts: Facts | None) -> str:
    """The text of the report."""
    if facts is None:
        return "# Market report\n\nThe prompt held no market data, so there is nothing to report on."
    direction = {"up": "rose", "down": "fell", "sideways": "moved sideways"}[facts.trend]
    position = (facts.closing - facts.lowest) / ((facts.highest - facts.lowest) or 1)
    place = "near the top" if position > 0.66 else "near the bottom" if position < 0.33 else "in the middle"
    volume = "rising" if facts.volume_trend > 5 else "falling" if facts.volume_trend < -5 else "steady"
    support, resistance = facts.lowest, facts.highest
    return f"""# Market report

**The price {direction} by {abs(facts.change):.2f} %**, from {facts.opening:,.2f} to {facts.closing:,.2f}, over \
{facts.periods} periods between {facts.first[:10]} and {facts.last[:10]}.

## What happened

- The range reached from **{facts.lowest:,.2f}** to **{facts.highest:,.2f}**; the last close is {place} of it.
- The typical move from close to close was **{facts.volatility:.2f} %**.
- Volume was {volume}: {facts.volume_trend:+.1f} % in the newer half, {facts.volume:,.0f} on average.

## Levels to watch

| level | price |
| --- | ---: |
| resistance | {resistance:,.2f} |
| last close | {facts.closing:,.2f} |
| support | {support:,.2f} |

## Outlook

{_outlook(facts)}

*Written by the stand-in of the model from the numbers alone. It is not advice.*
"""


def _outlook(facts: Facts) -> str:
    if facts.trend == "sideways":
        return "Neither side has the upper hand. A close outside the range would set the direction."
    if facts.trend == "up":
        confirmed = "confirms" if facts.volume_trend > 0 else "does not confirm"
        return f"The trend is up, and volume {confirmed} it. A close above {facts.highest:,.2f} would continue it."
    confirmed = "confirms" if facts.volume_trend > 0 else "does not confirm"
    return f"The trend is down, and volume {confirmed} it. A close below {facts.lowest:,.2f} would continue it."


def _instance(whole: Mapping[str, Any], part: Any, facts: Facts | None, path: Sequence[str], depth: int) -> Any:
    """Something that is valid against a part of the schema."""
    if not isinstance(part, dict) or depth > DEPTH_MAX:
        return {} if depth <= 1 else "…"
    if "$ref" in part:
        return _instance(whole, _pointed(whole, part["$ref"]), facts, path, depth + 1)
    for name in ("anyOf", "oneOf", "allOf"):
        if isinstance(part.get(name), list) and part[name]:
            rest = {key: value for key, value in part.items() if key != name}
            return _instance(whole, {**rest, **part[name][0]}, facts, path, depth + 1)
    if "const" in part:
        return part["const"]
    if isinstance(part.get("enum"), list) and part["enum"]:
        return _chosen(part["enum"], facts)
    kind = part.get("type")
    kind = next((one for one in kind if one != "null"), "null") if isinstance(kind, list) else kind
    return _of_kind(str(kind or _guessed(part)).lower(), whole, part, facts, path, depth)


def _of_kind(
    kind: str, whole: Mapping[str, Any], part: dict[str, Any], facts: Facts | None, path: Sequence[str], depth: int
) -> Any:
    match kind:
        case "object":
            properties = part.get("properties") or {}
            wanted = dict.fromkeys([*properties, *(part.get("required") or ())])
            return {
                name: _instance(whole, properties.get(name, {"type": "string"}), facts, (*path, name), depth + 1)
                for name in wanted
            }
        case "array":
            count = min(max(int(part.get("minItems", 0)), ITEMS), int(part.get("maxItems", ITEMS)))
            return [_instance(whole, part.get("items", {}), facts, (*path, str(at)), depth + 1) for at in range(count)]
        case "integer":
            return int(_bounded(_number(facts, path), part))
        case "number":
            return round(_bounded(_number(facts, path), part), 4)
        case "boolean":
            return facts is not None and facts.trend == "up"
        case "null":
            return None
    return _text(facts, path, part)


def _text(facts: Facts | None, path: Sequence[str], part: Mapping[str, Any]) -> str:
    name = path[-1].lower() if path else ""
    if name == "markdown":
        text = markdown(facts)
    elif facts is None:
        text = "no data"
    elif "trend" in name or "direction" in name or "bias" in name:
        text = facts.trend
    elif "outlook" in name or "conclusion" in name:
        text = _outlook(facts)
    elif len(path) > 1 and path[-1].isdigit():
        text = _points(facts)[int(path[-1]) % ITEMS]
    else:
        text = f"{facts.change:+.2f} % over {facts.periods} periods"
    longest = part.get("maxLength")
    return (text[:longest] if isinstance(longest, int) else text).ljust(int(part.get("minLength", 0)), ".")


def _points(facts: Facts) -> list[str]:
    return [
        f"The price changed by {facts.change:+.2f} %.",
        f"The range was {facts.lowest:,.2f} to {facts.highest:,.2f}.",
        f"Volume changed by {facts.volume_trend:+.1f} %.",
    ]


def _number(facts: Facts | None, path: Sequence[str]) -> float:
    name = path[-1].lower() if path else ""
    if facts is None:
        return 0.0
    known = {
        "change": facts.change,
        "volatil": facts.volatility,
        "support": facts.lowest,
        "low": facts.lowest,
        "resist": facts.highest,
        "high": facts.highest,
        "open": facts.opening,
        "volume": facts.volume,
        "period": float(facts.periods),
        "confidence": 0.6,
    }
    return next((value for part, value in known.items() if part in name), facts.closing)


def _bounded(number: float, part: Mapping[str, Any]) -> float:
    least, most = part.get("minimum"), part.get("maximum")
    number = max(number, least) if isinstance(least, int | float) else number
    return min(number, most) if isinstance(most, int | float) else number


def _chosen(options: Sequence[Any], facts: Facts | None) -> Any:
    """The option that fits the trend, or the first."""
    words = {"up": ("up", "bull", "rise", "buy", "long"), "down": ("down", "bear", "fall", "sell", "short")}
    fitting = words.get(facts.trend, ("side", "neutral", "flat", "hold")) if facts is not None else ()
    matching = [one for one in options if isinstance(one, str) and any(word in one.lower() for word in fitting)]
    return matching[0] if matching else options[0]


def _guessed(part: Mapping[str, Any]) -> str:
    return "object" if "properties" in part or "required" in part else "array" if "items" in part else "string"


def _pointed(whole: Mapping[str, Any], reference: object) -> Any:
    found: Any = whole
    for name in str(reference).removeprefix("#").split("/")[1:]:
        found = found.get(name) if isinstance(found, dict) else None
    return found
