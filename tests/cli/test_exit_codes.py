"""Which failure ends a command with which exit code."""

from __future__ import annotations

import pytest

from holdfast.catalog import Fault
from holdfast.catalog.core import (
    BAD_REQUEST,
    DATABASE_CONNECTION_ERROR,
    DATABASE_READ_ONLY,
    INTERNAL_ERROR,
    NOT_FOUND,
    STORAGE_FULL,
)
from holdfast.cli.exit_codes import ExitCode, exit_code


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (DATABASE_CONNECTION_ERROR, ExitCode.NO_DATABASE),
        (DATABASE_READ_ONLY, ExitCode.NO_DATABASE),
        (STORAGE_FULL, ExitCode.NO_DATABASE),
        (BAD_REQUEST, ExitCode.MISUSED),
        (NOT_FOUND, ExitCode.NOT_FOUND),
        (INTERNAL_ERROR, ExitCode.FAILED),
    ],
    ids=str,
)
def test_a_failure_ends_a_command_with_the_code_of_its_kind(fault: Fault, code: ExitCode) -> None:
    assert exit_code(fault.occur()) is code
