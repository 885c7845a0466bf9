"""Artifacts on every kind of storage: a folder, the memory, a real S3 server, and a stand-in for GCS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.artifact import Artifacts
from holdfast.testing.gcs import GcsStandIn, gcs_standin

STORAGES = ("folder", "memory", "s3", "gcs")
S3_S = 100


@pytest.fixture
def gcs() -> Iterator[GcsStandIn]:
    with gcs_standin() as standin:
        standin.create_bucket("bucket")
        yield standin


@pytest.fixture(params=STORAGES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty storage, of each kind in turn."""
    match request.param:
        case "folder":
            return str(tmp_path / "artifacts")
        case "memory":
            return "memory://"
        case "s3":
            # Of many who put the same name at once, the server lets one through each second.
            return f"{request.getfixturevalue('s3_url')}&timeout_s={S3_S}"
        case _:
            standin: GcsStandIn = request.getfixturevalue("gcs")
            return standin.url("bucket", "some/prefix")


@pytest.fixture
def artifacts(url: str) -> Artifacts:
    return Artifacts.open(url)
