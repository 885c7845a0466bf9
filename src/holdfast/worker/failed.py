"""A failed job, as it is reported to the caller that waited for it: its failure, made again from its row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from holdfast.base import Private
from holdfast.catalog import CORE, Blame, Catalog, Failure, Fault, Remote


def failure_of(job: Mapping[str, Any], catalog: Catalog | None) -> Failure:
    """The failure, under the fault that the catalog or the core declares; status 500 where neither does."""
    code, message, technical = job["error_code"], job["error_message"], job["error_technical"]
    found = None if catalog is None else catalog.get(code)
    fault = found or CORE.get(code) or Fault(code=code, status=500, says=message or code, blame=Blame.SERVER)
    details = {"job_id": job["id"]}
    told = (job["remote_status"], job["remote_code"] or "", job["remote_message"] or "")
    remote = Remote(*told) if any(told) else None
    if technical is None:
        return Failure(fault, message, details=details, remote=remote)
    # As a detail, so that nothing in braces is filled a second time; a private one, so that no client sees it.
    # What the upstream said is a field of its own, which the technical line tells again.
    details["technical"] = Private(technical.replace(f" [upstream: {remote}]", ""))
    return Failure(replace(fault, technical="{technical}"), message, details=details, remote=remote)
