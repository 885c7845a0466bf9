"""What can go wrong with a stored file: the catalog of artifacts, which extends the core's."""

from __future__ import annotations

from holdfast.catalog.catalog import Catalog
from holdfast.catalog.core import CORE
from holdfast.catalog.fault import Blame, Severity

ARTIFACT_FAULTS = Catalog("holdfast.artifact", docs="/errors/", extends=(CORE,))
_fault = ARTIFACT_FAULTS.fault

ARTIFACT_NOT_FOUND = _fault(
    "ARTIFACT_NOT_FOUND",
    status=404,
    says="There is no such file.",
    technical="no artifact {name}",
    causes=("a wrong name", "the artifact was deleted, for example by retention"),
    remedy="Check the name; what retention removed has to be made again.",
    examples=({"name": "reports/run-7/step-2.json"},),
)
ARTIFACT_CONFLICT = _fault(
    "ARTIFACT_CONFLICT",
    status=409,
    says="A file of this name exists already, with other content.",
    technical="the artifact {name} is taken: {reason}",
    causes=(
        "the same name was derived from two different inputs",
        "work that was expected to give the same bytes each time does not",
    ),
    remedy="Read the stored artifact and use it, or store under a name that tells the two apart.",
    related=("CONFLICT",),
)
ARTIFACT_TOO_LARGE = _fault(
    "ARTIFACT_TOO_LARGE",
    status=413,
    says="The file is too large; at most {bytes_max} bytes are allowed.",
    technical="the artifact {name} has more than {bytes_max} bytes",
    causes=("the file is larger than the limit", "a stream that does not end"),
    remedy="Send a smaller file, or raise `bytes_max`.",
    related=("PAYLOAD_TOO_LARGE",),
)
ARTIFACT_NAME_INVALID = _fault(
    "ARTIFACT_NAME_INVALID",
    status=400,
    says="A file cannot be stored under this name.",
    technical="the name of an artifact is refused: {reason}",
    causes=("a name that was taken over from outside", "a part of the name that is empty or a path"),
    remedy="Derive names from ids of your own: `reports/{run_id}/{step_id}.json`.",
)
ARTIFACT_DAMAGED = _fault(
    "ARTIFACT_DAMAGED",
    status=500,
    says="The stored file is not what was stored.",
    technical="the artifact {name} does not have the SHA-256 that was expected",
    causes=("something else wrote into the storage", "the storage damaged it", "the wrong hash was expected"),
    remedy="Delete the artifact and make it again; look for who else writes there.",
    severity=Severity.CRITICAL,
)
STORAGE_FULL = ARTIFACT_FAULTS["STORAGE_FULL"]
STORAGE_UNAVAILABLE = _fault(
    "STORAGE_UNAVAILABLE",
    status=503,
    says="The file storage does not answer at the moment.",
    retry=True,
    blame=Blame.SERVER,
    causes=("the storage restarts or is overloaded", "the network to it is down", "the disk reports errors"),
    remedy="Try again; a put that went through before its reply was lost is recognised by its content.",
    severity=Severity.WARNING,
    related=("SERVICE_UNAVAILABLE", "STORAGE_FULL"),
)
STORAGE_REFUSED = _fault(
    "STORAGE_REFUSED",
    status=500,
    says="Something went wrong on our side.",
    technical="the storage refused the request; trying again cannot help",
    blame=Blame.SERVER,
    causes=("wrong or expired credentials", "a bucket that does not exist", "a folder that may not be written"),
    remedy="Check the address, the credentials and the permissions of the storage.",
    severity=Severity.CRITICAL,
)
PRESIGN_UNSUPPORTED = _fault(
    "PRESIGN_UNSUPPORTED",
    status=501,
    says="Direct upload and download are not available here.",
    technical="this storage gives no presigned URL: {reason}",
    blame=Blame.SERVER,
    causes=("the storage is a folder, the memory or GCS", "S3 without an access key of its own"),
    remedy="Pass the content through the service, or use S3 with an access key.",
)
