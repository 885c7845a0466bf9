"""The endpoints of a store: added, changed, disabled, given new secrets. Each change is one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

from holdfast.base import Secret, limits, new_id, prefixed_id
from holdfast.catalog.core import BAD_REQUEST
from holdfast.delivery.endpoint import Endpoint, EndpointSettings, of_row, secret_place
from holdfast.delivery.faults import ENDPOINT_NOT_FOUND
from holdfast.delivery.signing import SECRETS_MAX, SecretInvalid, Signer
from holdfast.store import Row, Store, Tx
from holdfast.store.sealing import is_current, seal, unseal

OVERLAP_S = 86_400.0
RESEAL_ROWS = 100
ENDPOINTS_MAX = 1_000
"""For each tenant: every event looks at all of them."""
REASON_CHARS_MAX = 500
BREAKER = "webhook:"
"""The breaker of an endpoint is named by this and its id."""
SUBJECT = "endpoint:"
"""What happens to an endpoint is in the journal under this and its id."""
SETTINGS = frozenset(
    {"url", "event_types", "scheme", "headers", "delays_s", "timeout_s", "retry_after_max_s", "in_flight_max",
     "rate_limit", "ordered"}
)  # fmt: skip


class Endpoints:
    """Who is told: all endpoints of a store, or those of one tenant. Threads may share it."""

    def __init__(self, store: Store, schemes: Mapping[str, Signer], *, tenant: str | None = None) -> None:
        """
        Args:
            tenant: whose endpoints; those of others are not there. None is everybody's.
        """
        self.store = store
        self.tenant = tenant
        self._schemes = schemes

    def add(
        self,
        url: str,
        *,
        secret: Secret | None = None,
        tenant: str | None = None,
        endpoint_id: str | None = None,
        tx: Tx | None = None,
        **settings: Unpack[EndpointSettings],
    ) -> Endpoint:
        """Tell this address of events from now on; without a secret one is made.

        Args:
            endpoint_id: an id that nobody has, from `new_endpoint_id`; without one it is made.
            tx: a transaction to do it in.
            settings: as the fields of `Endpoint`.

        Raises:
            Failure: BAD_REQUEST names the field.
        """
        tenant = owner(self.tenant, tenant)
        endpoint = Endpoint(id=endpoint_id or new_endpoint_id(), url=url, tenant=tenant, **_read(settings))
        made = self._usable(endpoint.scheme, secret)

        def phase(tx: Tx) -> Endpoint:
            found = tx.row("delivery.count_endpoints", tenant=tenant)
            if found is not None and found[0] >= ENDPOINTS_MAX:
                raise BAD_REQUEST("{field} has {most} endpoints already.", field="tenant", most=ENDPOINTS_MAX)
            tx.run("delivery.add_endpoint", tenant=tenant, **endpoint.columns())
            sealed = seal(made, secret_place(endpoint.id))
            tx.run("delivery.add_secret", id=new_id(), endpoint_id=endpoint.id, secret=sealed)
            _note(tx, endpoint.id, "added", None)
            return show(tx, endpoint.id)

        return self.store.atomic(phase) if tx is None else phase(tx)

    def show(self, endpoint_id: str) -> Endpoint:
        """One endpoint with its secrets in force.

        Raises:
            Failure: ENDPOINT_NOT_FOUND.
        """
        return self.store.atomic(lambda tx: show(tx, endpoint_id, tenant=self.tenant), write=False)

    def list(self, *, tenant: str | None = None, count: int = 50, after: str = "") -> Sequence[Endpoint]:
        """A page in the order of their ids; `after` is the last id of the page before."""
        count = max(1, min(count, limits().page_rows_max))
        tenant = tenant if self.tenant is None else owner(self.tenant, tenant)

        def phase(tx: Tx) -> Sequence[Endpoint]:
            rows = tx.rows("delivery.endpoints", tenant=tenant, after=after, count=count)
            return [of_row(row, tx.rows("delivery.secrets", endpoint_id=row[0])) for row in rows]

        return self.store.atomic(phase, write=False)

    def update(self, endpoint_id: str, *, tx: Tx | None = None, **changes: Any) -> Endpoint:
        """Change settings; what is under way already keeps its number of attempts.

        Args:
            tx: a transaction to do it in.

        Raises:
            Failure: ENDPOINT_NOT_FOUND; BAD_REQUEST names the field.
        """
        settings = _read(changes)

        def phase(tx: Tx) -> Endpoint:
            changed = replace(_held(tx, endpoint_id, self.tenant), **settings)
            for held in changed.secrets:
                self._usable(changed.scheme, held.secret)
            tx.run("delivery.update_endpoint", **changed.columns())
            _reseal_secrets(tx, endpoint_id)
            _note(tx, endpoint_id, "updated", ", ".join(sorted(changes)))
            return changed

        return self.store.atomic(phase, repeatable=True) if tx is None else phase(tx)

    def disable(self, endpoint_id: str, *, reason: str) -> bool:
        """Send nothing more; False when it was disabled before.

        Raises:
            Failure: ENDPOINT_NOT_FOUND; BAD_REQUEST when there is no reason.
        """
        return self.store.atomic(lambda tx: disable_endpoint(tx, endpoint_id, reason, tenant=self.tenant))

    def enable(self, endpoint_id: str, *, reason: str | None = None) -> bool:
        """Send again; False when it was enabled. What it missed meanwhile is among the dead letters.

        Raises:
            Failure: ENDPOINT_NOT_FOUND; BAD_REQUEST when the reason is too long.
        """
        return self.store.atomic(lambda tx: enable_endpoint(tx, endpoint_id, reason, tenant=self.tenant))

    def remove(self, endpoint_id: str, *, reason: str | None = None) -> None:
        """Forget an endpoint and its secrets for good.

        Nothing is published for it any more. What is under way is not sent: it ends among the undelivered events, with
        the code ENDPOINT_NOT_FOUND, so that nobody misses it. Within a second no worker sends to it.

        Raises:
            Failure: ENDPOINT_NOT_FOUND; BAD_REQUEST when the reason is too long.
        """
        self.store.atomic(lambda tx: remove_endpoint(tx, endpoint_id, reason, tenant=self.tenant))

    def rotate_secret(
        self, endpoint_id: str, *, secret: Secret | None = None, overlap_s: float = OVERLAP_S, tx: Tx | None = None
    ) -> Secret:
        """Put a new secret in force; the old ones stay so for the overlap. Where the scheme has room, all of them sign.

        Args:
            tx: a transaction to do it in.

        Raises:
            Failure: ENDPOINT_NOT_FOUND; BAD_REQUEST names the field.
        """
        if not 0 <= overlap_s <= limits().delay_s_max:
            raise BAD_REQUEST("{field} is a number of seconds between 0 and a week.", field="overlap_s")
        secret_id = new_id()

        def phase(tx: Tx) -> Secret:
            endpoint = _held(tx, endpoint_id, self.tenant)
            made = self._usable(endpoint.scheme, secret)
            tx.run("delivery.forget_secrets", endpoint_id=endpoint_id)
            if overlap_s and len(endpoint.secrets) >= SECRETS_MAX:
                raise BAD_REQUEST("{field} were rotated too often; wait until the old ones expire.", field="secrets")
            sealed = seal(made, secret_place(endpoint_id))
            tx.run("delivery.add_secret", id=secret_id, endpoint_id=endpoint_id, secret=sealed)
            tx.run(
                "delivery.expire_secrets",
                endpoint_id=endpoint_id,
                kept=secret_id,
                overlap_us=int(overlap_s * 1_000_000),
            )
            _note(tx, endpoint_id, "secret_rotated", None)
            return made

        return self.store.atomic(phase) if tx is None else phase(tx)

    def reseal(self) -> int:
        """Encrypt what is stored under another key, or under none, with the key in force; how many endpoints changed.

        Raises:
            Failure: SECRET_UNREADABLE; what was done before it stays done.
        """
        after, changed = "", 0
        while rows := self.store.atomic(partial(_stored, after=after), write=False):
            after = rows[-1][0]
            stale = sorted({row[0] for row in rows if not all(is_current(text) for text in row[1:] if text != "{}")})
            for endpoint_id in stale:
                changed += self.store.atomic(partial(_resealed, endpoint_id=endpoint_id), repeatable=True)
        return changed

    def _usable(self, scheme: str, secret: Secret | None) -> Secret:
        signer = self._schemes.get(scheme)
        if signer is None:
            raise BAD_REQUEST("{field} is one of {known}.", field="scheme", known=", ".join(sorted(self._schemes)))
        made = signer.new_secret() if secret is None else secret
        if not isinstance(made, Secret):
            raise BAD_REQUEST("{field} is a Secret.", field="secret")
        try:
            signer.check_secret(made)
        except SecretInvalid as wrong:
            raise BAD_REQUEST("{field} cannot sign: {why}.", field="secret", why=str(wrong)) from wrong
        return made


def new_endpoint_id() -> str:
    """An id for a new endpoint."""
    return prefixed_id("ep")


def owner(tenant: str | None, named: str | None) -> str:
    """The tenant that is meant, where these may be those of one tenant and a call may name one.

    Raises:
        Failure: BAD_REQUEST when these are those of another one.
    """
    if tenant is None or named in {None, "", tenant}:
        return named or tenant or ""
    raise BAD_REQUEST("{field} is not the tenant that this is for.", field="tenant")


def show(tx: Tx, endpoint_id: str, *, tenant: str | None = None) -> Endpoint:
    """One endpoint with its secrets in force.

    Args:
        tenant: whose it has to be; None is everybody's.

    Raises:
        Failure: ENDPOINT_NOT_FOUND.
    """
    row = tx.row("delivery.endpoint", id=endpoint_id)
    if row is None or tenant not in {None, row[1]}:
        raise ENDPOINT_NOT_FOUND(endpoint_id=endpoint_id)
    return of_row(row, tx.rows("delivery.secrets", endpoint_id=endpoint_id))


def disable_endpoint(tx: Tx, endpoint_id: str, reason: str, *, tenant: str | None = None) -> bool:
    """Send nothing more; False when it was disabled before.

    Raises:
        Failure: ENDPOINT_NOT_FOUND; BAD_REQUEST when there is no reason.
    """
    _check_reason(reason)
    _held(tx, endpoint_id, tenant)
    if tx.row("delivery.disable", id=endpoint_id, reason=reason) is None:
        return False
    _note(tx, endpoint_id, "disabled", reason)
    return True


def enable_endpoint(tx: Tx, endpoint_id: str, reason: str | None, *, tenant: str | None = None) -> bool:
    """Send again; False when it was enabled.

    Raises:
        Failure: ENDPOINT_NOT_FOUND; BAD_REQUEST when the reason is too long.
    """
    if reason is not None:
        _check_reason(reason)
    _held(tx, endpoint_id, tenant)
    if tx.row("delivery.enable", id=endpoint_id) is None:
        return False
    _note(tx, endpoint_id, "enabled", reason)
    return True


def remove_endpoint(tx: Tx, endpoint_id: str, reason: str | None, *, tenant: str | None = None) -> None:
    """Delete an endpoint, its secrets and its breaker.

    Raises:
        Failure: ENDPOINT_NOT_FOUND; BAD_REQUEST when the reason is too long.
    """
    if reason is not None:
        _check_reason(reason)
    _held(tx, endpoint_id, tenant)
    tx.run("delivery.remove_endpoint", id=endpoint_id)
    tx.run("delivery.forget_breaker", name=BREAKER + endpoint_id)
    tx.run("delivery.forget_breaker_counts", name=BREAKER + endpoint_id)
    _note(tx, endpoint_id, "removed", reason)


def _held(tx: Tx, endpoint_id: str, tenant: str | None = None) -> Endpoint:
    tx.row("delivery.hold_endpoint", id=endpoint_id)
    return show(tx, endpoint_id, tenant=tenant)


def _stored(tx: Tx, *, after: str) -> Sequence[Row]:
    return tx.rows("delivery.stored_secrets", after=after, count=RESEAL_ROWS)


def _resealed(tx: Tx, *, endpoint_id: str) -> bool:
    """Write all secrets of an endpoint again; False when it is gone."""
    if tx.row("delivery.hold_endpoint", id=endpoint_id) is None:
        return False
    tx.run("delivery.update_endpoint", **show(tx, endpoint_id).columns())
    _reseal_secrets(tx, endpoint_id)
    return True


def _reseal_secrets(tx: Tx, endpoint_id: str) -> None:
    for secret_id, stored in tx.rows("delivery.secrets_of", endpoint_id=endpoint_id):
        if not is_current(stored):
            place = secret_place(endpoint_id)
            tx.run("delivery.reseal_secret", id=secret_id, secret=seal(unseal(stored, place), place), stored=stored)


def _check_reason(reason: object) -> None:
    if not isinstance(reason, str) or not 1 <= len(reason) <= REASON_CHARS_MAX:
        raise BAD_REQUEST("{field} has 1 to {most} characters.", field="reason", most=REASON_CHARS_MAX)


def _note(tx: Tx, endpoint_id: str, verb: str, reason: str | None) -> None:
    tx.run("queue.note", subject=SUBJECT + endpoint_id, verb=verb, queue="", reason=reason)


def _read(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as callers write them: lists for tuples, plain text for header values.

    Raises:
        Failure: BAD_REQUEST names one that is not a setting.
    """
    unknown = settings.keys() - SETTINGS
    if unknown:
        known = ", ".join(sorted(SETTINGS))
        raise BAD_REQUEST("An endpoint has no setting {field}; it has {known}.", field=min(unknown), known=known)
    read = dict(settings)
    for name in ("event_types", "delays_s"):
        if isinstance(read.get(name), list | set):
            read[name] = tuple(read[name])
    given = read.get("headers")
    if isinstance(given, Mapping):
        read["headers"] = {name: Secret(value) if isinstance(value, str) else value for name, value in given.items()}
    return read
