"""Where artifacts are kept, read from a URL and the environment.

`/folder` or `file:///folder`, `s3://bucket/prefix?endpoint=…`, `gs://bucket/prefix`, `memory://`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from holdfast.artifact.naming import checked_prefix
from holdfast.artifact.presign import Credentials, Signer
from holdfast.base import MASK, Secret
from holdfast.catalog.failure import Failure

ENVIRONMENT_VARIABLE = "HOLDFAST_ARTIFACTS"
DEFAULT_FOLDER = "./holdfast-data/artifacts"
BYTES_MAX = 1_073_741_824
S3_BYTES_MAX = 5 * 1_073_741_824
"""What S3 copies in one step."""
TIMEOUT_S = 30.0
REGION = "us-east-1"


class Scheme(StrEnum):
    """The kinds of storage."""

    FILE = "file"
    S3 = "s3"
    GCS = "gs"
    MEMORY = "memory"


class Commit(StrEnum):
    """How S3 is asked to make staged content visible only where nothing is."""

    COPY = "copy"
    """A conditional CopyObject."""
    MULTIPART = "multipart"
    """A conditional CompleteMultipartUpload, for servers that have no conditional copy. Some only look before they
    write here, so that two at the very same time may both be told that they were first."""


_SETTINGS = {
    Scheme.FILE: {"bytes_max"},
    Scheme.MEMORY: {"bytes_max"},
    Scheme.S3: {"bytes_max", "timeout_s", "endpoint", "region", "commit"},
    Scheme.GCS: {"bytes_max", "timeout_s", "endpoint", "anonymous"},
}


class LocationInvalid(ValueError):
    """The URL names no place where artifacts can be kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A place for artifacts."""

    scheme: Scheme
    folder: str = ""
    bucket: str = ""
    prefix: str = ""
    endpoint: str = ""
    region: str = ""
    credentials: Credentials | None = None
    anonymous: bool = False
    """GCS only: no credentials are sent, and none are looked for."""
    commit: Commit = Commit.COPY
    timeout_s: float = TIMEOUT_S
    """How long the other side may be silent."""
    bytes_max: int = BYTES_MAX

    def __str__(self) -> str:
        if self.scheme is Scheme.FILE:
            return f"file://{self.folder}"
        if self.scheme is Scheme.MEMORY:
            return "memory://"
        keys = f"{self.credentials.access_key_id}:{MASK}@" if self.credentials else ""
        place = f"{self.bucket}/{self.prefix}" if self.prefix else self.bucket
        return f"{self.scheme.value}://{keys}{place}" + (f"?endpoint={self.endpoint}" if self.endpoint else "")

    def signer(self) -> Signer | None:
        """What makes presigned URLs; None where the storage has none, or no key to sign with."""
        if self.scheme is not Scheme.S3 or self.credentials is None:
            return None
        own_host = f"https://{self.bucket}.s3.{self.region}.amazonaws.com"
        base = f"{self.endpoint}/{self.bucket}" if self.endpoint else own_host
        return Signer(base, self.region, self.credentials)


def read_location(
    url: str | None = None, environment: Mapping[str, str] | None = None, *, credentials: Credentials | None = None
) -> Location:
    """The place given, or `HOLDFAST_ARTIFACTS`, or a folder under `./holdfast-data`.

    Args:
        environment: looked at instead of the process's own.
        credentials: the keys of S3; they count more than those in the URL, and these more than the environment's.

    Raises:
        LocationInvalid: with what would be understood.
    """
    location = _read(url, environment)
    if credentials is None:
        return location
    if location.scheme is not Scheme.S3:
        raise LocationInvalid(f"credentials are keys of S3, and {location.scheme.value} takes none; leave them out")
    return replace(location, credentials=credentials)


def _read(url: str | None, environment: Mapping[str, str] | None) -> Location:
    from urllib.parse import unquote, urlsplit

    known = os.environ if environment is None else environment
    url = url or known.get(ENVIRONMENT_VARIABLE) or DEFAULT_FOLDER
    if "://" not in url:
        return Location(scheme=Scheme.FILE, folder=os.path.abspath(url))
    parts = urlsplit(url)
    if parts.scheme not in set(Scheme):
        raise LocationInvalid(
            f"{parts.scheme!r} is not a kind of storage; write a folder, file:///folder, s3://bucket/prefix, gs://bucket/prefix"
            " or memory://"
        )
    scheme = Scheme(parts.scheme)
    settings = _settings(scheme, parts.query)
    if scheme is Scheme.MEMORY:
        return Location(scheme=scheme, bytes_max=_bytes_max(settings))
    if scheme is Scheme.FILE:
        if parts.netloc not in {"", "localhost"} or not parts.path.startswith("/"):
            raise LocationInvalid(f"{url!r} names no folder of this machine; write file:///folder")
        return Location(scheme=scheme, folder=unquote(parts.path), bytes_max=_bytes_max(settings))
    user, _, host = parts.netloc.rpartition("@")
    return _bucket(scheme, host, unquote(parts.path), user, settings, known)


def _bucket(
    scheme: Scheme, host: str, path: str, user: str, settings: Mapping[str, str], environment: Mapping[str, str]
) -> Location:
    if not host:
        raise LocationInvalid(f"{scheme.value}:// names no bucket; write {scheme.value}://bucket/prefix")
    if user and scheme is not Scheme.S3:
        raise LocationInvalid("only s3:// takes a key in its address; GCS takes it from GOOGLE_APPLICATION_CREDENTIALS")
    try:
        prefix = checked_prefix(path.removeprefix("/"))
    except Failure as refused:
        raise LocationInvalid(f"the prefix cannot be used: {refused.details['reason']}") from None
    s3 = scheme is Scheme.S3
    return Location(
        scheme=scheme,
        bucket=host,
        prefix=prefix,
        endpoint=_endpoint(settings.get("endpoint") or (_first(environment, _ENDPOINTS) if s3 else "")),
        region=(settings.get("region") or _first(environment, _REGIONS) or REGION) if s3 else "",
        credentials=_credentials(user, environment) if s3 else None,
        anonymous=_switch(settings, "anonymous"),
        commit=_commit(settings),
        timeout_s=_number(settings, "timeout_s", TIMEOUT_S),
        bytes_max=_bytes_max(settings, at_most=S3_BYTES_MAX),
    )


_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")


def _settings(scheme: Scheme, query: str) -> dict[str, str]:
    from urllib.parse import parse_qsl

    pairs = parse_qsl(query, keep_blank_values=True)
    for name, _ in pairs:
        if name not in _SETTINGS[scheme]:
            allowed = ", ".join(sorted(_SETTINGS[scheme]))
            raise LocationInvalid(f"{scheme.value}:// has no setting {name!r}; it has: {allowed}")
    return dict(pairs)


def _credentials(user: str, environment: Mapping[str, str]) -> Credentials | None:
    from urllib.parse import unquote

    key, _, secret = (unquote(part) for part in user.partition(":"))
    if key and secret:
        return Credentials(key, Secret(secret))
    if user:
        raise LocationInvalid("the address has half a key; write s3://key:secret@bucket, percent-encoded")
    key, secret = environment.get("AWS_ACCESS_KEY_ID", ""), environment.get("AWS_SECRET_ACCESS_KEY", "")
    token = environment.get("AWS_SESSION_TOKEN", "")
    return Credentials(key, Secret(secret), Secret(token) if token else None) if key and secret else None


def _endpoint(text: str) -> str:
    if text and not text.startswith(("http://", "https://")):
        raise LocationInvalid(f"the endpoint {text!r} is not a URL; write http://host:port or https://host")
    return text.rstrip("/")


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((environment[name] for name in names if environment.get(name)), "")


def _commit(settings: Mapping[str, str]) -> Commit:
    text = settings.get("commit", Commit.COPY)
    if text not in set(Commit):
        raise LocationInvalid(f"commit is {text!r}, not {' or '.join(Commit)}")
    return Commit(text)


def _switch(settings: Mapping[str, str], name: str) -> bool:
    text = settings.get(name, "false").lower()
    if text not in {"true", "false", "1", "0"}:
        raise LocationInvalid(f"{name} is {text!r}, not true or false")
    return text in {"true", "1"}


def _bytes_max(settings: Mapping[str, str], *, at_most: float = float("inf")) -> int:
    value = _number(settings, "bytes_max", BYTES_MAX)
    if value > at_most:
        raise LocationInvalid(f"bytes_max is {value:.0f}; this storage takes at most {at_most:.0f}")
    return int(value)


def _number(settings: Mapping[str, str], name: str, default: float) -> float:
    try:
        value = float(settings.get(name, default))
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise LocationInvalid(f"{name} is {settings[name]!r}, not a positive number")
    return value
