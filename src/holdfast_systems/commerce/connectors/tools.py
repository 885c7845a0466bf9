"""Which tools there are: how each is called, what it needs, and whether it changes anything.

Always true: a tool that writes is repeated only if it takes a key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from holdfast.base import Json, decode, encode
from holdfast.store import Row, Store, Tx

NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}(\.[a-z][a-z0-9_-]{0,30}){1,3}\Z")
"""Such as `crm.order`."""
FIELD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}\Z")
STANDIN = "standin:"
"""The beginning of an address below a stand-in, such as `standin:weather/v1/current`: its place may change."""
TIMEOUT_S_MAX = 120.0
FIELDS_MAX = 20
SCHEMA_BYTES_MAX = 16_384
DESCRIPTION_CHARS_MAX = 500
TOOLS_MAX = 1_000


class Kind(StrEnum):
    """Whether a call changes anything."""

    READ = "read"
    WRITE = "write"


class Transport(StrEnum):
    """How a tool is called."""

    HTTP = "http"
    """One POST of the arguments as JSON; the reply's JSON is the result."""
    MCP = "mcp"
    """A tool of an MCP server, over streamable HTTP."""


class ToolInvalid(ValueError):
    """A tool that cannot be meant: which field, and why."""

    def __init__(self, field_name: str, reason: str) -> None:
        super().__init__(field_name, reason)
        self.field = field_name
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool that instances may be allowed to use."""

    name: str
    kind: Kind
    transport: Transport = Transport.HTTP
    url: str
    """Where it is called: `http(s)://…`, or `standin:name/path`."""
    remote_name: str = ""
    """Of a tool of an MCP server: its name there."""
    takes_key: bool = False
    """Whether it recognises a repeat by an idempotency key."""
    timeout_s: float | None = None
    """Maximum time of a call, attempts and waits together; None is the setting's."""
    secret_field: str = ""
    """The field of its secret in the vault, sent as a bearer token; empty needs no secret."""
    fields: tuple[str, ...] = ()
    """What a binding has to say before the tool can be used."""
    description: str = ""
    input_schema: Mapping[str, Json] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name, good, reason in (
            ("name", bool(NAME.match(self.name)), "write names joined by dots, such as crm.order"),
            ("url", _is_address(self.url), "write http://…, https://… or standin:name/path"),
            ("remoteName", self.transport is not Transport.MCP or bool(self.remote_name), "name the server's tool"),
            ("takesKey", self.kind is Kind.WRITE or not self.takes_key, "only tools that write take a key"),
            ("timeoutS", self.timeout_s is None or 0 < self.timeout_s <= TIMEOUT_S_MAX, f"0 to {TIMEOUT_S_MAX:g} s"),
            ("fields", len(self.fields) <= FIELDS_MAX and all(map(FIELD.match, self.fields)), "names of fields"),
            ("secretField", not self.secret_field or bool(FIELD.match(self.secret_field)), "the name of a field"),
            ("description", len(self.description) <= DESCRIPTION_CHARS_MAX, f"at most {DESCRIPTION_CHARS_MAX} chars"),
            ("inputSchema", len(encode(dict(self.input_schema))) <= SCHEMA_BYTES_MAX, "it is too large"),
        ):
            if not good:
                raise ToolInvalid(name, reason)

    def missing(self, given: Mapping[str, Any], secret_path: str) -> list[str]:
        """What a binding with these fields and this path lacks."""
        lacking = [name for name in self.fields if given.get(name) in (None, "")]
        return [*lacking, "secretPath"] if self.secret_field and not secret_path else lacking

    def shown(self) -> dict[str, Json]:
        """As the API tells it."""
        return {
            "tool": self.name,
            "kind": self.kind.value,
            "transport": self.transport.value,
            "url": self.url,
            "remoteName": self.remote_name or None,
            "takesKey": self.takes_key,
            "timeoutS": self.timeout_s,
            "secretField": self.secret_field or None,
            "fields": list(self.fields),
            "description": self.description,
            "inputSchema": dict(self.input_schema),
        }


def tool_of(name: str, said: Mapping[str, Any]) -> Tool:
    """The tool that a document describes, in the words of the API.

    Raises:
        ToolInvalid: names the first field that cannot be meant.
    """
    return Tool(
        name=name,
        kind=Kind(said["kind"]),
        transport=Transport(said.get("transport") or Transport.HTTP),
        url=said["url"],
        remote_name=said.get("remoteName") or "",
        takes_key=bool(said.get("takesKey")),
        timeout_s=said.get("timeoutS"),
        secret_field=said.get("secretField") or "",
        fields=tuple(said.get("fields") or ()),
        description=said.get("description") or "",
        input_schema=said.get("inputSchema") or {},
    )


class Tools:
    """The tools in the store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def add_missing(self, tools: tuple[Tool, ...]) -> None:
        """Add these where no tool has the name; one that an operator has changed stays as it is."""

        def phase(tx: Tx) -> None:
            for tool in tools:
                tx.run("connectors.add_tool", name=tool.name, definition=encode(tool.shown()))

        self.store.atomic(phase, repeatable=True)

    def putting(self, tool: Tool) -> Callable[[Tx], None]:
        """The phase after which this is the tool of its name."""

        def phase(tx: Tx) -> None:
            tx.run("connectors.put_tool", name=tool.name, definition=encode(tool.shown()))

        return phase

    def get(self, name: str) -> Tool | None:
        """The tool of this name; None when there is none."""
        found = self.store.look("connectors.get_tool", name=name)
        return _tool(found[0]) if found else None

    def all(self) -> list[Tool]:
        """Every tool, by name."""
        return [_tool(row) for row in self.store.look("connectors.list_tools", count=TOOLS_MAX)]


def _tool(row: Row) -> Tool:
    said: Any = decode(row[1])
    return tool_of(str(row[0]), said)


def _is_address(url: str) -> bool:
    if url.startswith(STANDIN):
        return bool(re.fullmatch(r"standin:[a-z]+(/[A-Za-z0-9._~-]+)+", url))
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and len(url) <= 2_000


CITY: dict[str, Json] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
DEMO_TOOLS = (
    Tool(
        name="weather.read",
        kind=Kind.READ,
        url="standin:weather/v1/current",
        secret_field="token",  # noqa: S106 - the name of a field
        description="The weather in a city.",
        input_schema=CITY,
    ),
    Tool(
        name="crm.note",
        kind=Kind.WRITE,
        url="standin:crm/v1/notes",
        description="Adds a note to a customer. It cannot recognise a repeat.",
        input_schema={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    ),
    Tool(
        name="crm.order",
        kind=Kind.WRITE,
        url="standin:crm/v1/orders",
        takes_key=True,
        description="Orders something. A repeat with the same key is the same order.",
        input_schema={
            "type": "object",
            "properties": {"item": {"type": "string"}, "quantity": {"type": "integer", "minimum": 1}},
            "required": ["item"],
        },
    ),
)
"""What there is on first start where stand-ins are on."""
