"""What a form brings: read under bounds, before anything is done with it."""

from __future__ import annotations

from urllib.parse import parse_qsl

from holdfast.catalog.core import BAD_REQUEST, PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE
from holdfast.http.asgi import Receive, Scope, header

FORM_BYTES_MAX = 16_384
FORM_FIELDS_MAX = 50
FORM_TYPE = "application/x-www-form-urlencoded"


async def read_form(
    scope: Scope, receive: Receive, *, bytes_max: int = FORM_BYTES_MAX, fields_max: int = FORM_FIELDS_MAX
) -> dict[str, str]:
    """The fields of the form; of one that comes twice the last counts.

    Raises:
        Failure: UNSUPPORTED_MEDIA_TYPE, PAYLOAD_TOO_LARGE or BAD_REQUEST.
    """
    if header(scope, "content-type").partition(";")[0].strip().lower() != FORM_TYPE:
        raise UNSUPPORTED_MEDIA_TYPE()
    body = await _body(receive, bytes_max)
    try:
        pairs = parse_qsl(body.decode("ascii"), max_num_fields=fields_max, keep_blank_values=True)
    except ValueError:
        raise BAD_REQUEST("The form cannot be read.") from None
    return {name: value.replace("\0", "") for name, value in pairs}


async def _body(receive: Receive, bytes_max: int) -> bytes:
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise BAD_REQUEST("The form did not arrive.")
        body += bytes(message.get("body", b""))
        if len(body) > bytes_max:
            raise PAYLOAD_TOO_LARGE()
        if not message.get("more_body", False):
            return body
