"""What can go wrong with a conversion: one set of codes for replies, job records, logs and the page.

The lines are what a person reads, word for word. What really happened goes into the log and the journal.
"""

from __future__ import annotations

from dataclasses import replace

from holdfast.catalog import Blame, Catalog, Fault, Severity

CONVERSION_FAULTS = Catalog("conversion", docs="/errors/")
_fault = CONVERSION_FAULTS.fault

NOT_PDF = _fault(
    "NOT_PDF",
    status=400,
    says="Only PDF files are supported.",
    technical="the file does not begin like a PDF",
    causes=("a file of another kind", "a PDF that was damaged on its way", "an empty file"),
    remedy="Choose a PDF. The content decides, not the name.",
    related=("TOO_LARGE",),
)
TOO_LARGE = _fault(
    "TOO_LARGE",
    status=413,
    says="File exceeds 50 MB limit.",
    causes=("the file has more bytes than one upload may have",),
    remedy="Split the file, or reduce the resolution of its images.",
    related=("NOT_PDF",),
)
GW_4XX = _fault(
    "GW_4XX",
    status=422,
    says="Couldn’t convert this file with the selected mapping.",
    technical="the gateway answered {upstream_status}: {answer}",
    causes=("a mapping that the gateway does not have", "a broken or encrypted PDF", "a PDF with too many pages"),
    remedy="Choose another mapping, or repair the file; trying the same again ends the same.",
    examples=({"upstream_status": 406, "answer": "Unsupported mapping."},),
    related=("GW_5XX",),
)
GW_5XX = _fault(
    "GW_5XX",
    status=502,
    says="Converter service is having an issue. Try again later.",
    says_retrying="Converter service is having an issue. We’ll retry shortly.",
    technical="the gateway cannot be used: {reason}",
    retry=True,
    causes=("the gateway is down, overloaded or restarting", "its answer was cut off or unreadable"),
    remedy="Look at the gateway's health, log and memory. While its breaker is open, jobs wait.",
    examples=({"upstream_status": 503, "reason": "HTTP 503"},),
    severity=Severity.WARNING,
    related=("GW_TIMEOUT",),
)
GW_TIMEOUT = _fault(
    "GW_TIMEOUT",
    status=504,
    says="Conversion took too long.",
    says_retrying="Conversion is taking too long. We’ll retry.",
    technical="the gateway did not answer within {timeout_s} s",
    retry=True,
    causes=("the gateway hangs or is overloaded", "a file that takes longer than the time limit"),
    remedy="Look at the gateway's load; raise HOLDFAST_CONVERSION_GATEWAY_TIMEOUT_S for heavy files.",
    examples=({"timeout_s": 90},),
    severity=Severity.WARNING,
    related=("GW_5XX",),
)
IO_ERROR = _fault(
    "IO_ERROR",
    status=500,
    says="Storage issue. Try again later.",
    says_retrying="Temporary storage issue. We’ll retry.",
    technical="the storage failed: {reason}",
    retry=True,
    causes=("the disk is full or read-only", "S3 does not answer or refuses the credentials"),
    remedy="Check the free space, the permissions and the credentials of the storage.",
    examples=({"reason": "STORAGE_UNAVAILABLE"},),
    severity=Severity.CRITICAL,
)
NOT_READY = _fault(
    "NOT_READY",
    status=409,
    says="Conversion not finished yet.",
    retry=True,
    blame=Blame.CLIENT,
    causes=("the job is queued, in work, or has failed",),
    remedy="Ask again in a moment.",
    related=("EXPIRED",),
)
EXPIRED = _fault(
    "EXPIRED",
    status=404,
    says="File was removed by retention. Re-upload to regenerate.",
    technical="there is no such file any more",
    causes=("the retention time is over", "the file was lost in the storage"),
    remedy="Upload the PDF again.",
    related=("NOT_READY",),
)
FORBIDDEN = _fault(
    "FORBIDDEN",
    status=403,
    says="This file isn’t yours.",
    causes=("the job was uploaded in another session",),
    remedy="Use the browser with which it was uploaded.",
)
QUOTA_EXCEEDED = _fault(
    "QUOTA_EXCEEDED",
    status=429,
    says="You have too many files here. Delete some, or wait until the oldest expire.",
    technical="the {whose} holds {held} of {most} {what}",
    causes=("one session, or one address, has uploaded more than it may keep at a time",),
    remedy="Delete files that are done; failed ones go after hours, the others after days.",
    examples=({"whose": "session", "what": "bytes", "held": 1_073_000_000, "most": 1_073_741_824},),
    related=("STORE_FULL", "TOO_LARGE"),
)
STORE_FULL = _fault(
    "STORE_FULL",
    status=503,
    says="There is no room for more files right now. Try again later.",
    technical="{what}: {held} of {most}",
    retry=True,
    blame=Blame.SERVER,
    causes=("all uploads together take up what they may", "too many uploads are on their way at once"),
    remedy="Shorten the retention or raise HOLDFAST_CONVERSION_STORE_BYTES_MAX; look who uploads so much.",
    examples=({"what": "bytes", "held": 21_474_000_000, "most": 21_474_836_480},),
    severity=Severity.WARNING,
    related=("QUOTA_EXCEEDED", "IO_ERROR"),
)
UNKNOWN = _fault(
    "UNKNOWN",
    status=500,
    says="Something unexpected went wrong.",
    technical="an error that none of the other codes describes",
    retry=True,
    causes=("a bug", "the worker was lost with every attempt"),
    remedy="The job's timeline in the console has the reason.",
    severity=Severity.WARNING,
)


def too_large(bytes_max: int) -> Fault:
    """TOO_LARGE for the limit in force; only another limit than the usual one needs another sentence."""
    if bytes_max == 50 * 1_048_576:
        return TOO_LARGE
    size = f"{bytes_max // 1_048_576} MB" if bytes_max >= 1_048_576 else f"{bytes_max} bytes"
    return replace(TOO_LARGE, says=f"File exceeds {size} limit.")
