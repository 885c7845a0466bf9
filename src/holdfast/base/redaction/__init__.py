"""Nothing secret leaves: masked by type, by the name of a field, and by what secrets look like inside a text.

One redactor serves logs, tracebacks, pages, commands and error bodies, so that all of them hide the same things.
"""

from holdfast.base.redaction.lines import one_line, printable
from holdfast.base.redaction.names import is_secret
from holdfast.base.redaction.texts import TEXT_CHARS_MAX, redacted_text
from holdfast.base.redaction.values import redacted, redacted_facts, redacted_json

__all__ = [
    "TEXT_CHARS_MAX",
    "is_secret",
    "one_line",
    "printable",
    "redacted",
    "redacted_facts",
    "redacted_json",
    "redacted_text",
]
