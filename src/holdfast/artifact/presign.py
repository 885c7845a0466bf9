"""Presigned URLs of S3 (Signature Version 4): the holder of one may do this one thing until it expires.

The limits of an upload are signed headers: a client that sends another length or type is refused by the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.base import Secret, now_us, utc_text

EXPIRES_S_MAX = 7 * 86_400
"""S3 accepts no longer one."""
_ALGORITHM = "AWS4-HMAC-SHA256"
_UNRESERVED = "-_.~"


@dataclass(frozen=True, slots=True)
class Credentials:
    """A key pair of S3, with a session token where the keys are temporary."""

    access_key_id: str
    secret_access_key: Secret
    session_token: Secret | None = None


@dataclass(frozen=True, slots=True)
class Presigned:
    """A request that a client may make as it is: this method, this URL, exactly these headers."""

    method: str
    url: str = field(repr=False)
    """Anyone who knows it may use it; it stays out of `repr` and should stay out of logs."""
    headers: Mapping[str, str]
    expires_us: int


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs for one bucket at one endpoint."""

    base: str
    """Scheme, host and, where the bucket is part of the path, the path: `http://127.0.0.1:8333/bucket`."""
    region: str
    credentials: Credentials

    def sign(
        self,
        method: str,
        key: str,
        *,
        expires_s: int,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Presigned:
        """A URL for the object of this key, valid from now on.

        Raises:
            ValueError: the time is none that S3 accepts.
        """
        from urllib.parse import quote, urlsplit

        if not 1 <= expires_s <= EXPIRES_S_MAX:
            raise ValueError(f"expires_s is {expires_s}; S3 accepts 1 to {EXPIRES_S_MAX}")
        sent = dict(headers or {})
        begun_us = now_us() // 1_000_000 * 1_000_000
        base = urlsplit(self.base)
        path = f"{base.path}/{quote(key, safe='/' + _UNRESERVED)}" if key else base.path or "/"
        signed = {"host": base.netloc, **{name.lower(): " ".join(value.split()) for name, value in sent.items()}}
        asked = self._query(begun_us, expires_s, signed, query or {})
        signature = self._signature(begun_us, _canonical(method, path, asked, signed))
        url = f"{base.scheme}://{base.netloc}{path}?{asked}&X-Amz-Signature={signature}"
        return Presigned(method, url, sent, begun_us + expires_s * 1_000_000)

    def _query(self, begun_us: int, expires_s: int, signed: Mapping[str, str], extra: Mapping[str, str]) -> str:
        from urllib.parse import quote

        asked = {
            **extra,
            "X-Amz-Algorithm": _ALGORITHM,
            "X-Amz-Credential": f"{self.credentials.access_key_id}/{self._scope(begun_us)}",
            "X-Amz-Date": _basic(begun_us),
            "X-Amz-Expires": str(expires_s),
            "X-Amz-SignedHeaders": ";".join(sorted(signed)),
        }
        if self.credentials.session_token is not None:
            asked["X-Amz-Security-Token"] = self.credentials.session_token.reveal()
        pairs = ((quote(name, safe=_UNRESERVED), quote(value, safe=_UNRESERVED)) for name, value in asked.items())
        return "&".join(f"{name}={value}" for name, value in sorted(pairs))

    def _scope(self, begun_us: int) -> str:
        return f"{_basic(begun_us)[:8]}/{self.region}/s3/aws4_request"

    def _signature(self, begun_us: int, canonical: str) -> str:
        from hashlib import sha256

        scope = self._scope(begun_us)
        text = "\n".join((_ALGORITHM, _basic(begun_us), scope, sha256(canonical.encode()).hexdigest()))
        key = f"AWS4{self.credentials.secret_access_key.reveal()}".encode()
        for step in scope.split("/"):
            key = _keyed(key, step)
        return _keyed(key, text).hex()


def _canonical(method: str, path: str, query: str, signed: Mapping[str, str]) -> str:
    headers = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
    return "\n".join((method, path, query, headers, ";".join(sorted(signed)), "UNSIGNED-PAYLOAD"))


def _keyed(key: bytes, text: str) -> bytes:
    import hmac

    return hmac.digest(key, text.encode(), "sha256")


def _basic(moment_us: int) -> str:
    """`20240828T153000Z`, the form without punctuation."""
    return utc_text(moment_us).replace("-", "").replace(":", "")
