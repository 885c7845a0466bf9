"""What a form brings: read under bounds, before anything is done with it."""

from __future__ import annotations

from urllib.parse import parse_qsl

from holdfast.catalog.core import BAD_REQUEST, PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE
from holdfast.http.asgi import Receive, Scope, header

FORM_BYTES_MAX = 16_384
FORM_FIELDS_MAX = 50
FORM_TYPE = "application/x-www-form-urlencoded"


async def read_form(scope: Scope, receive: Receive) -> dict[str, str]:
    """The fields of the form; of one that comes twice the last counts.

    Raises:
        Failure: UNSUPPORTED_MEDIA_TYPE, PAYLOAD_TOO_LARGE or BAD_REQUEST.
    """
    if header(scope, "content-type").partition(";")[0].strip().lower() != FORM_TYPE:
        raise UNSUPPORTED_MEDIA_TYPE()
    body = await _body(receive)
    try:
        pairs = parse_qsl(body.decode("ascii"), max_num_fields=FORM_FIELDS_MAX, keep_blank_values=True)
    except ValueError:
        raise BAD_REQUEST("The form cannot be read.") from None
    return {name: value.replace("\0", "") for name, value in pairs}


async def _body(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise BAD_REQUEST("The form did not arrive.")
        body += bytes(message.get("body", b""))
        if len(body) > FORM_BYTES_MAX:
            raise PAYLOAD_TOO_LARGE()
        if not message.get("more_body", False):
            return body


def safe_back(path: str) -> str:
    """Where to go after a form: a path below our own root, whatever was sent."""
    usable = path.startswith("/") and not path.startswith("//") and path.isprintable() and "\\" not in path
    return path if usable and path.isascii() else "/"
