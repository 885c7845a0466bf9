"""The domain of conversions, pure: names, twins, and how an upload with its job is shown."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO
from urllib.parse import quote

from holdfast.base import Json, digest, utc_text
from holdfast.catalog import Fault
from holdfast_systems.conversion.faults import CONVERSION_FAULTS, EXPIRED, UNKNOWN

QUEUE = "conversion"
UPKEEP_QUEUE = "conversion.upkeep"
CONVERT = "conversion.convert"
PURGE = "conversion.purge"

SOURCES, RESULTS = "sources", "results"
FILE_NAME_CHARS_MAX = 200
MAPPING_SHAPE = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}\Z")
"""What a mapping may look like. Whether there is such a mapping is the gateway's to say."""
DEFAULT_MAPPING = "text"
PDF_MARK = b"%PDF-"
PDF_MARK_WITHIN_BYTES = 1_024
"""Length of the beginning that must hold the mark: readers allow something before it; further in, it is not a PDF."""

HELD = "Gateway busy, paused. Will retry automatically."
FAILING = "Gateway busy. Files are not converted until it recovers."
PAUSED = "Conversions are paused. They will go on later."
BUSY = "The converter is busy. We’ll try again shortly."
WORDLESS = "No text was found in this file. It may be a scan."

# A job event by the journal's verb.
_EVENTS = {
    "enqueued": "queued",
    "revived": "queued",
    "released": "queued",
    "reclaimed": "queued",
    "snoozed": "queued",
    "claimed": "processing",
    "retried": "retry",
    "finished": "complete",
    "failed": "failed",
    "cancelled": "failed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A file that has arrived whole and is a PDF."""

    file: BinaryIO
    file_name: str
    mapping: str
    bytes: int
    sha256: str

    @property
    def twin_key(self) -> str:
        return twin_key(sha256=self.sha256, mapping=self.mapping, size=self.bytes)


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether the gateway gets jobs at the moment."""

    paused: bool
    message: str | None


def twin_key(*, sha256: str, mapping: str, size: int) -> str:
    """The same for uploads of one owner that ask for the same work."""
    return digest([sha256, mapping, size])


def source_name(upload_id: str) -> str:
    """Where the PDF of an upload is kept."""
    return f"{SOURCES}/{upload_id}.pdf"


def result_name(upload_id: str) -> str:
    """Where its XML is kept: one name for every attempt, so that there is one XML."""
    return f"{RESULTS}/{upload_id}.xml"


def upload_of(artifact_name: str) -> str:
    """The upload that an artifact belongs to, by its name."""
    return artifact_name.rpartition("/")[2].partition(".")[0]


def is_pdf(beginning: bytes) -> bool:
    """Whether content that begins so is a PDF, whatever its name and type claim."""
    return PDF_MARK in beginning[:PDF_MARK_WITHIN_BYTES]


def clean_file_name(given: str) -> str:
    """A name to show and to download under: no path, nothing invisible, not too long."""
    base = re.split(r"[/\\]", given)[-1]
    shown = "".join(letter for letter in base if letter.isprintable()).strip()
    return shown[:FILE_NAME_CHARS_MAX] or "document.pdf"


def xml_file_name(file_name: str) -> str:
    """What the XML is called when it is downloaded."""
    stem = file_name[:-4] if file_name.lower().endswith(".pdf") else file_name
    return f"{stem or 'document'}.xml"


def disposition(file_name: str) -> str:
    """The header that names a download; `curl -OJ` and others read only the plain form of it."""
    plain = re.sub(r'[^\x20-\x7e]|["\\%]', "_", file_name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(file_name, safe='')}"


def gate_of(state: str | None, mode: str | None, paused_us: int | None) -> Gate:
    """What the page says about the gateway."""
    if state in ("open", "half_open"):
        return Gate(True, FAILING if mode == "fail_fast" else HELD)
    return Gate(True, PAUSED) if paused_us is not None else Gate(False, None)


def result_of(record: Mapping[str, Any]) -> dict[str, Json]:
    """What the job says about its XML; nothing until it is complete."""
    return dict(json.loads(record["result"])) if record["result"] else {}


def view(record: Mapping[str, Any], *, attempts_max: int) -> dict[str, Json]:
    """An upload and its job, as the API shows them: short lines, no paths."""
    status, code, message = _standing(record)
    purged = record["purged_us"] is not None
    waiting = status == "queued" and record["lane"] == "waiting"
    return {
        "id": record["id"],
        "job_id": record["job_id"],
        "file_name": record["file_name"],
        "mapping": record["mapping"],
        "bytes": record["bytes"],
        "status": status,
        "attempt_count": record["attempt_count"] or 0,
        # An attempt that a dying worker took along is not held against the job: it has one more.
        "attempts_max": attempts_max + (record["pardon_count"] or 0),
        "manual_retry_count": record["manual_retry_count"] or 0,
        "error_code": code,
        "error_message": message,
        "waiting": _waiting(record) if waiting else None,
        "expired": purged or code == EXPIRED.code,
        "can_download": status == "complete" and not purged,
        "can_retry": status == "failed" and record["job_id"] is not None and record["state"] is not None and not purged,
        "result_bytes": result_of(record).get("bytes"),
        "note": WORDLESS if status == "complete" and result_of(record).get("words") is False else None,
        "created_at": _at(record["created_us"]),
        "started_at": _at(record["started_us"]),
        "last_attempt_at": _at(record["last_attempt_us"]),
        "finished_at": _at(record["finished_us"]),
        "failed_at": _at(record["failed_us"] if record["job_id"] else record["created_us"]),
    }


def events(history: Sequence[Mapping[str, Any]], result: Mapping[str, Json]) -> list[dict[str, Json]]:
    """What happened to a job, as its events: `queued`, `processing`, `retry`, `complete`, `failed`."""
    good = result.get("gateway_http_status")
    return [
        {
            "event": _EVENTS[row["verb"]],
            "at": _at(row["at_us"]),
            "meta": {
                "attempt": row["attempt"],
                "gateway_http_status": good if row["verb"] == "finished" else row["upstream_status"],
                "duration_ms": None if row["duration_us"] is None else round(row["duration_us"] / 1_000, 1),
                "error_code": None if row["code"] is None else _told(row["code"]).code,
            },
        }
        for row in history
        if row["verb"] in _EVENTS
    ]


def _standing(record: Mapping[str, Any]) -> tuple[str, str | None, str | None]:
    """Status, code and line of an upload."""
    if record["refused_code"] is not None:
        return "failed", record["refused_code"], record["refused_message"]
    if record["state"] is None:
        # The job is older than anything that is kept.
        return "failed", EXPIRED.code, EXPIRED.says
    if record["state"] != "failed":
        return record["state"], None, None
    fault = _told(record["error_code"])
    return "failed", fault.code, record["error_message"] if fault.code == record["error_code"] else fault.says


def _told(code: str) -> Fault:
    """One of our own faults; whatever else the engine says is for the console."""
    return CONVERSION_FAULTS.get(code) or UNKNOWN


def _waiting(record: Mapping[str, Any]) -> dict[str, Json]:
    fault = _told(record["retry_code"]) if record["retry_code"] else None
    # Without an attempt that failed it was put off, because the gateway had no place for it.
    code, line = (None, BUSY) if fault is None else (fault.code, fault.says_retrying or fault.says)
    return {"code": code, "message": line, "next_attempt_at": _at(record["due_us"])}


def _at(moment_us: int | None) -> str | None:
    return None if moment_us is None else utc_text(moment_us)
