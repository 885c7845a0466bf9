"""Uploads and their ingestions as rows: announced, asked for, shown.

Always true: there is one ingestion for each upload, and it is stored together with the job that does it.
"""

from __future__ import annotations

from typing import Any

from holdfast.base import utc_text
from holdfast.store import Tx
from holdfast.worker import Jobs
from holdfast_systems.commerce.admission import Caller
from holdfast_systems.commerce.control_plane import bindings, instances
from holdfast_systems.commerce.control_plane.storage import Announced
from holdfast_systems.commerce.faults import INGESTION_NOT_FOUND, NOT_ENTITLED
from holdfast_systems.commerce.faults_outside import UPLOAD_NOT_FOUND, UPLOADS_EXCEEDED
from holdfast_systems.commerce.model import INGESTION, UPLOAD, make_id
from holdfast_systems.commerce.settings import Settings

CAPABILITY = "rag"
QUEUE = "commerce.ingestion"
INGEST = "commerce.ingest"
LAST = f"{INGESTION}_~"
"""Above every id: where the first page of a list begins, newest first."""


def entitled(tx: Tx, instance_id: str, caller: Caller) -> dict[str, Any]:
    """The row of an instance that exists for the caller and may have a knowledge base.

    Raises:
        Failure: INSTANCE_NOT_FOUND, NOT_ENTITLED.
    """
    if CAPABILITY not in bindings.entitlements(tx, instance_id, caller)["capabilities"]:
        raise NOT_ENTITLED(capability=CAPABILITY)
    return instances.visible(tx, instance_id, caller)


def announce(
    tx: Tx, instance_id: str, caller: Caller, *, filename: str, content_type: str, size: int, settings: Settings
) -> Announced:
    """Write down that a file is to come.

    Raises:
        Failure: INSTANCE_NOT_FOUND, NOT_ENTITLED, UPLOADS_EXCEEDED.
    """
    row = entitled(tx, instance_id, caller)
    held = tx.row("ingestion.count_uploads", instance_id=instance_id)
    if held is not None and held[0] >= settings.uploads_max:
        raise UPLOADS_EXCEEDED(instanceId=instance_id, limit=settings.uploads_max)
    upload_id = make_id(UPLOAD)
    tx.run(
        "ingestion.add_upload",
        id=upload_id,
        instance_id=instance_id,
        tenant=row["tenant"],
        filename=filename,
        content_type=content_type,
        bytes=size,
        lasting_us=settings.upload_s * 1_000_000,
    )
    found = announced(tx, upload_id)
    assert found is not None
    return found


def announced(tx: Tx, upload_id: str) -> Announced | None:
    """The file of an upload, for any caller; None when there is no such upload."""
    found = tx.records("ingestion.upload", id=upload_id)
    return file_of(found[0]) if found else None


def visible_upload(tx: Tx, instance_id: str, upload_id: str, caller: Caller) -> dict[str, Any]:
    """The row of an upload that exists for the caller, at this instance.

    Raises:
        Failure: INSTANCE_NOT_FOUND, UPLOAD_NOT_FOUND.
    """
    instances.visible(tx, instance_id, caller)
    found = tx.records("ingestion.upload", id=upload_id)
    if not found or found[0]["instance_id"] != instance_id:
        raise UPLOAD_NOT_FOUND(uploadId=upload_id)
    return found[0]


def ask(tx: Tx, jobs: Jobs, upload: dict[str, Any], *, total_s: float) -> tuple[dict[str, Any], bool]:
    """Ask for the ingestion of an upload; the one that there is, and whether it is new."""
    made = tx.row(
        "ingestion.add",
        id=make_id(INGESTION),
        upload_id=upload["id"],
        instance_id=upload["instance_id"],
        tenant=upload["tenant"],
        total_us=round(total_s * 1_000_000),
    )
    if made is None:
        twin = tx.row("ingestion.of_upload", upload_id=upload["id"])
        assert twin is not None
        return shown(_row(tx, twin[0])), False
    jobs.enqueue(INGEST, {"ingestionId": made[0]}, queue=QUEUE, tenant=upload["tenant"], tx=tx)
    return shown(_row(tx, made[0])), True


def show(tx: Tx, ingestion_id: str, caller: Caller) -> dict[str, Any]:
    """An ingestion.

    Raises:
        Failure: INGESTION_NOT_FOUND, also for one of another tenant.
    """
    found = tx.records("ingestion.show", id=ingestion_id)
    if not found or not caller.sees(found[0]["tenant"]):
        raise INGESTION_NOT_FOUND(ingestionId=ingestion_id)
    return shown(found[0])


def listed(tx: Tx, instance_id: str, caller: Caller, *, before: str, count: int) -> list[dict[str, Any]]:
    """Ingestions of an instance, newest first.

    Raises:
        Failure: INSTANCE_NOT_FOUND.
    """
    instances.visible(tx, instance_id, caller)
    found = tx.records("ingestion.listed", instance_id=instance_id, before=before or LAST, count=count)
    return [shown(row) for row in found]


def shown_upload(row: dict[str, Any]) -> dict[str, Any]:
    """An upload as the API tells it."""
    return {
        "uploadId": row["id"],
        "instanceId": row["instance_id"],
        "filename": row["filename"],
        "contentType": row["content_type"],
        "size": row["bytes"],
        "expiresAt": utc_text(row["expires_us"]),
        "createdAt": utc_text(row["created_us"]),
    }


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """An ingestion as the API tells it."""
    return {
        "ingestionId": row["id"],
        "uploadId": row["upload_id"],
        "instanceId": row["instance_id"],
        "filename": row["filename"],
        "status": row["status"],
        "attempts": row["attempts"],
        "code": row["code"],
        "nextAttemptAt": None if row["retry_us"] is None else utc_text(row["retry_us"]),
        "givesUpAt": utc_text(row["give_up_us"]),
        "createdAt": utc_text(row["created_us"]),
        "updatedAt": utc_text(row["changed_us"]),
    }


def file_of(row: dict[str, Any]) -> Announced:
    """The file of an upload's row."""
    return Announced(id=row["id"], bytes=row["bytes"], content_type=row["content_type"], expires_us=row["expires_us"])


def _row(tx: Tx, ingestion_id: str) -> dict[str, Any]:
    return tx.records("ingestion.show", id=ingestion_id)[0]
