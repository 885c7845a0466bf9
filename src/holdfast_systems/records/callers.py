"""Who calls: API keys with scopes, and the operator, who may speak for any account.

Always true: only the hash of a key is stored; what a key may do never changes; without a key nobody learns anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.base import now_us, utc_text
from holdfast.catalog import Failure
from holdfast.http import ApiKey, ApiKeys, Issued
from holdfast.operate import Actor, api_keys
from holdfast.store import Store, Tx
from holdfast_systems.records.faults import (
    API_KEY_EXPIRED,
    EXPIRATION_POLICY,
    INVALID_API_KEY,
    KEY_FORMAT,
    KEY_NOT_FOUND,
)
from holdfast_systems.records.model import Scope

BRAND = "rdb"
KEYS_REMEMBERED_MAX = 10_000
KEYS_LISTED_MAX = 1_000
DAY_S = 86_400.0
EVERY_SCOPE = frozenset(Scope)


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose request it is, and what it may do."""

    account_id: str
    scopes: frozenset[Scope]
    name: str
    """The visible beginning of the key, or `operator`."""


class Callers:
    """The API keys of this system. Threads may share it."""

    def __init__(self, store: Store, *, key_days: int, renewal_url: str) -> None:
        self._store = store
        self.keys = ApiKeys(store, brand=BRAND)
        self._key_days = key_days
        self._renewal_url = renewal_url
        self._scopes: dict[str, frozenset[Scope]] = {}

    def remembered(self, text: str) -> tuple[ApiKey, Caller] | None:
        """The key and the caller, if both are known without asking the store.

        Raises:
            Failure: INVALID_API_KEY, API_KEY_EXPIRED.
        """
        known = self.keys.remembered(text)
        if known is None:
            return None
        if known.refusal is not None:
            raise self.refused(known.refusal())
        assert known.key is not None
        scopes = self._scopes.get(known.key.id)
        return None if scopes is None else (known.key, _caller(known.key, scopes))

    def look(self, text: str) -> tuple[ApiKey, Caller]:
        """The key and the caller, as the store says.

        Raises:
            Failure: INVALID_API_KEY, API_KEY_EXPIRED; or the database's own.
        """
        known = self.keys.look(text)
        if known.refusal is not None:
            raise self.refused(known.refusal())
        assert known.key is not None
        return known.key, _caller(known.key, self._scopes_of(known.key.id))

    def refused(self, failure: Failure) -> Failure:
        """The refusal with the details that a caller needs."""
        if failure.code == API_KEY_EXPIRED.code:
            return API_KEY_EXPIRED(expired_at=failure.details["expired_at"], renewal_url=self._renewal_url)
        return no_key()

    def issue(
        self,
        account_id: str,
        scopes: Iterable[Scope],
        *,
        expires_us: int | None,
        actor: Actor,
        reason: str | None = None,
    ) -> tuple[Issued, list[str]]:
        """A new key, shown this once, and its scopes."""
        granted = sorted(str(scope) for scope in set(scopes))
        seconds = self._key_days * DAY_S if expires_us is None else (expires_us - now_us()) / 1_000_000

        def add_scopes(tx: Tx, issued: Issued) -> None:
            tx.run("records_access.add_key", key_id=issued.key.id, account_id=account_id, scopes=",".join(granted))

        _, issued = api_keys.create(
            self._store,
            "records",
            tenant=account_id,
            expires_s=seconds,
            brand=BRAND,
            actor=actor,
            reason=reason or f"for {account_id}: {', '.join(granted)}",
            also=add_scopes,
        )
        return issued, granted

    def list(self, account_id: str) -> Sequence[dict[str, Any]]:
        """The keys of an account, the oldest first; nothing of them that could be used."""
        rows = self._store.look("records_access.scopes_of", account_id=account_id, count=KEYS_LISTED_MAX)
        scopes = dict(rows)
        found = self.keys.list(tenant=account_id, count=KEYS_LISTED_MAX)
        return [_shown(row, account_id, scopes[row["id"]]) for row in found if row["id"] in scopes]

    def accounts(self, count: int) -> Sequence[str]:
        """Accounts that have a key or a quota, by name."""
        return [str(row[0]) for row in self._store.look("records_access.accounts", after="", count=count)]

    def revoke(self, key_id: str, *, actor: Actor, reason: str | None = None) -> None:
        """Refuse the key from now on.

        Raises:
            Failure: KEY_NOT_FOUND when it is none of ours, or was revoked before.
        """

        def check_ours(tx: Tx) -> None:
            if tx.row("records_access.account_of", key_id=key_id) is None:
                raise KEY_NOT_FOUND(key_id=key_id)

        if not api_keys.revoke(self._store, key_id, actor=actor, reason=reason, check=check_ours).changed:
            raise KEY_NOT_FOUND(key_id=key_id)

    def _scopes_of(self, key_id: str) -> frozenset[Scope]:
        found = self._store.look("records_access.scopes", key_id=key_id)
        if not found:
            raise no_key()  # a key of somebody else who shares the store
        if len(self._scopes) >= KEYS_REMEMBERED_MAX:
            self._scopes.clear()
        scopes = self._scopes[key_id] = frozenset(Scope(one) for one in found[0][0].split(","))
        return scopes


def no_key() -> Failure:
    """INVALID_API_KEY with what a key looks like."""
    return INVALID_API_KEY(key_format=KEY_FORMAT, expiration_policy=EXPIRATION_POLICY)


def operator(account_id: str) -> tuple[ApiKey, Caller]:
    """The operator, speaking for an account."""
    key = ApiKey(id="operator", prefix="operator", name="operator", tenant=account_id, expires_us=None)
    return key, Caller(account_id, EVERY_SCOPE, "operator")


def _caller(key: ApiKey, scopes: frozenset[Scope]) -> Caller:
    return Caller(key.tenant, scopes, key.prefix)


def _shown(row: dict[str, Any], account_id: str, scopes: str) -> dict[str, Any]:
    def moment(at_us: int | None) -> str | None:
        return None if at_us is None else utc_text(at_us)

    return {
        "key_id": row["id"],
        "account_id": account_id,
        "prefix": row["prefix"],
        "scopes": scopes.split(","),
        "created_at": moment(row["created_us"]),
        "expires_at": moment(row["expires_us"]),
        "revoked_at": moment(row["revoked_us"]),
    }
