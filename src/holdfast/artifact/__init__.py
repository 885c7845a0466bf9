"""Files written once: put by name, create-only, on local disk, S3, GCS or in memory."""

from holdfast.artifact.artifacts import Artifacts
from holdfast.artifact.door import FeedEnded, fed, pieces_async
from holdfast.artifact.entries import Entry, Page, Stored
from holdfast.artifact.faults import ARTIFACT_FAULTS
from holdfast.artifact.location import Location, LocationInvalid, read_location
from holdfast.artifact.naming import checked_name
from holdfast.artifact.presign import Credentials, Presigned
from holdfast.artifact.stream import Stream

__all__ = [
    "ARTIFACT_FAULTS",
    "Artifacts",
    "Credentials",
    "Entry",
    "FeedEnded",
    "Location",
    "LocationInvalid",
    "Page",
    "Presigned",
    "Stored",
    "Stream",
    "checked_name",
    "fed",
    "pieces_async",
    "read_location",
]
