"""CloudEvents of Firestore as Cloud Run receives them: structured and binary mode, JSON and protobuf data."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from holdfast.base import CodecError, decode
from holdfast.http.faults import VALIDATION_ERROR
from holdfast_systems.reports.documents import RUN_ID

TYPES = frozenset(
    f"google.cloud.firestore.document.v1.{verb}"
    for name in ("created", "updated", "written")
    for verb in (name, f"{name}.withAuthContext")
)
STRUCTURED = "application/cloudevents"
JSON_TYPES = frozenset({"application/json", "text/json", ""})
PROTOBUF_TYPES = frozenset({"application/protobuf", "application/x-protobuf"})
PREFIX = "ce-"
REQUIRED = ("id", "source", "specversion", "type")
_DOCUMENT = re.compile(r"(?:\A|/)flow_runs/(?P<run_id>[^/]+)\Z")


class Event(NamedTuple):
    """A change of a document."""

    id: str
    source: str
    type: str
    run_id: str | None
    """None when it is not about a run."""


def read_event(headers: Mapping[str, str], body: bytes) -> Event:
    """The event that a request carries.

    Raises:
        Failure: VALIDATION_ERROR, when it is not a CloudEvent.
    """
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type.startswith(STRUCTURED):
        attributes, data = _structured(media_type, body)
    else:
        attributes = {
            name.removeprefix(PREFIX): unquote(value) for name, value in headers.items() if name.startswith(PREFIX)
        }
        data = _data(media_type, body)
    for name in REQUIRED:
        if not isinstance(attributes.get(name), str) or not attributes[name]:
            raise _invalid(f"ce-{name}", "required", "This is not a CloudEvent")
    if not str(attributes["specversion"]).startswith("1."):
        raise _invalid("ce-specversion", "version", "This is not version 1")
    run_id = _run_id(attributes, data) if attributes["type"] in TYPES else None
    return Event(str(attributes["id"]), str(attributes["source"]), str(attributes["type"]), run_id)


def _structured(media_type: str, body: bytes) -> tuple[dict[str, Any], str | None]:
    if media_type != f"{STRUCTURED}+json":
        raise _invalid("content-type", "media_type", f"Of structured events, {STRUCTURED}+json is understood")
    event = _decoded(body)
    if not isinstance(event, dict):
        raise _invalid("", "type", "A structured event is a JSON object")
    kind = str(event.get("datacontenttype", "application/json")).partition(";")[0].strip().lower()
    if isinstance(event.get("data_base64"), str):
        try:
            content = b64decode(event["data_base64"], validate=True)
        except ValueError:
            raise _invalid("data_base64", "base64", "This is not base64") from None
        return event, _data(kind, content)
    return event, _name(event.get("data"))


def _data(media_type: str, content: bytes) -> str | None:
    """The name of the document that the data is about."""
    if not content:
        return None
    if media_type in JSON_TYPES:
        return _name(_decoded(content))
    if media_type in PROTOBUF_TYPES:
        return _protobuf_name(content)
    raise _invalid("content-type", "media_type", "The data is neither JSON nor protobuf")


def _name(data: object) -> str | None:
    for part in ("value", "oldValue", "old_value"):
        document = data.get(part) if isinstance(data, dict) else None
        if isinstance(document, dict) and isinstance(document.get("name"), str):
            return str(document["name"])
    return None


def _protobuf_name(content: bytes) -> str | None:
    """The name in a `google.events.cloud.firestore.v1.DocumentEventData`."""
    from google.protobuf.message import DecodeError

    from holdfast_systems.reports.event_data import document_event_data

    try:
        data = document_event_data().FromString(content)
    except DecodeError:
        raise _invalid("data", "protobuf", "This is not a DocumentEventData") from None
    return str(data.value.name or data.old_value.name) or None


def _run_id(attributes: Mapping[str, Any], named: str | None) -> str | None:
    """The run that the event is about, by its attributes or its data."""
    for place in (attributes.get("document"), attributes.get("subject"), named):
        found = _DOCUMENT.search(place) if isinstance(place, str) else None
        if found and RUN_ID.match(found["run_id"]):
            return found["run_id"]
    return None


def _decoded(body: bytes) -> object:
    try:
        return decode(body)
    except CodecError as broken:
        raise _invalid("", "json", f"This is not JSON: {broken.explanation[:120]}") from None


def _invalid(field: str, constraint: str, message: str) -> Exception:
    wrong = {"field": field, "constraint": constraint, "message": message}
    return VALIDATION_ERROR(errors=[wrong], total_errors=1)
