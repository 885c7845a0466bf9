"""The codes and the lines are a contract: what the seed of this system says, word for word.

Where a line promises another attempt, it is the one for the time until that; the last attempt ends with another.
"""

from __future__ import annotations

import pytest

from holdfast.catalog import Blame
from holdfast.policy import Breaker
from holdfast_systems.conversion.faults import CONVERSION_FAULTS, TOO_LARGE, too_large

CONTRACT = {
    "NOT_PDF": (400, False, "Only PDF files are supported."),
    "TOO_LARGE": (413, False, "File exceeds 50 MB limit."),
    "GW_4XX": (422, False, "Couldn’t convert this file with the selected mapping."),
    "GW_5XX": (502, True, "Converter service is having an issue. We’ll retry shortly."),
    "GW_TIMEOUT": (504, True, "Conversion is taking too long. We’ll retry."),
    "IO_ERROR": (500, True, "Temporary storage issue. We’ll retry."),
    "NOT_READY": (409, True, "Conversion not finished yet."),
    "EXPIRED": (404, False, "File was removed by retention. Re-upload to regenerate."),
    "FORBIDDEN": (403, False, "This file isn’t yours."),
    "UNKNOWN": (500, True, "Something unexpected went wrong."),
}
# Not in the seed: what protects the disk from those who upload.
QUOTAS = {"QUOTA_EXCEEDED", "STORE_FULL"}


def test_the_codes_are_these_and_no_others() -> None:
    assert {fault.code for fault in CONVERSION_FAULTS} == set(CONTRACT) | QUOTAS


@pytest.mark.parametrize("code", CONTRACT)
def test_each_code_has_its_status_its_line_and_whether_it_is_tried_again(code: str) -> None:
    fault = CONVERSION_FAULTS[code]
    assert (fault.status, fault.retryable, fault.says_retrying or fault.says) == CONTRACT[code]


@pytest.mark.parametrize("code", CONTRACT)
def test_each_code_tells_causes_and_a_remedy(code: str) -> None:
    assert CONVERSION_FAULTS[code].causes
    assert CONVERSION_FAULTS[code].remedy


def test_the_codes_that_blame_the_gateway_are_these_and_no_others() -> None:
    blaming = {fault.code for fault in CONVERSION_FAULTS if fault.blame is Blame.UPSTREAM}
    assert blaming == {"GW_5XX", "GW_TIMEOUT"}
    assert all(Breaker.blames_kind(CONVERSION_FAULTS[code]) for code in blaming)


def test_another_limit_has_another_sentence() -> None:
    assert too_large(50 * 1_048_576) is TOO_LARGE
    assert too_large(8 * 1_048_576)().message == "File exceeds 8 MB limit."
    assert too_large(2_000)().code == "TOO_LARGE"
