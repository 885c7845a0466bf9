"""The faults every service meets: network, database, HTTP and Holdfast's own refusals.

A system's catalog usually extends this one and refines the words.
"""

from __future__ import annotations

from holdfast.catalog.catalog import Catalog
from holdfast.catalog.fault import Blame, Severity

CORE = Catalog("holdfast", docs="/errors/")
_fault = CORE.fault

# -- ours ------------------------------------------------------------------------------------------------------

INTERNAL_ERROR = _fault(
    "INTERNAL_ERROR",
    status=500,
    says="Something went wrong on our side.",
    technical="an exception nobody classified reached the edge",
    causes=("a bug", "a dependency failed in a way that is not declared"),
    remedy="Report the request id; the log has the reason.",
    severity=Severity.WARNING,
    related=("UNKNOWN",),
)
UNKNOWN = _fault(
    "UNKNOWN",
    status=500,
    says="Something unexpected went wrong.",
    technical="an exception that no classifier knows",
    retry=True,
    causes=("an exception type that is declared nowhere",),
    remedy="Declare the exception in the link's classifier, so that its retry is a decision and not a guess.",
    severity=Severity.WARNING,
    related=("INTERNAL_ERROR",),
)
BREAKER_OPEN = _fault(
    "BREAKER_OPEN",
    status=503,
    says="This service is paused for a moment because it has been failing.",
    technical="the breaker of {link} is open",
    retry=True,
    blame=Blame.UPSTREAM,
    causes=("too many of the last calls failed",),
    remedy="Wait for the time in Retry-After; the breaker probes by itself.",
    related=("SERVICE_UNAVAILABLE",),
)
DEADLINE_EXCEEDED = _fault(
    "DEADLINE_EXCEEDED",
    status=504,
    says="There was not enough time left to finish.",
    technical="the deadline left {left_s} s for {link}",
    blame=Blame.CLIENT,
    causes=("the caller's deadline is shorter than the work", "earlier attempts used the time up"),
    remedy="Call again with a longer deadline.",
    related=("NETWORK_TIMEOUT",),
)
RESULT_UNWANTED = _fault(
    "RESULT_UNWANTED",
    status=502,
    says="There is no result yet.",
    technical="`Retry.on_result` refused what the call returned",
    retry=True,
    blame=Blame.UPSTREAM,
    breaker=False,
    causes=("the callee answered, but not with what was waited for",),
    remedy="Wait longer, or take the last result as it is: that is what the caller gets.",
)
RATE_LIMIT_EXCEEDED = _fault(
    "RATE_LIMIT_EXCEEDED",
    status=429,
    says="Rate limit exceeded",
    retry=True,
    blame=Blame.CLIENT,
    causes=("more requests than the limit allows in its window",),
    remedy="Wait for the time in Retry-After and send more slowly.",
    related=("CONCURRENCY_EXCEEDED",),
)
CONCURRENCY_EXCEEDED = _fault(
    "CONCURRENCY_EXCEEDED",
    status=429,
    says="Too many requests are running at once.",
    retry=True,
    blame=Blame.CLIENT,
    causes=("more calls in flight than the limit allows",),
    remedy="Wait for the time in Retry-After, or run fewer at once.",
    related=("RATE_LIMIT_EXCEEDED",),
)

# -- the network -----------------------------------------------------------------------------------------------

NETWORK_TIMEOUT = _fault(
    "NETWORK_TIMEOUT",
    status=504,
    says="The other side did not answer in time.",
    retry=True,
    causes=("the callee is slow or gone", "the network drops packets"),
    remedy="Try again; what was asked for may have happened.",
    related=("GATEWAY_TIMEOUT", "DEADLINE_EXCEEDED"),
)
CONNECTION_REFUSED = _fault(
    "CONNECTION_REFUSED",
    status=503,
    says="The other side is not reachable at the moment.",
    retry=True,
    causes=("the callee is not running", "a wrong port"),
    remedy="Check that the service listens at the address.",
)
CONNECTION_RESET = _fault(
    "CONNECTION_RESET",
    status=503,
    says="The connection was interrupted.",
    retry=True,
    causes=("the callee restarted", "a proxy closed the connection"),
    remedy="Try again; what was asked for may have happened.",
)
DNS_FAILED = _fault(
    "DNS_FAILED",
    status=503,
    says="The other side could not be found at the moment.",
    retry=True,
    causes=("the name server did not answer", "a misspelt host name"),
    remedy="Check the host name and the resolver.",
)
TLS_ERROR = _fault(
    "TLS_ERROR",
    status=502,
    says="A secure connection could not be made.",
    causes=("an expired or self-signed certificate", "a certificate for another host"),
    remedy="Check the certificate's dates, names and chain.",
    severity=Severity.WARNING,
)
INVALID_RESPONSE = _fault(
    "INVALID_RESPONSE",
    status=502,
    says="The other side answered with something unreadable.",
    retry=True,
    causes=("the reply was cut off", "something that does not speak the protocol listens there"),
    remedy="Look at the reply in the log; check that the address is the right service.",
)

# -- databases -------------------------------------------------------------------------------------------------

DATABASE_CONNECTION_ERROR = _fault(
    "DATABASE_CONNECTION_ERROR",
    status=503,
    says="Unable to connect to database",
    retry=True,
    blame=Blame.SERVER,
    causes=("the database restarts or fails over", "the network between is down"),
    remedy="Wait; the connection is made again by itself.",
    # A single one needs no alert: a failover causes some. The rule for database errors alerts when they go on.
    severity=Severity.WARNING,
    related=("DATABASE_POOL_EXHAUSTED",),
)
DATABASE_READ_ONLY = _fault(
    "DATABASE_READ_ONLY",
    status=503,
    says="Nothing can be saved at the moment. Try again in a moment.",
    technical="the database takes no writes",
    retry=True,
    blame=Blame.SERVER,
    causes=("a failover: the server has become a standby", "the address leads to a standby"),
    remedy="Wait for the failover to end; give an address that leads to the server that takes writes.",
    severity=Severity.WARNING,  # as above: a planned switchover wakes nobody
    related=("DATABASE_CONNECTION_ERROR",),
)
DATABASE_POOL_EXHAUSTED = _fault(
    "DATABASE_POOL_EXHAUSTED",
    status=503,
    says="The service is busy. Try again in a moment.",
    technical="no database connection became free in time",
    retry=True,
    blame=Blame.SERVER,
    causes=("more work at once than connections", "transactions that stay open too long"),
    remedy="Raise the pool size or find the transaction that holds its connection.",
    related=("DATABASE_CONNECTION_ERROR",),
)
TRANSACTION_ROLLED_BACK = _fault(
    "TRANSACTION_ROLLED_BACK",
    status=503,
    says="The service is busy. Try again in a moment.",
    technical="the database rolled the transaction back in favour of another",
    retry=True,
    blame=Blame.SERVER,
    causes=("a serialisation conflict", "a deadlock", "another writer held the lock too long"),
    remedy="Run the whole transaction again.",
)
DATABASE_TIMEOUT = _fault(
    "DATABASE_TIMEOUT",
    status=503,
    says="The service is busy. Try again in a moment.",
    technical="a statement ran longer than its limit",
    retry=True,
    blame=Blame.SERVER,
    causes=("a slow query", "a lock held elsewhere"),
    remedy="Look at the plan of the query and at what holds its locks.",
)
DATABASE_ERROR = _fault(
    "DATABASE_ERROR",
    status=500,
    says="Something went wrong on our side.",
    technical="the database refused a statement",
    causes=("a bug in a query", "a schema that does not fit the code"),
    remedy="Report the request id; the log has the reason.",
    severity=Severity.WARNING,
)
DUPLICATE_RECORD = _fault(
    "DUPLICATE_RECORD",
    status=409,
    says="A record with these values exists already.",
    causes=("the same record was created before",),
    remedy="Read the existing record, or change the value that has to be unique.",
)
CONSTRAINT_VIOLATED = _fault(
    "CONSTRAINT_VIOLATED",
    status=422,
    says="The values contradict each other or what is stored.",
    technical="a constraint of the database refused the row",
    causes=("a reference to something that does not exist", "a value outside its range"),
    remedy="Correct the values.",
)
STORAGE_FULL = _fault(
    "STORAGE_FULL",
    status=507,
    says="There is no room left to store this.",
    retry=True,
    blame=Blame.SERVER,
    causes=("the disk is full", "a quota is used up"),
    remedy="Free space; what is tried again succeeds when there is room.",
    severity=Severity.CRITICAL,
)

# -- HTTP, as a server answers it -------------------------------------------------------------------------------

BAD_REQUEST = _fault("BAD_REQUEST", status=400, says="The request is not valid.", remedy="Correct the request.")
UNAUTHORIZED = _fault(
    "UNAUTHORIZED", status=401, says="You are not signed in.", remedy="Send a valid token or signature."
)
FORBIDDEN = _fault("FORBIDDEN", status=403, says="You may not do this.", remedy="Ask for the permission.")
NOT_FOUND = _fault("NOT_FOUND", status=404, says="There is nothing at this address.", remedy="Check the address.")
METHOD_NOT_ALLOWED = _fault(
    "METHOD_NOT_ALLOWED", status=405, says="This address does not take that method.", remedy="See the Allow header."
)
REQUEST_TIMEOUT = _fault(
    "REQUEST_TIMEOUT", status=408, says="The request took too long to arrive.", retry=True, remedy="Send it again."
)
CONFLICT = _fault(
    "CONFLICT", status=409, says="This contradicts the current state.", remedy="Read the state, then decide again."
)
GONE = _fault("GONE", status=410, says="This is no longer there.", remedy="Stop asking for it.")
PAYLOAD_TOO_LARGE = _fault(
    "PAYLOAD_TOO_LARGE", status=413, says="The request is too large.", remedy="Send less, or in parts."
)
UNSUPPORTED_MEDIA_TYPE = _fault(
    "UNSUPPORTED_MEDIA_TYPE", status=415, says="This type of content is not supported.", remedy="See the Accept header."
)
UNPROCESSABLE = _fault(
    "UNPROCESSABLE", status=422, says="The request is understood but not possible.", remedy="Correct the values."
)
TOO_EARLY = _fault("TOO_EARLY", status=425, says="Too early. Try again in a moment.", retry=True, remedy="Wait.")
NOT_IMPLEMENTED = _fault(
    "NOT_IMPLEMENTED",
    status=501,
    says="The other side cannot do this.",
    blame=Blame.UPSTREAM,
    causes=("the callee does not know the method", "it does not speak this version of HTTP"),
    remedy="Ask for something that the callee can do; asking again changes nothing.",
)
BAD_GATEWAY = _fault("BAD_GATEWAY", status=502, says="The other side has an issue.", retry=True, remedy="Try again.")
SERVICE_UNAVAILABLE = _fault(
    "SERVICE_UNAVAILABLE", status=503, says="The service is not available at the moment.", retry=True, remedy="Wait."
)
GATEWAY_TIMEOUT = _fault(
    "GATEWAY_TIMEOUT",
    status=504,
    says="The other side did not answer in time.",
    retry=True,
    remedy="Try again; what was asked for may have happened.",
)

# -- what an upstream's answer is to our own callers ---------------------------------------------------------------

UPSTREAM_ERROR = _fault(
    "UPSTREAM_ERROR",
    status=502,
    says="Another service that we need has an issue.",
    retry=True,
    causes=("the upstream answered with a 5xx",),
    remedy="Try again; what was asked for may have happened.",
    related=("BAD_GATEWAY", "SERVICE_UNAVAILABLE"),
)
UPSTREAM_REJECTED = _fault(
    "UPSTREAM_REJECTED",
    status=502,
    says="Another service that we need did not accept our request.",
    replayed=False,
    blame=Blame.SERVER,
    breaker=False,
    causes=("the upstream answered with a 4xx that is mapped to nothing", "it does not know the method (501)"),
    remedy="Look at the upstream's answer in the log; map the statuses that callers should see on the link.",
    related=("UPSTREAM_UNAUTHORIZED",),
)
UPSTREAM_UNAUTHORIZED = _fault(
    "UPSTREAM_UNAUTHORIZED",
    status=502,
    says="Another service that we need did not let us in.",
    replayed=False,
    blame=Blame.SERVER,
    breaker=False,
    causes=("this service's own token for the upstream is wrong, expired or not allowed to do this",),
    remedy="Renew the credentials that this service presents to the upstream; the caller's are not concerned.",
    severity=Severity.WARNING,
    related=("UPSTREAM_REJECTED",),
)
UPSTREAM_BUSY = _fault(
    "UPSTREAM_BUSY",
    status=503,
    says="Another service that we need asks us to wait. Try again in a moment.",
    retry=True,
    breaker=False,
    causes=("the upstream limits how often this service may call it (429)", "it asks for a repeat (408, 425)"),
    remedy="Wait for the time in Retry-After; give the link a rate that the upstream allows.",
    related=("SERVICE_UNAVAILABLE",),
)
