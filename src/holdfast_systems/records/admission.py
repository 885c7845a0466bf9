"""The door: each request is asked who it is, whether we are open, whether there is room, and whether it may."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from holdfast.base import Secret
from holdfast.catalog.context import current_context, enter_context
from holdfast.http.access import CHALLENGE, IDENTITY_KEY, Access
from holdfast.http.asgi import Scope, header
from holdfast.http.aside import aside
from holdfast.http.exchange import Exchange
from holdfast.http.keys import ApiKey
from holdfast.http.wrong_tokens import WRONG_TOKENS, bearer, bears
from holdfast_systems.records.callers import Caller, Callers, no_key, operator
from holdfast_systems.records.faults import INSUFFICIENT_PERMISSIONS
from holdfast_systems.records.fields import problem, refused
from holdfast_systems.records.maintenance import Maintenance
from holdfast_systems.records.model import ACCOUNT_CHARS_MAX, scope_of
from holdfast_systems.records.quotas import Quotas
from holdfast_systems.records.session import Session
from holdfast_systems.records.shedding import Workers
from holdfast_systems.records.troubles import Telling

CALLER_KEY = "records.caller"
API = "/v1"
ADMIN = ("/v1/admin", "/admin")
ACCOUNT_HEADER = "x-account-id"
SOURCE_HEADER = "x-request-source"
SOURCE_SHAPE = re.compile(r"[\x20-\x7e]{1,100}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """Everything that is asked before a request is worked on."""

    callers: Callers
    token: Secret
    session: Session
    maintenance: Maintenance
    workers: Workers
    quotas: Quotas
    telling: Telling


class Admission(Access):
    """Lets requests in; their caller stands in the scope and in the context."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    async def check(self, exchange: Exchange) -> None:
        """Let the request pass.

        Raises:
            Failure: INVALID_API_KEY, API_KEY_EXPIRED, INSUFFICIENT_PERMISSIONS, TEMPORARY_UNAVAILABLE,
                SERVICE_OVERLOADED, RATE_LIMIT_EXCEEDED, QUOTA_EXCEEDED; or the database's own.
        """
        scope, doors = exchange.scope, self._doors
        path = below(scope)
        if is_admin(path):
            if not await self._is_operator(scope):
                if bearer(scope):
                    WRONG_TOKENS.note(scope)
                exchange.headers.append(CHALLENGE)
                raise no_key()
            self._know(scope, *operator(""))
            return
        if not is_api(path):
            return
        key, caller = await self._identified(exchange)
        self._know(scope, key, caller)
        await doors.maintenance.check()
        doors.workers.admit()
        needed = scope_of(scope["method"], path.removeprefix(API))
        if needed not in caller.scopes:
            raise INSUFFICIENT_PERMISSIONS(required_scope=needed.value, granted_scopes=sorted(caller.scopes))
        await doors.quotas.check(exchange, caller.account_id)

    async def _identified(self, exchange: Exchange) -> tuple[ApiKey, Caller]:
        scope, callers = exchange.scope, self._doors.callers
        if await self._is_operator(scope):
            return operator(_account(scope))
        try:
            given = _given(scope)
            if not given:
                raise no_key()
            known = callers.remembered(given)
            return known if known is not None else await aside(lambda: callers.look(given))
        except Exception:
            exchange.headers.append(CHALLENGE)
            raise

    async def _is_operator(self, scope: Scope) -> bool:
        return bears(scope, self._doors.token) or await self._doors.session.speaks(scope)

    def _know(self, scope: Scope, key: ApiKey, caller: Caller) -> None:
        scope[IDENTITY_KEY], scope[CALLER_KEY] = key, caller
        source = header(scope, SOURCE_HEADER)
        known = self._doors.telling.context(current_context(), source if SOURCE_SHAPE.match(source) else "")
        enter_context(replace(known, api_key_id=f"{key.prefix}***", account_id=caller.account_id))


def below(scope: Scope) -> str:
    """The path below the place where the system stands."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "")) or "/"


def is_api(path: str) -> bool:
    """Whether the path is one of the API's, which takes a key."""
    return path == API or path.startswith(f"{API}/")


def is_admin(path: str) -> bool:
    """Whether the path is the operator's."""
    return any(path == place or path.startswith(f"{place}/") for place in ADMIN)


def caller_of(scope: Scope) -> Caller:
    """Whose request this is; it was let in."""
    caller: Caller = scope[CALLER_KEY]
    return caller


def _account(scope: Scope) -> str:
    """The account that the operator speaks for.

    Raises:
        Failure: VALIDATION_ERROR when none is named.
    """
    account_id = header(scope, ACCOUNT_HEADER)
    if not (0 < len(account_id) <= ACCOUNT_CHARS_MAX and account_id.isprintable()):
        raise refused([problem("X-Account-Id", account_id, "required", "The operator names the account to speak for")])
    return account_id


def _given(scope: Scope) -> str:
    scheme, _, rest = header(scope, "authorization").partition(" ")
    if scheme.lower() == "bearer":
        return rest.strip()
    return header(scope, "x-api-key").strip()
