"""What can go wrong in the gateway: its own catalog, spoken over HTTP.

A 4xx says that this file or this request cannot work, now or later; a 5xx says that it may work in a moment. Only
`CONVERTER_BUSY` names a time: it says that the gateway is well and has no place, and nothing about the file.
"""

from __future__ import annotations

from holdfast.catalog import CORE, Blame, Catalog, Severity

GATEWAY_FAULTS = Catalog("conversion.gateway", docs="/errors/", extends=(CORE,))
_fault = GATEWAY_FAULTS.fault

UNSUPPORTED_MAPPING = _fault(
    "UNSUPPORTED_MAPPING",
    status=406,
    says="Unsupported mapping.",
    technical="the mapping {mapping} is none of {supported}",
    causes=("a misspelt mapping", "no mapping at all"),
    remedy="Ask for one of the mappings in the details.",
    examples=({"mapping": "markdown", "supported": ["layout", "outline", "text"]},),
)
NOT_A_PDF = _fault(
    "NOT_A_PDF",
    status=415,
    says="This is not a PDF file.",
    causes=("another kind of file under the name of a PDF", "an empty file"),
    remedy="Send a PDF.",
    related=("PDF_BROKEN",),
)
PDF_ENCRYPTED = _fault(
    "PDF_ENCRYPTED",
    status=415,
    says="This PDF is locked with a password.",
    causes=("opening the file needs a password", "an encryption that the converter does not know"),
    remedy="Save it without the password, then send it again.",
    related=("PDF_BROKEN",),
)
PDF_BROKEN = _fault(
    "PDF_BROKEN",
    status=400,
    says="This PDF is damaged and cannot be read.",
    technical="the PDF cannot be read: {reason}",
    causes=("the file was cut off on its way", "the program that wrote it made a mistake", "it has no pages"),
    remedy="Open it in a viewer and save it anew, then send it again.",
    examples=({"reason": "truncated"}, {"reason": "no_pages"}, {"reason": "page", "page": 7}),
    related=("NOT_A_PDF", "PDF_ENCRYPTED"),
)
TOO_MANY_PAGES = _fault(
    "TOO_MANY_PAGES",
    status=413,
    says="This PDF has too many pages.",
    technical="{pages} pages where {pages_max} are allowed",
    remedy="Split the file into parts.",
    examples=({"pages": 3_001, "pages_max": 2_000},),
    related=("CONVERSION_TOO_HEAVY",),
)
CONVERSION_TOO_HEAVY = _fault(
    "CONVERSION_TOO_HEAVY",
    status=413,
    says="This PDF is too complex to convert.",
    technical="the conversion went over its limit of {reason}",
    causes=("a few bytes that unpack into a great many", "drawings or tables of enormous size"),
    remedy="Split or simplify the file; the limits are settings of the gateway.",
    examples=({"reason": "cpu"}, {"reason": "memory"}, {"reason": "crash"}),
    severity=Severity.WARNING,
    related=("TOO_MANY_PAGES", "RESULT_TOO_LARGE"),
)
RESULT_TOO_LARGE = _fault(
    "RESULT_TOO_LARGE",
    status=413,
    says="The XML of this PDF would be too large.",
    technical="the XML has more than {bytes_max} bytes",
    remedy="Split the file into parts, or ask for the mapping `text`.",
    related=("CONVERSION_TOO_HEAVY",),
)
CONVERTER_BUSY = _fault(
    "CONVERTER_BUSY",
    status=503,
    says="The converter is busy. Try again in a moment.",
    retry=True,
    blame=Blame.SERVER,
    causes=("more conversions at once than the gateway runs and keeps waiting",),
    remedy="Wait for the time in Retry-After, or run fewer at once.",
    related=("CONVERSION_STARVED",),
)
CONVERSION_STARVED = _fault(
    "CONVERSION_STARVED",
    status=503,
    says="The conversion did not finish in time. Try again in a moment.",
    technical="the conversion was not done after {wall_s} s, though it used less than its CPU time",
    retry=True,
    blame=Blame.SERVER,
    causes=("the machine does too much else", "a disk that does not answer"),
    remedy="Look at the machine's load; give the gateway fewer processes.",
    severity=Severity.WARNING,
    related=("CONVERTER_BUSY", "CONVERTER_LOST"),
)
CONVERTER_LOST = _fault(
    "CONVERTER_LOST",
    status=503,
    says="The converter stopped in the middle. Try again in a moment.",
    technical="the process that converts ended: {reason}",
    retry=True,
    blame=Blame.SERVER,
    causes=("the process was killed, by an operator or for want of memory", "it cannot be started"),
    remedy="A new process is started by itself; look at the gateway's log if it happens again.",
    severity=Severity.WARNING,
    related=("CONVERSION_TOO_HEAVY",),
)
