"""The registry for machines: every fault as JSON, written and read back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from holdfast.analysis.export import Entry
from holdfast.base import CodecError, decode
from holdfast.catalog.fault import CODE_CHARS_MAX, CODE_SHAPE

FORMAT = "holdfast.catalog"
VERSION = 1
EXPORT_BYTES_MAX = 16_777_216
FAULTS_MAX = 20_000


class ExportUnreadable(ValueError):
    """The text is not an export of a catalog; the message says why."""


def to_json(recorded: Sequence[Entry]) -> str:
    """The registry as indented JSON, the same for the same catalogs."""
    document = {"format": FORMAT, "version": VERSION, "faults": [asdict(entry) for entry in recorded]}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def from_json(text: str | bytes) -> list[Entry]:
    """The records of an export; members that a newer version added are passed over.

    Raises:
        ExportUnreadable: with the place that is wrong.
    """
    try:
        document = decode(text, bytes_max=EXPORT_BYTES_MAX)
    except CodecError as broken:
        raise ExportUnreadable(f"it is not JSON ({broken})") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ExportUnreadable(f'it has no member "format": "{FORMAT}"')
    if document.get("version") != VERSION:
        raise ExportUnreadable(f"its version is {document.get('version')!r}, and this reads version {VERSION}")
    faults = document.get("faults")
    if not isinstance(faults, list) or len(faults) > FAULTS_MAX:
        raise ExportUnreadable(f'"faults" is not a list of at most {FAULTS_MAX}')
    found = [_entry(one, number) for number, one in enumerate(faults)]
    _check_places(found)
    return found


def _check_places(found: Sequence[Entry]) -> None:
    """A code stands once in a catalog: of two, a comparison would see only one."""
    places: set[tuple[str, str]] = set()
    for number, entry in enumerate(found):
        for catalog in entry.catalogs:
            if (catalog, entry.code) in places:
                raise ExportUnreadable(f"faults[{number}] ({entry.code}) is in the catalog {catalog!r} twice")
            places.add((catalog, entry.code))


def _entry(given: object, number: int) -> Entry:
    if not isinstance(given, Mapping):
        raise ExportUnreadable(f"faults[{number}] is not an object")
    code, status, retryable = given.get("code"), given.get("status"), given.get("retryable")
    if not isinstance(code, str) or len(code) > CODE_CHARS_MAX or not CODE_SHAPE.match(code):
        raise ExportUnreadable(f"faults[{number}] has no code")
    if not isinstance(status, int) or isinstance(status, bool) or not isinstance(retryable, bool):
        raise ExportUnreadable(f"faults[{number}] ({code}) has no status, or does not say whether it is retryable")
    catalogs = given.get("catalogs")
    if not (isinstance(catalogs, list) and catalogs and all(isinstance(name, str) for name in catalogs)):
        raise ExportUnreadable(f"faults[{number}] ({code}) names no catalogs")
    wanted = {field.name for field in fields(Entry)}
    known: dict[str, Any] = {"says": "", "blame": "", "severity": ""}
    known |= {name: _frozen(value) for name, value in given.items() if name in wanted}
    return Entry(**known)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
