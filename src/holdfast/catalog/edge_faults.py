"""The faults of calling others over HTTP. They belong to the core catalog."""

from __future__ import annotations

from holdfast.catalog.core import CORE
from holdfast.catalog.fault import Blame, Severity

_fault = CORE.fault

RESPONSE_TOO_LARGE = _fault(
    "RESPONSE_TOO_LARGE",
    status=502,
    says="The other side sent more than we accept.",
    technical="the reply of {host} is larger than {bytes_max} bytes",
    causes=("the address serves something else than expected", "a small body that unpacks into a huge one"),
    remedy="Ask for less, or raise the limit of this call if replies of that size are right.",
    severity=Severity.WARNING,
    related=("INVALID_RESPONSE",),
)
REDIRECT_REFUSED = _fault(
    "REDIRECT_REFUSED",
    status=502,
    says="The other side sent us elsewhere, and we did not go.",
    technical="{host} redirects: {reason}",
    causes=("the service has moved", "a loop of redirects", "a redirect from https to http"),
    remedy="Call the final address, or allow redirects for this call.",
    related=("ADDRESS_REFUSED",),
)
ADDRESS_REFUSED = _fault(
    "ADDRESS_REFUSED",
    status=400,
    says="This address cannot be called.",
    technical="{host}: {reason} {kind}",
    blame=Blame.CLIENT,
    causes=(
        "a name that leads to a private, loopback or otherwise special address",
        "a scheme, port or spelling that is not allowed",
    ),
    remedy="Use a public http or https address; in development, allow the exact host and port.",
    severity=Severity.WARNING,
    related=("DNS_FAILED", "REDIRECT_REFUSED"),
)
