"""The artifacts of runs: one for each step, written once under a name that follows from the run and the step.

What is found under our name is reused when it is ours: its metadata names the run and the step. Anything else there is
a conflict, and is neither adopted nor overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from holdfast.artifact import ARTIFACT_FAULTS, Artifacts, read_location
from holdfast.artifact.location import Location, Scheme
from holdfast.base import CodecError, decode, encode
from holdfast.catalog import Failure
from holdfast_systems.reports.cost import Usage, usage_of
from holdfast_systems.reports.faults import (
    ARTIFACT_CONFLICT,
    GCS_READ_FAILED,
    GCS_WRITE_FAILED,
    INVALID_STEP_INPUTS,
)
from holdfast_systems.reports.links import Links

ROOT = "flow_runs"
BYTES_MAX = 16 * 1_048_576
CHART_BYTES_MAX = 8 * 1_048_576
NOT_FOUND = ARTIFACT_FAULTS["ARTIFACT_NOT_FOUND"].code


class Kept(NamedTuple):
    """An artifact that is there."""

    uri: str
    document: Mapping[str, Any]
    created: bool

    @property
    def usage(self) -> Usage:
        """What making it has used, by its own words."""
        said = self.document.get("metadata")
        return usage_of(said.get("usage") if isinstance(said, dict) else None)


class RunArtifacts:
    """Reads and writes artifacts of steps."""

    def __init__(self, artifacts: Artifacts, location: Location, links: Links) -> None:
        self._artifacts = artifacts
        self._base = base_uri(location)
        self._links = links

    @classmethod
    def open(cls, address: str, links: Links) -> RunArtifacts:
        """The artifacts in a folder, `s3://…` or `gs://…`."""
        return cls(Artifacts.open(address), read_location(address), links)

    def uri(self, name: str) -> str:
        """Where an artifact is, for documents."""
        return f"{self._base}/{name}"

    def keep(self, run_id: str, step_id: str, document: Mapping[str, Any], *, is_valid: Callable[[Any], bool]) -> Kept:
        """Write the artifact of a step, unless ours is there already: then that one counts.

        Raises:
            Failure: GCS_WRITE_FAILED; ARTIFACT_CONFLICT when something else is there.
        """
        name = artifact_name(run_id, step_id)
        content = encode(document).encode()
        try:
            stored = self._links.storage.keyed(name).call(self._artifacts.put, name, content)
        except Failure as failure:
            if failure.code != ARTIFACT_CONFLICT.code:
                raise GCS_WRITE_FAILED(name=name, reason=failure.code) from failure
            found = self.find(run_id, step_id, is_valid=is_valid)
            if found is None:  # it was deleted in this moment
                raise GCS_WRITE_FAILED(name=name, reason=failure.code) from failure
            return found
        return Kept(self.uri(name), document, stored.created)

    def find(self, run_id: str, step_id: str, *, is_valid: Callable[[Any], bool]) -> Kept | None:
        """The artifact of a step, if it was written; None when there is none.

        Raises:
            Failure: ARTIFACT_CONFLICT when something else is under its name; GCS_READ_FAILED.
        """
        name = artifact_name(run_id, step_id)
        content = self._read(name)
        if content is None:
            return None
        document = _decoded(content)
        if document is None or not _is_ours(document, run_id, step_id):
            raise ARTIFACT_CONFLICT(name=name, reason="it is not an artifact of this step")
        if not is_valid(document):
            raise ARTIFACT_CONFLICT(name=name, reason="it is not a valid artifact of this step")
        return Kept(self.uri(name), document, created=False)

    def fetch(self, step_id: str, uri: str) -> dict[str, Any]:
        """The artifact that another step made.

        Raises:
            Failure: INVALID_STEP_INPUTS when it is missing or cannot be used; GCS_READ_FAILED.
        """
        content = self._read(self._name(step_id, uri))
        if content is None:
            raise INVALID_STEP_INPUTS(step_id=step_id, reason=f"there is nothing at {uri}")
        document = _decoded(content)
        if document is None:
            raise INVALID_STEP_INPUTS(step_id=step_id, reason=f"{uri} is not a JSON object")
        return document

    def keep_chart(self, name: str, content: bytes, *, is_ours: Callable[[bytes], bool]) -> str:
        """Write a chart, unless it is there already; its URI.

        Raises:
            Failure: GCS_WRITE_FAILED; ARTIFACT_CONFLICT when something else is there.
        """
        try:
            self._links.storage.keyed(name).call(self._artifacts.put, name, content)
        except Failure as failure:
            if failure.code != ARTIFACT_CONFLICT.code:
                raise GCS_WRITE_FAILED(name=name, reason=failure.code) from failure
            found = self._read(name, bytes_max=CHART_BYTES_MAX)
            if found is None or not is_ours(found):
                raise
        return self.uri(name)

    def chart_at(self, step_id: str, uri: str) -> bytes:
        """A chart by its URI.

        Raises:
            Failure: INVALID_STEP_INPUTS, GCS_READ_FAILED.
        """
        content = self._read(self._name(step_id, uri), bytes_max=CHART_BYTES_MAX)
        if content is None:
            raise INVALID_STEP_INPUTS(step_id=step_id, reason=f"there is nothing at {uri}")
        return content

    def _read(self, name: str, *, bytes_max: int = BYTES_MAX) -> bytes | None:
        """The content, or None where there is nothing: before a step has ended that is as it should be."""

        def look() -> bytes | None:
            try:
                return self._artifacts.get(name, bytes_max=bytes_max)
            except Failure as failure:
                if failure.code != NOT_FOUND:
                    raise
                return None

        try:
            return self._links.reading.call(look)
        except Failure as failure:
            raise GCS_READ_FAILED(name=name, reason=failure.code) from failure

    def _name(self, step_id: str, uri: str) -> str:
        prefix = f"{self._base}/"
        if not uri.startswith(f"{prefix}{ROOT}/"):
            raise INVALID_STEP_INPUTS(step_id=step_id, reason=f"{uri[:200]} is not in the storage of this system")
        return uri.removeprefix(prefix)


def artifact_name(run_id: str, step_id: str) -> str:
    """Where the artifact of a step is: one name for every attempt."""
    return f"{ROOT}/{run_id}/{step_id}.json"


def chart_name(run_id: str, step_id: str, chart: str) -> str:
    """Where a chart of a step is."""
    return f"{ROOT}/{run_id}/{step_id}/{chart}.png"


def base_uri(location: Location) -> str:
    """What the URIs of a storage begin with."""
    match location.scheme:
        case Scheme.FILE:
            return f"file://{location.folder}"
        case Scheme.MEMORY:
            return "memory:/"
    return f"{location.scheme.value}://{location.bucket}" + (f"/{location.prefix}" if location.prefix else "")


def _decoded(content: bytes) -> dict[str, Any] | None:
    try:
        found = decode(content, bytes_max=BYTES_MAX)
    except CodecError:
        return None
    return found if isinstance(found, dict) else None


def _is_ours(document: Mapping[str, Any], run_id: str, step_id: str) -> bool:
    said = document.get("metadata")
    return isinstance(said, dict) and said.get("runId") == run_id and said.get("stepId") == step_id
