"""pytest fixtures: one S3 server for the whole run, also under xdist, and a place of its own for each test.

Use them with `pytest_plugins = ("holdfast.testing.pytest_s3",)` in the topmost `conftest.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.base import REAL
from holdfast.testing.s3 import S3Address, shared_s3


@pytest.fixture(scope="session")
def s3(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Address]:
    """The server that all workers of this run share."""
    base = tmp_path_factory.getbasetemp()
    # A worker of xdist has a folder of its own inside that of the run.
    root = base.parent if hasattr(request.config, "workerinput") else base
    with shared_s3(root) as address:
        yield address


@pytest.fixture(scope="session")
def s3_bucket(s3: S3Address) -> str:
    """The name of a bucket for the tests of this process; it goes with the server."""
    name = f"test-{REAL.token_bytes(8).hex()}"
    s3.create_bucket(name)
    return name


@pytest.fixture
def s3_url(s3: S3Address, s3_bucket: str) -> str:
    """A place in the bucket that is this test's alone; a bucket for each would take a fifth of a second to fill."""
    return s3.url(s3_bucket, f"{REAL.token_bytes(8).hex()}/prefix")
