"""Signatures of webhooks: what a scheme does, and the parts that all schemes share.

Whatever stands in a header, checking it ends in `Verified` or in a `Failure` of the catalog; nothing else is raised.
Everything secret is compared in constant time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol

from holdfast.base import Private, Secret
from holdfast.catalog import Failure
from holdfast.delivery.faults import INVALID_SIGNATURE_FORMAT, UNAUTHORIZED

HEADER_CHARS_MAX = 4_096
"""No signature of ours is longer."""
SECRETS_MAX = 16
"""Maximum number of secrets that are tried; rotation needs two."""

HeaderPair = tuple[str, str]
RawHeaders = Mapping[str, str] | Iterable[tuple[str | bytes, str | bytes]]
"""Headers as a framework has them: a mapping, or pairs of text or bytes."""
Sign = Callable[[bytes, str, int], tuple[HeaderPair, ...]]
"""Makes the headers of one body, with its event's id and the time in microseconds; the secrets are known already."""


class SecretInvalid(ValueError):
    """A secret cannot be used with the scheme; the message never shows it."""


class Verified(NamedTuple):
    """The request is genuine; what its signature covers beside the body."""

    event_id: str | None = None
    at_us: int | None = None
    """When it was signed."""
    sender: str | None = None
    """The origin whose key made the signature, where the scheme knows several."""


class Signer(Protocol):
    """Makes the headers that prove who sent a body."""

    several: bool
    """Whether one request can carry a signature for each secret in force."""

    def sign(self, body: bytes, *, event_id: str, at_us: int, secrets: Sequence[Secret]) -> tuple[HeaderPair, ...]:
        """The headers to send with the body; of the secrets the newest comes first.

        Raises:
            SecretInvalid: there is no secret, or one that the scheme cannot sign with.
        """
        ...

    def check_secret(self, secret: Secret) -> None:
        """Refuse a secret that this scheme cannot sign with.

        Raises:
            SecretInvalid: it cannot.
        """
        ...

    def new_secret(self) -> Secret:
        """A fresh secret of the kind that this scheme uses."""
        ...


class Verifier(Protocol):
    """Tells whether a request is genuine."""

    def verify(self, headers: RawHeaders, body: bytes, *, secrets: Sequence[Secret]) -> Verified:
        """What is known of the sender, when any of the secrets fits.

        Raises:
            Failure: INVALID_SIGNATURE_FORMAT, UNAUTHORIZED, SIGNATURE_EXPIRED, SIGNING_KEYS_UNAVAILABLE.
        """
        ...


def signing(signer: Signer, secrets: Sequence[Secret]) -> Sign:
    """What signs many bodies with the same secrets; a scheme may have a `signing` of its own that is quicker.

    Raises:
        SecretInvalid: there is no secret, or one that the scheme cannot sign with.
    """
    own: Callable[[Sequence[Secret]], Sign] | None = getattr(signer, "signing", None)
    if own is not None:
        return own(secrets)
    return lambda body, event_id, at_us: signer.sign(body, event_id=event_id, at_us=at_us, secrets=secrets)


class SignedHeaders:
    """The headers that a scheme asks for, whatever the capitals of their names; read once."""

    __slots__ = ("_values",)

    def __init__(self, headers: RawHeaders, names: Mapping[str | bytes, str]) -> None:
        """
        Args:
            names: those that are asked for, from `names_of`.
        """
        self._values: dict[str, str | bytes | None] = {}
        """By their names as they are asked for; None for one that stands there twice."""
        for name, value in _pairs(headers):
            known = names.get(name)
            # Servers hand names over in small letters, and most are not asked for.
            if known is None and not name.islower():
                known = names.get(_text(name).lower())
            if known is not None:
                self._values[known] = None if known in self._values else value

    def get(self, name: str) -> str | None:
        """The one value of a header; None when it is not there.

        Raises:
            Failure: INVALID_SIGNATURE_FORMAT when it stands there twice, is too long or is not plain text.
        """
        if name not in self._values:
            return None
        value = self._values[name]
        if value is None:
            raise malformed(name, "stands there twice")
        return _plain(name, value)

    def required(self, name: str) -> str:
        """The same for a header without which a request is not signed.

        Raises:
            Failure: UNAUTHORIZED when it is not there or empty; INVALID_SIGNATURE_FORMAT.
        """
        value = self.get(name)
        if not value:
            raise refused(f"there is no {name}")
        return value


def names_of(*names: str) -> Mapping[str | bytes, str]:
    """Names of headers by how servers write them: in small letters, as text or bytes."""
    return {form: name for name in names for form in (name.lower(), name.lower().encode())}


def listed(headers: RawHeaders) -> RawHeaders:
    """The headers as something that can be read more than once."""
    return headers if isinstance(headers, Mapping) else list(headers)


def malformed(header: str, reason: str) -> Failure:
    """The header cannot be read."""
    return INVALID_SIGNATURE_FORMAT(header=header, reason=reason)


def refused(reason: str) -> Failure:
    """The header can be read and proves nothing; why is for the log alone."""
    return UNAUTHORIZED(reason=Private(reason))


def hmac_sha256(key: bytes, content: bytes) -> bytes:
    """The HMAC of the content."""
    made: bytes = _hmac().digest(key, content, "sha256")
    return made


def same(one: bytes, other: bytes) -> bool:
    """Compare in constant time."""
    return bool(_hmac().compare_digest(one, other))


@cache
def _hmac() -> Any:
    import hmac  # loaded when first needed: it maps the crypto library

    return hmac


def key_bytes(secret: Secret) -> bytes:
    """A secret that is used as it is written.

    Raises:
        SecretInvalid: it is empty or has no UTF-8.
    """
    try:
        key = secret.reveal().encode()
    except UnicodeEncodeError:
        raise SecretInvalid("the secret has no UTF-8") from None
    if not key:
        raise SecretInvalid("the secret is empty")
    return key


def few(secrets: Sequence[Secret]) -> Sequence[Secret]:
    """The secrets to try.

    Raises:
        SecretInvalid: there are none, or more than anybody rotates through.
    """
    if not 1 <= len(secrets) <= SECRETS_MAX:
        raise SecretInvalid(f"{len(secrets)} secrets; between 1 and {SECRETS_MAX} can be in force")
    return secrets


def _plain(name: str, value: str | bytes) -> str:
    text = _text(value).strip(" \t")
    if len(text) > HEADER_CHARS_MAX:
        raise malformed(name, "is too long")
    if not (text.isascii() and text.isprintable()):
        raise malformed(name, "holds something else than printable ASCII")
    return text


def _pairs(headers: RawHeaders) -> Iterable[tuple[str | bytes, str | bytes]]:
    return headers.items() if isinstance(headers, Mapping) else headers


def _text(value: object) -> str:
    # Every byte has a character in latin-1, so that reading cannot fail; what is not ASCII is refused afterwards.
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
