"""A stand-in for a weather service that asks for a key: `POST /v1/current {"city"}`, and the same tool over MCP.

The weather follows from the name of the city, so that an answer can be checked.
"""

from __future__ import annotations

from holdfast.base import Json, digest
from holdfast.testing import Faulty
from holdfast_systems.commerce.standins.json_service import Answer, Asked, JsonService
from holdfast_systems.commerce.standins.mcp_tools import McpTools, RemoteTool
from holdfast_systems.commerce.standins.vault import DEMO_SECRET

SKIES = ("sunny", "cloudy", "rainy", "windy")


def standin() -> Faulty:
    """The service with switches for its faults."""
    service = JsonService([("POST", "/v1/current", _current)])
    tool = RemoteTool(name="current", description="The weather in a city.", call=_weather, keyed_by=DEMO_SECRET)
    return Faulty(McpTools([tool], otherwise=service))


def _current(asked: Asked) -> Answer:
    if not DEMO_SECRET.matches(asked.bearer):
        return 401, {"error": "this key is not known"}
    if not isinstance(asked.json.get("city"), str):
        return 400, {"error": "city is missing"}
    return 200, _weather(asked.json, "")


def _weather(arguments: dict[str, Json], _key: str) -> dict[str, Json]:
    city = str(arguments.get("city", ""))
    number = int(digest(city.lower())[:8], 16)
    return {"city": city, "temperatureC": number % 35 - 5, "sky": SKIES[number % len(SKIES)]}
